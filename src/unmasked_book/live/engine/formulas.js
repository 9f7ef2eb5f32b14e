// Formulas that the engine and the figures of the chapters share.

// Scores → weights, in place. Those that are -Infinity get nothing; if all are, all get nothing.
export function softmax(scores) {
  let highest = -Infinity;
  for (const score of scores) if (score > highest) highest = score;
  let sum = 0;
  for (let i = 0; i < scores.length; i += 1) {
    scores[i] = highest === -Infinity ? 0 : Math.exp(scores[i] - highest);
    sum += scores[i];
  }
  for (let i = 0; i < scores.length && sum; i += 1) scores[i] /= sum;
  return scores;
}

export function logSumExp(scores) {
  let highest = -Infinity, sum = 0;
  for (const score of scores) if (score > highest) highest = score;
  for (const score of scores) sum += Math.exp(score - highest);
  return highest + Math.log(sum);
}

// What a score is divided by, for its length (Wu et al., 2016).
export function penalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

// A row of the paper's table: sines in the even columns, cosines in the odd.
export function sinusoid(position, width) {
  return Float32Array.from({ length: width }, (_, i) => {
    const angle = position * 10000 ** (-(i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}
