"""Calls the book's JavaScript engine in a browser, with the same questions as the package."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page
from torch import Tensor

from helpers import VOCABULARY, small_model
from unmasked.tokens import SPECIAL, Words
from unmasked.translator import Translator
from unmasked_book.live.bundle import bundle
from unmasked_book.live.packing import packed

# The functions that a test calls in the page; `translator` is the model that was opened last.
ASKED = """
const { fromBase64, openPacked, unpack, finish, greedy, beam, sample } = unmasked;
const open = async (given) => { window.translator = openPacked(await unpack(fromBase64(given))); };
const switches = (off) => ({ ...off, heads: new Set(off.heads), hidden: new Set(off.hidden) });
const memoryOf = (source, off) => finish(translator.model.encode(source, switches(off)));
// The target is read token by token: each step has its logits and a trace of all that it computes.
const read = (source, target, off) => {
  const memory = memoryOf(source, off);
  let state = translator.model.start();
  const steps = target.map((token) => {
    const trace = {};
    const [step] = translator.model.step([token], [state], memory, switches(off), trace);
    state = step.state;
    return { logits: step.logits, trace };
  });
  return { memory, steps };
};
const search = (memory, kind, options, off) => finish({ greedy, beam, sample }[kind](
  translator.model, memory, { ...options, off: switches(off) })).tokens;
window.asked = {
  open,
  ids: (texts) => texts.map((text) => translator.source.encode(text)),
  texts: (rows) => rows.map((row) => translator.target.decode(row)),
  logits: (pairs, off) => pairs.map(([source, target]) =>
    read(source, target, off).steps.map(({ logits }) => logits)),
  trace: (source, target) => {
    const { memory, steps } = read(source, target, {});
    return [[memory.trace], steps.map(({ trace }) => trace)];
  },
  search: (sources, kind, options, off) =>
    sources.map((source) => search(memoryOf(source, off), kind, options, off)),
  // The first tokens that sampling draws with seeds from 0.
  draws: (source, count, options) => {
    const memory = memoryOf(source, {}), seeds = [...Array(count).keys()];
    return seeds.map((seed) => search(memory, "sample", { ...options, seed, limit: 1 }, {})[0]);
  },
};
"""


class Engine:
    """Opens a model's file, or a packed model, with the JavaScript engine in a blank page."""

    def __init__(self, page: Page, model: Path | bytes, *, int8: bool = False) -> None:
        self.page = page
        if not page.evaluate("'asked' in window"):  # the engine, once for all models
            page.add_script_tag(content=f"{bundle('engine/browser.js')}{{ {ASKED} }}")
        data = model if isinstance(model, bytes) else packed(model, exact=not int8)
        self.ask("open", base64.b64encode(data).decode("ascii"))

    @classmethod
    def of(cls, page: Page, translator: Translator, *, int8: bool = False) -> Engine:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "small.safetensors")
            translator.save(path)
            return cls(page, path, int8=int8)

    def ask(self, name: str, *arguments: Any) -> Any:
        return self.page.evaluate("([name, given]) => asked[name](...given)", [name, arguments])

    def logits(
        self, pairs: Sequence[tuple[list[int], list[int]]], off: Mapping[str, Any] | None = None
    ) -> list[Tensor]:
        """Returns the logits of each pair of source and target tokens: [T, V]."""
        return [*map(torch.tensor, self.ask("logits", pairs, off or {}))]

    def trace(self, source: list[int], target: list[int]) -> dict[str, Tensor]:
        """Returns by name all that the engine computes for a pair, each in one row of numbers."""
        encoder_and_decoder = self.ask("trace", source, target)
        return {
            name: in_one_row([step[name] for step in steps])
            for steps in encoder_and_decoder
            for name in steps[0]
        }

    def search(
        self, kind: str, sources: Sequence[list[int]], off: Any = None, **options: Any
    ) -> list[list[int]]:
        return self.ask("search", sources, kind, options, off or {})


def in_one_row(numbers: list[Any]) -> Tensor:
    if isinstance(numbers[0], list):
        return torch.cat([*map(in_one_row, numbers)])
    return torch.tensor(numbers)


def small_translator(**options: Any) -> Translator:
    """Returns a translator with random weights in float32, whose tokens are whole words."""
    numbered = (f"w{number}" for number in range(VOCABULARY - len(SPECIAL)))
    words = Words([*SPECIAL.values(), *numbered])
    return Translator(small_model(**options).float(), words, words)
