// The translator: a sentence goes in with every key, and flows through the figure.

import { beam, generate, greedy, sample } from "../engine/search.js";
import { announcer, arrowKeys, button, choice, make, printed, slider } from "./dom.js";
import { Figure } from "./figure.js";
import { chancesOf, percent, showInside } from "./inside.js";
import { openModel } from "./loading.js";
import { NAMES, PARTS, measured, placeIn } from "./places.js";
import {
  EXAMPLES, MOST_LETTERS, MOST_TOKENS, fitted, fromHash, isBroken, newState, sourceOf, switchesOf, toHash,
} from "./state.js";
import { TOUR } from "./tour.js";
import { drawTree } from "./tree.js";
import { View, plainWord } from "./view.js";

const LANGUAGES = { "de-en": ["German", "English"], "en-de": ["English", "German"] };
const BEAM = 5;
const SLICE = 20; // milliseconds, in which the model runs; then the page has its turn

// `page` says which models there are, and where: { names, at, linked }.
export class Translator {
  constructor(box, page) {
    this.box = box;
    this.page = page;
    this.newest = 0; // the number of the newest run; older ones give up
  }

  // Resolves when the first translation is on the page.
  async start() {
    const linked = (address) => this.page.linked && fromHash(new URL(address).hash, this.page.names);
    await this.open(linked(location.href) || newState(this.page.names[0]));
    // The event's own address: meanwhile `writeHash` may have written another.
    window.addEventListener("hashchange", ({ newURL }) => linked(newURL) && this.turnTo(linked(newURL)));
  }

  // The newest call wins, and gives true. If its model cannot be loaded, what was there before stays.
  async open(state) {
    const mine = (this.opening = {});
    let failed = "";
    if (this.translator) this.tell("Loading the model …");
    try {
      const isOpen = state.model === this.state?.model;
      const translator = isOpen ? this.translator : await openModel(state.model, this.page.at);
      if (mine !== this.opening) return false;
      this.translator = translator;
      this.state = fitted(state, translator);
      this.view = this.before = null; // before: on the tour, what the reader had switched off
    } catch (error) {
      if (!this.translator) throw error;
      if (mine !== this.opening) return false;
      failed = `The other model could not be loaded: ${error.message}. Try again.`;
    }
    this.build();
    await this.run();
    if (failed) this.tell(failed);
    return true;
  }

  // --- The page ---------------------------------------------------------------------------------

  build() {
    const { box, state } = this;
    const [from, to] = LANGUAGES[state.model] ?? [], [source, target] = state.model.split("-");
    box.replaceChildren();
    if (this.page.names.length > 1) {
      const directions = this.page.names.map((name) => [name, LANGUAGES[name].join(" → ")]);
      choice(box, "Translate", directions, state.model, (name) => this.turnTo(newState(name), "[type=radio]:checked"));
    }
    const said = to ? `A caption in ${from}` : "A sentence";
    this.text = make("textarea", make("label", box, said), state.text, {
      rows: 2, maxlength: MOST_LETTERS, lang: to && source, spellcheck: "false",
      oninput: () => this.newText(this.text.value),
    });
    const examples = this.group(box, "examples", "unmasked-row unmasked-examples");
    for (const example of EXAMPLES[state.model] ?? []) {
      button(examples, example, () => this.newText((this.text.value = example)), { lang: source });
    }
    this.answers = this.group(box, "translation", "unmasked-answers");
    this.answers.tabIndex = 0; // it may scroll
    this.note = make("p", box, "", { role: "status", class: "unmasked-note" });
    this.say = announcer(box);
    this.chips = this.group(box, "What the encoder reads", "unmasked-tokens");
    this.tokens = this.group(box, "Token by token", "unmasked-tokens");
    if (to) [this.chips.lang, this.tokens.lang] = [source, target];
    for (const chips of [this.chips, this.tokens]) arrowKeys(chips, () => [[...chips.querySelectorAll("button")]]);

    const inside = make("div", box, null, { class: "unmasked-inside" });
    const figure = make("div", inside);
    const layers = Math.max(this.model.encoder.length, this.model.decoder.length);
    const numbers = Array.from({ length: layers }, (_, i) => [i + 1]);
    this.layers = choice(figure, "Show layer", numbers, state.layer, (layer) => this.look({ layer }));
    make("p", figure, `In a strip a row is a token, a speck one of its ${this.model.config.d_model} numbers: blue above zero, ` +
      "orange below. In attention dark is much. A switch acts in every layer.", { class: "unmasked-faint" });
    this.figure = new Figure(figure, this);
    this.panel = make("details", inside, null, { class: "unmasked-panel", "data-panel": "", open: true });
    this.heading = make("summary", this.panel);
    this.tourBox = this.group(this.panel, "tour", "unmasked-row unmasked-tour");
    this.content = make("div", this.panel);

    this.searching(make("details", box, null, { open: state.search !== "greedy" || state.begin !== "" }), to);
    button(make("p", box), "Reset", () => this.turnTo(newState(this.state.model)));
    if (!to) return;
    make("p", box, "A small model, trained on 29,000 image captions and nothing else. It has never seen a question, " +
      (state.model === "de-en" ? "stumbles over negation, " : "") + "reads everything in lower case, and gives odd " +
      "results for sentence fragments. For research and teaching. It was trained with all its parts, so a switch " +
      "shows what this model relies on, not what every Transformer needs.", { class: "unmasked-faint" });
  }

  get model() {
    return this.translator.model;
  }

  group(parent, name, kind) {
    return make("div", parent, null, { class: kind, role: "group", "aria-label": name });
  }

  searching(how, to) {
    const { state } = this;
    this.how = how;
    make("summary", how, "How the next token is chosen");
    const searches = [["greedy"], ["beam", `beam of ${BEAM}`], ["sample", "sampling"]];
    choice(how, "Search", searches, state.search, (search) => this.change({ search }));
    this.chance = make("div", how, null, { class: "unmasked-row" });
    const range = { min: 0.1, max: 3, step: 0.1, value: state.temperature };
    slider(this.chance, "temperature", range, (temperature) => this.change({ temperature }));
    button(this.chance, "Draw again", () => this.change({ seed: this.state.seed + 1 }));
    const begin = make("label", make("p", how), `The translation must begin with${to ? ` (in ${to})` : ""} `);
    const oninput = () => this.change({ begin: this.begin.value, forced: [] });
    this.begin = make("input", begin, null, { type: "text", maxlength: 200, oninput });
    this.tree = make("div", how);
    make("p", this.tree, "The beam's tree, one column per step, the likeliest beginning on top. A number is the " +
      "log-probability so far; in an orange box a sentence ends, and its number is the score after the length " +
      "penalty. The winner is bold.");
  }

  // --- What the reader does -----------------------------------------------------------------------

  // Another direction, what a link describes, or the beginning; and where the keyboard is then.
  async turnTo(state, focus = "textarea") {
    if (!(await this.open(state))) return;
    this.box.querySelector(focus).focus({ preventScroll: true });
    this.writeHash();
  }

  // What everybody should see, and not only hear: loading and errors.
  tell(words) {
    this.note.textContent = words;
  }

  // Something that the model has to compute again.
  change(what) {
    this.leaveTour();
    Object.assign(this.state, what);
    this.writeHash();
    return this.run();
  }

  // Something else to look at: the model does not run.
  look(what) {
    if (this.before) return this.change(what);
    Object.assign(this.state, what);
    this.writeHash();
    if (!this.view) return;
    this.figure.draw(this.view);
    if (what.at) this.panel.scrollTop = 0;
    this.showInside();
    this.say(this.heading.textContent);
  }

  // Puts something into one of the state's sets (off, heads, hidden), or takes it out.
  put(set, value, inside) {
    this.leaveTour();
    const values = new Set(this.state[set]);
    if (inside) values.add(value);
    else values.delete(value);
    this.change({ [set]: values });
  }

  newText(text) {
    this.change({ text, begin: "", forced: [], order: null, hidden: new Set() });
  }

  // Whether the panel shows what the reader has set, and not what was there before, while the model still runs.
  get isNew() {
    return this.shown === this.newest;
  }

  hide(position, hidden) {
    if (this.isNew) this.put("hidden", position, hidden);
  }

  // Every position but that of <eos> gets a new place.
  shuffle() {
    if (!this.isNew) return;
    const before = this.view.order.slice(0, -1);
    let order = before;
    while (String(order) === String(before) && before.length > 1) {
      order = before.map((position) => [Math.random(), position]).sort(([a], [b]) => a - b).map(([, position]) => position);
    }
    this.change({ order });
  }

  insteadOf(position, token) {
    if (!this.isNew) return;
    this.how.open = true; // where the forced beginning can be seen, and changed
    this.change({ begin: "", forced: [...this.view.tokens.slice(0, position), token] });
  }

  writeHash() {
    if (!this.page.linked) return;
    clearTimeout(this.writing);
    const set = () => ({ ...this.state, ...this.before });
    this.writing = setTimeout(() => history.replaceState(null, "", toHash(set(), this.translator.target)), 400);
  }

  // --- The tour -----------------------------------------------------------------------------------

  // Its steps switch things off and on; leaving it brings back what the reader had set.
  tourTo(number) {
    if (!this.view?.tokens.length) return;
    this.before ??= { off: this.state.off, heads: this.state.heads };
    this.tour = number;
    Object.assign(this.state, { off: new Set(), heads: new Set() }, TOUR[number - 1].set);
    this.run();
  }

  leaveTour() {
    Object.assign(this.state, this.before);
    this.before = null;
  }

  showTour() {
    const { tour, tourBox } = this;
    renew(tourBox, () => {
      if (!this.before) return button(tourBox, "Take the tour", () => this.tourTo(1));
      for (const [label, to] of [["Next", tour + 1], ["Back", tour - 1]]) {
        const isThere = to > 0 && to <= TOUR.length;
        button(tourBox, label, () => isThere && this.tourTo(to), { "aria-disabled": String(!isThere) });
      }
      button(tourBox, "Leave the tour", () => this.change({}));
      const said = make("span", tourBox, `${tour} of ${TOUR.length}. ${TOUR[tour - 1].say(this.view)}`);
      this.figure.boxes.find(({ place }) => place === this.state.at).button.scrollIntoView({ block: "nearest" });
      this.say(said.textContent);
    });
  }

  // --- Translating --------------------------------------------------------------------------------

  async run() {
    const mine = (this.newest += 1), givenUp = () => mine !== this.newest;
    try {
      const answer = await runInSlices(this.answer(), givenUp);
      if (!answer) return;
      this.view = new View(this.translator, this.state, answer);
      this.shown = mine;
      const { length } = this.translator.source.encode(this.state.text);
      this.tell(length > MOST_TOKENS ? `Of these ${length.toLocaleString("en")} tokens only the first ${MOST_TOKENS} are read.` : "");
      this.showAnswers();
      this.showFigure();
    } catch (error) {
      this.tell(error.message);
    }
  }

  // The translation, and `whole`, what the whole model writes.
  *answer() {
    const answer = yield* this.translation(switchesOf(this.state));
    const whole = isBroken(this.state) ? yield* this.translation({ hidden: new Set() }) : answer;
    return { ...answer, whole: whole.tokens };
  }

  // { tokens, steps, source, order, memory }, and of a beam its tree.
  *translation(off) {
    const source = sourceOf(this.state.text, this.translator), last = source.length - 1;
    const order = this.state.order ? [...this.state.order, last] : [...source.keys()];
    if (!last) return { tokens: [], steps: [], source, order };
    const hidden = new Set([...order.keys()].filter((place) => off.hidden.has(order[place])));
    const switches = { ...off, hidden };
    const memory = yield* this.model.encode(order.map((position) => source[position]), switches);
    return { ...(yield* this.search(memory, switches)), source, order, memory };
  }

  *search(memory, off) {
    const { search, temperature, seed, begin, forced } = this.state;
    const options = { off, prefix: begin ? this.translator.target.encode(begin) : forced };
    if (search === "sample") return yield* sample(this.model, memory, { ...options, temperature, seed });
    if (search === "greedy") return yield* greedy(this.model, memory, options);
    const alpha = this.translator.about?.length_penalty ?? 0.6;
    const found = yield* beam(this.model, memory, { ...options, width: BEAM, alpha });
    const along = (_, time) => found.tokens[time];
    const followed = yield* generate(this.model, memory, along, { ...options, limit: found.tokens.length });
    return { ...followed, nodes: found.nodes, best: found.best };
  }

  // --- What is shown ------------------------------------------------------------------------------

  showFigure() {
    this.figure.draw(this.view);
    this.showInside();
    this.showTour();
    this.chance.hidden = this.state.search !== "sample";
    const { begin, forced } = this.state;
    if (document.activeElement !== this.begin) this.begin.value = begin || this.translator.target.decode(forced);
    this.showTree();
  }

  showAnswers() {
    const { state: { text, off, heads, hidden }, translator: { source, target }, view } = this;
    this.answers.replaceChildren();
    const put = (title, tokens) => {
      const box = make("div", this.answers), words = target.decode(tokens);
      make("p", box, title, { class: "unmasked-label" });
      make("p", box, words || "…", { class: "unmasked-translation", lang: this.tokens.lang || null });
      return words && `${title}: “${words}”`;
    };
    if (!isBroken(this.state)) return this.say(put("Translation", view.tokens));
    const gone = [...off].map((part) => NAMES[part]);
    if (heads.size) gone.push(heads.size === 1 ? "1 head" : `${heads.size} heads`);
    const tokens = sourceOf(text, this.translator);
    gone.push(...[...hidden].map((place) => `“${plainWord(source.words[tokens[place]])}”`));
    const whole = put(off.size + heads.size ? "The whole model" : "With all tokens", view.whole);
    this.say(`${put(`Without ${gone.join(", ")}`, view.tokens)} ${whole}`);
  }

  // What depends on what is looked at.
  showInside() {
    const { view, state } = this, { at } = state;
    this.showTokens();
    const layers = this.layers.querySelectorAll("input");
    layers[Math.min(state.layer, layers.length) - 1].checked = true;
    const box = this.figure.boxes.find(({ place }) => place === at), { half } = box;
    const where = box.layered ? `, layer ${view.layer(half) + 1}` : "";
    const title = /^(memory|logits|.*cross)$/.test(at) ? box.title : `${half}: ${box.title}`;
    const token = half === "encoder" ? `“${view.word(half)}”` : `writing “${view.written}”`;
    this.heading.textContent = view.tokens.length ? `${title[0].toUpperCase()}${title.slice(1)}${where}, ${token}`
      : "Nothing to see yet: type a sentence.";
    renew(this.content, () => {
      if (!view.tokens.length) return;
      for (const part of state.off) {
        make("p", this.content, `Without ${NAMES[part]}: ${PARTS[part]}${measured(state.model, part)}`);
      }
      showInside(this.content, box, view, this);
    });
  }

  // The tokens of both halves, a button each.
  showTokens() {
    const { view, state } = this;
    const chances = (place) => percent(chancesOf(view.steps[place])[view.tokens[place]]);
    const isHidden = (place) => state.hidden.has(view.order[place]);
    const put = (box, half, title, words, more) => renew(box, () => {
      make("span", box, title);
      words.forEach((token, place) => {
        const word = plainWord(token), chosen = place === view.row(half);
        const act = () => this.look({ [half === "encoder" ? "token" : "step"]: place, at: placeIn(half, state.at) });
        button(box, word, act, {
          "aria-label": word + more(place), "aria-current": chosen ? "true" : null, tabindex: chosen ? 0 : -1,
          class: half === "encoder" && isHidden(place) ? "unmasked-hidden" : null,
        });
      });
    });
    put(this.chips, "encoder", "source", view.pieces.encoder, (place) => (isHidden(place) ? ", hidden" : ""));
    put(this.tokens, "decoder", "translation", view.chosen, (place) => `, ${chances(place)}`);
  }

  showTree() {
    const { nodes, best } = this.view;
    this.tree.hidden = !nodes;
    if (!nodes) return;
    const { words } = this.translator.target;
    const drawn = nodes.filter(({ became }) => became !== "dropped")
      .map((node) => ({ ...node, token: plainWord(words[node.token]) }));
    const score = printed(nodes[best].score);
    const label = `The beam's tree: ${drawn.length - 1} beginnings, the best ends with a score of ${score}.`;
    drawTree(this.tree, drawn, label).scrollLeft = 0;
  }
}

// Makes a part of the page anew. What has the focus in it, by its place, has it again.
function renew(part, fill) {
  const stops = () => [...part.querySelectorAll("button, input, summary, a, [tabindex]")];
  const place = stops().indexOf(document.activeElement);
  part.replaceChildren();
  fill();
  if (place >= 0) stops()[Math.min(place, stops().length - 1)]?.focus({ preventScroll: true });
}

// The result of a generator; or nothing, once `givenUp()` says that nobody waits for it any more.
async function runInSlices(generator, givenUp) {
  let end = performance.now() + SLICE;
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
    if (performance.now() < end) continue;
    await new Promise((resolve) => setTimeout(resolve));
    if (givenUp()) return undefined;
    end = performance.now() + SLICE;
  }
}
