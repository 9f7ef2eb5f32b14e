// Why the scores are divided: what the softmax makes of them as queries and keys get wider.
import { softmax } from "../engine/formulas.js";
import { announcer, defineElement, dress, make, onceAFrame, printed, slider } from "./dom.js";

// data.scores: of one query with a few keys, as they are after the division, whatever the width.
function buildAttention(element, { scores, widths, start }) {
  const chosen = { place: widths.indexOf(start), divided: true };
  const most = { entropy: Math.log2(scores.length), slope: 1 - 1 / scores.length };
  make("p", element, `One query and ${scores.length} keys: change the width dₖ of their vectors, with ` +
    "and without the division, and watch the weights.");
  const row = make("div", element, null, { class: "unmasked-row" });
  slider(row, "width d\u2096", { min: 0, max: widths.length - 1, step: 1, value: chosen.place },
    (place) => change({ place }), (place) => String(widths[place]));
  const label = make("label", row);
  const box = make("input", label, null, { type: "checkbox", checked: true });
  box.addEventListener("change", () => change({ divided: box.checked }));
  label.append(" divide by √d\u2096");
  const stage = make("div", element);
  const say = announcer(element);
  make("p", element, "Bars that fade go on beyond the picture. The slope is Σ w (1 − w): how much the " +
    "weights change with the scores.", { class: "unmasked-note" });
  const details = make("details", element);
  make("summary", details, "Scores and weights in numbers");
  const list = make("ol", details);
  const redraw = onceAFrame(draw);

  function change(what) {
    Object.assign(chosen, what);
    redraw();
  }

  // The numbers at a width: scores as they come out, as they go into the softmax, and weights.
  function at(width, divided) {
    const raw = scores.map((score) => score * Math.sqrt(width));
    const used = divided ? scores : raw;
    return { raw, used, ...measured(softmax([...used])) };
  }

  function draw() {
    const { place, divided } = chosen, width = widths[place];
    const now = at(width, divided), kind = divided ? "divided" : "raw";
    const length = (score) => score / (3 * Math.max(...scores.map(Math.abs)));
    stage.replaceChildren();
    drawBars(stage, "scores q · k", now.raw, length, "plain");
    const treated = divided ? `divided by √${width}` : "not divided";
    drawBars(stage, `${treated}, into the softmax`, now.used, length, kind);
    drawBars(stage, "weights", now.weights, (weight) => weight, kind);
    const panels = make("div", stage, null, { class: "unmasked-row" });
    for (const [name, unit] of [["entropy", " bits"], ["slope", ""]]) {
      const lines = { divided: [], raw: [] };
      for (const each of widths) {
        lines.divided.push(at(each, true)[name]);
        lines.raw.push(at(each, false)[name]);
      }
      const title = `${name} ${printed(now[name])} of ${printed(most[name])}${unit}`;
      drawCurves(make("div", panels), title, { lines, widths, most: most[name], place, kind });
    }
    say(`Width ${width}, ${divided ? "divided" : "not divided"}: entropy ${printed(now.entropy)} of ` +
      `${printed(most.entropy)} bits, slope ${printed(now.slope)}. ` +
      `The largest weight is ${printed(Math.max(...now.weights))}.`);
    list.replaceChildren();
    now.used.forEach((score, i) => {
      make("li", list, `score ${printed(score)}, weight ${printed(now.weights[i], 3)}`);
    });
  }

  draw();
}

// How undecided weights are, in bits; and how much they change with their scores: Σ w (1 − w).
function measured(weights) {
  const total = (f) => weights.reduce((sum, weight) => sum + f(weight), 0);
  const entropy = total((w) => (w > 0 ? -w * Math.log2(w) : 0));
  return { weights, entropy, slope: total((w) => w * (1 - w)) };
}

// A bar for each key, up or down from zero: a `length` of 1 fills the picture, and more fades.
function drawBars(parent, title, values, length, kind) {
  const signed = values.some((value) => value < 0);
  const box = make("div", parent, null, { class: `unmasked-bars ${kind}`, "aria-hidden": "true",
    style: `grid-template-columns:repeat(${values.length},minmax(0,1fr))` });
  make("div", box, title, { class: "title" });
  values.forEach((value) => {
    const column = make("div", box, null, { class: signed ? "place signed" : "place" });
    const whole = signed ? 50 : 100, long = Math.min(Math.abs(length(value)), 1) * whole;
    const bottom = signed ? (value < 0 ? 50 - long : 50) : 0;
    const style = `bottom:${bottom.toFixed(2)}%;height:${long.toFixed(2)}%`;
    const beyond = Math.abs(length(value)) > 1;
    make("span", column, null, { style, class: beyond && (value < 0 ? "down" : "up") });
    make("small", box, printed(value, Math.abs(value) < 9.95 ? 2 : 1));
  });
}

// Two lines over the width, on an axis of its logarithm, and a mark at the one that is chosen.
function drawCurves(parent, title, { lines, widths, most, place, kind }) {
  const X = 34, Y = 10, W = 250, H = 84;
  const x = (i) => X + (i / (widths.length - 1)) * W, y = (value) => Y + H - (value / most) * H;
  const [first] = lines.raw, last = lines.raw.at(-1);
  make("div", parent, title);
  const picture = make("svg", parent, null, {
    class: "unmasked-curves", role: "img", width: 300, height: 120, viewBox: "0 0 300 120",
    "aria-label": `${title}. At any width it is ${printed(first)} if divided; if not, it falls to ` +
      `${printed(last)} at ${widths.at(-1)}.`,
  });
  make("path", picture, null, { class: "axis", d: `M${X} ${Y} V${Y + H} H${X + W}` });
  make("line", picture, null, { class: "axis", x1: x(place), x2: x(place), y1: Y, y2: Y + H });
  for (const value of [0, most]) {
    make("text", picture, Number(value.toFixed(2)), { x: X - 5, y: y(value) + 4, "text-anchor": "end" });
  }
  for (let i = 0; i < widths.length; i += 2) {
    make("text", picture, widths[i], { x: x(i), y: Y + H + 16, "text-anchor": "middle" });
  }
  for (const [name, values] of Object.entries(lines)) {
    const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    make("polyline", picture, null, { class: name, points });
  }
  make("text", picture, "divided", { x: X + W, y: y(first) + 15, "text-anchor": "end" });
  make("text", picture, "not divided", { x: X + W, y: Y + H - 12, "text-anchor": "end" });
  make("circle", picture, null, { class: kind, cx: x(place), cy: y(lines[kind][place]), r: 5 });
}

dress("@CSS@");
defineElement("unmasked-attention", buildAttention);
