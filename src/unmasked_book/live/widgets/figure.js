// The figure: two columns of boxes, each a button that shows what is computed there, with its switch.

import { likeliest } from "../engine/search.js";
import { chancesOf, percent, shown } from "./inside.js";
import { arrowKeys, button, make } from "./dom.js";
import { NAMES, boxesOf } from "./places.js";
import { plainWord } from "./view.js";

const BLUE = [27, 127, 209], ORANGE = [217, 119, 43];
const TITLES = { encoder: "Encoder", decoder: "Decoder" };

export class Figure {
  constructor(parent, page) {
    this.boxes = [];
    this.page = page;
    const grid = make("div", parent, null, { class: "unmasked-halves" });
    for (const half of ["encoder", "decoder"]) this.half(grid, half, page.model);
  }

  half(grid, half, { config, encoderNorm }) {
    const column = make("div", grid, null, { class: "unmasked-half" });
    make("small", make("div", column, TITLES[half], { class: "unmasked-title" }), "on");
    const said = `${TITLES[half]}, from top to bottom: arrow keys`;
    const list = make("div", column, null, { role: "toolbar", "aria-orientation": "vertical", "aria-label": said });
    const lines = () => [...list.querySelectorAll(".unmasked-place")].map((line) => [...line.children]);
    arrowKeys(list, lines); // up and down through the boxes, to the right their switches
    let frame = list;
    for (const box of boxesOf(half, config.norm, Boolean(encoderNorm))) {
      if (box.layered && frame === list) frame = make("div", list, null, { class: "unmasked-layer" });
      if (!box.layered) frame = list;
      this.boxes.push({ ...box, ...this.row(frame, box) });
    }
    list.querySelector("button").tabIndex = 0;
  }

  row(parent, box) {
    const line = make("div", parent, null, { class: `unmasked-place ${box.kind}` });
    const opener = button(line, null, () => this.page.look({ at: box.place }), { tabindex: -1, "data-place": box.place });
    make("span", opener, box.title);
    const scale = make("small", opener), tag = ["tokens", "logits"].includes(box.kind) ? "em" : "canvas";
    const drawn = make(tag, opener, null, { "aria-hidden": "true" });
    const one = box.part && make("input", line, null, {
      type: "checkbox", role: "switch", tabindex: -1, "data-switch": box.part, checked: true,
      "aria-label": `${NAMES[box.part]}${["norms", "residuals", "feedForward"].includes(box.part) ? ", everywhere" : ""}`,
      onchange: () => this.page.put("off", box.part, !one.checked),
    });
    return { button: opener, scale, drawn, switch: one };
  }

  // The numbers at every place; the box that is open; and which switches are off.
  draw(view) {
    for (const box of this.boxes) {
      this.drawBox(box, view);
      box.button.setAttribute("aria-current", box.place === view.state.at);
      if (box.switch) box.switch.checked = !view.state.off.has(box.part);
    }
  }

  drawBox(box, view) {
    const { half, kind, drawn, scale } = box, row = view.row(half), last = half === "decoder" ? row : Infinity;
    if (kind === "tokens") {
      drawn.textContent = half === "encoder" ? `${view.words.encoder.length} tokens` : `last word: “${view.word(half)}”`;
    } else if (kind === "logits") {
      const chances = view.steps[row] && chancesOf(view.steps[row]);
      const best = chances && likeliest(view.steps[row].logits);
      drawn.textContent = chances ? `${plainWord(view.translator.target.words[best])} ${percent(chances[best])}` : "";
    } else if (kind === "attention") {
      scale.textContent = `${box.name === "cross" ? "of memory, " : ""}head ${view.head + 1}`;
      paint(drawn, view.weights(box), row, last);
    } else {
      const rows = view.all(half, view.named(box, kind === "feed-forward" ? "feed_forward.expand" : box.name));
      const largest = paint(drawn, rows, row, last);
      scale.textContent = largest ? `max ${shown(largest, largest < 9.5 ? 1 : 0)}` : "";
    }
  }
}

// Rows of numbers as a strip: blue above zero, orange below; `chosen` has a mark at its left, and rows
// after `last` are faint. Returns the largest number, which the strongest colour stands for.
function paint(canvas, rows, chosen, last) {
  const width = Math.max(1, ...rows.map((row) => row.length)), height = Math.max(1, rows.length), margin = width / 24;
  const context = canvas.getContext("2d");
  let largest = 0;
  for (const row of rows) for (const number of row) largest = Math.max(largest, Math.abs(number));
  canvas.width = Math.ceil(width + margin);
  canvas.height = height;
  const image = context.createImageData(canvas.width, height), shift = canvas.width - width;
  rows.forEach((row, y) => {
    for (let x = 0; x < canvas.width; x += 1) {
      const number = x < shift ? 0 : row[x - shift] || 0;
      const strong = x < shift ? Number(y === chosen) : Math.sqrt(Math.abs(number) / largest) * (y > last ? 0.25 : 1);
      image.data.set([...(number < 0 ? ORANGE : BLUE), 255 * strong || 0], 4 * (y * canvas.width + x));
    }
  });
  context.putImageData(image, 0, 0);
  return largest;
}
