"""Scores a model on sentences that it has not seen."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import invalid, require_choice, require_whole
from ..evaluation import alignment_agreement, bleu, chrf, exact
from ..text.corpus import lines
from ..text.multi30k import SPLITS, multi30k
from ..text.sources import directed, phrasebook_test, two_files
from ..translator import Translator, load
from .options import MODEL, PENALTY, WHOLE, add_device, chosen_device, command

EXAMPLE = """python -m unmasked evaluate --model runs/mine --test test.de test.en --beam 5
  python -m unmasked evaluate --model en-de --test test_2016_flickr
  python -m unmasked evaluate --model runs/phrasebook --sentences 1000 --beam 4"""

DRAWS = 1000  # samples of the sentences, for a confidence interval
OWN = {"phrasebook": "phrasebook", "multi30k": "test_2016_flickr"}  # training data: default test
TESTS = ("phrasebook", *(split for split in SPLITS if split != "train"))


def main(words: Sequence[str]) -> None:
    parser = command("evaluate", __doc__ or "", EXAMPLE)
    sets = f"two files, source and target, or a set: {', '.join(TESTS)}"
    add = parser.add_argument
    add("--model", required=True, metavar="MODEL", help=MODEL)
    add("--test", nargs="+", metavar=("SET", "TARGET"),
        help=f"{sets} (default: one that fits the model)")  # fmt: skip
    add("--sentences", **WHOLE, help="how many (phrasebook: 500; all)")
    add("--beam", **WHOLE, help="hypotheses (phrasebook: 1, greedy; else both 1 and 5)")
    add("--length-penalty", type=float, metavar="X", help=PENALTY)
    add_device(parser)
    options = parser.parse_args(words)
    for name in ("sentences", "beam"):
        if getattr(options, name) is not None:
            require_whole(f"--{name}", getattr(options, name), 1)
    files = options.test if options.test and len(options.test) > 1 else None
    if options.test and not files:
        require_choice("--test", options.test[0], TESTS)
    translator = load(options.model, device=chosen_device(options.device))
    languages, own = translator.languages, OWN.get(str(translator.data.get("name")))
    test = options.test[0] if options.test else own
    if test is None:
        fix = "name one, as the model does not say what it is for"
        raise invalid("--test", "two files, or a set of sentences", "none", fix)
    if test == "phrasebook" and not files:
        options.beam = options.beam or 1
    if options.length_penalty is not None and options.beam == 1:
        raise invalid("--length-penalty", "--beam beside it", "none", "it is for a beam alone")
    if files:
        pairs = list(lines(*two_files("--test", files)))
        how: Any = {"lowercase": getattr(translator.source, "lowercase", True), "draws": DRAWS}
        texts(translator, " and ".join(files), pairs, options, **how)
    elif languages and test != "phrasebook":
        texts(translator, test, directed(multi30k(test), *languages), options)
    elif not languages and test == "phrasebook":
        known_combinations(translator, options)
    else:
        fix = "leave it out, or take another model"
        kind = "one of Multi30k's sets" if languages else "phrasebook, for a model of it"
        raise invalid("--test", f"{kind}, or two files", test, fix)


def known_combinations(translator: Translator, options: Any) -> None:
    """Prints how many unseen sentences of the phrasebook are translated without any error."""
    drawn = phrasebook_test(options.sentences or 500)
    source, target = translator.source, translator.target
    pairs = [pair for pair in drawn if source.knows(pair.german) and target.knows(pair.english)]
    if not pairs:
        fix = "take more of them, or train on more sentences"
        raise invalid("--sentences", "sentences whose words the model knows", "none", fix)
    if len(pairs) < len(drawn):
        print(f"left out, for words that the model does not know: {len(drawn) - len(pairs)}")
    print("translated without a mistake:")
    settings: Any = {"length_penalty": options.length_penalty, "progress": True}
    for name, score in exact(translator, pairs, options.beam, **settings).items():
        print(f"  {name:14} {score}")
    agreement = alignment_agreement(translator, pairs)
    print(f"last layer's strongest source word is an aligned one: {agreement}")


def published(about: Any, test: str, name: str) -> str:
    """Returns text such as ", published 31.20" for a score in the model's card, or empty text."""
    for key in ("scores", test, name):
        about = about.get(key) if isinstance(about, Mapping) else None
    return f", published {about:.2f}" if isinstance(about, int | float) else ""


def texts(
    translator: Translator, test: str, pairs: Sequence[tuple[str, str]], options: Any, **how: Any
) -> None:
    """Prints BLEU and chrF of the translations of pairs' sources, and the model card's scores."""
    pairs, penalty = pairs[: options.sentences], options.length_penalty
    if not pairs:
        raise invalid("--test", "sentences", "none", "check the files")
    source, target = zip(*pairs, strict=True)
    own = translator.about.get("beam_size", 5)
    require_whole("the model's beam_size", own)
    for size in [options.beam] if options.beam else [1, own]:
        settings: Any = {"beam_size": size, "length_penalty": penalty if size > 1 else None}
        written = translator.translate(source, **settings, progress=True)
        scores = [metric(written, target, **how) for metric in (bleu, chrf)]
        words, letters = (f"{x} ± {x.interval:.2f}" if how else str(x) for x in scores)
        name = "greedy" if size == 1 else f"beam {size}"
        usual = penalty is None and not options.sentences
        known = published(translator.about, test, name) if usual else ""
        print(f"{name:7} BLEU {words}{known}; chrF {letters}")
    print(f"{test}, {len(pairs):,} sentences; {scores[0].signature}")
