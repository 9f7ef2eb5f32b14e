// What every live part of the book shares: making elements, saying changes, replacing a figure.

// make("button", parent, "text", { class: "x", onclick: f }): functions become listeners.
export function make(tag, parent, text, attributes) {
  const svg = tag === "svg" || parent instanceof SVGElement;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  node.textContent = text ?? "";
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  if (parent) parent.appendChild(node);
  return node;
}

export function button(parent, label, onclick, attributes) {
  return make("button", parent, label, { type: "button", onclick, ...attributes });
}

// A slider that shows its value: onchange gets the number. `said` makes the words beside it.
export function slider(parent, label, { min, max, step, value }, onchange, said = String) {
  const box = make("label", parent, label + " ", { class: "unmasked-slider" });
  const input = make("input", box, undefined, { type: "range", min, max, step, value });
  const shown = make("output", box, said(Number(value)), { "aria-hidden": "true" }); // the slider says it
  const tell = () => {
    shown.textContent = said(Number(input.value));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    tell();
    onchange(Number(input.value));
  });
  tell();
  return input;
}

// One of several, as a row of radio buttons. `options`: [value, label], or [value] if it is its own label.
export function choice(parent, legend, options, chosen, onchange) {
  const box = make("fieldset", parent, undefined, { class: "unmasked-choice" });
  make("legend", box, legend);
  const name = "unmasked-" + Math.random().toString(36).slice(2);
  for (const [value, label = value] of options) {
    const line = make("label", box), checked = value === chosen;
    make("input", line, undefined, { type: "radio", name, value, checked, onchange: () => onchange(value) });
    line.append(` ${label}`);
  }
  return box;
}

// A number with a true minus, unless it is rounded to zero.
export function printed(value, digits = 2) {
  const text = value.toFixed(digits);
  return text.replace("-", Number(text) === 0 ? "" : "−");
}

// A region that a screen reader reads when it changes: politely, once things have come to rest.
// After a button, unlike a slider, there is nothing to wait for: pause 0.
export function announcer(parent, pause = 700) {
  const region = make("p", parent, "", { class: "unmasked-said", "aria-live": "polite", role: "status" });
  let timer = 0;
  return (words) => {
    clearTimeout(timer);
    const tell = () => {
      if (region.textContent !== words) region.textContent = words;
    };
    timer = setTimeout(tell, region.textContent ? pause : 0); // the first at once: nothing moves later
  };
}

// Draws at most once a frame, however often it is asked.
export function onceAFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// A style, once a document.
export function dress(css) {
  const styles = [...document.querySelectorAll("style[data-unmasked-live]")];
  if (styles.some(({ textContent }) => textContent === css)) return;
  make("style", document.head, css, { "data-unmasked-live": "" });
}

// The figure that stands before an element and says the same without a script: it makes way on
// the screen, and stays for print.
function replaceFigure(element) {
  for (let box = element.parentElement, up = 0; box && up < 6; box = box.parentElement, up += 1) {
    const figure = box.querySelector("img");
    if (figure && figure.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) {
      figure.classList.add("unmasked-replaced");
      element.classList.add("unmasked-replacing");
      addEventListener("beforeprint", () => (figure.loading = "eager"));
      return;
    }
    if (box.matches(".cell, .jp-Cell, article, body")) return;
  }
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
        build(this, JSON.parse(this.getAttribute("data") || "{}"));
      }
    },
  );
}
