// The encoder-decoder, one sentence at a time, with a switch for every part.
//
// `off` says what is switched off; an empty object is the whole model:
//   encoderPositions, decoderPositions, encoderSelf, decoderSelf, cross, feedForward,
//   residuals, norms, scale (the division by √d_k): true
//   heads: a Set of "encoder 0 2" (kind, layer, head), also "decoder …" and "cross …"
//   hidden: a Set of source positions that nobody may attend to
// A sublayer that is off gives zeros; a residual that is off lets only the sublayer through.
//
// What is computed on the way is kept by name in a trace, a Float32Array each:
//   encoder.rows (of the table, times √D), encoder.input, memory; for each layer, as in plain.py,
//   encoder.0.attention_norm, encoder.0.self.query, .key, .value, .weights, .heads, .output,
//   encoder.0.attention.before, .sum (with the residual), encoder.0.feed_forward_norm,
//   encoder.0.feed_forward.expand (after the activation), .contract, .sum
// and likewise decoder.… with decoder.0.self, .cross and last, one row for each step.

import { sinusoid, softmax } from "./formulas.js";
import { ACTIVATIONS, add, layerNorm, linear } from "./numbers.js";

export class Transformer {
  constructor(config, tensors) {
    this.config = config;
    const { encoder, decoder, source_embedding: source, target_embedding: target, generator } = modules(tensors);
    [this.encoder, this.decoder] = [encoder, decoder].map(({ layers }) => Object.values(layers));
    [this.encoderNorm, this.decoderNorm] = [encoder.norm, decoder.norm];
    // What is tied is kept once, under the name that comes first.
    this.sourceEmbedding = source;
    this.targetEmbedding = { ...target, tokens: target?.tokens ?? source.tokens };
    this.generator = { ...this.targetEmbedding.tokens, ...generator };
    this.activation = ACTIVATIONS[config.activation];
  }

  // Tokens → vectors: a row of the table, times √D where configured, plus that of its position.
  embed(table, ids, positions, withoutPositions, keep) {
    const width = this.config.d_model, x = new Float32Array(ids.length * width);
    const scale = this.config.scale_embeddings ? Math.sqrt(width) : 1;
    ids.forEach((id, row) => {
      for (let i = 0; i < width; i += 1) x[row * width + i] = table.tokens.weight[id * width + i] * scale;
    });
    keep("rows", x);
    if (withoutPositions) return keep("input", x);
    const places = new Float32Array(x.length);
    positions.forEach((position, row) => places.set(this.place(table.positions?.table, position), row * width));
    return keep("input", add(x, places));
  }

  place(learned, position) {
    const width = this.config.d_model;
    if (!learned) return sinusoid(position, width);
    if (position < this.config.max_len) return learned.subarray(position * width, (position + 1) * width);
    throw new Error(`The model has learnt ${this.config.max_len} positions: the text is too long for it.`);
  }

  norm(norm, x, off) {
    return norm && !off.norms ? layerNorm(norm, x, this.config.norm_eps) : x;
  }

  // A sublayer with its residual and its norm: before the sublayer (pre) or after the sum (post).
  residual(x, { norm }, name, { off, keep }, sublayer) {
    keep(`${name}.before`, x);
    const normed = (y) => keep(`${name}_norm`, this.norm(norm, y, off));
    const join = (y) => keep(`${name}.sum`, off.residuals ? y : add(x, y));
    return this.config.norm === "pre" ? join(sublayer(normed(x))) : normed(join(sublayer(x)));
  }

  feedForward({ expand, contract }, x, { off, keep }) {
    if (off.feedForward) return keep("feed_forward.contract", new Float32Array(x.length));
    const units = keep("feed_forward.expand", linear(expand, x).map(this.activation));
    return keep("feed_forward.contract", linear(contract, units));
  }

  // Each row first adds its own key and value to its entry: in the encoder all rows share one.
  selfAttend(layer, x, entries, isOff, options) {
    if (isOff) return options.keep("self.output", new Float32Array(x.length));
    for (const part of ["key", "value"]) {
      const rows = this.rows(options.keep(`self.${part}`, linear(layer[part], x)));
      rows.forEach((numbers, row) => entries[row][`${part}s`].push(numbers));
    }
    return this.attend(layer, x, entries, { ...options, name: "self" });
  }

  // Each row of queries looks at its own `keys` and `values` (arrays of rows); heads side by side.
  attend(layer, x, entries, options) {
    const { keep, name } = options, queries = this.rows(keep(`${name}.query`, linear(layer.query, x)));
    const heads = new Float32Array(x.length), contexts = this.rows(heads);
    keep(`${name}.weights`, queries.map((query, row) => this.attention(query, entries[row], contexts[row], options)));
    return keep(`${name}.output`, linear(layer.output, keep(`${name}.heads`, heads)));
  }

  // softmax(query keyᵀ / √d_k) value, head by head: fills `context`, and returns the weights [H · S].
  attention(query, { keys, values }, context, { kind, number, off, visible }) {
    const heads = this.config.n_heads, size = query.length / heads, length = keys.length;
    const all = new Float32Array(heads * length);
    const scale = off.scale ? 1 : 1 / Math.sqrt(size);
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

  rows(x, width = this.config.d_model) {
    return Array.from({ length: x.length / width }, (_, row) => x.subarray(row * width, (row + 1) * width));
  }

  // Source tokens → the memory: what every layer of the decoder reads in cross-attention.
  // A generator, as the searches are: it yields after each sublayer.
  *encode(source, off = {}) {
    const visible = off.hidden?.size ? source.map((_, position) => !off.hidden.has(position)) : null;
    const trace = {}, keepAt = keeper(trace);
    let x = this.embed(this.sourceEmbedding, source, [...source.keys()], off.encoderPositions, keepAt("encoder."));
    for (const [number, layer] of this.encoder.entries()) {
      const options = { kind: "encoder", number, off, visible, keep: keepAt(`encoder.${number}.`) };
      const entry = { keys: [], values: [] }, entries = source.map(() => entry);
      x = this.residual(x, layer.attention_residual, "attention", options, (y) =>
        this.selfAttend(layer.self_attention, y, entries, off.encoderSelf, options));
      yield;
      x = this.residual(x, layer.feed_forward_residual, "feed_forward", options, (y) =>
        this.feedForward(layer.feed_forward, y, options));
      yield;
    }
    x = keepAt("")("memory", this.norm(this.encoderNorm, x, off));
    const layers = this.decoder.map(({ cross_attention: { key, value } }) => ({
      keys: this.rows(linear(key, x)), values: this.rows(linear(value, x)),
    }));
    return { source, layers, visible, trace };
  }

  // What a decoder remembers of a beginning: the keys and values of each layer. Empty at first.
  start() {
    return { length: 0, layers: this.decoder.map(() => ({ keys: [], values: [] })) };
  }

  // The newest token of each of several beginnings → their logits and new states. What one computes
  // goes into `trace`, if there is one.
  step(tokens, states, memory, off = {}, trace = null) {
    const next = states.map(({ length, layers }) => ({
      length: length + 1,
      layers: layers.map(({ keys, values }) => ({ keys: keys.slice(), values: values.slice() })),
    }));
    const positions = states.map(({ length }) => length), keepAt = keeper(trace);
    let x = this.embed(this.targetEmbedding, tokens, positions, off.decoderPositions, keepAt("decoder."));
    this.decoder.forEach((layer, number) => {
      const options = { number, off, keep: keepAt(`decoder.${number}.`) };
      const past = next.map(({ layers }) => layers[number]), read = tokens.map(() => memory.layers[number]);
      x = this.residual(x, layer.self_residual, "self", options, (y) =>
        this.selfAttend(layer.self_attention, y, past, off.decoderSelf, { ...options, kind: "decoder" }));
      x = this.residual(x, layer.cross_residual, "cross", options, (y) => {
        if (off.cross) return options.keep("cross.output", new Float32Array(y.length));
        const { visible } = memory;
        return this.attend(layer.cross_attention, y, read, { ...options, kind: "cross", name: "cross", visible });
      });
      x = this.residual(x, layer.feed_forward_residual, "feed_forward", options, (y) =>
        this.feedForward(layer.feed_forward, y, options));
    });
    x = keepAt("decoder.")("last", this.norm(this.decoderNorm, x, off));
    const logits = this.rows(linear(this.generator, x), this.config.target_vocab);
    return logits.map((logits, row) => ({ logits, state: next[row] }));
  }
}

// Tensors by name → modules in modules, as in the package; a matrix also knows how many inputs and outputs it has.
function modules(tensors) {
  const root = {};
  for (const [path, { data, shape: [outputs, inputs] }] of Object.entries(tensors)) {
    const names = path.split("."), name = names.pop();
    const module = names.reduce((parent, child) => (parent[child] ??= {}), root);
    Object.assign(module, { [name]: data }, name === "weight" && { inputs, outputs });
  }
  return root;
}

// keeper(trace)("decoder.0.")("self.query", x) keeps x by its whole name, and returns it.
function keeper(trace) {
  return (prefix) => (name, x) => {
    if (trace) trace[prefix + name] = x;
    return x;
  };
}
