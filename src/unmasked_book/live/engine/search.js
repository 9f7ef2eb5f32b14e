// Finding a translation: the likeliest token each time, several beginnings side by side, or by chance.
//
// Searches are generators: they yield after every step, so that a page can do other things between;
// `finish` runs one to its end.
// Each takes a `prefix`, tokens that the translation must begin with.

import { BOS, EOS, PADDING } from "./tokenizer.js";
import { logSumExp, penalty, softmax } from "./formulas.js";

const EXTRA_LENGTH = 50;

export function finish(generator) {
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
  }
}

export function limitOf(model, source) {
  const { positions, max_len } = model.config;
  return Math.min(source.length + EXTRA_LENGTH, positions === "learned" ? max_len : Infinity);
}

// One token after the other, each chosen by `choose(logits, time)` or forced by the prefix.
// Returns { tokens, steps }: for each token the logits it was chosen from and the attention maps.
export function* generate(model, memory, choose, { prefix = [], off = {}, limit } = {}) {
  const most = limit ?? limitOf(model, memory.source);
  const tokens = [], steps = [];
  let token = BOS, state = model.start();
  while (tokens.length < most && token !== EOS) {
    const [{ logits, maps, state: next }] = model.step([token], [state], memory, off);
    logits[PADDING] = -Infinity;
    token = tokens.length < prefix.length ? prefix[tokens.length] : choose(logits, tokens.length);
    state = next;
    tokens.push(token);
    steps.push({ logits, maps });
    yield tokens;
  }
  return { tokens, steps };
}

export function* greedy(model, memory, options = {}) {
  return yield* generate(model, memory, likeliest, options);
}

export function likeliest(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i += 1) if (logits[i] > logits[best]) best = i;
  return best;
}

// By chance: softmax(logits / temperature), with random numbers that a seed repeats.
export function* sample(model, memory, { temperature = 1, seed = 0, ...options } = {}) {
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
  return yield* generate(model, memory, draw, options);
}

// Evenly spread over 0 … 1 (mulberry32).
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Keeps the `width` best beginnings. Returns { tokens, score, nodes, best }: the nodes are the
// search's tree, each a token that was kept or finished with its parent, total and, where it ends, its
// score; `best` is the winner's number.
export function* beam(model, memory, { width = 5, alpha = 0.6, prefix = [], off = {}, limit } = {}) {
  const most = limit ?? limitOf(model, memory.source);
  const nodes = [{ id: 0, parent: null, token: BOS, time: 0, total: 0, score: null }];
  let alive = [{ node: nodes[0], state: model.start() }];
  let best = null;
  for (let time = 1; time <= most && alive.length; time += 1) {
    const answers = model.step(alive.map(({ node }) => node.token), alive.map(({ state }) => state), memory, off);
    const forced = prefix[time - 1];
    const candidates = answers.flatMap(({ logits, state }, row) => {
      logits[PADDING] = -Infinity;
      const parent = alive[row].node, sum = logSumExp(logits);
      const tokens = forced === undefined ? topTokens(logits, 2 * width) : [forced];
      return tokens.map((token) => ({ token, parent, state, total: parent.total + logits[token] - sum }));
    });
    candidates.sort((a, b) => b.total - a.total);
    alive = [];
    candidates.slice(0, 2 * width).forEach(({ token, parent, state, total }, rank) => {
      const ends = token === EOS || time === most;
      const keep = ends ? rank < width : alive.length < width;
      if (!keep) return;
      const score = ends ? total / penalty(time, alpha) : null;
      const node = { id: nodes.length, parent: parent.id, token, time, total, score };
      nodes.push(node);
      if (!ends) alive.push({ node, state });
      else if (!best || score > best.score) best = node;
    });
    // Nothing that is alive could end better, even if all its other tokens were certain.
    if (best && alive.length && best.score >= alive[0].node.total / penalty(most, alpha)) break;
    yield nodes;
  }
  return { tokens: pathTo(best, nodes), score: best.score, nodes, best: best.id };
}

// The tokens from the beginning to a node, without the BOS.
export function pathTo(node, nodes) {
  return node.parent === null ? [] : [...pathTo(nodes[node.parent], nodes), node.token];
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
