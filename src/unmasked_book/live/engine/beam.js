// The search that keeps several beginnings, whatever gives their continuations.

import { penalty } from "./formulas.js";

// A generator yields between its steps; this runs it to its end.
export function finish(generator) {
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
  }
}

// Beam search: of the 2 · width best continuations, those that end count among the first
// `width`, and `width` others are kept; it stops when nothing kept can beat the best that has ended.
// `next(nodes)` gives for each node its continuations { token, value, ends }, likeliest first.
// Returns { tokens, score, nodes, best }: the nodes are the tree, each with its parent, time, total,
// what became of it ("kept", "finished" or "dropped"), whether it is on the winner's path (`wins`) and,
// where it ends, its score; `best` is the winner's number.
export function* walk(root, next, { width, alpha, most }) {
  const nodes = [{ id: 0, parent: null, time: 0, total: 0, score: null, became: "kept", wins: false, ...root }];
  let alive = [...nodes], best = null;
  for (let time = 1; time <= most && alive.length; time += 1) {
    const candidates = next(alive).flatMap((found, row) => found.map((one) => {
      const { id, total } = alive[row];
      return { ...one, parent: id, time, total: total + one.value, score: null, became: "dropped", wins: false };
    }));
    candidates.sort((a, b) => b.total - a.total);
    alive = [];
    candidates.slice(0, 2 * width).forEach((node, rank) => {
      node.id = nodes.push(node) - 1;
      if (node.ends || time === most) {
        if (rank >= width) return;
        node.became = "finished";
        node.score = node.total / penalty(time, alpha);
        if (!best || node.score > best.score) best = node;
      } else if (alive.length < width) {
        node.became = "kept";
        alive.push(node);
      }
    });
    // Nothing that is alive could end better, even if all its other tokens were certain.
    if (best && alive.length && best.score >= alive[0].total / penalty(most, alpha)) break;
    yield nodes;
  }
  for (let node = best; node; node = nodes[node.parent]) node.wins = true; // up to the root
  const tokens = nodes.filter(({ wins, parent }) => wins && parent !== null).map(({ token }) => token);
  return { tokens, score: best.score, nodes, best: best.id };
}
