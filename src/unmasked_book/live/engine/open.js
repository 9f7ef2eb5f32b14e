// A model from the one file that is packed for the page.

import { Subwords, Words } from "./tokenizer.js";
import { Transformer } from "./model.js";

const FORMAT = "unmasked model 4";

// { model, source, target, about } from a safetensors file: everything else is in its header.
export function openPacked(buffer) {
  const { tensors, metadata } = readSafetensors(buffer);
  const { format, model, source, target, about, letters, cased } = JSON.parse(metadata.unmasked);
  if (format !== FORMAT) throw new Error(`The engine reads the format “${FORMAT}”, and this is “${format}”.`);
  const words = letters && new Subwords(letters, tensors.merges.data, cased);
  const vocabularies = { source: words || new Words(source), target: words || new Words(target) };
  for (const [side, { words: { length } }] of Object.entries(vocabularies)) {
    const size = model[`${side}_vocab`];
    if (length !== size) throw new Error(`the file has ${length} ${side} words for a model of ${size}`);
  }
  return { model: new Transformer(model, tensors), ...vocabularies, about };
}

// Safetensors: eight bytes that say how long the header is, the header as JSON, then the numbers.
// Rows of I8 are multiplied by their scale ("name.scale").
function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const { __metadata__: metadata, ...entries } = header, tensors = {};
  for (const [name, { dtype, shape, data_offsets: [begin, end] }] of Object.entries(entries)) {
    tensors[name] = { shape, data: new TYPES[dtype](buffer.slice(8 + length + begin, 8 + length + end)) };
  }
  for (const [name, tensor] of Object.entries(tensors)) {
    const scale = tensors[`${name}.scale`]?.data;
    if (scale) tensor.data = scaleRows(tensor.data, scale);
    delete tensors[`${name}.scale`];
  }
  return { tensors, metadata };
}

const TYPES = { F32: Float32Array, I8: Int8Array, U16: Uint16Array, U32: Uint32Array };

function scaleRows(data, scale) {
  const width = data.length / scale.length;
  return Float32Array.from(data, (number, i) => number * scale[Math.floor(i / width)]);
}

// What gzip has compressed.
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer().catch(() => { throw new Error("the model's file is damaged"); });
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
