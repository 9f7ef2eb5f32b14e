// Beam search, step by step, on continuations that a model has given before.
import { penalty } from "../engine/formulas.js";
import { finish, walk } from "../engine/beam.js";
import { announcer, button, choice, defineElement, make, printed } from "./dom.js";
import { drawTree } from "./tree.js";

// data.tree: the best continuations of the empty beginning, likeliest first, each
// [token, log-probability, its own continuations if they were needed].
function buildBeam(element, data) {
  const chosen = { ...data.start };
  let search, step;
  make("p", element, `Translating “${data.sentence}”: choose how many beginnings the search keeps and how ` +
    "strongly it favours long sentences, then walk through its steps.");
  const choices = make("div", element, null, { class: "unmasked-row" });
  const offer = (legend, name, values) =>
    choice(choices, legend, values.map((value) => [value]), chosen[name], (value) => start({ [name]: value }));
  offer("beam width", "width", data.widths);
  offer("length penalty", "penalty", data.penalties);
  const row = make("div", element, null, { class: "unmasked-row" });
  const buttons = Object.entries({
    first: () => 1,
    back: () => step - 1,
    "one step": () => step + 1,
    "to the end": () => search.steps,
  }).map(([name, target]) => button(row, name, () => walk(target())));
  const say = announcer(element, 0);
  const picture = make("div", element);
  make("p", element, "The number is the log-probability so far, or the score of a sentence that has ended " +
    "(square and orange). Faint: dropped at this step. Bold: the winner.", { class: "unmasked-note" });
  const why = make("p", element);
  const details = make("details", element);
  make("summary", details, "As a list: what has ended, and the beginnings of this step");
  const list = make("ul", details);

  function start(change) {
    Object.assign(chosen, change);
    search = beamSearch(data, chosen.width, chosen.penalty);
    walk(search.steps);
  }

  function walk(to) {
    step = Math.min(Math.max(to, 1), search.steps);
    const over = step === search.steps;
    // Not `disabled`: a button that is pressed by a key keeps the focus.
    buttons.forEach((one, i) => one.setAttribute("aria-disabled", i < 2 ? step === 1 : over));
    const shown = search.nodes
      .filter((node) => node.time === step || (node.time < step && node.became !== "dropped"))
      .map((node) => ({ ...node, wins: over && node.wins }));
    const kept = shown.filter((node) => node.time === step && node.became === "kept");
    const finished = shown.filter((node) => node.became === "finished");
    const [best] = [...finished].sort((a, b) => b.score - a.score);
    const count = `${kept.length} ${kept.length === 1 ? "beginning" : "beginnings"}`;
    const news = over
      ? `the winner is “${best.text}” with score ${printed(best.score)}`
      : `kept ${count}, the likeliest “${kept[0].text}” (${printed(kept[0].total)})`;
    say(`Step ${step} of ${search.steps}: ${news}. Finished: ${finished.length}.`);
    const tree = drawTree(picture, shown, `The tree of a search with a beam of ${chosen.width}, ` +
      `${shown.length - 1} beginnings. Step ${step}: ${news}.`);
    tree.scrollLeft = tree.scrollWidth; // to the newest column
    why.textContent = best ? reason(data.limit, chosen.penalty, best, kept[0]) : "";
    list.replaceChildren();
    for (const node of shown.filter((node) => node.time === step || node.became === "finished")) {
      const number = node.score === null ? printed(node.total) : `score ${printed(node.score)}`;
      make("li", list, `“${node.text}” ${number}, ${node.became}`);
    }
  }

  start({});
}

// Why the search goes on or stops, in numbers.
function reason(limit, alpha, winner, open) {
  if (!open) return "The search stops: nothing is left to continue.";
  const divisor = penalty(limit, alpha), hope = open.total / divisor;
  const verdict = hope > winner.score ? "better than" : "no better than";
  const score = alpha
    ? `up to the limit of ${limit} tokens, it would score ${printed(open.total)} / ${printed(divisor)} = `
    : "on its way, it would score ";
  return `Still open: “${open.text}” (${printed(open.total)}). If it lost nothing more ${score}${printed(hope)}, ` +
    `${verdict} ${printed(winner.score)}: the search ${hope > winner.score ? "goes on" : "stops"}.`;
}

// The engine's search, with what was stored in place of a model.
function beamSearch({ tree, limit }, width, alpha) {
  const joint = tree.some(([token]) => token.startsWith("▁")) ? "" : " ";
  const continued = (parent, [token, value, next]) => {
    const ends = token === "<eos>";
    const text = ends ? parent.text : (parent.text + joint + token).replaceAll("▁", " ").trimStart();
    return { token, value, ends, text, next };
  };
  const next = (nodes) => nodes.map((node) => node.next.map((found) => continued(node, found)));
  const root = { token: "<bos>", text: "", next: tree };
  const { nodes } = finish(walk(root, next, { width, alpha, most: limit }));
  return { nodes, steps: nodes.at(-1).time };
}

defineElement("unmasked-beam", buildBeam);
