"""A model in OPUS-MT's format at its real size, beside transformers and CTranslate2.

Weights are random. `run.py --only opus-one …` times it; `python benchmarks/opus.py WHO FOLDER` is
what it calls for the memory of one of them alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from timing import Run
from unmasked.fast import products
from unmasked.translator import load

VOCABULARY, NEW = 58_101, 30  # padding is the last token; tokens of each translation
Search = Callable[[Tensor, int], Any]  # source and width of the beam


def ours(folder: Path) -> Search:
    from unmasked.interop import from_marian
    from unmasked.search import beam, greedy

    model = from_marian(folder).model

    def search(source: Tensor, width: int) -> Tensor:
        if width == 1:
            return greedy(model, source, NEW)
        options: Any = {"length_penalty": 1.0, "normalize": "length"}
        return beam(model, source, width, NEW, **options).tokens[:, 0]

    return search


def transformers(folder: Path) -> Search:
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def search(source: Tensor, width: int) -> Tensor:
        real = source != 0
        given = (source - 2).masked_fill(~real, VOCABULARY - 1)
        options: Any = {"num_beams": width, "max_new_tokens": NEW, "do_sample": False}
        return model.generate(given, attention_mask=real.long(), **options)[:, 1:] + 2

    return search


def in_c(folder: Path) -> Search:
    from ctranslate import CTranslate2

    model = CTranslate2(folder / "c")
    return lambda source, width: model.beam(source, width, NEW)


WHO = {"unmasked": ours, "MarianMT": transformers, "CTranslate2": in_c}


@cache
def folder() -> TemporaryDirectory[str]:
    """As transformers keeps such a model; and beside it, as CTranslate2 does."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel

    from ctranslate import converted
    from unmasked.interop import from_marian

    made = TemporaryDirectory()  # gone when the process ends
    path = Path(made.name)
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d"]), vocab_size=9, model_prefix=str(path / side),
            minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
        (path / f"{side}.model").rename(path / f"{side}.spm")
    pieces = ["</s>", "<unk>", *map(str, range(2, VOCABULARY - 1)), "<pad>"]
    (path / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    sizes = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
    options: Any = {f"{x}coder_{name}": n for x in ("en", "de") for name, n in sizes.items()}
    options |= {"d_model": 512, "max_position_embeddings": 512, "forced_eos_token_id": None}
    torch.manual_seed(0)
    config = MarianConfig(activation_function="swish", scale_embedding=True, **options)
    model: Any = MarianMTModel(config)
    model.final_logits_bias[:, 0] = -1e4  # nobody stops early
    model.save_pretrained(path)
    (path / "c").mkdir()
    words = [str(number) for number in range(VOCABULARY + 1)]
    converted(from_marian(path).model, words).save(str(path / "c"))
    return made


@cache
def made(who: str) -> Search:
    return WHO[who](Path(folder().name))


def sentences(rows: int) -> Tensor:
    """Random, of 6 to 24 tokens, the first one the longest."""
    source = torch.randint(4, VOCABULARY, (rows, 24))
    lengths = torch.randint(6, 25, (rows, 1))
    lengths[0] = 24
    at = torch.arange(24)
    return source.masked_fill(at == lengths - 1, 2) * (at < lengths)


def opus(rows: int, width: int, _: str) -> dict[str, Run]:
    """All of them, and ours as it was: weights laid out in each call."""
    source, found = sentences(rows), {}
    for who in WHO:
        found[who] = list(made(who)(source, width))
    tokens = [[str(token) for token in row.tolist()] for row in found["unmasked"]]
    others = {"MarianMT": [[str(token) for token in row.tolist()] for row in found["MarianMT"]],
              "CTranslate2": found["CTranslate2"]}  # fmt: skip
    for who, rows_written in others.items():
        if (
            different := sum(a != b for a, b in zip(tokens, rows_written, strict=True))
        ) > rows // 32:
            raise SystemExit(f"{who}, beam {width}: {different} of {rows} sentences differ")
    runs: dict[str, Run] = {who: lambda who=who: made(who)(source, width) for who in WHO}  # type: ignore[misc]
    return {
        "unmasked": runs.pop("unmasked"),
        **anew(lambda: made("unmasked")(source, width)),
        **runs,
    }


def anew(run: Run) -> dict[str, Run]:
    def forgetting() -> object:
        products.KEPT.clear()
        return run()

    return {"unmasked, laid out anew": forgetting}


def caption(width: int, _: str) -> dict[str, Run]:
    """One sentence of the model that ships."""
    translator = load("de-en")

    def run() -> object:
        return translator.translate("Ein Hund rennt über die grüne Wiese.", beam_size=width)

    return {"unmasked": run, **anew(run)}


def memory() -> dict[str, dict[str, float]]:
    """Peaks of a process with one of them alone, in GB."""
    found = {}
    for who in WHO:
        words = [sys.executable, __file__, who, folder().name]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found[who] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def main(who: str, path: str) -> None:
    torch.set_num_threads(1)
    found = {}
    search = WHO[who](Path(path))
    found["loaded"] = peak()
    for rows, width in ((1, 1), (32, 4)):
        search(sentences(rows), width)
        found[f"{rows} × beam {width}"] = peak()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
