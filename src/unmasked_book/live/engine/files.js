// A model from the files of a folder, as the package keeps it.

import { translator, understood } from "./open.js";
import { readSafetensors } from "./safetensors.js";
import { BLANK, Subwords } from "./tokenizer.js";

// Only this pipeline is known: what the package's vocabularies are made with.
const pipeline = (cased) => JSON.stringify([
  [
    { type: "NFKC" },
    ...(cased ? [] : [{ type: "Lowercase" }]),
    { type: "Replace", pattern: { Regex: "\\s+" }, content: " " },
    { type: "Strip", strip_left: true, strip_right: true },
  ],
  [
    { type: "Metaspace", replacement: BLANK, prepend_scheme: "always", split: true },
    { type: "Punctuation", behavior: "Isolated" },
  ],
]);

// From config.json, the weights and, for subwords, tokenizer.json.
export function openFiles(config, weights, tokenizer) {
  const kept = understood(JSON.parse(config));
  const { tensors } = readSafetensors(weights);
  const words = tokenizer && subwordsOf(tokenizer);
  return translator(kept, tensors, words);
}

// Subwords from the package's tokenizer.json.
function subwordsOf(text) {
  const { normalizer, pre_tokenizer, model } = JSON.parse(text);
  const steps = [normalizer?.normalizers, pre_tokenizer?.pretokenizers];
  const cased = JSON.stringify(steps) === pipeline(true);
  if ((!cased && JSON.stringify(steps) !== pipeline(false)) || model.type !== "BPE" || model.byte_fallback) {
    throw new Error("The engine knows the package's own subwords; this tokenizer.json is another kind.");
  }
  const words = Object.entries(model.vocab).sort((a, b) => a[1] - b[1]).map(([word]) => word);
  const merges = model.merges.map((pair) => pair.map((word) => model.vocab[word]));
  return new Subwords(words, merges, cased);
}
