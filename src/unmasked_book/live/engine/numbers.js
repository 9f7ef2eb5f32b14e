// What a Transformer does with rows of numbers: matrices, norms, activations, positions.
// A matrix with n rows of width d is one Float32Array of n · d numbers.

// x Wᵀ + b for each row of x. Two rows by four outputs at a time: what is read is used eight times.
export function linear({ weight, bias, inputs, outputs }, x) {
  const rows = x.length / inputs;
  const out = new Float32Array(rows * outputs);
  for (let row = 0; row < rows; row += 2) {
    const a = row * inputs;
    const b = row + 1 < rows ? a + inputs : a;
    for (let o = 0; o < outputs; o += 4) {
      const w0 = o * inputs;
      const w1 = o + 1 < outputs ? w0 + inputs : w0;
      const w2 = o + 2 < outputs ? w0 + 2 * inputs : w0;
      const w3 = o + 3 < outputs ? w0 + 3 * inputs : w0;
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
      for (let i = 0; a === b && i < inputs; i += 1) { // the last row, alone
        const p = x[a + i];
        a0 += p * weight[w0 + i]; a1 += p * weight[w1 + i]; a2 += p * weight[w2 + i]; a3 += p * weight[w3 + i];
      }
      for (let i = 0; a !== b && i < inputs; i += 1) {
        const p = x[a + i], q = x[b + i];
        const v0 = weight[w0 + i], v1 = weight[w1 + i], v2 = weight[w2 + i], v3 = weight[w3 + i];
        a0 += p * v0; a1 += p * v1; a2 += p * v2; a3 += p * v3;
        b0 += q * v0; b1 += q * v1; b2 += q * v2; b3 += q * v3;
      }
      put(out, row * outputs, o, outputs, bias, a0, a1, a2, a3);
      if (b !== a) put(out, (row + 1) * outputs, o, outputs, bias, b0, b1, b2, b3);
    }
  }
  return out;
}

function put(out, at, o, outputs, bias, s0, s1, s2, s3) {
  out[at + o] = s0 + (bias ? bias[o] : 0);
  if (o + 1 < outputs) out[at + o + 1] = s1 + (bias ? bias[o + 1] : 0);
  if (o + 2 < outputs) out[at + o + 2] = s2 + (bias ? bias[o + 2] : 0);
  if (o + 3 < outputs) out[at + o + 3] = s3 + (bias ? bias[o + 3] : 0);
}

// Each row with mean 0 and variance 1, then stretched and shifted.
export function layerNorm({ weight, bias, eps }, x) {
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
};

// The error function, to 1e-15: its series near 0, a continued fraction further out.
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n += 1) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n -= 1) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / (size + fraction));
}
