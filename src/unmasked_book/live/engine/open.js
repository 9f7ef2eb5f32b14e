// A model from its files: as the package keeps it, or packed into one file for the page.

import { readSafetensors } from "./safetensors.js";
import { Subwords, Words } from "./tokenizer.js";
import { Transformer } from "./model.js";

const FORMAT = "unmasked model 3";

// { model, source, target, about } from config.json, the weights and, for subwords, tokenizer.json.
export function openFiles(config, weights, tokenizer) {
  const kept = understood(JSON.parse(config));
  const { tensors } = readSafetensors(weights);
  const words = tokenizer && Subwords.fromJson(tokenizer);
  return translator(kept, tensors, words);
}

// The same from one safetensors file of the page: everything else is in its header.
export function openPacked(buffer) {
  const { tensors, metadata } = readSafetensors(buffer);
  const { config, letters } = JSON.parse(metadata.unmasked);
  const words = letters && Subwords.fromPairs(letters, tensors.merges.data);
  return translator(understood(config), tensors, words);
}

function understood(kept) {
  if (kept.format === FORMAT) return kept;
  throw new Error(`The engine reads the format “${FORMAT}”, and this is “${kept.format}”.`);
}

function translator({ model, source, target, about }, tensors, words) {
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
