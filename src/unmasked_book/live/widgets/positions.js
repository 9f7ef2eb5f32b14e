// Chapter 2: a position as the hands of clocks. Each pair of columns (sine, cosine) is one hand, which turns
// by its frequency ω at each step. A second hand stands δ steps further on.
import { announcer, choice, defineElement, make, printed, slider } from "./dom.js";

function frequencies(width) {
  return Array.from({ length: width / 2 }, (_, i) => 10000 ** ((-2 * i) / width));
}

// The dot product of any two rows that are `offset` steps apart.
function dotProduct(offset, width) {
  return frequencies(width).reduce((sum, omega) => sum + Math.cos(omega * offset), 0);
}

function fixed(x) {
  return printed(x, 3);
}

// The end of a hand: as on a clock, 0 is at the top and angles grow to the right.
function tip(angle, length = 1) {
  return [length * Math.sin(angle), -length * Math.cos(angle)];
}

// From one hand to the other: a spiral, in which whole turns can be counted.
function spiral(from, turn) {
  const steps = Math.ceil(8 * turn) + 1;
  const angles = Array.from({ length: steps + 1 }, (_, i) => (turn * i) / steps);
  return angles.map((angle) => tip(from + angle, 0.3 + 0.012 * angle)).join(" ");
}

function build(element, data) {
  const state = { width: data.widths[0], position: data.position, offset: data.offset };

  const set = (changes) => {
    Object.assign(state, changes);
    paint();
  };
  const ranged = (label, name) => slider(controls, label,
    { min: 0, max: data.last[name], step: 1, value: state[name] }, (value) => set({ [name]: value }));

  make("p", element, "Move the position: all the hands turn, but the angle between each pair "
    + "stays the same. Then move the offset.");
  const controls = make("div", element, null, { class: "unmasked-row" });
  ranged("Position p", "position");
  ranged("Offset δ", "offset");
  choice(controls, "Width d", data.widths.map((width) => [width]), state.width, (width) => set({ width }));
  const faces = make("div", element, null, { class: "up-clocks" });
  const legend = make("ul", element, null, { class: "unmasked-legend" });
  const lines = { here: "position p", there: "position p + δ", turn: "turned by ω · δ" };
  for (const [name, words] of Object.entries(lines)) make("li", legend, words, { class: `up-${name}` });
  const equation = make("p", element);
  const named = { role: "img", "aria-label": "The dot product over the offset" };
  const plot = make("svg", element, null, { class: "up-plot", ...named });
  const say = announcer(element);

  // One pair of columns: two hands, and what the pair adds to the dot product.
  function clock(omega, i, p, offset) {
    const box = make("figure", faces);
    const face = make("svg", box, null, { viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" });
    make("circle", face, null, { r: 1, class: "up-face" });
    const hands = {
      here: `0,0 ${tip(omega * p)}`,
      there: `0,0 ${tip(omega * (p + offset))}`,
      turn: spiral(omega * p, omega * offset),
    };
    for (const [name, points] of Object.entries(hands)) {
      make("polyline", face, null, { points, class: `up-hand up-${name}` });
    }
    const caption = make("figcaption", box), cosine = fixed(Math.cos(omega * offset));
    make("span", caption, `ω${"₀₁₂₃₄₅₆₇"[i]} = ${Number(omega.toPrecision(3))}`);
    make("span", caption, `ωδ = ${fixed(omega * offset)}`);
    make("span", caption, `cos = ${cosine}`);
    return cosine;
  }

  // Everything follows from width, position and offset.
  function paint() {
    const { width, position: p, offset } = state, omegas = frequencies(width);
    faces.textContent = "";
    const terms = omegas.map((omega, i) => clock(omega, i, p, offset)).join(" + ");
    const sum = fixed(dotProduct(offset, width));
    equation.textContent = `PE(${p}) · PE(${p + offset}) = ${terms.replaceAll("+ −", "− ")} = ${sum}`;
    drawCurve(width, offset);
    const angles = omegas.map((omega) => fixed(omega * offset)).join(", ");
    say(`From position ${p} to ${p + offset} the hands turn by ${angles} radians. `
      + `The dot product is ${sum}.`);
  }

  // In pixels, so that the text is as large on a phone.
  function drawCurve(width, offset) {
    const right = Math.max(plot.clientWidth, 200) - 6, left = 30, top = 26, bottom = 126;
    const deltas = Array.from({ length: 4 * data.last.offset + 1 }, (_, i) => i / 4);
    const values = deltas.map((delta) => dotProduct(delta, width));
    const least = Math.min(0, ...values);
    const x = (delta) => left + ((right - left) * delta) / data.last.offset;
    const y = (value) => bottom - ((bottom - top) * (value - least)) / (width / 2 - least);
    const write = (text, x, y, anchor) => make("text", plot, text, { x, y, "text-anchor": anchor });
    const line = (x1, y1, x2, y2) => make("line", plot, null, { x1, y1, x2, y2, class: "up-axis" });
    plot.textContent = "";
    plot.setAttribute("viewBox", `0 0 ${right + 6} 150`);
    write("dot product", 0, 13, "start");
    for (const value of [0, width / 2]) {
      line(left, y(value), right, y(value));
      write(value, left - 7, y(value) + 4, "end");
    }
    for (const delta of [0, data.last.offset]) write(delta, x(delta), 146, delta ? "end" : "middle");
    write("δ", (left + right) / 2, 146, "middle");
    line(x(offset), top, x(offset), bottom);
    const points = deltas.map((delta, i) => [x(delta), y(values[i])]).join(" ");
    make("polyline", plot, null, { points, class: "up-curve" });
    const mark = { cx: x(offset), cy: y(dotProduct(offset, width)), r: 5, class: "up-mark" };
    make("circle", plot, null, mark);
  }

  new ResizeObserver(paint).observe(plot); // and at first
}

defineElement("unmasked-positions", build);
