// The engine as one name, for whoever wants to use or to test it: `unmasked` in the page's scope.

import { fromBase64, openPacked, unpack } from "./open.js";
import { finish } from "./beam.js";
import { beam, greedy, sample } from "./search.js";

globalThis.unmasked = { fromBase64, openPacked, unpack, finish, beam, greedy, sample };
