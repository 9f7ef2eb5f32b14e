// The translator: a sentence goes in with every key, and everything about its translation comes out.

import { beam, generate, greedy, sample, topTokens } from "../engine/search.js";
import { softmax } from "../engine/formulas.js";
import { EOS } from "../engine/tokenizer.js";
import { announcer, choice, field, make, printed, slider } from "./dom.js";
import { breakPanel } from "./breaking.js";
import { drawAttention } from "./heatmap.js";
import { openModel, isOpened } from "./loading.js";
import { runInSlices } from "./running.js";
import { MOST_LETTERS, examplesOf, fitted, fromHash, isBroken, newState, switchesOf, toHash } from "./state.js";
import { LABELS } from "./switches.js";
import { drawTree } from "./tree.js";

const LANGUAGES = { de: "German", en: "English" };
const BEAM = 5;
const MOST_DRAWN = 40; // rows and columns of a map: a translation that never ends has more

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
    if (this.page.linked) window.addEventListener("hashchange", () => this.follow());
    await this.open(linked || newState(this.page.model));
  }

  // A link to a state was followed, or the reader went back to one.
  follow() {
    clearTimeout(this.writing);
    const state = fromHash(location.hash, this.page.names);
    const same = state && this.state && !state.begin && toHash(state) === toHash(this.state);
    if (state && !same) this.open(state);
  }

  // The newest call wins. If its model cannot be loaded, what was there before stays.
  async open(state) {
    const mine = (this.opening = {});
    clearTimeout(this.writing);
    if (this.translator) this.tell("Loading the model …");
    try {
      const translator = await openModel(state.model, this.page.at);
      if (mine !== this.opening) return;
      this.translator = translator;
      this.state = fitted(state, translator);
      this.selected = this.answer = this.whole = null;
      this.typed = false;
    } catch (error) {
      if (!this.translator) throw error;
      if (mine !== this.opening) return;
      this.build();
      await this.run();
      if (mine !== this.opening) return;
      this.tell(`The other model could not be loaded: ${error.message}. Try again.`);
      return;
    }
    this.build();
    await this.run();
  }

  // Another direction; the keyboard stays on the choice.
  async turnTo(name) {
    await this.open(newState(name));
    this.box.querySelector("input[type=radio]:checked")?.focus();
    this.writeHash();
  }

  // --- The page ---------------------------------------------------------------------------------

  build() {
    const { box, state } = this;
    box.replaceChildren();
    const [from, to] = languagesOf(state.model);
    if (this.page.names.length > 1) {
      choice(box, "Translate", this.directions(), state.model, (name) => this.turnTo(name));
    }
    this.text = make(
      "textarea",
      make("label", box, `A caption in ${from}`, { class: "unmasked-wide" }),
      state.text,
      {
        rows: 2,
        maxlength: MOST_LETTERS,
        lang: state.model.split("-")[0],
        spellcheck: "false",
        oninput: () => this.newText(this.text.value),
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
    const shuffled = make("p", box, undefined, { class: "unmasked-row" });
    make("button", shuffled, "Shuffle the source", { type: "button", onclick: () => this.shuffle() });
    this.ordered = make("button", shuffled, "Back in order", {
      type: "button",
      onclick: () => this.state.order && this.change({ order: null }),
    });
    this.chips.lang = this.text.lang;

    this.answers = make("div", box, undefined, { class: "unmasked-answers" });
    this.note = make("p", box, "", { role: "status", class: "unmasked-note" });
    this.say = announcer(box);

    this.tokens = this.section("Token by token", "Choose one to see what else the model considered there.");
    this.tokens.lang = state.model.split("-")[1];
    this.alternatives = make("div", box, undefined, { class: "unmasked-alternatives" });

    const breaking = make("details", box, undefined, { open: Boolean(this.page.open) || isBroken(state) });
    make("summary", breaking, "Break it yourself");
    breakPanel(breaking, this.translator.model, state, () => this.change({}));

    const open = state.search !== "greedy" || state.forced.length > 0;
    const how = (this.how = make("details", box, undefined, { open }));
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
    make("span", this.chance, "Both languages share one vocabulary, so a high temperature can mix them.");
    this.begin = field(make("p", how), `The translation must begin with (in ${to})`, "input", {
      type: "text",
      maxlength: 200,
      oninput: () => this.force(this.begin.value),
    });
    this.tree = make("div", how);
    make(
      "p",
      this.tree,
      "The beam's tree, one column per step, the likeliest beginning on top. A number is the log-probability so " +
        "far; in an orange box a sentence ends, and its number is the score after the length penalty. The winner " +
        "is bold.",
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

    const end = make("p", box, undefined, { class: "unmasked-row" });
    make("button", end, "Reset", { type: "button", onclick: () => this.reset() });
    if (this.page.linked) {
      make("button", end, "Copy a link to this", {
        type: "button",
        onclick: () => this.copyLink(),
      });
    }
    make(
      "p",
      box,
      "A small model, trained on 29,000 image captions and nothing else. It has never seen a question, " +
        (state.model === "de-en" ? "stumbles over negation, " : "") +
        "reads everything in lower case, and gives odd results for sentence fragments. For research and teaching.",
      { class: "unmasked-faint" },
    );
  }

  directions() {
    return Object.fromEntries(
      this.page.names.map((name) => {
        const [from, to] = languagesOf(name);
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

  // What everybody should see, and not only hear: loading, errors, a link that was copied.
  tell(words) {
    this.note.textContent = words;
  }

  change(what, again = true) {
    Object.assign(this.state, what);
    if (what.text !== undefined) this.selected = null;
    if (again) this.run();
    else this.show();
    this.writeHash();
  }

  example(text) {
    this.text.value = text;
    this.newText(text);
  }

  // A beginning that was typed stays; one that was chosen belongs to the text before.
  newText(text) {
    const forced = this.typed ? this.state.forced : [];
    this.change({ text, forced, order: null, hidden: new Set() });
  }

  reset() {
    this.selected = this.answer = null;
    this.typed = false;
    this.state = newState(this.state.model);
    this.build();
    this.run();
    this.writeHash();
    this.box.querySelector("textarea").focus();
  }

  // Every position but that of <eos> gets a new place.
  shuffle() {
    if (!this.answer) return;
    const order = [...this.answer.source.keys()].slice(0, -1);
    const before = String(this.state.order || order);
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
      this.typed = true;
      this.change({ forced: this.translator.target.encode(words) });
    } catch (error) {
      this.tell(error.message);
    }
  }

  insteadOf(position, token) {
    this.selected = position;
    this.typed = false;
    this.how.open = true; // where the forced beginning can be seen, and changed
    const forced = [...this.answer.tokens.slice(0, position), token];
    this.begin.value = this.translator.target.decode(forced);
    this.change({ forced });
  }

  select(position) {
    this.selected = position === this.selected ? null : position;
    this.showTokens();
    this.showAlternatives();
    this.showMap();
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
      this.tell("The link is copied.");
    } catch {
      location.hash = toHash(this.state);
      this.tell("The link is in the address bar.");
    }
  }

  // --- Translating --------------------------------------------------------------------------------

  async run() {
    const mine = (this.turn += 1);
    const givenUp = () => mine !== this.turn;
    const { hidden } = this.state;
    try {
      const answer = await runInSlices(this.translation(switchesOf(this.state)), givenUp);
      const broken = answer && isBroken(this.state);
      const whole = broken ? await runInSlices(this.translation({ hidden }), givenUp) : answer;
      if (!whole || givenUp()) return;
      Object.assign(this, { answer, whole });
      this.show();
    } catch (error) {
      this.tell(error.message);
    }
  }

  // The source's positions in the order in which the encoder reads them.
  orderOf(source) {
    const last = source.length - 1;
    const { order } = this.state;
    const fits =
      order && order.length === last && new Set(order).size === last && order.every((i) => i < last);
    return fits ? [...order, last] : [...source.keys()];
  }

  // { tokens, steps, source, order }, and of a beam its tree.
  *translation(off) {
    const source = [...this.translator.source.encode(this.state.text), EOS];
    const order = this.orderOf(source);
    const found = source.length > 1 ? yield* this.search(source, order, off) : { tokens: [], steps: [] };
    return { ...found, source, order };
  }

  *search(source, order, off) {
    const { model } = this.translator;
    const { search, temperature, seed, forced } = this.state;
    const hidden = new Set([...order.keys()].filter((place) => off.hidden.has(order[place])));
    const switches = { ...off, hidden };
    const memory = yield* model.encode(
      order.map((position) => source[position]),
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
    const { target } = this.translator;
    const { answer, whole } = this;
    this.tell("");
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
    const { source, order } = this.answer;
    this.ordered.setAttribute("aria-disabled", String(!this.state.order));
    const chips = order.map((position) => {
      const hidden = this.state.hidden.has(position);
      const token = words[source[position]];
      const marked = { "aria-pressed": String(hidden), class: hidden ? "unmasked-hidden" : "" };
      return { token, marked, label: `hide ${plainWord(token)}`, act: () => this.hide(position) };
    });
    fillChips(this.chips, chips);
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
      this.sayAgain(text ? `Translation: “${text}”` : "");
      return;
    }
    const { off, heads } = this.state;
    const gone = [...off].map((part) => LABELS[part]);
    if (heads.size) gone.push(heads.size === 1 ? "1 head" : `${heads.size} heads`);
    const title = `Without ${gone.join(", ")}`;
    put("The whole model", whole);
    put(title, text);
    this.sayAgain(`${title}: “${text}” The whole model: “${whole}”`);
  }

  // Also when nothing has changed: that may be just the point. (A blank more makes it another text.)
  sayAgain(words) {
    this.said = this.said === words ? `${words}\u00a0` : words;
    this.say(this.said);
  }

  showTokens() {
    const words = this.translator.target.words;
    const chips = this.answer.tokens.map((token, position) => ({
      token: words[token],
      marked: { "aria-current": position === this.selected ? "true" : null },
      label: `${plainWord(words[token])}, ${percent(chancesOf(this.answer.steps[position])[token])}`,
      act: () => this.select(position),
    }));
    fillChips(this.tokens, chips);
  }

  showAlternatives() {
    const position = this.selected;
    const { tokens, steps } = this.answer;
    const words = this.translator.target.words;
    const box = this.alternatives;
    const focused = [...box.querySelectorAll("button")].indexOf(document.activeElement);
    box.replaceChildren();
    if (position === null || position >= tokens.length) return;
    const before = this.translator.target.decode(tokens.slice(0, position));
    make(
      "p",
      box,
      `${before ? `After “${before}”` : "At the beginning"} the model expects (choose one to make it say that):`,
    );
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
    const words = this.translator.target.words;
    const winners = new Set();
    for (let node = nodes[best]; node; node = nodes[node.parent]) winners.add(node.id);
    const drawn = nodes.map((node) => ({
      ...node,
      token: plainWord(words[node.token]),
      wins: winners.has(node.id),
      state: node.score === null ? "kept" : "finished",
    }));
    const score = printed(nodes[best].score);
    const label = `The beam's tree: ${nodes.length - 1} beginnings, the best ends with a score of ${score}.`;
    drawTree(this.tree, drawn, label).scrollLeft = 0;
  }

  showMap() {
    const { target, source } = this.translator;
    const { tokens, steps, order, source: read } = this.answer;
    const { n_heads } = this.translator.model.config;
    this.map.replaceChildren();
    if (!tokens.length) return;
    if (!steps[0].maps.cross.length) {
      make("p", this.map, "Cross-attention is switched off: nothing of the source is read.");
      return;
    }
    const length = read.length;
    const best = this.page.best[this.state.model] || [0, 0];
    const [layer, head] = this.state.head === "best" ? best : this.state.head.split(".").map(Number);
    const of = (weights, h) => weights.subarray(h * length, (h + 1) * length);
    const columns = Math.min(length, MOST_DRAWN);
    const rows = steps.slice(0, MOST_DRAWN).map(({ maps: { cross } }) => {
      if (this.state.head !== "mean") return of(cross[layer], head).subarray(0, columns);
      const all = cross.flatMap((weights) => Array.from({ length: n_heads }, (_, h) => of(weights, h)));
      return Float32Array.from(
        { length: columns },
        (_, key) => all.reduce((sum, row) => sum + row[key], 0) / all.length,
      );
    });
    drawAttention(this.map, {
      rows,
      queries: tokens.slice(0, MOST_DRAWN).map((token) => plainWord(target.words[token])),
      keys: order.slice(0, MOST_DRAWN).map((position) => plainWord(source.words[read[position]])),
      selected: this.selected,
      title: this.head.selectedOptions[0].textContent,
    });
    const most = Math.max(tokens.length, length);
    if (most > MOST_DRAWN) make("p", this.map, `Only the first ${MOST_DRAWN} of ${most} tokens are drawn.`);
    if ([...this.state.heads].some((name) => name.startsWith("cross"))) {
      make("p", this.map, "A silenced head still looks, as the map shows. Nobody listens to it.");
    }
  }
}

function languagesOf(name) {
  return name.split("-").map((code) => LANGUAGES[code] || code);
}

// Buttons in a row, one a token; pieces that go on a word stand closer. Keeps the keyboard's place.
function fillChips(box, chips) {
  const focused = [...box.children].indexOf(document.activeElement);
  box.replaceChildren();
  for (const { token, marked, label, act } of chips) {
    const attributes = { type: "button", "aria-label": label, onclick: act, ...marked };
    const chip = make("button", box, plainWord(token), attributes);
    chip.classList.toggle("unmasked-goes-on", !token.startsWith("▁") && !token.startsWith("<"));
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
  return chance >= 0.0995 ? `${Math.round(100 * chance)}%` : `${(100 * chance).toFixed(1)}%`;
}
