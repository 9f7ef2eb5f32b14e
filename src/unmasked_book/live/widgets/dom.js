// What every live part of the book shares: making elements, keys, saying changes, replacing a figure; the styles.

make("style", document.head, "@CSS@");

// make("button", parent, "text", { class: "x", onclick: f }): functions become listeners.
export function make(tag, parent, text, attributes = {}) {
  const svg = tag === "svg" || parent instanceof SVGElement;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  node.textContent = text ?? "";
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value || value === 0 || value === "") node.setAttribute(name, value);
  }
  parent?.appendChild(node);
  return node;
}

export function button(parent, label, onclick, attributes) {
  return make("button", parent, label, { type: "button", onclick, ...attributes });
}

// A slider that shows its value: onchange gets the number.
export function slider(parent, label, { min, max, step, value }, onchange) {
  const box = make("label", parent, label + " ", { class: "unmasked-slider" });
  const oninput = () => {
    shown.textContent = input.value;
    onchange(Number(input.value));
  };
  const input = make("input", box, null, { type: "range", min, max, step, value, oninput });
  const shown = make("output", box, value, { "aria-hidden": "true" }); // the slider says it
  return input;
}

// One of several, as a row of radio buttons. `options`: [value, label], or [value] if it is its own label.
export function choice(parent, legend, options, chosen, onchange) {
  const box = make("fieldset", parent, null, { class: "unmasked-choice" });
  make("legend", box, legend);
  const name = "unmasked-" + Math.random().toString(36).slice(2);
  for (const [value, label = value] of options) {
    const line = make("label", box), checked = value === chosen;
    make("input", line, null, { type: "radio", name, value, checked, onchange: () => onchange(value) });
    line.append(` ${label}`);
  }
  return box;
}

const STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  Home: [0, -Infinity], End: [0, Infinity],
};

// Arrow keys lead through lines of elements, of which one is a tab stop: `linesNow()` gives them.
export function arrowKeys(parent, linesNow) {
  parent.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const lines = linesNow(), i = lines.findIndex((line) => line.includes(event.target));
    const line = lines[i + step[0]] ?? lines[i], j = lines[i].indexOf(event.target) + step[1];
    const next = line[Math.min(Math.max(j, 0), line.length - 1)];
    for (const one of lines.flat()) one.tabIndex = one === next ? 0 : -1;
    next.focus();
  });
}

// A number with a true minus, unless it is rounded to zero.
export function printed(value, digits = 2) {
  const text = value.toFixed(digits);
  return text.replace("-", Number(text) === 0 ? "" : "−");
}

// A region that a screen reader reads when it is written: politely, once things have come to rest.
// After a button, unlike a slider, there is nothing to wait for: pause 0.
export function announcer(parent, pause = 700) {
  const region = make("p", parent, "", { class: "unmasked-said", "aria-live": "polite", role: "status" });
  let timer = 0;
  return (words) => {
    clearTimeout(timer);
    const wait = region.textContent ? pause : 0; // the first at once: nothing moves later
    timer = setTimeout(() => (region.textContent = words), wait);
  };
}

// The figure that stands before an element and says the same without a script: it makes way on
// the screen, and stays for print.
function replaceFigure(element) {
  const figure = element.closest(".cell, .jp-Cell, #output-area")?.querySelector("img");
  if (!figure) return;
  figure.classList.add("unmasked-replaced");
  element.classList.add("unmasked-replacing");
  addEventListener("beforeprint", () => (figure.loading = "eager"));
}

// A custom element from a function that fills it: build(element, data). Its data is an attribute.
export function defineElement(name, build) {
  if (customElements.get(name)) return;
  customElements.define(
    name,
    class extends HTMLElement {
      connectedCallback() {
        if (this.dataset.ready) return;
        this.dataset.ready = "yes";
        replaceFigure(this);
        build(this, JSON.parse(this.getAttribute("data")));
      }
    },
  );
}
