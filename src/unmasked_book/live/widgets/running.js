// Work in slices: a generator runs for some milliseconds, then the page has its turn.

const SLICE = 10;

// The result of a generator; or nothing, once `given up()` says that nobody waits for it any more.
// `meanwhile` gets what it has yielded last, once a slice.
export async function runInSlices(generator, givenUp, meanwhile = () => {}) {
  for (;;) {
    const end = performance.now() + SLICE;
    let last;
    do {
      const { done, value } = generator.next();
      if (done) return value;
      last = value;
    } while (performance.now() < end);
    if (last) meanwhile(last);
    await nextTurn();
    if (givenUp()) return undefined;
  }
}

// After what waits already: key presses, drawing. (setTimeout would wait for four milliseconds.)
function nextTurn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}
