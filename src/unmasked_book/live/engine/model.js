// The encoder-decoder, one sentence at a time, with a switch for every part.
//
// `off` says what is switched off; an empty object is the whole model:
//   encoderPositions, decoderPositions, encoderSelf, decoderSelf, cross, feedForward,
//   residuals, norms, scale (the division by √K): true
//   heads: a Set of "encoder 0 2" (kind, layer, head), also "decoder …" and "cross …"
//   hidden: a Set of source positions that nobody may attend to
// A sublayer that is off gives zeros; a residual that is off lets only the sublayer through.

import { softmax } from "./formulas.js";
import { ACTIVATIONS, add, layerNorm, linear, sinusoid } from "./numbers.js";

export class Transformer {
  constructor(config, tensors) {
    refuseOther(config);
    this.config = config;
    const depths = { encoder: config.n_layers, decoder: config.n_decoder_layers ?? config.n_layers };
    const data = (name) => {
      if (!tensors[name]) throw new Error(`The weights lack a tensor “${name}”: they belong to another model.`);
      return tensors[name].data;
    };
    const matrix = (name) => {
      const weight = data(name + ".weight"), [outputs, inputs] = tensors[name + ".weight"].shape;
      return { weight, bias: tensors[name + ".bias"]?.data, outputs, inputs };
    };
    const norm = (name) => ({ weight: data(name + ".weight"), bias: data(name + ".bias"), eps: config.norm_eps });
    const attention = (name) => ({
      query: matrix(name + ".query"), key: matrix(name + ".key"),
      value: matrix(name + ".value"), output: matrix(name + ".output"),
    });
    const feedForward = (name) => ({ expand: matrix(name + ".expand"), contract: matrix(name + ".contract") });
    const layers = (side, read) => Array.from({ length: depths[side] }, (_, i) => read(`${side}.layers.${i}.`));

    this.encoder = layers("encoder", (at) => ({
      selfAttention: attention(at + "self_attention"), attentionNorm: norm(at + "attention_residual.norm"),
      feedForward: feedForward(at + "feed_forward"), feedForwardNorm: norm(at + "feed_forward_residual.norm"),
    }));
    this.decoder = layers("decoder", (at) => ({
      selfAttention: attention(at + "self_attention"), selfNorm: norm(at + "self_residual.norm"),
      crossAttention: attention(at + "cross_attention"), crossNorm: norm(at + "cross_residual.norm"),
      feedForward: feedForward(at + "feed_forward"), feedForwardNorm: norm(at + "feed_forward_residual.norm"),
    }));
    const last = config.final_norm ?? config.norm === "pre";
    this.encoderNorm = last ? norm("encoder.norm") : null;
    this.decoderNorm = last ? norm("decoder.norm") : null;

    // What is tied is kept once, under the name that comes first.
    const [joint, tied] = [config.tie_embeddings === true, Boolean(config.tie_embeddings)];
    const source = data("source_embedding.tokens.weight");
    const target = joint ? source : data("target_embedding.tokens.weight");
    const table = (side) => tensors[`${side}_embedding.positions.table`]?.data;
    this.sourceEmbedding = { tokens: source, positions: table("source") };
    this.targetEmbedding = { tokens: target, positions: table("target") };
    this.generator = {
      weight: tied ? target : data("generator.weight"), bias: tensors["generator.bias"]?.data,
      inputs: config.d_model, outputs: config.target_vocab,
    };
    this.activation = ACTIVATIONS[config.activation];
  }

  // Tokens → vectors: a row of the table, times √D where configured, plus that of its position.
  embed(table, ids, positions, withoutPositions) {
    const width = this.config.d_model;
    const scale = this.config.scale_embeddings ? Math.sqrt(width) : 1;
    const x = new Float32Array(ids.length * width);
    ids.forEach((id, row) => {
      const place = withoutPositions ? null : this.place(table.positions, positions[row]);
      for (let i = 0; i < width; i += 1) {
        x[row * width + i] = table.tokens[id * width + i] * scale + (place ? place[i] : 0);
      }
    });
    return x;
  }

  place(learned, position) {
    const width = this.config.d_model;
    if (!learned) return sinusoid(position, width);
    if (position < this.config.max_len) return learned.subarray(position * width, (position + 1) * width);
    throw new Error(`The model has learnt ${this.config.max_len} positions: the text is too long for it.`);
  }

  // A sublayer with its residual and its norm: before the sublayer (pre) or after the sum (post).
  residual(x, norm, off, sublayer) {
    const normed = (y) => (off.norms ? y : layerNorm(norm, y));
    const join = (y) => (off.residuals ? y : add(x, y));
    return this.config.norm === "pre" ? join(sublayer(normed(x))) : normed(join(sublayer(x)));
  }

  feedForward({ expand, contract }, x, off) {
    if (off.feedForward) return new Float32Array(x.length);
    return linear(contract, linear(expand, x).map(this.activation));
  }

  // Each query looks at `keys` and `values` (an array of rows); the weights of all heads are kept.
  attend(layer, queries, entries, options) {
    const width = this.config.d_model, rows = queries.length / width;
    const contexts = new Float32Array(queries.length);
    for (let row = 0; row < rows; row += 1) {
      const query = queries.subarray(row * width, (row + 1) * width);
      const weights = this.attention(query, entries[row], contexts.subarray(row * width, (row + 1) * width), options);
      options.maps[row][options.kind].push(weights);
    }
    return linear(layer.output, contexts);
  }

  // softmax(query keyᵀ / √K) value, head by head: fills `context`, returns the weights [H · S].
  attention(query, { keys, values }, context, { kind, number, off, visible }) {
    const heads = this.config.n_heads, size = query.length / heads, length = keys.length;
    const scale = off.scale ? 1 : 1 / Math.sqrt(size);
    const all = new Float32Array(heads * length);
    for (let head = 0; head < heads; head += 1) {
      const from = head * size, to = from + size;
      const weights = all.subarray(head * length, (head + 1) * length);
      for (let key = 0; key < length; key += 1) {
        const row = keys[key];
        let score = 0;
        for (let i = from; i < to; i += 1) score += query[i] * row[i];
        weights[key] = visible && !visible[key] ? -Infinity : score * scale;
      }
      softmax(weights);
      if (off.heads?.has(`${kind} ${number} ${head}`)) continue;
      for (let key = 0; key < length; key += 1) {
        const weight = weights[key], row = values[key];
        for (let i = from; i < to; i += 1) context[i] += weight * row[i];
      }
    }
    return all;
  }

  rows(x) {
    const width = this.config.d_model;
    return Array.from({ length: x.length / width }, (_, row) => x.subarray(row * width, (row + 1) * width));
  }

  // Source tokens → the memory: what every layer of the decoder reads in cross-attention.
  // A generator, as the searches are: it yields after each layer.
  *encode(source, off = {}) {
    const visible = off.hidden?.size ? source.map((_, position) => !off.hidden.has(position)) : null;
    const maps = source.map(() => ({ encoder: [] }));
    let x = this.embed(this.sourceEmbedding, source, [...source.keys()], off.encoderPositions);
    for (const [number, layer] of this.encoder.entries()) {
      x = this.residual(x, layer.attentionNorm, off, (y) => {
        if (off.encoderSelf) return new Float32Array(y.length);
        const own = layer.selfAttention;
        const entry = { keys: this.rows(linear(own.key, y)), values: this.rows(linear(own.value, y)) };
        const options = { kind: "encoder", number, off, visible, maps };
        return this.attend(own, linear(own.query, y), source.map(() => entry), options);
      });
      x = this.residual(x, layer.feedForwardNorm, off, (y) => this.feedForward(layer.feedForward, y, off));
      yield;
    }
    if (this.encoderNorm && !off.norms) x = layerNorm(this.encoderNorm, x);
    const layers = this.decoder.map(({ crossAttention: { key, value } }) => ({
      keys: this.rows(linear(key, x)), values: this.rows(linear(value, x)),
    }));
    return { source, layers, visible, maps };
  }

  // What a decoder remembers of a beginning: the keys and values of each layer. Empty at first.
  start() {
    return { length: 0, layers: this.decoder.map(() => ({ keys: [], values: [] })) };
  }

  // The newest token of each of several beginnings → their logits, new states and attention maps.
  step(tokens, states, memory, off = {}) {
    const next = states.map(({ length, layers }) => ({
      length: length + 1,
      layers: layers.map(({ keys, values }) => ({ keys: keys.slice(), values: values.slice() })),
    }));
    const maps = tokens.map(() => ({ decoder: [], cross: [] }));
    const positions = states.map(({ length }) => length);
    let x = this.embed(this.targetEmbedding, tokens, positions, off.decoderPositions);
    this.decoder.forEach((layer, number) => {
      x = this.residual(x, layer.selfNorm, off, (y) => {
        if (off.decoderSelf) return new Float32Array(y.length);
        const own = layer.selfAttention, past = next.map(({ layers }) => layers[number]);
        this.rows(linear(own.key, y)).forEach((key, row) => past[row].keys.push(key));
        this.rows(linear(own.value, y)).forEach((value, row) => past[row].values.push(value));
        return this.attend(own, linear(own.query, y), past, { kind: "decoder", number, off, maps });
      });
      x = this.residual(x, layer.crossNorm, off, (y) => {
        if (off.cross) return new Float32Array(y.length);
        const across = layer.crossAttention, read = tokens.map(() => memory.layers[number]);
        const options = { kind: "cross", number, off, visible: memory.visible, maps };
        return this.attend(across, linear(across.query, y), read, options);
      });
      x = this.residual(x, layer.feedForwardNorm, off, (y) => this.feedForward(layer.feedForward, y, off));
    });
    if (this.decoderNorm && !off.norms) x = layerNorm(this.decoderNorm, x);
    const logits = linear(this.generator, x), size = this.config.target_vocab;
    return tokens.map((_, row) => ({
      logits: logits.subarray(row * size, (row + 1) * size), state: next[row], maps: maps[row],
    }));
  }
}

const KNOWN = {
  norm: ["pre", "post"], feed_forward: ["linear", "conv"], activation: ["relu", "gelu"],
  positions: ["sinusoidal", "learned"], tie_embeddings: [true, false, "output"],
};
const OTHERS = [
  "d_model", "n_heads", "d_ff", "dropout", "inner_dropout", "norm_eps", "bias", "attention_bias", "source_vocab",
  "target_vocab", "n_layers", "n_decoder_layers", "final_norm", "max_len", "scale_embeddings", "embedding_std",
  "output_bias",
];

// A configuration that the engine does not know is refused in a sentence, not guessed at.
function refuseOther(config) {
  for (const [name, value] of Object.entries(config)) {
    if (KNOWN[name] ? !KNOWN[name].includes(value) : !OTHERS.includes(name)) {
      throw new Error(`The engine does not know ${name} = ${JSON.stringify(value)}: it cannot run this model.`);
    }
  }
  for (const name of ["d_model", "n_heads", "n_layers", "norm", "positions", "activation"]) {
    if (config[name] === undefined) throw new Error(`The configuration does not say ${name}.`);
  }
}
