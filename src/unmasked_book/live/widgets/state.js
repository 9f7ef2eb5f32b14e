// What the reader has set, and how it is written into an address: #live?text=…&off=residuals.

import { EOS } from "../engine/tokenizer.js";
import { PARTS, boxesOf } from "./places.js";

export const MOST_LETTERS = 300; // of a text
export const MOST_TOKENS = 100; // of a source: one letter can become eighteen

export const EXAMPLES = {
  "de-en": [
    "Eine schwarze Katze schläft auf einem Stuhl.",
    "Eine Katze jagt eine Frau.",
    "Ein Junge in einem roten Hemd wirft einen Ball.",
    "Zwei ältere Herren spielen auf einer Bank Schach.",
    "Vor einem Haus steht ein Hund, der eine Mütze trägt.",
  ],
  "en-de": [
    "A black cat is sleeping on a chair.",
    "A cat chases a woman.",
    "A boy in a red shirt throws a ball.",
    "Two elderly gentlemen are playing chess on a bench.",
    "In front of a house there is a dog wearing a hat.",
  ],
};

export function newState(name) {
  return {
    model: name,
    text: EXAMPLES[name]?.[0] ?? "", // a model of one's own has no examples
    order: null, // the source's positions, shuffled, but for that of <eos>
    hidden: new Set(), // source positions
    begin: "", // words that the translation begins with
    forced: [], // or tokens, where one was chosen
    search: "greedy", // or beam, or sample
    temperature: 1,
    seed: 1,
    at: "decoder.cross", // the place whose box is open
    layer: 2, // from 1, and so is the head; a model with fewer shows its last
    head: 2,
    token: 2, // of the source, from 0, in the order in which it is read
    step: 2, // of the translation
    off: new Set(), // parts
    heads: new Set(), // "cross 0 2"
  };
}

// The switches as the engine wants them.
export function switchesOf(state) {
  const parts = Object.fromEntries([...state.off].map((part) => [part, true]));
  return { ...parts, heads: state.heads, hidden: state.hidden };
}

export function isBroken(state) {
  return state.off.size + state.heads.size + state.hidden.size > 0;
}

// The tokens of a text, as the encoder reads them.
export function sourceOf(text, { source }) {
  return [...source.encode(text).slice(0, MOST_TOKENS), EOS];
}

// With only those tokens and heads that this text and this model have.
export function fitted(state, translator) {
  const { encoder, decoder, config } = translator.model, layers = { encoder, decoder, cross: decoder };
  const { length } = sourceOf(state.text, translator);
  const hidden = new Set([...state.hidden].filter((place) => place < length));
  const heads = new Set([...state.heads].filter((head) => {
    const [kind, layer, number] = head.split(" ");
    return layer < layers[kind].length && number < config.n_heads;
  }));
  return { ...state, hidden, heads };
}

const PLACES = new Set(["encoder", "decoder"].flatMap((half) => boxesOf(half, "pre")).map(({ place }) => place));
const HEAD = /^(encoder|decoder|cross)(\.(0|[1-9]\d*)){2}$/;

// As an address has it. (A source that was shuffled is in order there: chance may shuffle it again.)
function written({ text, search, temperature, seed, at, layer, head, token, step, ...state }, target) {
  return {
    text, search, temperature, seed, at, layer, head, token, step,
    hide: [...state.hidden].join("."), begin: state.begin || target.decode(state.forced),
    off: [...state.off].join(","), heads: [...state.heads].join(",").replaceAll(" ", "."),
  };
}

export function toHash(state, target) {
  const usual = written(newState(state.model), target);
  const changed = Object.entries(written(state, target)).filter(([name, value]) => value !== usual[name]);
  return "#live?" + new URLSearchParams([["model", state.model], ...changed]);
}

// A state from an address, or null. What it says that makes no sense is left out.
export function fromHash(hash, names) {
  if (!hash.startsWith("#live?")) return null;
  const query = new URLSearchParams(hash.slice("#live?".length)), get = (name) => query.get(name) ?? "";
  const state = newState(names.includes(get("model")) ? get("model") : names[0]);
  const set = (name, allowed, read = String) => allowed(get(name)) && (state[name] = read(get(name)));
  state.text = (query.get("text") ?? state.text).slice(0, MOST_LETTERS);
  state.hidden = new Set(get("hide").split(".").filter((place) => /^\d+$/.test(place)).map(Number));
  state.begin = /^[\d.]+$/.test(get("begin")) ? "" : get("begin").slice(0, MOST_LETTERS); // older links have the tokens' numbers there
  set("search", (value) => ["greedy", "beam", "sample"].includes(value));
  set("at", (value) => PLACES.has(value));
  set("temperature", (value) => value >= 0.1 && value <= 3, Number);
  for (const name of ["seed", "token", "step"]) set(name, (value) => /^\d{1,9}$/.test(value), Number);
  for (const name of ["layer", "head"]) set(name, (value) => /^[1-9]\d?$/.test(value), Number);
  state.off = new Set(get("off").split(",").filter((part) => Object.hasOwn(PARTS, part)));
  const heads = get("heads").split(",").filter((head) => HEAD.test(head));
  state.heads = new Set(heads.map((head) => head.replaceAll(".", " ")));
  return state;
}
