// The translator's place in a page: after the click, and what is said if it cannot be loaded.

import { make } from "./dom.js";
import { Translator } from "./translator.js";

// Fills the box that held the button; `page` is the data that came with it.
globalThis.unmaskedLive = async (box, page) => {
  box.querySelector("[role=status]")?.remove(); // of an earlier try
  const waiting = make("p", box, "Loading the model …", { role: "status" });
  const inner = make("div", null, null, { class: "unmasked-translator unmasked-replacing" });
  try {
    box.translator = new Translator(inner, page);
    await box.translator.start();
  } catch (error) {
    waiting.textContent = `The model could not be loaded: ${error.message}. Try again.`;
    const button = box.querySelector("button");
    if (button) button.disabled = false;
    button?.focus();
    return;
  }
  const drawing = [...box.querySelectorAll(".unmasked-static")];
  for (const one of drawing) one.classList.add("unmasked-replaced");
  box.replaceChildren(...drawing, inner);
  box.dataset.ready = "yes";
  if (!page.linked) return;
  box.scrollIntoView({ block: "start" }); // there was a click
  inner.querySelector("textarea").focus({ preventScroll: true });
};
