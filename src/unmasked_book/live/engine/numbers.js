// What a Transformer does with rows of numbers: matrices, norms, activations, positions.
// A matrix with n rows of width d is one Float32Array of n · d numbers.

// x Wᵀ + b for each row of x. Four outputs at a time: what is read of x is used four times.
export function linear({ weight, bias, inputs, outputs }, x) {
  const out = new Float32Array((x.length / inputs) * outputs), last = outputs - 1;
  for (let o = 0; o < outputs; o += 4) {
    const o1 = Math.min(o + 1, last), o2 = Math.min(o + 2, last), o3 = Math.min(o + 3, last);
    const w0 = o * inputs, w1 = o1 * inputs, w2 = o2 * inputs, w3 = o3 * inputs;
    for (let from = 0, to = 0; from < x.length; from += inputs, to += outputs) {
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let i = 0; i < inputs; i += 1) {
        const p = x[from + i];
        s0 += p * weight[w0 + i]; s1 += p * weight[w1 + i]; s2 += p * weight[w2 + i]; s3 += p * weight[w3 + i];
      }
      out[to + o] = s0; out[to + o1] = s1; out[to + o2] = s2; out[to + o3] = s3;
    }
  }
  return bias ? out.map((number, i) => number + bias[i % outputs]) : out;
}

// Each row with mean 0 and variance 1, then stretched and shifted.
export function layerNorm({ weight, bias }, x, eps) {
  const width = weight.length;
  const out = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += width) {
    let mean = 0, variance = 0;
    for (let i = 0; i < width; i += 1) mean += x[at + i];
    mean /= width;
    for (let i = 0; i < width; i += 1) variance += (x[at + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / width + eps);
    for (let i = 0; i < width; i += 1) out[at + i] = (x[at + i] - mean) * scale * weight[i] + bias[i];
  }
  return out;
}

export function add(x, y) {
  return x.map((number, i) => number + y[i]);
}

export const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  swish: (x) => x / (1 + Math.exp(-x)),
};

// The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}
