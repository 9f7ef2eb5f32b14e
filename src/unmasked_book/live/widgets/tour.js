// A tour of eight steps: each a state of the figure, and a sentence whose numbers are the reader's own.

import { likeliest, topTokens } from "../engine/search.js";
import { chancesOf, length, percent } from "./inside.js";
import { plainWord } from "./view.js";

export const TOUR = [
  {
    at: "encoder.tokens",
    say: ({ words, translator }) => `The sentence is cut into ${words.encoder.length} tokens, each a number in a ` +
      `list of ${translator.source.words.length.toLocaleString("en")}.`,
  },
  {
    at: "encoder.positions",
    say: (view) => `Each number picks ${view.model.config.d_model} learned values. Then the position is added, as ` +
      `${view.model.config.d_model} more: that of “${view.word("encoder")}” is ${view.row("encoder")}, counted from 0.`,
  },
  {
    at: "encoder.self", layer: 1, pick: strongest,
    say: (view) => {
      const weights = view.weights({ half: "encoder", name: "self" })[view.row("encoder")];
      const most = likeliest(weights);
      return `Layer 1, head ${view.head + 1}. Tokens read each other: “${view.word("encoder")}” takes ${percent(weights[most])} from ` +
        `“${view.words.encoder[most]}”. The table says how that weight arises.`;
    },
  },
  {
    at: "encoder.feed-forward", layer: 1,
    say: (view) => {
      const units = view.all("encoder", "encoder.0.feed_forward.expand")[view.row("encoder")];
      const on = units.filter((unit) => unit > 0).length;
      return `Then each token alone passes small detectors, the units. Of ${units.length} units, ${on} respond to “${view.word("encoder")}”.`;
    },
  },
  {
    at: "encoder.feed-forward-add", layer: 1,
    say: (view) => {
      const size = (name) => {
        const path = `encoder.${view.layer("encoder")}.${name}${view.model.config.norm === "pre" ? ".sum" : "_norm"}`;
        return length(view.all("encoder", path)[view.row("encoder")]).toFixed(1);
      };
      return "Nothing is replaced: what was computed is added to the vector of " +
        `“${view.word("encoder")}”, whose length goes from ${size("attention")} to ${size("feed_forward")}. Then the next layer.`;
    },
  },
  {
    at: "decoder.cross", first: true,
    say: (view) => {
      const weights = view.weights({ half: "decoder", name: "cross" })[view.row("decoder")];
      const most = likeliest(weights);
      return `Now the decoder. To write “${view.written}”, it reads the source: ${percent(weights[most])} of ` +
        `“${view.words.encoder[most]}”.`;
    },
  },
  {
    at: "logits", step: 3,
    say: (view) => {
      const step = view.steps[view.row("decoder")], chances = chancesOf(step);
      const [first, second] = topTokens(step.logits, 2);
      const one = (token) => `“${plainWord(view.translator.target.words[token])}” ${percent(chances[token])}`;
      return `${chances.length.toLocaleString("en")} scores become chances: ${one(first)}, ${one(second)}. ` +
        "The highest is written, and read next.";
    },
  },
  {
    at: "decoder.cross", off: "cross",
    say: () => "With cross-attention switched off the decoder is blind to the source, and dreams. Now break something yourself.",
  },
];

// The head and the token that reads another one most, <eos> left out.
function strongest(view) {
  let best = { token: 0, head: 1 }, most = -1;
  for (let head = 0; head < view.model.config.n_heads; head += 1) {
    view.weights({ half: "encoder", name: "self" }, head).slice(0, -1).forEach((row, token) => {
      row.slice(0, -1).forEach((weight, key) => {
        if (key !== token && weight > most) [best, most] = [{ token, head: head + 1 }, weight];
      });
    });
  }
  return best;
}
