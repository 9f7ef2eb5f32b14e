"""Puts a trained translator into the package as it ships, scores it there, and records both.

Example: python benchmarks/translation.py runs/multi30k-en-de
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from command import command, say
from model_card import card
from unmasked.evaluation import bleu, chrf, mean_cross_entropy, paired_bootstrap
from unmasked.machine import machine
from unmasked.storage.files import digest
from unmasked.storage.model import weights_file
from unmasked.text.multi30k import multi30k
from unmasked.text.sources import directed
from unmasked.translator import MODELS, Translator
from unmasked_book.heads import align, head_atlas
from unmasked_book.records import record

Pairs = Sequence[tuple[str, str]]
SPLITS = ("val", "test_2016_flickr")
BEAMS = {"greedy": 1, "beam 5": 5}
BUCKETS = (0, 8, 11, 14, 18, 100)  # words of the source: from each to below the next
PENALTIES = (0.6, 1.0, 1.4)  # of length; more while the best, on the validation set, is the last
CARD = "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the folder that python -m unmasked train wrote")
    run = parser.parse_args().run
    trained = Translator.load(run)
    if trained.languages is None:
        parser.error(f"{run}: its recipe names no languages; train --preset multi30k-en-de")
    name = "-".join(trained.languages)
    (MODELS / name / CARD).write_text(card(name, take_in(trained, run, name)))


def take_in(trained: Translator, run: Path, name: str) -> dict[str, Any]:
    """Chooses the length penalty, scores the training, keeps it in float16, and scores that."""
    kept = MODELS / name
    history = json.loads(newest_state(run).read_text())["state"]["history"]
    penalties = with_penalties(trained)
    trained.about["length_penalty"] = float(max(penalties, key=lambda each: penalties[each]))
    say(f"scoring {run}, length penalty {trained.about['length_penalty']}")
    scores = {split: score(trained, split) for split in SPLITS}
    trained.save(kept, dtype=torch.float16)
    say(f"scoring {kept}")
    shipped = Translator.load(kept)
    again = {split: score(shipped, split) for split in SPLITS}
    shipped.about["scores"] = {split: found["bleu"] for split, found in again.items()}
    shipped.save(kept, dtype=torch.float16)
    result = {
        "machine": {**machine(), "command": command(__file__)},
        "training": {**trained.about, "seconds": history[-1]["seconds"], "history": history},
        "parameters": shipped.model.count_parameters(),
        "bytes": weights_file(kept).stat().st_size,
        "sha256": digest(weights_file(kept)),
        "float32": {split: found["bleu"] for split, found in scores.items()},
        **summary(again),
        "penalties": penalties,
        "surprise": {split: cross_entropy(shipped, split) for split in ("train", *SPLITS)},
        "by_length": by_length(again["test_2016_flickr"], shipped),
        "atlas": heads(shipped),
    }
    say(f"recorded in {record(f'multi30k-{name}', result)}; the model is in {kept}")
    return result


def summary(scored: dict[str, Any]) -> dict[str, Any]:
    """Of the weights that ship. The paired test asks whether a beam is more than chance."""
    test = scored["test_2016_flickr"]
    beam = paired_bootstrap(test["written"]["greedy"], test["written"]["beam 5"], test["target"])
    return {
        "float16": {split: found["bleu"] for split, found in scored.items()},
        "chrf": {split: found["chrf"] for split, found in scored.items()},
        "interval": test["interval"],
        "beam": {"difference": round(beam.difference, 2), "p": round(beam.p, 4)},
        "signature": test["signature"],
    }


def newest_state(run: Path) -> Path:
    return sorted((run / "checkpoints").glob("step-*/state.json"))[-1]


def with_penalties(translator: Translator) -> dict[str, float]:
    """BLEU on the validation set with a beam of five, by which the choice is made."""
    found: dict[str, float] = {}
    source, target = zip(*pairs_of(translator, "val"), strict=True)
    tried = list(PENALTIES)
    for penalty in tried:
        written = translator.translate(source, beam_size=5, length_penalty=penalty)
        found[f"{penalty}"] = round(bleu(written, target).score, 2)
        say(f"    length penalty {penalty}: BLEU {found[f'{penalty}']}")
        if penalty == tried[-1] and found[f"{penalty}"] == max(found.values()):
            tried.append(round(penalty + 0.4, 1))
    return found


def score(translator: Translator, split: str) -> dict[str, Any]:
    """BLEU, greedy and with a beam, with what was written."""
    source, target = zip(*pairs_of(translator, split), strict=True)
    written = {
        name: translator.translate(source, beam_size=size, progress=True)
        for name, size in BEAMS.items()
    }
    scores = {name: bleu(texts, target) for name, texts in written.items()}
    for name, found in scores.items():
        say(f"    {split}, {name}: {found}")
    return {
        "bleu": {name: round(found.score, 2) for name, found in scores.items()},
        "chrf": {name: round(chrf(texts, target).score, 2) for name, texts in written.items()},
        "signature": scores["greedy"].signature,
        "interval": bleu(written["beam 5"], target, draws=1000).interval,
        "source": source,
        "target": target,
        "written": written,
    }


def pairs_of(translator: Translator, split: str) -> Pairs:
    assert translator.languages is not None
    return directed(multi30k(split), *translator.languages)


def cross_entropy(translator: Translator, split: str) -> float:
    """Nats a subword; of the training set its first two thousand sentences."""
    pairs = pairs_of(translator, split)[:2000]
    return round(mean_cross_entropy(translator.model, translator.corpus(pairs)), 3)


def by_length(scored: dict[str, Any], translator: Translator) -> list[dict[str, Any]]:
    """Scores by the words of the source, with their intervals and lengths beside the references."""
    rows, trained = [], [len(text.split()) for text, _ in pairs_of(translator, "train")]
    for low, high in pairwise(BUCKETS):
        chosen = [i for i, text in enumerate(scored["source"]) if low <= len(text.split()) < high]
        target = [scored["target"][i] for i in chosen]
        row: dict[str, Any] = {"from": low, "to": high - 1, "sentences": len(chosen)}
        row["of training"] = round(sum(low <= n < high for n in trained) / len(trained), 4)
        for name, texts in scored["written"].items():
            written = [texts[i] for i in chosen]
            found = bleu(written, target, draws=1000)
            row[name] = round(found.score, 2)
            assert found.interval is not None
            row[f"{name}, interval"] = round(found.interval, 2)
            row[f"{name}, length"] = round(words(written) / words(target), 3)
        rows.append(row)
    return rows


def words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def heads(translator: Translator) -> dict[str, Any]:
    """Over the validation set; its alignments are learnt from it and the training set."""
    train, val = (translator.corpus(pairs_of(translator, split)) for split in ("train", "val"))
    pairs = [*val.pairs, *train.pairs]
    inner = [target[1:-1] for _, target in pairs]
    links = align([source[:-1] for source, _ in pairs], inner)[: len(val)]
    found = head_atlas(translator, pairs_of(translator, "val"), links)
    return {
        kind: {role: [[round(x, 4) for x in row] for row in weights.tolist()]
               for role, weights in roles.items()}
        for kind, roles in found.items()
    }  # fmt: skip


if __name__ == "__main__":
    main()
