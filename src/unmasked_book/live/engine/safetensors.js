// Safetensors: eight bytes that say how long the header is, the header as JSON, then the numbers.
// F32 is read as it is; F16 is widened; rows of I8 are multiplied by their scale ("name.scale").

export function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const { __metadata__: metadata = {}, ...entries } = header;
  const raw = ([begin, end]) => buffer.slice(8 + length + begin, 8 + length + end);
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(entries)) {
    if (!READ[dtype]) throw new Error(`The engine cannot read ${name}: its numbers are ${dtype}.`);
    const data = READ[dtype](raw(data_offsets));
    if (data.length !== shape.reduce((product, size) => product * size, 1)) {
      throw new Error(`${name} should have ${shape.join(" × ")} numbers and has ${data.length}: the file is cut or changed.`);
    }
    tensors[name] = { shape, data };
  }
  for (const [name, { data: scale }] of Object.entries(tensors)) {
    if (!name.endsWith(".scale")) continue;
    const of = name.slice(0, -".scale".length);
    tensors[of].data = scaleRows(tensors[of].data, scale);
    delete tensors[name];
  }
  return { tensors, metadata };
}

const READ = {
  F32: (bytes) => new Float32Array(bytes),
  F16: (bytes) => Float32Array.from(new Uint16Array(bytes), fromHalf),
  I8: (bytes) => new Int8Array(bytes),
  U16: (bytes) => new Uint16Array(bytes),
};

// Sixteen bits, 1 for the sign, 5 for the exponent, 10 for the fraction, as a number.
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function scaleRows(data, scale) {
  const width = data.length / scale.length;
  const out = new Float32Array(data.length);
  for (let row = 0, i = 0; row < scale.length; row += 1) {
    for (const end = i + width; i < end; i += 1) out[i] = data[i] * scale[row];
  }
  return out;
}
