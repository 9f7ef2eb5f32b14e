// The switches: parts of the model, and single heads.

import { make } from "./dom.js";
import { GROUPS, KINDS } from "./switches.js";

// Changes `state.off` and `state.heads`, and tells `changed`.
export function breakPanel(parent, model, state, changed) {
  make(
    "p",
    parent,
    "Switch a part off and compare. The model was trained with everything on, so this shows what this model " +
      "relies on, not what every Transformer needs. Trained without a part, it might manage without it.",
  );
  for (const { title, switches } of GROUPS) {
    const group = make("fieldset", parent);
    make("legend", group, title, { class: "unmasked-label" });
    for (const [part, [label, notice]] of Object.entries(switches)) {
      const line = make("p", group, undefined, { class: "unmasked-switch" });
      const box = make("input", make("label", line), undefined, {
        type: "checkbox",
        name: part,
        checked: !state.off.has(part),
      });
      box.after(" " + label);
      const note = make("span", line, notice, { class: "unmasked-notice", hidden: !state.off.has(part) });
      box.addEventListener("change", () => {
        if (box.checked) state.off.delete(part);
        else state.off.add(part);
        note.hidden = box.checked;
        changed();
      });
    }
  }
  headSwitches(parent, model, state, changed);
}

function headSwitches(parent, model, state, changed) {
  const { n_layers, n_decoder_layers, n_heads } = model.config;
  const depths = {
    encoder: n_layers,
    decoder: n_decoder_layers ?? n_layers,
    cross: n_decoder_layers ?? n_layers,
  };
  const group = make("fieldset", parent);
  make("legend", group, "Single heads", { class: "unmasked-label" });
  make(
    "p",
    group,
    "A silenced head adds nothing to its layer. (The layer's bias stays, so silencing all heads is not quite " +
      "the same as switching the attention off.)",
  );
  const grid = make("div", group, undefined, { class: "unmasked-heads" });
  const buttons = new Map();
  for (const [kind, title] of Object.entries(KINDS)) {
    const column = make("div", grid, undefined, { role: "group", "aria-label": title });
    make("div", column, title);
    for (let layer = 0; layer < depths[kind]; layer += 1) {
      const line = make("div", column, `layer ${layer + 1} `);
      for (let head = 0; head < n_heads; head += 1) {
        const name = `${kind} ${layer} ${head}`;
        const button = make("button", line, String(head + 1), {
          type: "button",
          "aria-label": `silence ${title}, layer ${layer + 1}, head ${head + 1}`,
          onclick: () => {
            if (!state.heads.delete(name)) state.heads.add(name);
            show();
            changed();
          },
        });
        buttons.set(name, button);
      }
    }
  }
  const line = make("p", group, undefined, { class: "unmasked-row" });
  make("button", line, "Silence four more at random", {
    type: "button",
    onclick: () => {
      const left = [...buttons.keys()].filter((name) => !state.heads.has(name));
      for (let n = 0; n < 4 && left.length; n += 1) {
        state.heads.add(left.splice(Math.floor(Math.random() * left.length), 1)[0]);
      }
      show();
      changed();
    },
  });
  make("button", line, "All heads on", {
    type: "button",
    onclick: () => {
      state.heads.clear();
      show();
      changed();
    },
  });
  const count = make("span", line);
  const show = () => {
    buttons.forEach((button, name) => button.setAttribute("aria-pressed", String(state.heads.has(name))));
    const silent = `${state.heads.size} of ${buttons.size} heads are silent.`;
    count.textContent = `${silent} How many can you silence before the sentence falls apart?`;
  };
  show();
}
