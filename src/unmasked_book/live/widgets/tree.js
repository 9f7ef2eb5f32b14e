// A search as a tree: a column a step, the likeliest beginning on top.
import { make, printed } from "./dom.js";

const ROW = 46, BOX = 25, GAP = 18, TOP = 4, NARROWEST = 40;
const SMALLEST = 0.75; // before it scrolls, a wide tree shrinks, but its letters stay readable

// nodes: { id, parent, token, time, total, score, became, wins }, one for each beginning.
//   parent: an id; null at the root            time: how many tokens so far, which is the column
//   total: its log-probability                 score: of a finished sentence, else null
//   became: "kept", "dropped" or "finished"    wins: whether it is on the winner's path
// The picture goes into a box that scrolls sideways if it must, and is returned; the next call with the same parent
// replaces it.
export function drawTree(parent, nodes, label) {
  const said = { role: "group", "aria-label": "the tree: scrolls sideways" }; // by the keyboard, too
  const box = parent.querySelector(".unmasked-tree") ||
    make("div", parent, null, { class: "unmasked-tree", tabindex: 0, ...said });
  const columns = inColumns(nodes);
  const place = new Map(columns.flatMap((column) => column.nodes.map((node, row) =>
    [node.id, { x: column.left + column.width / 2, y: TOP + row * ROW + BOX / 2, half: halfWidth(node) }])));
  const last = columns.at(-1);
  const width = last.left + last.width + 2;
  const height = Math.max(...columns.map((column) => column.nodes.length)) * ROW + TOP;
  box.replaceChildren();
  const picture = make("svg", box, null,
    { role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` });
  Object.assign(picture.style, { maxWidth: `${width}px`, minWidth: `${SMALLEST * width}px` });
  const ordered = [...nodes].sort((a, b) => a.wins - b.wins); // what wins lies on top
  for (const node of ordered) if (node.parent !== null) drawBranch(picture, place, node);
  for (const node of ordered) drawBox(picture, place.get(node.id), node);
  return box;
}

// The nodes of each step, the likeliest first, and where their column lies.
function inColumns(nodes) {
  const columns = [];
  for (const node of nodes) (columns[node.time] ||= { nodes: [] }).nodes.push(node);
  let left = 2;
  for (const column of columns) {
    column.nodes.sort((a, b) => b.total - a.total);
    column.left = left;
    column.width = Math.max(NARROWEST, ...column.nodes.map((node) => 2 * halfWidth(node)));
    left += column.width + GAP;
  }
  return columns;
}

// A letter takes about eight, the mark of a first piece more, and a number stands below them all.
function halfWidth(node) {
  return 4 * node.token.length + (node.token.startsWith("▁") ? 9 : 7);
}

// From the right side of its parent to its own left side.
function drawBranch(picture, place, node) {
  const from = place.get(node.parent), to = place.get(node.id);
  const start = from.x + from.half, end = to.x - to.half, middle = (start + end) / 2;
  const d = `M${start} ${from.y} C${middle} ${from.y} ${middle} ${to.y} ${end} ${to.y}`;
  make("path", picture, null, { class: kindOf(node), d });
}

// A finished sentence has square corners, and its score below.
function drawBox(picture, { x, y, half }, node) {
  const group = make("g", picture, null, { class: kindOf(node) });
  const rx = node.became === "finished" ? 0 : 8;
  make("rect", group, null, { x: x - half, y: y - BOX / 2, width: 2 * half, height: BOX, rx });
  const text = make("text", group, null, { x, y: y + 4.5, "text-anchor": "middle" });
  const start = node.token.startsWith("▁") ? 1 : 0; // the mark of a word's first piece, faintly
  if (start) make("tspan", text, "▁", { class: "unmasked-faint" });
  make("tspan", text, node.token.slice(start));
  if (node.parent === null) return;
  const number = printed(node.score === null ? node.total : node.score);
  make("text", group, number, { x, y: y + BOX / 2 + 13, "text-anchor": "middle", class: "number" });
}

function kindOf(node) {
  return node.wins ? `${node.became} wins` : node.became;
}
