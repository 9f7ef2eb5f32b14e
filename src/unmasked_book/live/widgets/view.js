// What the figure shows of one answer: rows of numbers by place and name, and the words beside them.

export class View {
  constructor(translator, state, answer) {
    Object.assign(this, { translator, state, ...answer });
    const pieces = translator.target.words;
    this.chosen = this.tokens.map((token) => pieces[token]);
    this.pieces = {
      encoder: this.order.map((position) => translator.source.words[this.source[position]]),
      decoder: ["<bos>", ...this.chosen].slice(0, this.chosen.length),
    };
    this.ids = { encoder: this.order.map((position) => this.source[position]), decoder: [1, ...this.tokens] };
    this.words = { encoder: this.pieces.encoder.map(plainWord), decoder: this.pieces.decoder.map(plainWord) };
  }

  get model() {
    return this.translator.model;
  }

  // The token that is chosen in a half, as a row of its numbers.
  row(half) {
    const wanted = half === "encoder" ? this.state.token : this.state.step;
    return Math.max(0, Math.min(wanted, this.words[half].length - 1));
  }

  word(half) {
    return this.words[half][this.row(half)] ?? "";
  }

  // The word that the decoder writes in the step that is chosen.
  get written() {
    return plainWord(this.chosen[this.row("decoder")] ?? "");
  }

  layer(half) {
    return Math.min(this.state.layer, this.model[half].length) - 1;
  }

  get head() {
    return Math.min(this.state.head, this.model.config.n_heads) - 1;
  }

  // The row of the chosen token, of what a box calls `name`.
  vector(box, name) {
    return this.all(box.half, this.named(box, name))[this.row(box.half)];
  }

  // All rows by a name of the trace, one for each token; none if that was not computed.
  all(half, name) {
    if (half === "decoder") return this.steps.map(({ trace }) => trace[name]).filter(Boolean);
    const found = this.memory?.trace[name], count = this.source.length;
    return found && count ? this.model.rows(found, found.length / count) : [];
  }

  // The name in the trace of what a box calls `name`.
  named({ half, layered }, name) {
    if (layered) return `${half}.${this.layer(half)}.${name}`;
    return name === "memory" ? name : `${half}.${name}`;
  }

  // The weights of one head, a row for each query: [queries][keys so far].
  weights({ half, name }) {
    const path = `${half}.${this.layer(half)}.${name}.weights`;
    const all = half === "encoder" ? this.memory?.trace[path] : this.steps.map(({ trace }) => trace[path]?.[0]);
    return (all || []).filter(Boolean).map((heads) => {
      const length = heads.length / this.model.config.n_heads;
      return heads.subarray(this.head * length, (this.head + 1) * length);
    });
  }

  // The query, keys and values that one head works with at the chosen row.
  parts({ half, name }) {
    const path = `${half}.${this.layer(half)}.${name}.`, row = this.row(half);
    const size = this.model.config.d_model / this.model.config.n_heads;
    const cut = (numbers) => numbers.subarray(this.head * size, (this.head + 1) * size);
    const cross = this.memory.layers[this.layer("decoder")];
    const read = (part) => {
      if (name === "cross") return cross[`${part}s`];
      const rows = this.all(half, path + part);
      return half === "decoder" ? rows.slice(0, row + 1) : rows;
    };
    const query = this.all(half, `${path}query`)[row];
    return { query: query && cut(query), keys: read("key").map(cut), values: read("value").map(cut) };
  }

  keysOf({ half, name }) {
    return this.words[name === "cross" ? "encoder" : half];
  }
}

export function plainWord(token) {
  return token.replace(/^▁/, "") || "▁";
}
