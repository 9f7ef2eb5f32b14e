"""The book's engine in a browser, called from Python: the same questions as to the package."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page
from torch import Tensor

from unmasked.tokens import EOS, PADDING
from unmasked_book.live.bundle import bundle
from unmasked_book.live.packing import packed

# What a test asks for in the page. Tokens go in; logits come back as base64 of float32.
ASKED = """
window.asked = (() => {
  const { finish, greedy, beam, sample } = unmasked, { model, source, target } = translator;
  const switches = (off) => ({ ...off, heads: new Set(off.heads), hidden: new Set(off.hidden) });
  const base64 = (numbers) => {
    const bytes = new Uint8Array(numbers.buffer);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) {
      text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    }
    return btoa(text);
  };
  const memoryOf = (source, off) => finish(model.encode(source, switches(off)));
  // A sentence token by token: what each step answers and computes, and the memory that it reads.
  const read = (source, target, given) => {
    const memory = memoryOf(source, given), off = switches(given);
    let state = model.start();
    const answers = target.map((token) => {
      const trace = {};
      const [answer] = model.step([token], [state], memory, off, trace);
      state = answer.state;
      return { ...answer, trace };
    });
    return { memory, answers };
  };
  const search = (memory, kind, options, off) =>
    finish({ greedy, beam, sample }[kind](model, memory, { ...options, off })).tokens;
  return {
    ids: (texts) => texts.map((text) => source.encode(text)),
    texts: (rows) => rows.map((row) => target.decode(row)),
    logits: (pairs, off) => pairs.map(([source, target]) => {
      const { answers } = read(source, target, off);
      const all = new Float32Array(target.length * model.config.target_vocab);
      answers.forEach(({ logits }, i) => all.set(logits, i * logits.length));
      return base64(all);
    }),
    // All that is computed, by name: the encoder's, and of the decoder's steps one after the other.
    trace: (source, target) => {
      const { memory, answers } = read(source, target, {});
      const joined = (rows) => base64(Float32Array.from(rows.flatMap((row) => row)));
      const flat = (row) => (Array.isArray(row) ? row.flatMap((one) => [...one]) : [...row]);
      const all = (traces) => Object.keys(traces[0]).map((name) =>
        [name, joined(traces.map((trace) => flat(trace[name])))]);
      const steps = answers.map(({ trace }) => trace);
      return Object.fromEntries([...all([memory.trace]), ...all(steps)]);
    },
    search: (sources, kind, options, off) =>
      sources.map((source) => search(memoryOf(source, off), kind, options, switches(off))),
    // The first tokens that sampling draws with seeds from 0.
    draws: (source, count, options) => {
      const memory = memoryOf(source, {});
      return Array.from({ length: count }, (_, seed) =>
        search(memory, "sample", { ...options, seed, limit: 1 }, {})[0]);
    },
  };
})();
"""


class Engine:
    """A model of a folder or a file of its own, opened by the JavaScript engine in a blank page."""

    def __init__(self, page: Page, model: Path | bytes, *, int8: bool = False) -> None:
        self.page = page
        if not page.evaluate("() => 'unmasked' in globalThis"):  # the engine, once for all models
            page.goto("about:blank")
            page.add_script_tag(content=bundle("engine/browser.js"))
        data = model if isinstance(model, bytes) else packed(model, exact=not int8)
        page.evaluate(
            "async (given) => { const { fromBase64, openPacked, unpack } = unmasked;"
            " window.translator = openPacked(await unpack(fromBase64(given))); }",
            base64.b64encode(data).decode("ascii"),
        )
        page.add_script_tag(content=ASKED)

    def ask(self, name: str, *arguments: Any) -> Any:
        return self.page.evaluate("([name, given]) => asked[name](...given)", [name, arguments])

    def logits(
        self, pairs: Sequence[tuple[list[int], list[int]]], off: Mapping[str, Any] | None = None
    ) -> list[Tensor]:
        """For each pair of source and target tokens [T, V]."""
        rows = [numbers_of(answer) for answer in self.ask("logits", pairs, off or {})]
        return [row.view(len(target), -1) for row, (_, target) in zip(rows, pairs, strict=True)]

    def trace(self, source: list[int], target: list[int]) -> dict[str, Tensor]:
        """All that it computes for a pair, by name, each in one row of numbers."""
        found = self.ask("trace", source, target)
        return {name: numbers_of(kept) for name, kept in found.items()}

    def search(
        self, kind: str, sources: Sequence[list[int]], off: Any = None, **options: Any
    ) -> list[list[int]]:
        return self.ask("search", sources, kind, options, off or {})


def numbers_of(kept: str) -> Tensor:
    """Float32 from base64."""
    return torch.frombuffer(bytearray(base64.b64decode(kept)), dtype=torch.float32)


def without_padding(row: Iterable[int]) -> list[int]:
    """A search's tokens: up to its EOS, or to where padding begins."""
    tokens = list(row)
    end = tokens.index(EOS) + 1 if EOS in tokens else len(tokens)
    return [token for token in tokens[:end] if token != PADDING]
