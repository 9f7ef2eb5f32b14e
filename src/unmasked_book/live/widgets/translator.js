// The translator: a sentence goes in with every key, and flows through the figure.

import { beam, generate, greedy, sample } from "../engine/search.js";
import { EOS } from "../engine/tokenizer.js";
import { announcer, button, choice, make, onceAFrame, printed, slider } from "./dom.js";
import { Figure } from "./figure.js";
import { chancesOf, percent, showInside } from "./inside.js";
import { openModel, isOpened } from "./loading.js";
import { NAMES, PARTS, placeIn } from "./places.js";
import { runInSlices } from "./running.js";
import {
  MOST_LETTERS, MOST_TOKENS, examplesOf, fitted, fromHash, isBroken, newState, switchesOf, toHash,
} from "./state.js";
import { TOUR } from "./tour.js";
import { drawTree } from "./tree.js";
import { View, plainWord } from "./view.js";

const LANGUAGES = { de: "German", en: "English" };
const BEAM = 5;

// `page` says where things are: { model, names, megabytes, first, worth, at, linked }.
export class Translator {
  constructor(box, page) {
    this.box = box;
    this.page = page;
    this.newest = 0; // the number of the newest run; older ones give up
    this.showRest = onceAFrame(() => this.showFigure());
  }

  // Resolves when the first translation is on the page.
  async start() {
    const linked = this.page.linked ? fromHash(location.hash, this.page.names) : null;
    await this.open(linked || newState(this.page.model));
    if (this.page.linked) window.addEventListener("hashchange", () => this.follow());
  }

  // A link to a state was followed, or the reader went back to one.
  follow() {
    clearTimeout(this.writing);
    const state = fromHash(location.hash, this.page.names);
    const same = state && this.state && !state.begin && toHash(state) === this.hash();
    if (state && !same) this.open(state).then((done) => done && this.text.focus({ preventScroll: true }));
  }

  // The newest call wins, and gives true. If its model cannot be loaded, what was there before stays.
  async open(state) {
    const mine = (this.opening = {});
    clearTimeout(this.writing);
    if (this.translator) this.tell("Loading the model …");
    let failed = "", tour = 0;
    try {
      const translator = await openModel(state.model, this.page.at);
      if (mine !== this.opening) return false;
      this.translator = translator;
      this.begins(state);
      [tour, this.state.tour] = [this.state.tour, 0];
    } catch (error) {
      if (!this.translator) throw error;
      failed = `The other model could not be loaded: ${error.message}. Try again.`;
    }
    if (mine !== this.opening) return false;
    this.build();
    await this.run();
    if (mine !== this.opening) return false;
    if (failed) this.tell(failed);
    else if (tour) this.tourTo(Math.min(tour, TOUR.length));
    return true;
  }

  begins(state) {
    this.state = fitted(state, this.translator, this.page.first[state.model]);
    this.view = this.wholeOf = this.before = null;
    this.typed = false;
  }

  // Another direction; the keyboard stays on the choice.
  async turnTo(name) {
    if (!(await this.open(newState(name)))) return;
    this.box.querySelector("input[type=radio]:checked")?.focus();
    this.writeHash();
  }

  // --- The page ---------------------------------------------------------------------------------

  build() {
    const { box, state } = this;
    const [from, to] = languagesOf(state.model), [source, target] = state.model.split("-");
    box.replaceChildren();
    if (this.page.names.length > 1) {
      choice(box, "Translate", this.directions(), state.model, (name) => this.turnTo(name));
    }
    const said = to ? `A caption in ${from}` : "A sentence";
    this.text = make("textarea", make("label", box, said, { class: "unmasked-wide" }), state.text, {
      rows: 2, maxlength: MOST_LETTERS, lang: to && source, spellcheck: "false",
      oninput: () => this.newText(this.text.value),
      onfocus: () => box.classList.add("unmasked-typing"),
      onblur: () => setTimeout(() => box.classList.remove("unmasked-typing"), 300), // a tap first reaches what it hit
    });
    const examples = this.group(box, "examples", "unmasked-row unmasked-examples");
    for (const example of examplesOf(state.model)) {
      button(examples, example, () => this.newText((this.text.value = example)), { lang: source });
    }
    this.answers = this.group(box, "translation", "unmasked-answers");
    this.answers.tabIndex = 0; // it may scroll
    this.note = make("p", box, "", { role: "status", class: "unmasked-note" });
    this.say = announcer(box);
    this.chips = this.group(box, "What the encoder reads", "unmasked-tokens");
    this.tokens = this.group(box, "Token by token", "unmasked-tokens");
    if (to) [this.chips.lang, this.tokens.lang] = [source, target];
    const steps = make("div", box, undefined, { class: "unmasked-row unmasked-steps" });
    this.back = button(steps, "‹", () => this.go(-1), { "aria-label": "one word back" });
    this.count = make("span", steps);
    this.next = button(steps, "›", () => this.go(1), { "aria-label": "one word on" });

    const inside = make("div", box, undefined, { class: "unmasked-inside" });
    const figure = make("div", inside);
    const layers = Math.max(this.model.encoder.length, this.model.decoder.length);
    const numbers = Array.from({ length: layers }, (_, i) => [i + 1]);
    this.layers = choice(figure, "Show layer", numbers, state.layer, (layer) => this.look({ layer }));
    make("p", figure, `In a strip a row is a token, a speck one of its ${this.model.config.d_model} numbers: blue above zero, ` +
      "orange below. In attention dark is much. A switch acts in every layer.", { class: "unmasked-faint" });
    this.figure = new Figure(figure, this.model, {
      select: (at) => this.look({ at }),
      turn: (part, on) => this.put("off", part, !on),
    });
    this.panel = make("details", inside, undefined, { class: "unmasked-panel", "data-panel": "", open: true });
    this.heading = make("summary", this.panel);
    this.tourBox = this.group(this.panel, "tour", "unmasked-row unmasked-tour");
    this.content = make("div", this.panel);

    this.searching(make("details", box, undefined, { open: state.search !== "greedy" || state.forced.length > 0 }), to);
    const end = make("p", box, undefined, { class: "unmasked-row" });
    button(end, "Reset", () => this.reset());
    if (this.page.linked) button(end, "Copy a link to this", () => this.copyLink());
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
    return make("div", parent, undefined, { class: kind, role: "group", "aria-label": name });
  }

  searching(how, to) {
    const { state } = this;
    this.how = how;
    make("summary", how, "How the next token is chosen");
    const searches = [["greedy"], ["beam", `beam of ${BEAM}`], ["sample", "sampling"]];
    choice(how, "Search", searches, state.search, (search) => this.change({ search }));
    this.chance = make("div", how, undefined, { class: "unmasked-row" });
    const range = { min: 0.1, max: 3, step: 0.1, value: state.temperature };
    slider(this.chance, "temperature", range, (temperature) => this.change({ temperature }), (value) => value.toFixed(1));
    button(this.chance, "Draw again", () => this.change({ seed: this.state.seed + 1 }));
    const begin = make("label", make("p", how), `The translation must begin with${to ? ` (in ${to})` : ""} `);
    const force = () => this.force(this.begin.value);
    this.begin = make("input", begin, null, { type: "text", maxlength: 200, oninput: force });
    this.tree = make("div", how);
    make("p", this.tree, "The beam's tree, one column per step, the likeliest beginning on top. A number is the " +
      "log-probability so far; in an orange box a sentence ends, and its number is the score after the length " +
      "penalty. The winner is bold.");
  }

  directions() {
    return this.page.names.map((name) => {
      const more = isOpened(name) ? "" : ` (loads ${this.page.megabytes[name]} MB more)`;
      return [name, languagesOf(name).join(" → ") + more];
    });
  }

  // --- What the reader does -----------------------------------------------------------------------

  // What everybody should see, and not only hear: loading, errors, a link that was copied.
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
    const redraw = this.before || Object.keys(what).some((name) => name !== "at");
    const { at, layer, head, token, step } = this.state;
    this.leaveTour();
    if (Object.keys(what).length) Object.assign(this.state, { at, layer, head, token, step }, what); // not back to before
    this.writeHash();
    if (!this.view) return;
    if (redraw) this.figure.draw(this.view);
    this.showInside(true);
  }

  // Puts something into one of the state's sets (off, heads, hidden), or takes it out.
  put(set, value, inside) {
    this.leaveTour();
    const values = new Set(this.state[set]);
    if (inside) values.add(value);
    else values.delete(value);
    this.change({ [set]: values });
  }

  go(by) {
    if (!this.view) return;
    const step = this.view.row("decoder") + by;
    if (step >= 0 && step < this.view.tokens.length) this.look({ step, at: placeIn("decoder", this.state.at) });
  }

  // A beginning that was typed stays; one that was chosen belongs to the text before.
  newText(text) {
    const forced = this.typed ? this.state.forced : [];
    this.change({ text, forced, order: null, hidden: new Set() });
  }

  reset() {
    this.begins(newState(this.state.model));
    this.build();
    this.run();
    this.writeHash();
    this.text.focus({ preventScroll: true });
  }

  // Every position but that of <eos> gets a new place.
  shuffle() {
    const order = [...this.view.source.keys()].slice(0, -1);
    const before = String(this.state.order || order);
    for (let tries = 0; order.length > 1 && (tries === 0 || String(order) === before) && tries < 20; tries += 1) {
      for (let i = order.length - 1; i > 0; i -= 1) {
        const j = Math.floor(Math.random() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
    }
    this.change({ order });
  }

  force(words) {
    try {
      this.typed = true;
      this.change({ forced: this.translator.target.encode(words).slice(0, MOST_TOKENS) });
    } catch (error) {
      this.tell(error.message);
    }
  }

  insteadOf(position, token) {
    this.typed = false;
    this.how.open = true; // where the forced beginning can be seen, and changed
    this.change({ forced: [...this.view.tokens.slice(0, position), token] });
  }

  writeHash() {
    if (!this.page.linked) return;
    clearTimeout(this.writing);
    this.writing = setTimeout(() => history.replaceState(null, "", this.hash()), 400);
  }

  // What the reader has set, also on the tour.
  hash() {
    return toHash({ ...(this.before ?? this.state), tour: this.state.tour });
  }

  async copyLink() {
    const address = location.href.split("#")[0] + this.hash();
    try {
      await navigator.clipboard.writeText(address);
      this.tell("The link is copied.");
    } catch {
      location.hash = this.hash();
      this.tell("The link is in the address bar.");
    }
  }

  // --- The tour -----------------------------------------------------------------------------------

  // Its steps change the state; leaving it brings back what the reader had set.
  async tourTo(number) {
    this.before = this.before || { ...this.state, tour: 0 };
    const { at, layer, step, first, off, pick } = TOUR[number - 1], { before } = this;
    const [firstLayer, firstHead] = this.page.first[this.state.model] || [1, 1];
    Object.assign(this.state, before, { at, off: new Set(off ? [off] : []), heads: new Set() });
    if (first) Object.assign(this.state, { layer: firstLayer, head: firstHead });
    for (const [name, value] of Object.entries({ layer, step })) if (value) this.state[name] = value;
    if (this.view?.asked !== asked(this.state)) await this.run();
    if (this.before !== before || this.view?.asked !== asked(this.state)) return;
    if (!this.view.tokens.length) return this.leaveTour();
    this.state.tour = number;
    if (pick) Object.assign(this.state, pick(this.view));
    this.writeHash();
    this.showFigure();
    this.figure.boxes.find(({ place }) => place === at).button.scrollIntoView({ block: "nearest" });
    this.say(this.tourBox.querySelector("span").textContent);
  }

  leaveTour() {
    if (!this.before) return;
    Object.assign(this.state, this.before);
    this.before = null;
    if (this.view?.asked !== asked(this.state)) this.run();
    this.showTour();
  }

  showTour() {
    const { tour } = this.state, focused = this.tourBox.contains(document.activeElement);
    this.tourBox.replaceChildren();
    if (!tour) {
      const start = button(this.tourBox, "Take the tour", () => this.tourTo(1));
      if (focused) start.focus();
      return;
    }
    const step = (label, to) => button(this.tourBox, label, () => TOUR[to - 1] && this.tourTo(to),
      { "aria-disabled": String(!TOUR[to - 1]) });
    const next = step("Next", tour + 1);
    step("Back", tour - 1);
    const leave = button(this.tourBox, "Leave the tour", () => this.look({}));
    make("span", this.tourBox, `${tour} of ${TOUR.length}. ${TOUR[tour - 1].say(this.view)}`);
    if (focused) (tour < TOUR.length ? next : leave).focus();
  }

  // --- Translating --------------------------------------------------------------------------------

  async run() {
    const mine = (this.newest += 1), mineAsked = asked(this.state);
    const givenUp = () => mine !== this.newest;
    try {
      const broken = isBroken(this.state);
      const answer = await runInSlices(this.translation(switchesOf(this.state)), givenUp, (tokens) => {
        if (broken && typeof tokens[0] === "number") this.showAnswers(`${this.translator.target.decode(tokens)} …`);
      });
      if (!answer || givenUp()) return;
      const whole = wholeAsked(this.state);
      if (!broken) this.wholeOf = { asked: whole, tokens: answer.tokens };
      if (this.wholeOf?.asked !== whole) {
        const found = await runInSlices(this.translation({ hidden: new Set() }), givenUp);
        if (!found || givenUp()) return;
        this.wholeOf = { asked: whole, tokens: found.tokens };
      }
      this.view = new View(this.translator, this.state, { ...answer, asked: mineAsked });
      this.show();
    } catch (error) {
      this.tell(error.message);
    }
  }

  // The source's positions in the order in which the encoder reads them.
  orderOf(source) {
    const { order } = this.state, last = source.length - 1;
    const fits = order?.length === last && new Set(order).size === last && order.every((i) => i < last);
    return fits ? [...order, last] : [...source.keys()];
  }

  // { tokens, steps, source, order, memory }, and of a beam its tree.
  *translation(off) {
    const all = this.translator.source.encode(this.state.text), source = [...all.slice(0, MOST_TOKENS), EOS];
    const order = this.orderOf(source), cut = all.length > MOST_TOKENS ? all.length : 0;
    if (source.length === 1) return { tokens: [], steps: [], source, order, cut };
    const hidden = new Set([...order.keys()].filter((place) => off.hidden.has(order[place])));
    const switches = { ...off, hidden };
    const memory = yield* this.model.encode(order.map((position) => source[position]), switches);
    return { ...(yield* this.search(memory, switches)), source, order, memory, cut };
  }

  *search(memory, off) {
    const { search, temperature, seed, forced } = this.state;
    const options = { off, prefix: forced };
    if (search === "sample") return yield* sample(this.model, memory, { ...options, temperature, seed });
    if (search === "greedy") return yield* greedy(this.model, memory, options);
    const alpha = this.translator.about?.length_penalty ?? 0.6;
    const found = yield* beam(this.model, memory, { ...options, width: BEAM, alpha });
    const along = (_, time) => found.tokens[time];
    const followed = yield* generate(this.model, memory, along, { ...options, limit: found.tokens.length });
    return { ...followed, nodes: found.nodes, best: found.best };
  }

  // --- What is shown ------------------------------------------------------------------------------

  show() {
    const { target } = this.translator, { view } = this;
    this.tell(view.cut ? `These are ${view.cut.toLocaleString("en")} tokens: only the first ${MOST_TOKENS} are read.` : "");
    this.showAnswers(target.decode(view.tokens), target.decode(this.wholeOf.tokens));
    this.showRest();
  }

  // Once the translation is on the page.
  showFigure() {
    const { target } = this.translator, { view } = this;
    if (!view) return;
    this.figure.draw(view);
    this.showInside(false);
    this.showTour();
    this.chance.hidden = this.state.search !== "sample";
    if (document.activeElement !== this.begin) this.begin.value = target.decode(this.state.forced);
    this.showTree();
    if (this.figure.holds(document.activeElement)) document.activeElement.scrollIntoView({ block: "nearest" });
  }

  // Without the whole model's answer the broken one still writes.
  showAnswers(text, whole) {
    this.answers.replaceChildren();
    const to = languagesOf(this.state.model)[1] && this.state.model.split("-")[1];
    const put = (title, words) => {
      const box = make("div", this.answers);
      make("p", box, title, { class: "unmasked-label" });
      make("p", box, words || "…", { class: "unmasked-translation", lang: to });
    };
    if (!isBroken(this.state)) {
      put("Translation", text);
      this.sayAgain(text ? `Translation: “${text}”` : "");
      return;
    }
    const { off, heads } = this.state, gone = [...off].map((part) => NAMES[part]);
    if (heads.size) gone.push(heads.size === 1 ? "1 head" : `${heads.size} heads`);
    const hidden = [...this.state.hidden].map((place) => this.translator.source.encode(this.state.text)[place] ?? EOS);
    gone.push(...hidden.map((token) => `“${plainWord(this.translator.source.words[token])}”`));
    const title = `Without ${gone.join(", ")}`;
    const all = off.size + heads.size ? "The whole model" : "With all tokens";
    const known = this.wholeOf?.asked === wholeAsked(this.state) ? this.translator.target.decode(this.wholeOf.tokens) : "";
    put(all, whole ?? known);
    put(title, text);
    if (whole === undefined) return;
    this.sayAgain(`${title}: “${text}” ${all}: “${whole}”`);
  }

  // Also when nothing has changed: that may be just the point. (A blank more makes it another text.)
  sayAgain(words) {
    this.said = this.said === words ? `${words}\u00a0` : words;
    this.say(this.said);
  }

  // What depends on what is looked at; `aloud`, if the reader asked for just that.
  showInside(aloud) {
    const { view, state } = this, { at } = state;
    this.showTokens();
    this.figure.mark(view);
    const layer = this.layers.querySelector(`input[value="${state.layer}"]`);
    if (layer) layer.checked = true;
    const box = this.figure.boxes.find(({ place }) => place === at);
    const focus = placeOfFocus(this.content);
    const folds = () => [...this.content.querySelectorAll("details")], same = this.shownAt === at + state.layer;
    const were = same ? folds() : [];
    this.shownAt = at + state.layer;
    this.content.replaceChildren();
    if (!view.tokens.length) {
      this.heading.textContent = "Nothing to see yet: type a sentence.";
      return;
    }
    const { half } = box;
    const where = box.layered ? `, layer ${view.layer(half) + 1}` : "";
    const title = /^(memory|logits|.*cross)$/.test(at) ? box.title : `${half}: ${box.title}`;
    const token = half === "encoder" ? `“${view.word(half)}”` : `writing “${view.written}”`;
    this.heading.textContent = `${title[0].toUpperCase()}${title.slice(1)}${where}, ${token}`;
    const current = () => view.asked === asked(this.state); // and not the panel of the text before
    for (const part of state.off) make("p", this.content, `Without ${NAMES[part]}: ${this.worthOf(part)}`);
    const said = showInside(this.content, box, view, {
      show: (what) => this.look(what),
      turn: (part, on) => this.put("off", part, !on),
      silence: (on, name) => this.put("heads", name, !on),
      hide: (position) => current() && this.put("hidden", position, !this.state.hidden.has(position)),
      shuffle: () => current() && this.shuffle(),
      inOrder: () => current() && this.change({ order: null }),
      insteadOf: (position, token) => current() && this.insteadOf(position, token),
    });
    folds().forEach((fold, number) => (fold.open = were[number]?.open ?? fold.open));
    if (!same) this.panel.scrollTop = 0;
    focusAgain(this.content, focus);
    if (aloud) this.sayAgain(said);
  }

  // What to notice, and what was measured with this part alone switched off.
  worthOf(part) {
    const worth = this.page.worth?.[this.state.model];
    if (!worth) return PARTS[part];
    return `${PARTS[part]} With only this off BLEU, which compares eighty captions with human translations, goes ` +
      `from ${worth.whole} to ${worth[part]}.`;
  }

  showTokens() {
    const { view, state } = this, encoder = state.at === "memory" || state.at.startsWith("encoder");
    const chip = (half, piece, place, label) => ({
      token: piece, label,
      current: place === view.row(half) && encoder === (half === "encoder"),
      hidden: half === "encoder" && state.hidden.has(view.order[place]),
      act: () => this.look({ [half === "encoder" ? "token" : "step"]: place, at: placeIn(half, state.at) }),
    });
    fillChips(this.chips, "source", view.pieces.encoder.map((piece, place) => chip("encoder", piece, place, plainWord(piece))));
    const chances = (place) => percent(chancesOf(view.steps[place])[view.tokens[place]]);
    fillChips(this.tokens, "translation", view.chosen.map((piece, place) =>
      chip("decoder", piece, place, `${plainWord(piece)}, ${chances(place)}`)));
    const row = view.row("decoder"), count = view.tokens.length;
    this.tokens.querySelectorAll("button").forEach((one, place) => one.classList.toggle("unmasked-ghost", place > row));
    this.count.textContent = count ? `word ${row + 1} of ${count}` : "";
    this.back.setAttribute("aria-disabled", row < 1);
    this.next.setAttribute("aria-disabled", row >= count - 1);
  }

  showTree() {
    const { nodes, best } = this.view;
    this.tree.hidden = !nodes;
    if (!nodes) return;
    const { words } = this.translator.target, winners = new Set();
    for (let node = nodes[best]; node; node = nodes[node.parent]) winners.add(node.id);
    const named = (node) => ({ ...node, token: plainWord(words[node.token]), wins: winners.has(node.id) });
    const drawn = nodes.filter(({ became }) => became !== "dropped").map(named);
    const score = printed(nodes[best].score);
    const label = `The beam's tree: ${drawn.length - 1} beginnings, the best ends with a score of ${score}.`;
    drawTree(this.tree, drawn, label).scrollLeft = 0;
  }
}

function languagesOf(name) {
  const codes = name.split("-");
  return codes.every((code) => LANGUAGES[code]) ? codes.map((code) => LANGUAGES[code]) : [name];
}

// What an answer depends on.
function asked(state) {
  return wholeAsked(state) + JSON.stringify([state.off, state.heads, state.hidden].map((set) => [...set].sort()));
}

// What the whole model's answer depends on.
function wholeAsked({ model, text, order, search, temperature, seed, forced }) {
  return JSON.stringify([model, text, order, search, temperature, seed, forced]);
}

// Buttons in a row, one a token, and one of them a tab stop; pieces that go on a word stand closer.
// Keeps the keyboard's place.
function fillChips(box, named, chips) {
  const focused = placeOfFocus(box);
  box.replaceChildren();
  make("span", box, named);
  const cut = chips.some(({ token }) => token.startsWith("▁")); // subwords, and not whole words
  const stop = Math.max(0, focused < 0 ? chips.findIndex(({ current }) => current) : Math.min(focused, chips.length - 1));
  chips.forEach(({ token, label, current, hidden, act }, place) => {
    const chip = button(box, plainWord(token), act, {
      "aria-label": hidden ? `${label}, hidden` : label, "aria-current": current ? "true" : null,
      tabindex: place === stop ? 0 : -1, class: hidden ? "unmasked-hidden" : "",
    });
    chip.classList.toggle("unmasked-goes-on", cut && !token.startsWith("▁") && !token.startsWith("<"));
  });
  box.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], all = [...box.querySelectorAll("button")];
    const next = by && all[all.indexOf(document.activeElement) + by];
    if (!next) return;
    event.preventDefault();
    all.forEach((one) => (one.tabIndex = one === next ? 0 : -1));
    next.focus();
  };
  focusAgain(box, focused);
}

// What has the focus in a part that is about to be made anew, and the same once it is there.
function placeOfFocus(part) {
  return [...part.querySelectorAll("button, input, summary, a, [tabindex]")].indexOf(document.activeElement);
}

function focusAgain(part, place) {
  const all = part.querySelectorAll("button, input, summary, a, [tabindex]");
  if (place >= 0) all[Math.min(place, all.length - 1)]?.focus();
}
