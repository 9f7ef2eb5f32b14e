// The translator: a sentence goes in with every key, and everything about its translation comes out.

import { beam, generate, greedy, sample, topTokens } from "../engine/search.js";
import { softmax } from "../engine/numbers.js";
import { EOS } from "../engine/tokenizer.js";
import { announcer, choice, field, make, slider } from "./dom.js";
import { breakPanel } from "./breaking.js";
import { drawAttention } from "./heatmap.js";
import { openModel, isOpened } from "./loading.js";
import { runInSlices } from "./running.js";
import { examplesOf, fromHash, isBroken, newState, switchesOf, toHash } from "./state.js";
import { LABELS } from "./switches.js";
import { drawTree } from "./tree.js";

const LANGUAGES = { de: "German", en: "English" };
const BEAM = 5;

// `page` says where things are: { model, names, megabytes, best, at, linked, open }.
export class Translator {
  constructor(box, page) {
    this.box = box;
    this.page = page;
    this.turn = 0; // the newest run; older ones give up
    this.selected = null; // a position of the translation
  }

  // Resolves when the first translation is on the page.
  async start() {
    const linked = this.page.linked ? fromHash(location.hash, this.page.names) : null;
    await this.open(linked || newState(this.page.model));
    window.addEventListener("hashchange", () => {
      const state = this.page.linked && fromHash(location.hash, this.page.names);
      if (!state || toHash(state) === toHash(this.state)) return;
      clearTimeout(this.writing);
      this.open(state);
    });
  }

  async open(state) {
    this.say?.("Loading the model …");
    this.translator = await openModel(state.model, this.page.at);
    this.state = state;
    if (state.begin) state.forced = this.translator.target.encode(state.begin);
    this.build();
    await this.run();
  }

  // --- The page ---------------------------------------------------------------------------------

  build() {
    const { box, state } = this;
    box.replaceChildren();
    const [from, to] = state.model.split("-").map((code) => LANGUAGES[code] || code);
    if (this.page.names.length > 1) {
      choice(box, "Translate", this.directions(), state.model, (name) => this.open(newState(name)));
    }
    this.text = make(
      "textarea",
      make("label", box, `A caption in ${from}`, { class: "unmasked-wide" }),
      state.text,
      {
        rows: 2,
        maxlength: 300,
        lang: state.model.split("-")[0],
        spellcheck: "false",
        oninput: () => this.change({ text: this.text.value, order: null, hidden: new Set(), forced: [] }),
      },
    );
    const examples = make("div", box, undefined, {
      class: "unmasked-row unmasked-examples",
      role: "group",
      "aria-label": "examples",
    });
    for (const example of examplesOf(state.model)) {
      make("button", examples, example, {
        type: "button",
        lang: this.text.lang,
        onclick: () => this.example(example),
      });
    }

    this.chips = this.section(`What the encoder reads`, "Click a token to hide it from the model.");
    this.shuffled = make("p", box, undefined, { class: "unmasked-row" });
    make("button", this.shuffled, "Shuffle the source", { type: "button", onclick: () => this.shuffle() });
    this.ordered = make("button", this.shuffled, "Back in order", {
      type: "button",
      onclick: () => this.change({ order: null }),
    });

    this.answers = make("div", box, undefined, { class: "unmasked-answers" });
    this.say = announcer(box);
    this.say(`The model is ready. Type a caption in ${from}.`);

    this.tokens = this.section("Token by token", "Choose one to see what else the model considered there.");
    this.alternatives = make("div", box, undefined, { class: "unmasked-alternatives" });

    const how = make("details", box, undefined, {
      open: state.search !== "greedy" || state.forced.length > 0,
    });
    make("summary", how, "How the next token is chosen");
    const searches = { greedy: "greedy", beam: `beam of ${BEAM}`, sample: "sampling" };
    choice(how, "Search", searches, state.search, (search) => this.change({ search }));
    this.chance = make("div", how, undefined, { class: "unmasked-row" });
    slider(
      this.chance,
      "temperature",
      { min: 0.1, max: 3, step: 0.1, value: state.temperature },
      (temperature) => this.change({ temperature }),
      (value) => value.toFixed(1),
    );
    make("button", this.chance, "Draw again", {
      type: "button",
      onclick: () => this.change({ seed: this.state.seed + 1 }),
    });
    this.begin = field(make("p", how), `The translation must begin with (in ${to})`, "input", {
      type: "text",
      maxlength: 200,
      oninput: () => this.force(this.begin.value),
    });
    this.tree = make("div", how);
    make(
      "p",
      this.tree,
      "The beam's tree, one column per step: the likeliest beginning on top, finished sentences in square " +
        "boxes, the winner in bold.",
    );

    const looking = make("details", box, undefined, { open: true });
    make("summary", looking, "Where it looks: cross-attention");
    this.head = field(looking, "Show", "select", {
      onchange: () => this.change({ head: this.head.value }, false),
    });
    this.headOptions();
    make(
      "p",
      looking,
      "Each row is the token being generated, each column a source token that it can read. The stronger the " +
        "colour of a square, the larger its weight.",
    );
    this.map = make("div", looking);

    const breaking = make("details", box, undefined, { open: Boolean(this.page.open) || isBroken(state) });
    make("summary", breaking, "Break it yourself");
    breakPanel(breaking, this.translator.model, state, () => this.change({}));

    const end = make("p", box, undefined, { class: "unmasked-row" });
    make("button", end, "Reset", { type: "button", onclick: () => this.reset() });
    if (this.page.linked) {
      this.link = make("button", end, "Copy a link to this", {
        type: "button",
        onclick: () => this.copyLink(),
      });
    }
    make(
      "p",
      box,
      "A small model, trained on image captions only: 29,000 of them. It knows no train stations and no negation, " +
        "reads everything in lower case, and half a sentence gives odd results. For research and teaching.",
      { class: "unmasked-faint" },
    );
  }

  directions() {
    return Object.fromEntries(
      this.page.names.map((name) => {
        const [from, to] = name.split("-").map((code) => LANGUAGES[code] || code);
        const more = isOpened(name) ? "" : ` (loads ${this.page.megabytes[name]} MB more)`;
        return [name, `${from} → ${to}${more}`];
      }),
    );
  }

  section(title, help) {
    const label = make("p", this.box, undefined, { class: "unmasked-label" });
    make("strong", label, title + ". ");
    label.append(help);
    return make("div", this.box, undefined, { class: "unmasked-tokens", role: "group", "aria-label": title });
  }

  headOptions() {
    const { n_layers, n_decoder_layers, n_heads } = this.translator.model.config;
    const [layer, head] = this.page.best[this.state.model] || [0, 0];
    make("option", this.head, `the head that aligns best (layer ${layer + 1}, head ${head + 1})`, {
      value: "best",
    });
    make("option", this.head, "the mean of all heads", { value: "mean" });
    for (let l = 0; l < (n_decoder_layers ?? n_layers); l += 1) {
      for (let h = 0; h < n_heads; h += 1)
        make("option", this.head, `layer ${l + 1}, head ${h + 1}`, { value: `${l}.${h}` });
    }
    this.head.value = this.state.head;
    if (!this.head.value) this.head.value = this.state.head = "best";
  }

  // --- What the reader does -----------------------------------------------------------------------

  change(what, again = true) {
    Object.assign(this.state, what);
    if (what.text !== undefined) this.selected = null;
    if (again) this.run();
    else this.show();
    this.writeHash();
  }

  example(text) {
    this.text.value = text;
    this.change({ text, order: null, hidden: new Set(), forced: [] });
  }

  reset() {
    this.selected = null;
    this.state = newState(this.state.model);
    this.build();
    this.run();
    this.writeHash();
    this.box.querySelector("textarea").focus();
  }

  // Every position but that of <eos> gets a new place.
  shuffle() {
    const order = [...this.source.keys()].slice(0, -1),
      before = String(this.state.order || order);
    for (
      let tries = 0;
      order.length > 1 && (tries === 0 || String(order) === before) && tries < 20;
      tries += 1
    ) {
      for (let i = order.length - 1; i > 0; i -= 1) {
        const j = Math.floor(Math.random() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
    }
    this.change({ order });
  }

  hide(position) {
    const hidden = new Set(this.state.hidden);
    if (!hidden.delete(position)) hidden.add(position);
    this.change({ hidden });
  }

  force(words) {
    try {
      this.change({ forced: this.translator.target.encode(words) });
    } catch (error) {
      this.say(error.message);
    }
  }

  insteadOf(position, token) {
    this.selected = position;
    const forced = [...this.answer.tokens.slice(0, position), token];
    this.begin.value = this.translator.target.decode(forced);
    this.change({ forced });
  }

  select(position) {
    this.selected = position;
    this.show();
  }

  writeHash() {
    if (!this.page.linked) return;
    clearTimeout(this.writing);
    this.writing = setTimeout(() => history.replaceState(null, "", toHash(this.state)), 400);
  }

  async copyLink() {
    const address = location.href.split("#")[0] + toHash(this.state);
    try {
      await navigator.clipboard.writeText(address);
      this.say("The link is copied.");
    } catch {
      location.hash = toHash(this.state);
      this.say("The link is in the address bar.");
    }
  }

  // --- Translating --------------------------------------------------------------------------------

  async run() {
    const mine = (this.turn += 1),
      givenUp = () => mine !== this.turn;
    try {
      this.source = [...this.translator.source.encode(this.state.text), EOS];
    } catch (error) {
      this.say(error.message);
      return;
    }
    const answer = await runInSlices(this.translation(switchesOf(this.state)), givenUp);
    const whole =
      answer && isBroken(this.state)
        ? await runInSlices(this.translation({ hidden: this.state.hidden }), givenUp)
        : answer;
    if (!whole || givenUp()) return;
    this.answer = answer;
    this.whole = whole;
    this.show();
    this.box.dispatchEvent(new CustomEvent("unmasked-translated"));
  }

  // The source's positions in the order in which the encoder reads them.
  order() {
    const last = this.source.length - 1,
      { order } = this.state;
    const fits =
      order && order.length === last && new Set(order).size === last && order.every((i) => i < last);
    return fits ? [...order, last] : [...this.source.keys()];
  }

  *translation(off) {
    const { model } = this.translator,
      { search, temperature, seed, forced } = this.state;
    if (this.source.length === 1) return { tokens: [], steps: [] };
    const order = this.order();
    const hidden = new Set([...order.keys()].filter((place) => off.hidden.has(order[place])));
    const switches = { ...off, hidden };
    const memory = yield* model.encode(
      order.map((position) => this.source[position]),
      switches,
    );
    const options = { off: switches, prefix: forced };
    if (search === "sample") return yield* sample(model, memory, { ...options, temperature, seed });
    if (search === "greedy") return yield* greedy(model, memory, options);
    const alpha = this.translator.about?.length_penalty ?? 0.6;
    const found = yield* beam(model, memory, { ...options, width: BEAM, alpha });
    const along = (_, time) => found.tokens[time];
    const followed = yield* generate(model, memory, along, { ...options, limit: found.tokens.length });
    return { ...followed, nodes: found.nodes, best: found.best };
  }

  // --- What is shown ------------------------------------------------------------------------------

  show() {
    if (!this.answer) return;
    const { target } = this.translator,
      { answer, whole } = this;
    this.showSource();
    const text = target.decode(answer.tokens);
    this.showAnswers(text, target.decode(whole.tokens));
    this.showTokens();
    this.showAlternatives();
    this.chance.hidden = this.state.search !== "sample";
    if (document.activeElement !== this.begin) this.begin.value = target.decode(this.state.forced);
    this.showTree();
    this.showMap();
  }

  showSource() {
    const words = this.translator.source.words;
    this.ordered.disabled = !this.state.order;
    const chips = this.order().map((position) => {
      const hidden = this.state.hidden.has(position),
        token = words[this.source[position]];
      return { token, pressed: hidden, label: `hide ${plainWord(token)}`, act: () => this.hide(position) };
    });
    fillChips(this.chips, chips, "unmasked-hidden");
  }

  showAnswers(text, whole) {
    this.answers.replaceChildren();
    const lang = this.state.model.split("-")[1];
    const put = (title, words) => {
      const box = make("div", this.answers);
      make("p", box, title, { class: "unmasked-label" });
      make("p", box, words || "…", { class: "unmasked-translation", lang });
    };
    if (!isBroken(this.state)) {
      put("Translation", text);
      this.say(text ? `Translation: “${text}”` : "");
      return;
    }
    const { off, heads } = this.state;
    const gone = [...off].map((part) => LABELS[part]);
    if (heads.size) gone.push(heads.size === 1 ? "1 head" : `${heads.size} heads`);
    const title = `Without ${gone.join(", ")}`;
    put("The whole model", whole);
    put(title, text);
    this.say(`${title}: “${text}” The whole model: “${whole}”`);
  }

  showTokens() {
    const words = this.translator.target.words;
    const chips = this.answer.tokens.map((token, position) => ({
      token: words[token],
      pressed: position === this.selected,
      label: `${plainWord(words[token])}, ${percent(chancesOf(this.answer.steps[position])[token])}`,
      act: () => this.select(position),
    }));
    fillChips(this.tokens, chips, "");
  }

  showAlternatives() {
    const position = this.selected,
      { tokens, steps } = this.answer,
      words = this.translator.target.words;
    const box = this.alternatives,
      focused = [...box.querySelectorAll("button")].indexOf(document.activeElement);
    box.replaceChildren();
    if (position === null || position >= tokens.length) return;
    const before = this.translator.target.decode(tokens.slice(0, position));
    make("p", box, before ? `After “${before}” the model expects:` : "At the beginning the model expects:");
    const chances = chancesOf(steps[position]);
    for (const token of topTokens(steps[position].logits, 5)) {
      const button = make("button", box, undefined, {
        type: "button",
        "aria-pressed": String(token === tokens[position]),
        onclick: () => this.insteadOf(position, token),
      });
      make("span", button, plainWord(words[token]), { class: "unmasked-word" });
      make("span", button, undefined, {
        class: "unmasked-bar",
        style: `width:${(45 * chances[token]).toFixed(1)}%`,
      });
      make("span", button, percent(chances[token]), { class: "unmasked-percent" });
    }
    if (focused >= 0) box.querySelectorAll("button")[focused]?.focus();
  }

  showTree() {
    const { nodes, best } = this.answer;
    this.tree.hidden = !nodes;
    if (!nodes) return;
    const words = this.translator.target.words,
      winners = new Set();
    for (let node = nodes[best]; node; node = nodes[node.parent]) winners.add(node.id);
    const parents = new Set(nodes.map(({ parent }) => parent));
    const drawn = nodes.map((node) => ({
      ...node,
      token: plainWord(words[node.token]),
      wins: winners.has(node.id),
      state: node.score !== null ? "finished" : parents.has(node.id) ? "kept" : "dropped",
    }));
    const score = nodes[best].score.toFixed(2);
    const label = `The beam's tree: ${nodes.length} beginnings, the best ends with a score of ${score}.`;
    drawTree(this.tree, drawn, { label });
    this.tree.querySelector(".unmasked-tree").scrollLeft = 0;
  }

  showMap() {
    const { target, source } = this.translator,
      { tokens, steps } = this.answer;
    const { n_heads } = this.translator.model.config;
    this.map.replaceChildren();
    if (!tokens.length) return;
    if (!steps[0].maps.cross.length) {
      make("p", this.map, "Cross-attention is switched off: nothing of the source is read.");
      return;
    }
    const length = this.source.length;
    const best = this.page.best[this.state.model] || [0, 0];
    const [layer, head] = this.state.head === "best" ? best : this.state.head.split(".").map(Number);
    const of = (weights, h) => weights.subarray(h * length, (h + 1) * length);
    const rows = steps.map(({ maps: { cross } }) => {
      if (this.state.head !== "mean") return of(cross[layer], head);
      const all = cross.flatMap((weights) => Array.from({ length: n_heads }, (_, h) => of(weights, h)));
      return Float32Array.from(
        { length },
        (_, key) => all.reduce((sum, row) => sum + row[key], 0) / all.length,
      );
    });
    drawAttention(this.map, {
      rows,
      queries: tokens.map((token) => plainWord(target.words[token])),
      keys: this.order().map((position) => plainWord(source.words[this.source[position]])),
      selected: this.selected,
      title: this.head.selectedOptions[0].textContent,
    });
  }
}

// Buttons in a row, one a token; pieces that go on a word stand closer. Keeps the keyboard's place.
function fillChips(box, chips, pressedClass) {
  const focused = [...box.children].indexOf(document.activeElement);
  box.replaceChildren();
  for (const { token, pressed, label, act } of chips) {
    const goesOn = !token.startsWith("▁") && !token.startsWith("<");
    make("button", box, plainWord(token), {
      type: "button",
      "aria-pressed": String(pressed),
      "aria-label": label,
      onclick: act,
      class: [goesOn ? "unmasked-goes-on" : "", pressed ? pressedClass : ""].join(" ").trim() || null,
    });
  }
  if (focused >= 0) box.children[Math.min(focused, box.children.length - 1)]?.focus();
}

function chancesOf(step) {
  step.chances = step.chances || softmax(Float64Array.from(step.logits));
  return step.chances;
}

function plainWord(token) {
  return token.replace(/^▁/, "") || "▁";
}

function percent(chance) {
  return chance >= 0.0995 ? `${Math.round(100 * chance)} %` : `${(100 * chance).toFixed(1)} %`;
}
