// A box, opened: the numbers of the chosen token at that place, and the lines of plain.py that make them.

import { softmax } from "../engine/formulas.js";
import { linear } from "../engine/numbers.js";
import { likeliest, topTokens } from "../engine/search.js";
import { button, choice, make, printed } from "./dom.js";
import { plainWord } from "./view.js";

const COLUMNS = 6; // of 128 numbers
const MOST_ROWS = 40; // of a table: a translation that never ends has more
const folds = new Map(); // what the reader has opened or closed stays so
const LINES = "@LINES@"; // place → its lines of plain.py, [number, text], and those that call them
const SOURCE = "https://github.com/transformer-unmasked/unmasked/blob/main/src/unmasked/plain.py#L";

// Fills the panel.
export function showInside(parent, box, view, page) {
  ROOMS[box.kind](parent, box, view, page);
  const [own, callers] = LINES[box.place];
  const other = view.model.config.norm === "pre" ? "" : " (where the norm comes first, and not last as here)";
  make("p", parent, `Computed by, in plain.py${other}:`, { class: "unmasked-label" });
  listing(parent, own);
  if (callers.length) listing(fold(parent, "callers", `called from (${callers.length})`), callers);
  if (box.kind === "attention" && view.weights(box).length) {
    drawParts(parent, box, view);
    drawMap(parent, box, view);
  }
}

function fold(parent, kind, title, open = false) {
  const box = make("details", parent, null, { open: folds.get(kind) ?? open });
  box.addEventListener("toggle", () => folds.set(kind, box.open));
  make("summary", box, title);
  return box;
}

function listing(parent, lines) {
  const code = make("ol", parent, null, { class: "unmasked-code" });
  for (const [number, text] of lines) {
    const one = make("li", code, null, { value: number });
    make("code", make("a", one, null, { href: SOURCE + number, target: "_blank", rel: "noopener" }), text);
  }
}

const ROOMS = {
  tokens(parent, { half }, view, page) {
    const { words, pieces, ids } = view, row = view.row(half);
    if (half === "encoder") {
      const count = view.translator.source.words.length;
      make("p", parent, `The sentence is cut into ${words.encoder.length} tokens, each a number in a list of ` +
        `${count.toLocaleString("en")}. <eos> ends the sentence.`);
    } else {
      make("p", parent, "What has been written is read next: the translation, shifted by one to the right.");
    }
    const hidden = (place) => view.state.hidden.has(view.order[place]);
    const lines = pieces[half].map((piece, place) => ({
      cells: [piece, ids[half][place]],
      chosen: place === row,
      end: half === "encoder" && ((cell) => {
        const verb = hidden(place) ? "show" : "hide", label = `${verb} ${words.encoder[place]}`;
        button(cell, verb, () => page.hide(view.order[place], !hidden(place)), { "aria-label": label });
      }),
    }));
    table(parent, half === "encoder" ? ["token", "ID", ""] : ["token", "ID"], lines);
    if (half === "encoder") {
      const buttons = make("p", parent, null, { class: "unmasked-row" });
      button(buttons, "Shuffle the source", () => page.shuffle());
      if (view.state.order) button(buttons, "Back in order", () => page.change({ order: null }));
      make("p", parent, "A token that is hidden stays where it is, but nobody may attend to it: the mask.");
    }
  },

  embeddings(parent, { half }, view) {
    const { model } = view, id = view.ids[half][view.row(half)], width = model.config.d_model;
    const kept = (half === "encoder" ? model.sourceEmbedding : model.targetEmbedding).tokens.weight;
    const raw = kept.subarray(id * width, (id + 1) * width), by = Math.sqrt(width).toFixed(1);
    make("p", parent, `Token ${id} picks row ${id} of a table, ${width} numbers that training has set` +
      (model.config.scale_embeddings ? `, times √${width} ≈ ${by}.` : "."));
    const scaled = [model.config.scale_embeddings ? `× ${by}` : "as it is", view.vector({ half }, "rows")];
    numbers(parent, [[`row ${id}`, raw], scaled]);
  },

  positions(parent, { half }, view) {
    const row = view.row(half), from = view.vector({ half }, "rows"), sum = view.vector({ half }, "input");
    const off = view.state.off.has(`${half}Positions`);
    make("p", parent, off ? "Switched off: nothing says where the token stands."
      : `Numbers that say “position ${row}” are added${view.model.config.positions === "sinusoidal" ? ", from slow and fast waves" : ""}.`);
    numbers(parent, [["row", from], ["position", sum.map((number, i) => number - from[i])], ["sum", sum]]);
  },

  norm(parent, box, view) {
    const before = view.vector(box, box.input), after = view.vector(box, box.name);
    if (view.state.off.has("norms")) make("p", parent, "Switched off: the vector passes as it is.");
    else {
      const [m, d] = spread(before), [n, e] = spread(after);
      make("p", parent, `The ${before.length} numbers have mean ${shown(m)} and standard deviation ${shown(d)}. ` +
        "They get mean 0 and deviation 1; then each is multiplied by a learned number γ, and a learned β is added " +
        `(now ${shown(n)} and ${shown(e)}).`);
    }
    numbers(parent, [["before", before], ["after", after]]);
  },

  attention(parent, box, view, page) {
    const { half, name } = box, row = view.row(half), weights = view.weights(box)[row];
    if (!weights) return make("p", parent, "Switched off: nothing is read, and zeros are added.");
    headControls(parent, box, view, page);
    const { query, keys } = view.parts(box), words = view.keysOf(box);
    const divisor = view.state.off.has("scale") ? 1 : Math.sqrt(query.length);
    const asked = half === "decoder" ? `To write “${view.written}”, having read “${view.word(half)}”` : `For “${view.word(half)}”`;
    const most = likeliest(weights);
    make("p", parent, `${asked}, how much is taken from each token?`);
    const seen = (key) => half === "decoder" && name === "self" ? true : !view.memory.visible || view.memory.visible[key];
    const lines = keys.map((key, place) => {
      const score = dot(query, key);
      const scores = seen(place) ? [shown(score), shown(score / divisor)] : ["hidden", "−∞"];
      const cells = [words[place], ...scores, percent(weights[place])];
      return { cells, chosen: place === most, bar: [3, weights[place]] };
    });
    table(parent, [name === "cross" ? "source" : "token", "q · k", divisor > 1 ? `÷ √${query.length}` : "not divided",
      "weight"], lines);
    const score = dot(query, keys[most]) / divisor, power = Math.exp(score);
    if (!weights[most] || !Number.isFinite(power)) {
      return make("p", parent, "All tokens are hidden, or the scores are too large to be written down.");
    }
    make("p", parent, `Multiply the ${query.length} numbers of q, the query of “${view.word(half)}”, by those of k, the key ` +
      `of “${words[most]}”, and add up: ${shown(score * divisor)}. ${divisor > 1 ? `Divided by √${query.length}: ` : "As score: "}` +
      `${shown(score)}. The softmax makes weights of the scores: e^${shown(score)} = ${shown(power)}, of ` +
      `${shown(power / weights[most])} for all tokens together, is ${percent(weights[most])}. Then the values v, times their ` +
      `weights, are added up.${half === "decoder" && name === "self" ? " Later words do not exist yet; in training a mask hides them." : ""}`);
  },

  add(parent, box, view) {
    const before = view.vector(box, box.input), added = view.vector(box, box.added), after = view.vector(box, box.name);
    const off = view.state.off.has("residuals");
    const angle = (180 / Math.PI) * Math.acos(Math.min(1, dot(before, after) / (length(before) * length(after) || 1)));
    make("p", parent, off ? "Switched off: what was there is lost, and only the result goes on."
      : "Nothing is replaced: the result is added to what was there, so nothing that was known is lost.");
    numbers(parent, [["before", before], ["added", added], ["after", after]]);
    make("p", parent, `Length ${shown(length(before), 1)} → ${shown(length(after), 1)}, turned by ${Math.round(angle)}°.`);
    if (box.half === "decoder") {
      const ready = view.model.config.norm === "pre" ? after : view.vector(box, box.name.replace(".sum", "_norm"));
      const { model } = view, last = model.norm(model.decoderNorm, ready, { norms: view.state.off.has("norms") });
      const now = linear(model.generator, last);
      now[0] = -Infinity;
      const chances = softmax(now), top = topTokens(chances, 3);
      const written = top.map((token) => `${plainWord(view.translator.target.words[token])} ${percent(chances[token])}`);
      make("p", parent, `If the decoder ended here, it would write: ${written.join(", ")}.`);
    }
  },

  "feed-forward"(parent, box, view) {
    const units = view.vector(box, "feed_forward.expand");
    if (!units) return make("p", parent, "Switched off: zeros are added.");
    const on = units.filter((unit) => unit > 0).length;
    make("p", parent, `Each token alone: ${view.model.config.d_model} numbers become ${units.length} units, ` +
      `negative ones are cut to zero${view.model.config.activation === "relu" ? "" : ", or nearly"}, and a second matrix makes ${view.model.config.d_model} of them again. ` +
      `Here ${on} of ${units.length} units are on; the strongest:`);
    const top = topTokens(units, 8), most = units[top[0]] || 1;
    table(parent, ["unit", "value"], top.map((unit) =>
      ({ cells: [unit, shown(units[unit])], bar: [1, units[unit] / most] })));
  },

  memory(parent, box, view) {
    make("p", parent, `${view.words.encoder.length} vectors of ${view.model.config.d_model} numbers, made once. ` +
      "Every layer of the decoder reads them, in every step.");
    numbers(parent, view.all("encoder", "memory").map((row, place) => [view.words.encoder[place], row]));
  },

  logits(parent, box, view, page) {
    const row = view.row("decoder"), step = view.steps[row], words = view.translator.target.words;
    const chances = chancesOf(step), before = view.translator.target.decode(view.tokens.slice(0, row));
    make("p", parent, `${before ? `After “${before}”` : "At the beginning"} each of the ` +
      `${words.length.toLocaleString("en")} tokens has a score, and the softmax makes chances of them. ` +
      "Greedy search takes the highest. Choose another, and the model goes on from there:");
    const top = topTokens(step.logits, 5);
    table(parent, ["token", "score", "chance", ""], top.map((token) => ({
      cells: [words[token], shown(step.logits[token]), percent(chances[token])],
      chosen: token === view.tokens[row], bar: [2, chances[token]],
      end: (cell) => button(cell, "choose", () => page.insteadOf(row, token),
        { "aria-label": `write ${plainWord(words[token])}`, "aria-pressed": String(token === view.tokens[row]) }),
    })));
  },
};

// All that the weights of a query and what comes out are made of.
function drawParts(parent, box, view) {
  const { query, keys, values } = view.parts(box), words = view.keysOf(box), weights = view.weights(box)[view.row(box.half)];
  const label = (kind) => (one, place) => [`${kind} ${words[place]}`, one];
  const mixed = values[0].map((_, i) => values.reduce((sum, value, place) => sum + weights[place] * value[i], 0));
  const rows = [["q", query], ...keys.map(label("k")), ...values.map(label("v")), ["Σ weight · v", mixed]];
  numbers(fold(parent, "parts", `All ${query.length} numbers of q, k and v`), rows, query.length, 3);
}

// Which head is shown, and whether it counts; and the division.
function headControls(parent, { half, name }, view, page) {
  const line = make("div", parent, null, { class: "unmasked-row" }), { config } = view.model, { heads, off } = view.state;
  const numbers = Array.from({ length: config.n_heads }, (_, i) => [i + 1]);
  const choices = choice(line, "head", numbers, view.head + 1, (head) => page.look({ head }));
  const path = (head) => `${name === "cross" ? "cross" : half} ${view.layer(half)} ${head}`, own = path(view.head);
  choices.querySelectorAll("label").forEach((label, head) => {
    label.classList.toggle("unmasked-hidden", heads.has(path(head)));
  });
  toggle(line, "head on", !heads.has(own), (on) => page.put("heads", own, !on));
  const divide = `divide by √${config.d_model / config.n_heads}`;
  toggle(line, divide, !off.has("scale"), (on) => page.put("off", "scale", !on)).dataset.switch = "scale";
  if (heads.size) make("span", line, `heads off: ${heads.size}`);
}

function toggle(parent, label, on, onchange) {
  const box = make("label", parent);
  const one = make("input", box, null, {
    type: "checkbox", role: "switch", checked: on, onchange: () => onchange(one.checked),
  });
  box.append(` ${label}`);
  return one;
}

// All queries of the head: a row each, darker where the weight is larger.
function drawMap(parent, box, view) {
  const rows = view.weights(box).slice(0, MOST_ROWS), keys = view.keysOf(box).slice(0, MOST_ROWS);
  const name = (query) => view.words[box.half][query] + (box.half === "decoder" ? ` → ${plainWord(view.chosen[query])}` : "");
  const title = `The map of this head: a row for each ${box.half === "decoder" ? "step, read → written" : "query"}`;
  const place = fold(parent, "map", title, true), body = grid(place, "attention map", "unmasked-table unmasked-map", ["", ...keys]);
  rows.forEach((row, query) => {
    const line = make("tr", body, null, { "aria-current": query === view.row(box.half) ? "true" : null });
    make("th", line, name(query), { scope: "row" });
    keys.forEach((_, key) => {
      const weight = row[key] ?? 0, style = `background:rgba(27,127,209,${(0.9 * weight).toFixed(2)})`;
      make("td", line, weight >= 0.095 ? String(Math.round(100 * weight)) : "", { style });
    });
  });
  make("p", place, "In percent, from 10 on. Attention is not an explanation: it shows what was read, not what it was used for.");
}

// A table: { cells, chosen, bar: [column, part of the whole], end: what fills one more cell }.
function table(parent, titles, lines) {
  const body = grid(parent, "numbers", "unmasked-table", titles);
  for (const { cells, chosen, bar, end } of lines.slice(0, MOST_ROWS)) {
    const line = make("tr", body, null, { "aria-current": chosen ? "true" : null });
    cells.forEach((value, column) => {
      const cell = make(column ? "td" : "th", line, value, column ? {} : { scope: "row" });
      if (bar?.[0] !== column) return;
      cell.className = "unmasked-barred";
      make("span", cell, null, { class: "unmasked-bar", style: `width:${(3.5 * bar[1]).toFixed(2)}rem` });
    });
    if (end) end(make("td", line));
  }
  if (lines.length > MOST_ROWS) make("p", parent, `The first ${MOST_ROWS} of ${lines.length} rows.`);
}

// A table in a box that scrolls: its titles are there, and its body is returned.
function grid(parent, label, kind, titles) {
  const named = { tabindex: 0, role: "group", "aria-label": label };
  const box = make("table", make("div", parent, null, { class: "unmasked-scroll", ...named }), null, { class: kind });
  const top = make("tr", make("thead", box));
  for (const title of titles) {
    if (title === "") make("td", top);
    else make("span", make("th", top, null, { scope: "col" }), title);
  }
  return make("tbody", box);
}

// Vectors as [name, numbers], a row each with their first numbers.
function numbers(parent, vectors, count = COLUMNS, digits = 2) {
  const lines = vectors.map(([name, row]) => {
    const cells = Array.from(row.slice(0, count), (number) => shown(number, digits));
    return { cells: [name, ...cells, ...(count < row.length ? ["…"] : [])] };
  });
  table(parent, ["", ...Array.from({ length: count }, (_, i) => i)], lines);
}

// A number as it fits into a table.
export function shown(number, digits = 2) {
  const size = Math.abs(number);
  return size < 1e5 ? printed(number, size < 100 ? digits : 0) : number.toExponential(1).replace("-", "−").replace("e+", "e");
}

function dot(a, b) {
  return a.reduce((sum, number, i) => sum + number * b[i], 0);
}

export function length(row) {
  return Math.sqrt(dot(row, row));
}

// The mean and the standard deviation.
function spread(row) {
  const mean = row.reduce((sum, number) => sum + number, 0) / row.length;
  return [mean, Math.sqrt(row.reduce((sum, number) => sum + (number - mean) ** 2, 0) / row.length)];
}

export function chancesOf(step) {
  step.chances = step.chances || softmax(Float64Array.from(step.logits));
  return step.chances;
}

export function percent(chance) {
  return chance >= 0.0995 ? `${Math.round(100 * chance)}%` : `${(100 * chance).toFixed(1)}%`;
}
