// What can be switched off, in groups, with a word of what to notice.

export const GROUPS = [
  {
    title: "Positions",
    switches: {
      encoderPositions: [
        "of the source",
        "The encoder reads a bag of tokens. Who does what to whom? Shuffle the source and compare.",
      ],
      decoderPositions: [
        "of the target",
        "Short captions hardly change: the causal mask tells the decoder how far it is. Try a long sentence.",
      ],
    },
  },
  {
    title: "Attention",
    switches: {
      cross: [
        "cross-attention",
        "The decoder never sees the source. It dreams up a caption, the same one for every sentence.",
      ],
      encoderSelf: [
        "self-attention of the encoder",
        "Every source token is read alone, so what belongs together can come apart.",
      ],
      decoderSelf: [
        "self-attention of the decoder",
        "The decoder forgets what it has said, except for its last token. It stops early or repeats itself.",
      ],
      scale: [
        "the division by √dₖ",
        "All scores grow by a factor of √32, so every head looks harder at fewer tokens. It stutters a little.",
      ],
    },
  },
  {
    title: "Every layer",
    switches: {
      residuals: [
        "residual connections",
        "A layer now replaces its input instead of adding to it. Nothing is left of the sentence.",
      ],
      norms: [
        "layer norms",
        "The vectors grow from layer to layer, and every later matrix sees values unlike anything it was trained on.",
      ],
      feedForward: [
        "feed-forward networks",
        "Some of the right words survive, but hardly any grammar, and often no way to stop.",
      ],
    },
  },
];

export const LABELS = Object.fromEntries(
  GROUPS.flatMap(({ title, switches }) =>
    Object.entries(switches).map(([part, [label]]) => [
      part,
      title === "Positions" ? `positions ${label}` : label,
    ]),
  ),
);

export const KINDS = {
  encoder: "encoder",
  decoder: "decoder, looking back",
  cross: "decoder, looking across",
};
