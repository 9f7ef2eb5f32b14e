// Work in slices: a generator runs for some milliseconds, then the page has its turn.

const SLICE = 20;

// The result of a generator; or nothing, once `givenUp()` says that nobody waits for it any more.
export async function runInSlices(generator, givenUp) {
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
