// What the reader has set, and how it is written into an address: #live?text=…&off=residuals.

import { EOS } from "../engine/tokenizer.js";
import { PARTS, boxesOf } from "./places.js";

export const MOST_LETTERS = 300; // of a text
export const MOST_TOKENS = 150; // of a source: one letter can become eighteen

const EXAMPLES = {
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

export function examplesOf(name) {
  return EXAMPLES[name] || [];
}

export function newState(name) {
  return {
    model: name,
    text: examplesOf(name)[0] || "",
    order: null, // the source's positions, shuffled
    hidden: new Set(), // source positions
    forced: [], // tokens that the translation begins with
    search: "greedy", // or beam, or sample
    temperature: 1,
    seed: 1,
    at: "decoder.cross", // the place whose box is open
    layer: null, // from 1; at first those that the page names
    head: null,
    token: 2, // of the source, from 0, in the order in which it is read
    step: 2, // of the translation
    tour: 0, // its step, from 1
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

// Tokens and heads that this model has; words to begin with as tokens.
export function fitted(state, { model, source, target }, first = [1, 1]) {
  const { encoder, decoder, config } = model, layers = { encoder, decoder, cross: decoder };
  const exists = (head) => {
    const [kind, layer, number] = head.split(" ");
    return Number(layer) < layers[kind].length && Number(number) < config.n_heads;
  };
  const known = (token, place) =>
    token < target.words.length && (token > EOS || (token === EOS && place > 0));
  const { begin, ...rest } = state;
  const forced = (begin ? target.encode(begin) : state.forced.filter(known)).slice(0, MOST_TOKENS);
  const layer = Math.min(state.layer ?? first[0], Math.max(encoder.length, decoder.length));
  const head = Math.min(state.head ?? first[1], config.n_heads);
  const last = state.hidden.size && Math.min(source.encode(state.text).length, MOST_TOKENS); // <eos>
  const hidden = new Set([...state.hidden].filter((place) => place <= last));
  return { ...rest, forced, hidden, layer, head, heads: new Set([...state.heads].filter(exists)) };
}

const PLACES = new Set(["encoder", "decoder"].flatMap((half) => boxesOf(half, "pre")).map(({ place }) => place));
const LIST = /^\d+(\.\d+)*$/;
const HEAD = /^(encoder|decoder|cross)(\.(0|[1-9]\d*)){2}$/;

export function toHash(state) {
  const fresh = newState(state.model);
  const query = new URLSearchParams();
  const put = (name, value, usual) => value !== usual && query.set(name, value);
  query.set("model", state.model);
  put("text", state.text, null);
  put("order", state.order ? state.order.join(".") : "", "");
  put("hide", [...state.hidden].sort((a, b) => a - b).join("."), "");
  put("begin", state.forced.join("."), "");
  for (const name of ["search", "temperature", "at", "layer", "head", "token", "step", "tour"]) {
    put(name, String(state[name] ?? ""), String(fresh[name] ?? ""));
  }
  if (state.search === "sample") query.set("seed", state.seed);
  put("off", [...state.off].join(","), "");
  put("heads", [...state.heads].map((head) => head.replaceAll(" ", ".")).join(","), "");
  return "#live?" + query;
}

// A state from an address, or null. What it says that makes no sense is left out.
export function fromHash(hash, names) {
  if (!hash.startsWith("#live?")) return null;
  const query = new URLSearchParams(hash.slice("#live?".length)), get = (name) => query.get(name) ?? "";
  const state = newState(names.includes(get("model")) ? get("model") : names[0]);
  const list = (name) => (LIST.test(get(name)) ? get(name).split(".").map(Number) : []);
  const set = (name, allowed, read = String) => allowed(get(name)) && (state[name] = read(get(name)));
  state.text = (query.get("text") ?? state.text).slice(0, MOST_LETTERS);
  state.order = list("order").length ? list("order") : null;
  state.hidden = new Set(list("hide"));
  state.forced = list("begin");
  state.begin = state.forced.length ? "" : get("begin"); // words, for whoever writes a link
  set("search", (value) => ["greedy", "beam", "sample"].includes(value));
  const old = get("head").match(/^(\d)\.(\d)$/); // of the first edition's links, from 0
  if (old) [state.layer, state.head] = [Number(old[1]) + 1, Number(old[2]) + 1];
  for (const [name, least] of [["layer", 1], ["head", 1], ["token", 0], ["step", 0], ["tour", 1]]) {
    set(name, (value) => /^\d{1,3}$/.test(value) && value >= least, Number);
  }
  set("at", (value) => PLACES.has(value));
  set("temperature", (value) => value >= 0.1 && value <= 3, Number);
  set("seed", (value) => /^\d{1,9}$/.test(value), Number);
  state.off = new Set(get("off").split(",").filter((part) => Object.hasOwn(PARTS, part)));
  const heads = get("heads").split(",").filter((head) => HEAD.test(head));
  state.heads = new Set(heads.map((head) => head.replaceAll(".", " ")));
  return state;
}
