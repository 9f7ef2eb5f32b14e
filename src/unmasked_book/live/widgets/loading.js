// Where a model comes from: given with the page, beside it, or, on file://, in a script beside it.

import { fromBase64, openPacked, unpack } from "../engine/open.js";
import { make } from "./dom.js";

export async function openModel(name, at) {
  const given = (globalThis.unmaskedModels = globalThis.unmaskedModels || {});
  if (!given[name] && location.protocol === "file:") await addScript(`${at}${name}.js`);
  const bytes = given[name] ? fromBase64(given[name]) : await fetched(`${at}${name}.bin`);
  return openPacked(await unpack(bytes));
}

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`the server answered ${answer.status} for ${address.split("/").pop()}`);
  return answer.arrayBuffer();
}

function addScript(address) {
  return new Promise((resolve, reject) => {
    const onerror = () => reject(new Error(`${address} could not be read`));
    make("script", document.head, null, { src: address, onload: resolve, onerror });
  });
}
