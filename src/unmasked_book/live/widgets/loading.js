// Where a model comes from: given with the page, beside it, or, on file://, in a script beside it.

import { fromBase64, openPacked, unpack } from "../engine/open.js";
import { make } from "./dom.js";

const opened = new Map();

export function openModel(name, at) {
  if (!opened.has(name)) {
    const opening = bytesOf(name, at).then(unpack).then(openPacked);
    opening.catch(() => opened.delete(name)); // so that one can try again
    opened.set(name, opening);
  }
  return opened.get(name);
}

async function bytesOf(name, at) {
  const given = (globalThis.unmaskedModels = globalThis.unmaskedModels || {});
  if (!given[name] && location.protocol === "file:") await addScript(`${at}${name}.js`);
  if (given[name]) return fromBase64(given[name]);
  const answer = await fetch(`${at}${name}.bin`);
  if (!answer.ok) throw new Error(`the server answered ${answer.status} for ${name}.bin`);
  return answer.arrayBuffer();
}

function addScript(address) {
  return new Promise((resolve, reject) => {
    const onerror = () => reject(new Error(`${address} could not be read`));
    make("script", document.head, null, { src: address, onload: resolve, onerror });
  });
}
