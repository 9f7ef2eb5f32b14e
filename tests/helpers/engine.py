"""The book's engine in a browser, called from Python: the same questions as to the package."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page
from torch import Tensor, nn

from unmasked.storage.model import CONFIG, files_of, weights_file
from unmasked.tokens import EOS, PADDING
from unmasked_book.live.bundle import bundle
from unmasked_book.live.packing import packed

# What a test asks for in the page. Tokens go in; numbers come back as base64 of float32.
ASKED = """
window.asked = (() => {
  const { finish, greedy, beam, sample } = unmasked;
  const switches = (off) => ({ ...off, heads: new Set(off.heads), hidden: new Set(off.hidden) });
  const memoryOf = (source, off) => finish(translator.model.encode(source, off));
  const base64 = (numbers) => {
    const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) {
      text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    }
    return btoa(text);
  };
  const joined = (parts) => {
    const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) { all.set(part, at); at += part.length; }
    return base64(all);
  };
  return {
    ids: (texts) => texts.map((text) => translator.source.encode(text)),
    texts: (rows) => rows.map((row) => translator.target.decode(row)),
    // Each source with its target, token by token: logits, and the maps of the whole sentence.
    read: (pairs, off, wanted) => pairs.map(([source, target]) => {
      const memory = memoryOf(source, switches(off));
      const logits = [], maps = { encoder: [], decoder: [], cross: [] };
      memory.maps.forEach((row) => maps.encoder.push(...row.encoder));
      let state = translator.model.start();
      for (const token of target) {
        const [answer] = translator.model.step([token], [state], memory, switches(off));
        state = answer.state;
        logits.push(answer.logits.slice());
        maps.decoder.push(...answer.maps.decoder);
        maps.cross.push(...answer.maps.cross);
      }
      return joined(wanted === "logits" ? logits : maps[wanted]);
    }),
    search: (sources, kind, options, off) => sources.map((source) => {
      const kinds = { greedy, beam, sample };
      const memory = memoryOf(source, switches(off));
      const all = { ...options, off: switches(off) };
      const found = finish(kinds[kind](translator.model, memory, all));
      return { tokens: found.tokens, score: found.score };
    }),
    milliseconds: (sources) => sources.map((source) => {
      const began = performance.now();
      finish(greedy(translator.model, memoryOf(source, {})));
      return performance.now() - began;
    }),
  };
})();
"""


class Engine:
    """A model of a folder, opened by the JavaScript engine in a blank page."""

    def __init__(self, page: Page, folder: Path, *, int8: bool = False) -> None:
        self.page = page
        page.goto("about:blank")
        page.add_script_tag(content=bundle("engine/browser.js"))
        if int8:
            page.evaluate(
                "async (data) => { const { unpack, fromBase64, openPacked } = unmasked;"
                " window.translator = openPacked(await unpack(fromBase64(data))); }",
                base64.b64encode(packed(folder)).decode("ascii"),
            )
        else:
            words = [file for file in files_of(folder) if file.suffix == ".json"]
            page.evaluate(
                "([config, weights, words]) => { const { fromBase64, openFiles } = unmasked;"
                " window.translator = openFiles(config, fromBase64(weights).buffer, words); }",
                [
                    (folder / CONFIG).read_text(encoding="utf-8"),
                    base64.b64encode(weights_file(folder).read_bytes()).decode("ascii"),
                    words[0].read_text(encoding="utf-8") if words else None,
                ],
            )
        page.add_script_tag(content=ASKED)

    def ask(self, name: str, *arguments: Any) -> Any:
        return self.page.evaluate("([name, given]) => asked[name](...given)", [name, arguments])

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self.ask("ids", texts)

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return self.ask("texts", rows)

    def logits(
        self, pairs: Sequence[tuple[list[int], list[int]]], off: Mapping[str, Any] | None = None
    ) -> list[Tensor]:
        """For each pair of source and target tokens [T, V]."""
        answers = self.ask("read", pairs, switches(off), "logits")
        return [
            numbers(answer).view(len(target), -1)
            for answer, (_, target) in zip(answers, pairs, strict=True)
        ]

    def maps(self, kind: str, source: list[int], target: list[int], heads: int) -> Tensor:
        """Of one pair, as the package has them: [layers, H, queries, keys]."""
        flat = numbers(self.ask("read", [(source, target)], switches(None), kind)[0])
        queries, rows, at = len(source if kind == "encoder" else target), [], 0
        lengths = {
            "encoder": [len(source)] * queries,
            "cross": [len(source)] * queries,
            "decoder": [*range(1, queries + 1)],
        }[kind]
        layers = len(flat) // heads // sum(lengths)
        for length in lengths:  # query by query, layer by layer
            size = layers * heads * length
            row = flat[at : at + size].view(layers, heads, length)
            rows.append(nn.functional.pad(row, (0, max(lengths) - length)))
            at += size
        return torch.stack(rows, dim=2)

    def greedy(self, sources: Sequence[list[int]], off: Any = None, **options: Any) -> Any:
        return self.search("greedy", sources, off, **options)

    def search(
        self,
        kind: str,
        sources: Sequence[list[int]],
        off: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[list[int]]:
        found = self.ask("search", sources, kind, options, switches(off))
        return [each["tokens"] for each in found]

    def milliseconds(self, sources: Sequence[list[int]]) -> list[float]:
        """For each sentence, greedy."""
        return self.ask("milliseconds", sources)


class InBrowser(nn.Module):
    """The engine as a module, for `unmasked.check`: batches [B, S] and [B, T] → [B, T, V]."""

    def __init__(self, engine: Engine, off: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.engine, self.off = engine, off or {}

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        rows = []
        for one, other in zip(source.tolist(), target.tolist(), strict=True):
            hidden = [place for place, token in enumerate(one) if token == PADDING]
            rows += self.engine.logits([(one, other)], {**self.off, "hidden": hidden})
        return torch.stack(rows)


def numbers(answer: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(answer)), dtype=torch.float32)


def switches(off: Mapping[str, Any] | None) -> dict[str, Any]:
    """With the lists that the page makes sets of."""
    return {"heads": [], "hidden": [], **(off or {})}


def without_padding(row: Iterable[int]) -> list[int]:
    """A search's tokens: up to its EOS, or to where padding begins."""
    tokens = list(row)
    end = tokens.index(EOS) + 1 if EOS in tokens else len(tokens)
    return [token for token in tokens[:end] if token != PADDING]
