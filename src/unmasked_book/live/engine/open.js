// A model from the one file that is packed for the page.

import { readSafetensors } from "./safetensors.js";
import { Subwords, Words } from "./tokenizer.js";
import { Transformer } from "./model.js";

const FORMAT = "unmasked model 3";

// { model, source, target, about } from a safetensors file: everything else is in its header.
export function openPacked(buffer) {
  const { tensors, metadata } = readSafetensors(buffer);
  const { config, letters, cased } = JSON.parse(metadata.unmasked);
  const { format, model, source, target, about } = config;
  if (format !== FORMAT) throw new Error(`The engine reads the format “${FORMAT}”, and this is “${format}”.`);
  const words = letters && new Subwords(letters, tensors.merges.data, cased);
  return {
    model: new Transformer(model, tensors),
    source: words || new Words(source),
    target: words || new Words(target),
    about,
  };
}

// What gzip has compressed.
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
