"""What a user of the shipped weights must know, written from what was recorded."""

from typing import Any

NAMES = {"de": "German", "en": "English"}


def card(name: str, result: dict[str, Any]) -> str:
    source, target = (NAMES[code] for code in name.split("-"))
    training, scores = result["training"], result["float16"]
    recipe, machine = training["recipe"]["training"], training["machine"]
    words = training["recipe"]["data"]["vocabulary"]
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    rows = "\n".join(
        f"| {split} | {found['greedy']:.2f} | {found['beam 5']:.2f} |"
        for split, found in scores.items()
    )
    return f"""# {name}: {source} to {target}, captions of pictures

An encoder-decoder Transformer of {result["parameters"]:,} parameters, float16, loaded with
`unmasked.load("{name}")`. It is made for the book *The Transformer, Unmasked*: to be read, taken
apart and measured.

**Data.** Trained on the 29,000 {source} and {target} captions of Multi30k (Elliott et al. 2016) and
on nothing else; `tokenizer.json` holds {words:,} subwords learnt from the same sentences.
Multi30k's repository states no licence for its texts and speaks of research and educational use:
use these weights for research and teaching. No sentence of it is in this repository.

**What it is good for.** Sentences about what can be seen on a photograph, in lower case. Elsewhere
it writes captions all the same: it has seen no questions, no letters, no news. The captions are
descriptions by crowd workers and repeat what such descriptions presume about people, gender and age
above all; so does the model. Do not use it where a translation matters.

**Training.** `{training["command"]}`: {recipe["steps"]:,} updates of up to {recipe["tokens"]:,}
positions, seed {recipe.get("seed", 0)}, {training["seconds"] / 60:.0f} minutes on {threads} of
{machine["processor"]}, torch {machine["torch"]}, {machine["date"]}.

**BLEU**, in per cent, lower case ({result["signature"]}):

| set | greedy | beam of 5 |
|---|---|---|
{rows}
"""
