"""A model in OPUS-MT's format at its real size, beside transformers and CTranslate2.

Weights are random. `run.py --only opus-one …` times it; `python benchmarks/opus.py FOLDER WHO` is
what it calls for the memory of one of them alone.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from peers import ragged
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
        return beam(model, source, width, NEW, length_penalty=1.0, normalize="length").tokens[:, 0]

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


def opus(rows: int, width: int, _: str) -> dict[str, Run]:
    """All of them, and ours as it was; all write the same tokens, but for a tie in rounding."""
    source = ragged(rows, 24)
    runs: dict[str, Any] = {who: partial(made(who), source, width) for who in WHO}
    tokens = {who: [[*map(int, row)] for row in run()] for who, run in runs.items()}
    for who, others in tokens.items():
        if sum(a != b for a, b in zip(tokens["unmasked"], others, strict=True)) > rows // 32:
            raise SystemExit(f"{who}, beam {width}: other sentences")
    return runs | anew(runs["unmasked"])


def anew(run: Run) -> dict[str, Run]:
    """With weights that are laid out in each call."""
    return {"unmasked, laid out anew": lambda: products.KEPT.clear() or run()}  # type: ignore[func-returns-value]


def caption(width: int, _: str) -> dict[str, Run]:
    """One sentence of the model that ships."""
    run = partial(load("de-en").translate, "Ein Hund rennt über die grüne Wiese.", beam_size=width)
    return {"unmasked": run, **anew(run)}


def processor(run: Run, *_: Any) -> float:
    """Seconds that this process was given, with those of CTranslate2's threads."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def memory() -> dict[str, dict[str, float]]:
    """Peaks of a process with one of them alone, in GB."""
    words = [sys.executable, __file__, folder().name]
    done = {who: subprocess.run([*words, who], capture_output=True, check=True) for who in WHO}
    return {who: json.loads(each.stdout.splitlines()[-1]) for who, each in done.items()}


def peak() -> float:
    """Linux alone knows it; `resource` would count what the process before this one had."""
    kilobytes = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return round(int(kilobytes[1]) / 1e6, 2) if kilobytes else 0.0


if __name__ == "__main__":
    torch.set_num_threads(1)
    alone, peaks = WHO[sys.argv[2]](Path(sys.argv[1])), {"loaded": peak()}
    for many, beams in ((1, 1), (32, 4)):
        alone(ragged(many, 24), beams)
        peaks[f"{many} × beam {beams}"] = peak()
    print(json.dumps(peaks))
