// Attention weights as squares: a row a query, a column a key, darker where the weight is larger.

import { make } from "./dom.js";

const CELL = 24;

export function drawAttention(parent, { rows, queries, keys, selected, title }) {
  const left = 14 + 9.4 * Math.max(...queries.map((word) => word.length));
  const top = 16 + 6 * Math.max(...keys.map((word) => word.length));
  const width = left + CELL * keys.length + 10 + 6 * keys.at(-1).length,
    height = top + CELL * queries.length + 4;
  const said = rows.map((row, query) => {
    const key = row.indexOf(Math.max(...row));
    if (!row[key]) return `${queries[query]} reads nothing`;
    return `${queries[query]} reads ${keys[key]} ${Math.round(100 * row[key])}%`;
  });
  const box = make("div", parent, undefined, {
    class: "unmasked-scroll",
    tabindex: "0",
    role: "group",
    "aria-label": "attention map",
  });
  const svg = make("svg", box, undefined, {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `Cross-attention, ${title}: ${said.join(", ")}.`,
  });
  keys.forEach((word, key) => {
    const x = left + CELL * (key + 0.5);
    make("text", svg, word, { x, y: top - 6, transform: `rotate(-45 ${x} ${top - 6})` });
  });
  rows.forEach((row, query) => {
    const y = top + CELL * query;
    make("text", svg, queries[query], {
      x: left - 8,
      y: y + 16,
      "text-anchor": "end",
      "font-weight": query === selected ? "bold" : null,
    });
    row.forEach((weight, key) => {
      const cell = make("rect", svg, undefined, {
        x: left + CELL * key + 1,
        y: y + 1,
        width: CELL - 2,
        height: CELL - 2,
        rx: 3,
        fill: "rgb(64,150,220)",
        "fill-opacity": (0.06 + 0.94 * weight).toFixed(3),
      });
      make("title", cell, `${queries[query]} reads ${keys[key]}: ${(100 * weight).toFixed(0)}%`);
    });
    if (query === selected) {
      make("rect", svg, undefined, {
        x: left,
        y,
        width: CELL * keys.length,
        height: CELL,
        rx: 4,
        fill: "none",
        stroke: "currentColor",
        "stroke-width": 1.5,
      });
    }
  });
}
