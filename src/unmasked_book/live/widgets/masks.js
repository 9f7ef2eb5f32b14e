// Chapter 1: a mask taken in hand. Each row is a query, each column a key that it may attend to or not;
// below them stands what softmax makes of the scores of one row.
import { softmax } from "../engine/formulas.js";
import { announcer, arrowKeys, button, choice, defineElement, make, printed, slider } from "./dom.js";

const MAY = "may attend", BY_HAND = "hidden by hand";
const PADDED = "hidden: padding", FUTURE = "hidden: the future";
const LOOKS = { [MAY]: "may", [PADDED]: "padded", [FUTURE]: "future", [BY_HAND]: "by-hand" };

function build(element, data) {
  const state = { real: {} };
  const flipped = new Set(); // the cells that the reader has set, as "query,key"
  let cells, scoreCells, weightCells;

  // --- The mask

  const tokens = (side) =>
    data.tokens[side].map((token, i) => (i < state.real[side] ? token : data.padding));

  // Queries are counted as in the whole sentence: with a cache, the first of them are not computed again.
  function reason(query, key) {
    const padded = key >= state.real[state.attention.keys], future = state.causal && key > query;
    const rule = padded ? PADDED : future ? FUTURE : MAY;
    if (!flipped.has(`${query},${key}`)) return rule;
    return rule === MAY ? BY_HAND : MAY;
  }

  function flip(query, key) {
    const cell = `${query},${key}`;
    if (!flipped.delete(cell)) flipped.add(cell);
    choose(query, key);
  }

  function choose(row, column = state.column) {
    Object.assign(state, { row, column });
    paint();
  }

  function set(changes) {
    Object.assign(state, changes);
    flipped.clear();
    layOut();
  }

  function attend(name) {
    const attention = data.attentions.find((one) => one.name === name);
    causal.checked = name === "decoder";
    const row = attention.scores.length >> 1;
    Object.assign(state, { attention, causal: causal.checked, row, column: 0 });
    past.value = 0;
    past.dispatchEvent(new Event("input"));
  }

  // --- What stands on the page, from top to bottom

  make("p", element, "Shorten the sentence, switch causality off, or click any cell. "
    + "Point at a row for its weights.");
  const box = make("div", element, null, { class: "um-masks" });
  const controls = make("div", box, null, { class: "um-controls" });
  const grid = { class: "unmasked-table", role: "grid", "aria-label": "Mask" };
  const table = make("table", box, null, grid);
  const say = announcer(element);

  choice(controls, "Attention:", data.attentions.map(({ name }) => [name]), "decoder", attend);
  const lengths = Object.entries(data.tokens).map(([side, { length }]) => {
    state.real[side] = length;
    const change = (real) => set({ real: { ...state.real, [side]: real } });
    const range = { min: 1, max: length, step: 1, value: length };
    const input = slider(controls, `Real ${side} tokens`, range, change);
    return [side, input.parentElement];
  });
  const most = data.tokens.target.length - 1;
  const past = slider(controls, "Keys in the cache", { min: 0, max: most, step: 1, value: 0 },
    (past) => set({ past, row: Math.max(past, state.row) }));
  const causal = make("input", make("label", controls, "Causal "), null,
    { type: "checkbox", onchange: () => set({ causal: causal.checked }) });
  const legend = make("ul", controls, null, { class: "unmasked-legend" });
  for (const [why, look] of Object.entries(LOOKS)) {
    make("span", make("li", legend), null, { class: `um-cell um-${look}` }).after(why);
  }

  arrowKeys(table, () => cells.filter((line) => line.length));

  // A setting lays the table out anew; a click and a look only paint it.
  function layOut() {
    const { queries, keys } = state.attention;
    for (const [side, line] of lengths) line.hidden = side !== queries && side !== keys;
    past.parentElement.hidden = state.attention.name !== "decoder";
    table.textContent = "";
    const [head, body, foot] = ["thead", "tbody", "tfoot"].map((part) => make(part, table));
    const titles = make("tr", head);
    make("th", titles, "query ↓ key →", { scope: "col", class: "um-corner" });
    for (const key of tokens(keys)) make("th", titles, key, { scope: "col" });
    cells = tokens(queries).map((query, i) => (i < state.past ? [] : row(body, query, i)));
    [scoreCells, weightCells] = ["score", "weight"].map((name) => {
      const line = make("tr", foot, null, { class: `um-${name}` });
      make("th", line, name, { scope: "row" });
      return tokens(keys).map(() => make("td", line));
    });
    paint();
  }

  function row(body, query, i) {
    const line = make("tr", body, null, { onmouseenter: () => choose(i), onclick: () => choose(i) });
    make("th", line, query, { scope: "row" });
    return tokens(state.attention.keys).map((key, j) => button(make("td", line), null, () => flip(i, j),
      { "aria-label": `${query} attends to ${key}`, onfocus: () => choose(i, j) }));
  }

  function paint() {
    cells.forEach((line, i) => line.forEach((cell, j) => {
      const why = reason(i, j);
      Object.assign(cell, { className: `um-cell um-${LOOKS[why]}`, title: why });
      cell.tabIndex = i === state.row && j === state.column ? 0 : -1;
      cell.setAttribute("aria-pressed", why === MAY);
      cell.closest("tr").classList.toggle("um-chosen", i === state.row);
    }));
    const scores = state.attention.scores[state.row];
    const allowed = scores.map((_, key) => reason(state.row, key) === MAY);
    const weights = softmax(scores.map((score, key) => (allowed[key] ? score : -Infinity)));
    const shown = weights.map((weight, key) => (allowed[key] ? weight.toFixed(2) : "0"));
    scores.forEach((score, key) => {
      scoreCells[key].textContent = printed(score, 1);
      scoreCells[key].classList.toggle("um-struck", !allowed[key]);
      weightCells[key].textContent = shown[key];
      weightCells[key].style.setProperty("--weight", weights[key].toFixed(4));
    });
    const query = tokens(state.attention.queries)[state.row];
    const keys = tokens(state.attention.keys).map((key, j) => `${key} ${shown[j]}`);
    const read = keys.filter((_, j) => allowed[j]);
    say(read.length
      ? `“${query}” may attend to ${read.length} of ${scores.length} tokens: ${read.join(", ")}.`
      : `“${query}” is a fully masked row: all its weights are zero, and so is its output.`);
  }

  attend("decoder");
}

defineElement("unmasked-masks", build);
