// A tour of eight steps: each sets the figure, and says a sentence whose numbers are the reader's own.

import { likeliest, topTokens } from "../engine/search.js";
import { chancesOf, length, percent } from "./inside.js";
import { plainWord } from "./view.js";

const LAYER = { half: "encoder", layered: true };

export const TOUR = [
  {
    set: { at: "encoder.tokens", token: 1 },
    say: ({ words, translator }) => `The sentence is cut into ${words.encoder.length} tokens, each a number in a ` +
      `list of ${translator.source.words.length.toLocaleString("en")}.`,
  },
  {
    set: { at: "encoder.positions" },
    say: (view) => `Each number picks ${view.model.config.d_model} learned values. Then the position is added, as ` +
      `${view.model.config.d_model} more: that of “${view.word("encoder")}” is ${view.row("encoder")}, counted from 0.`,
  },
  {
    set: { at: "encoder.self", layer: 1, head: 4 },
    say: (view) => {
      const weights = view.weights({ half: "encoder", name: "self" })[view.row("encoder")];
      const most = likeliest(weights);
      return `Layer 1, head ${view.head + 1}. Tokens read each other: “${view.word("encoder")}” takes ${percent(weights[most])} from ` +
        `“${view.words.encoder[most]}”. The table says how that weight arises.`;
    },
  },
  {
    set: { at: "encoder.feed-forward" },
    say: (view) => {
      const units = view.vector(LAYER, "feed_forward.expand"), on = units.filter((unit) => unit > 0).length;
      return `Then each token alone passes small detectors, the units. Of ${units.length} units, ${on} respond to “${view.word("encoder")}”.`;
    },
  },
  {
    set: { at: "encoder.feed-forward-add", layer: 1 },
    say: (view) => {
      const size = (name) => length(view.vector(LAYER, name)).toFixed(1);
      return "Nothing is replaced: what was computed is added to the vector of " +
        `“${view.word("encoder")}”, whose length goes from ${size("feed_forward.before")} to ${size("feed_forward.sum")}. Then the next layer.`;
    },
  },
  {
    set: { at: "decoder.cross", layer: 2, head: 2, step: 2 },
    say: (view) => {
      const weights = view.weights({ half: "decoder", name: "cross" })[view.row("decoder")];
      const most = likeliest(weights);
      return `Now the decoder. To write “${view.written}”, it reads the source: ${percent(weights[most])} of ` +
        `“${view.words.encoder[most]}”.`;
    },
  },
  {
    set: { at: "logits", step: 3 },
    say: (view) => {
      const step = view.steps[view.row("decoder")], chances = chancesOf(step);
      const [first, second] = topTokens(step.logits, 2);
      const one = (token) => `“${plainWord(view.translator.target.words[token])}” ${percent(chances[token])}`;
      return `${chances.length.toLocaleString("en")} scores become chances: ${one(first)}, ${one(second)}. ` +
        "The highest is written, and read next.";
    },
  },
  {
    set: { at: "decoder.cross", off: new Set(["cross"]) },
    say: () => "With cross-attention switched off the decoder is blind to the source, and dreams. Now break something yourself.",
  },
];
