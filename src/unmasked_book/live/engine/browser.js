// The engine as one name, for whoever wants to use or to test it: `unmasked` in the page's scope.

import { fromBase64, openFiles, openPacked, unpack } from "./open.js";
import { beam, finish, generate, greedy, likeliest, pathTo, sample } from "./search.js";
import { softmax } from "./numbers.js";

globalThis.unmasked = {
  fromBase64, openFiles, openPacked, unpack, finish, beam, generate, greedy, likeliest, pathTo, sample, softmax,
};
