// The translator's place in a page: after the click, and what is said if it cannot be loaded.

import { dress, make } from "./dom.js";
import { Translator } from "./translator.js";

dress("@CSS@");

// Fills the box that held the button; `page` is the data that came with it.
globalThis.unmaskedLive = async (box, page) => {
  const waiting = make("p", box, "Loading the model …", { role: "status" });
  const inner = make("div", null);
  try {
    await new Translator(inner, page).start();
  } catch (error) {
    waiting.textContent = `The model could not be loaded: ${error.message}. Try again.`;
    box.querySelectorAll("button").forEach((button) => (button.disabled = false));
    return;
  }
  box.replaceChildren(inner);
  box.dataset.ready = "yes";
  (inner.querySelector("textarea") || inner).focus({ preventScroll: true });
};
