// Finding a translation: the likeliest token each time, several beginnings side by side, or by chance.
//
// Searches are generators: they yield after every step, so that a page can do other things between.
// Each takes a `prefix`, tokens that the translation must begin with.

import { BOS, EOS, PADDING } from "./tokenizer.js";
import { logSumExp, softmax } from "./formulas.js";
import { walk } from "./beam.js";

const EXTRA_LENGTH = 50;

function limitOf({ config: { positions, max_len } }, source) {
  return Math.min(source.length + EXTRA_LENGTH, positions === "learned" ? max_len : Infinity);
}

// One token after the other, each chosen by `choose(logits, time)` or forced by the prefix.
// Returns { tokens, steps }: for each token the logits it was chosen from and the step's trace.
export function* generate(model, memory, choose, { prefix = [], off = {}, limit } = {}) {
  const most = limit ?? limitOf(model, memory.source);
  const tokens = [], steps = [];
  let token = BOS, state = model.start();
  while (tokens.length < most && token !== EOS) {
    const trace = {};
    const [{ logits, state: next }] = model.step([token], [state], memory, off, trace);
    logits[PADDING] = -Infinity;
    token = tokens.length < prefix.length ? prefix[tokens.length] : choose(logits, tokens.length);
    state = next;
    tokens.push(token);
    steps.push({ logits, trace });
    yield tokens;
  }
  return { tokens, steps };
}

export function greedy(model, memory, options) {
  return generate(model, memory, likeliest, options);
}

export function likeliest(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i += 1) if (logits[i] > logits[best]) best = i;
  return best;
}

// By chance: softmax(logits / temperature), with random numbers that a seed repeats.
export function sample(model, memory, { temperature = 1, seed = 0, ...options } = {}) {
  const random = randomNumbers(seed);
  const draw = (logits) => {
    const chances = softmax(Float64Array.from(logits, (logit) => logit / temperature));
    let left = random();
    for (let i = 0; i < chances.length; i += 1) {
      left -= chances[i];
      if (left < 0) return i;
    }
    return likeliest(logits);
  };
  return generate(model, memory, draw, options);
}

// Evenly spread over 0 … 1 (mulberry32).
function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Keeps the `width` best beginnings of a model's translations.
export function beam(model, memory, { width = 5, alpha = 0.6, prefix = [], off = {}, limit } = {}) {
  const most = limit ?? limitOf(model, memory.source);
  const next = (nodes) => {
    const answers = model.step(nodes.map(({ token }) => token), nodes.map(({ state }) => state), memory, off);
    return answers.map(({ logits, state }, row) => {
      logits[PADDING] = -Infinity;
      const forced = prefix[nodes[row].time], sum = logSumExp(logits);
      const tokens = forced === undefined ? topTokens(logits, 2 * width) : [forced];
      return tokens.map((token) => ({ token, state, value: logits[token] - sum, ends: token === EOS }));
    });
  };
  return walk({ token: BOS, state: model.start() }, next, { width, alpha, most });
}

// The n highest, highest first.
export function topTokens(logits, n) {
  const top = [];
  for (let i = 0; i < logits.length; i += 1) {
    if (top.length === n && logits[i] <= logits[top[n - 1]]) continue;
    let at = top.length;
    while (at > 0 && logits[i] > logits[top[at - 1]]) at -= 1;
    top.splice(at, 0, i);
    if (top.length > n) top.pop();
  }
  return top;
}
