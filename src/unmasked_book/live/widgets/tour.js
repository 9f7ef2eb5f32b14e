// A tour of eight steps: each a state of the figure, and a sentence whose numbers are the reader's own.

import { chancesOf, percent } from "./inside.js";
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
    at: "encoder.self", layer: 3, head: 4, pick: strongest,
    say: (view) => {
      const weights = view.weights({ half: "encoder", name: "self" })[view.row("encoder")];
      const most = weights.indexOf(Math.max(...weights));
      return `Now layer 3, head 4. Tokens read each other: “${view.word("encoder")}” takes ${percent(weights[most])} from ` +
        `“${view.words.encoder[most]}”. The table says how that weight arises.`;
    },
  },
  {
    at: "encoder.feed-forward", layer: 1,
    say: (view) => {
      const units = view.all("encoder", "encoder.0.feed_forward.expand")[view.row("encoder")];
      const on = units.filter((unit) => unit > 0).length;
      return `Layer 1: then each token alone passes small detectors, the units. Of ${units.length} units, ${on} respond to “${view.word("encoder")}”.`;
    },
  },
  {
    at: "encoder.feed-forward-add", layer: 4,
    say: (view) => {
      const size = (name) => {
        const row = view.all("encoder", `encoder.${view.layer("encoder")}.${name}.sum`)[view.row("encoder")];
        return Math.sqrt(row.reduce((sum, number) => sum + number * number, 0)).toFixed(1);
      };
      return "Layer 4: nothing is replaced. What was computed is added to the vector of " +
        `“${view.word("encoder")}”, here from length ${size("attention")} to ${size("feed_forward")}.`;
    },
  },
  {
    at: "decoder.cross", best: true,
    say: (view) => {
      const weights = view.weights({ half: "decoder", name: "cross" })[view.row("decoder")];
      const most = weights.indexOf(Math.max(...weights));
      return `Now the decoder. To write “${view.written}”, it reads the source: ${percent(weights[most])} of ` +
        `“${view.words.encoder[most]}”.`;
    },
  },
  {
    at: "logits", step: 3,
    say: (view) => {
      const step = view.steps[view.row("decoder")], chances = chancesOf(step);
      const [first, second] = [...chances.keys()].sort((a, b) => chances[b] - chances[a]);
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

// The row that reads another token most.
function strongest(view) {
  const rows = view.weights({ half: "encoder", name: "self" });
  const most = rows.map((row, query) => Math.max(...row.filter((_, key) => key !== query)));
  return { token: most.indexOf(Math.max(...most)) };
}
