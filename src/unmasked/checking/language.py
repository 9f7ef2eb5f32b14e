"""Tests language models: decoders without an encoder, with their caches, and encoders alone."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from . import order as places
from . import properties, reach
from .probe import ROWS, AnswerError, Forward, Probe, can_be_said
from .properties import in_steps, require_same
from .report import Finding

LENGTHS = tuple((0, n) for n in (3, 2, 1, 5, 8, 11, *[13] * (ROWS - 6)))  # no source, 13 words
WORDS = 13
LATER = torch.ones(WORDS, WORDS).tril(-1).bool()  # [word, output]: the word is later
Step = Any  # (model, tokens so far, how many are in the cache, cache) → their logits, the cache
Change = Callable[[int, Tensor, Any, int], tuple[Tensor, Any, int]]

CACHES = ("cached", "cached, padded", "chunked", "reordered", "cropped", "static")
# What a fault of the first makes unclear, since it may be the reason for what the others show.
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "repeats": ("causality", "own words", "order", "batch", "right padding", "left padding",
                "like", *CACHES),
    "causality": ("right padding", *CACHES),
    "batch": ("causality", "own words", "right padding", "left padding", "reordered"),
    "left padding": ("cached, padded",),
    "cached": CACHES[1:],
}  # fmt: skip


class LanguageProbe(Probe):
    """A probe of one vocabulary, which calls `forward(model, tokens)`."""

    unclear, followers, target_word = "unclear", FOLLOWERS, "token"

    def __init__(
        self, model: nn.Module, forward: Any, vocab: int, padding: int | None, seed: int,
        rests: bool,
    ) -> None:  # fmt: skip
        self.rests = rests  # parts that a call of words alone leaves out, such as a vision tower
        super().__init__(model, forward, (vocab, vocab), padding or 0, seed, LENGTHS)
        self.eps = max(self.eps, torch.finfo(torch.float32).eps)  # tables are often no finer

    def called(self, forward: Any) -> Forward:
        """Returns `forward(model, tokens)` as a probe calls it, with an empty source."""
        return lambda model, _, tokens: cast(Tensor, forward(model, tokens))

    @cached_property
    def influences(self) -> tuple[Tensor, Tensor]:
        """Returns how far each word moves each output, [T, T], in the place of the target's."""
        return torch.empty(0), self.influence(1)

    def ask(self, tokens: Tensor, forward: Any = None, *, grad: bool = False) -> Tensor:
        """Returns logits [B, T, V] for these tokens [B, T], from one pass or by `forward`."""
        return self(tokens[:, :0], tokens, forward, grad=grad)

    def left(self, least: int = 1) -> tuple[Tensor, Tensor]:
        """Returns the sentences behind padding, and which tokens are words: twice [B, T]."""
        lengths = torch.tensor([n for _, n in LENGTHS], device=self.device).clamp(min=least)
        real = torch.arange(WORDS, device=self.device) >= WORDS - lengths[:, None]
        return self.target.masked_fill(~real, self.padding), real

    def resting(self) -> list[str]:
        """Returns submodules that a call leaves out: those with parts, and layers beside them."""
        if not self.rests:
            return []
        called: set[str] = set()
        modules = dict(self.model.named_modules())
        hooks = [
            (module, lambda *_, name=name: called.add(name)) for name, module in modules.items()
        ]
        self.watched(self.target, hooks)
        idle = [n for n in modules if n and not any(f"{c}.".startswith(f"{n}.") for c in called)]
        holders = {name.rpartition(".")[0] for name in idle}
        beside = {name.rpartition(".")[0] for name in holders & set(idle)}
        return [name for name in idle if name in holders or name.rpartition(".")[0] in beside]

    def in_parts(self, step: Step, parts: Sequence[int], change: Change | None = None) -> Any:
        """Returns a forward that runs parts with such lengths, with a cache between them.

        Before part i, `change(i, tokens, cache, seen)` may give other tokens, cache and length.
        """

        def forward(model: nn.Module, _: Tensor, tokens: Tensor) -> Tensor:
            cache, seen, logits = None, 0, torch.empty(0)
            for number, length in enumerate(parts):
                if change is not None:
                    tokens, cache, seen = change(number, tokens, cache, seen)
                    if cache is None and seen:
                        raise AnswerError("the changed cache is None", "return the cache")
                answer = step(model, tokens[:, : seen + length], seen, cache)
                pair = isinstance(answer, tuple) and len(answer) == 2
                if not pair or not isinstance(answer[0], Tensor) or answer[0].dim() != 3:
                    got = f"step returns {type(answer).__name__}"
                    raise AnswerError(got, "return (logits [B, new, V], cache)")
                new, cache = answer
                if new.shape[1] != length:
                    got = f"{new.shape[1]} outputs for {length} new tokens"
                    raise AnswerError(f"step returns {got}", "return the new tokens' logits")
                logits = torch.cat([logits[:, :seen], new], 1) if seen else new
                seen += length
            return logits

        return forward


# --- What an output sees ----------------------------------------------------------------------


def causality(probe: LanguageProbe) -> Finding:
    """Tests whether later words, or their number, move an output, and describes a prefix."""
    finding = reach.causality(probe)
    if finding.verdict == "passed":
        cut = probe.ask(probe.target[:, :9])
        fix = "does something depend on the text's length?"
        require_same(probe, cut, probe.base[:, :9], "without the last four words", fix)
    leaks = (probe.influences[1] > probe.scale.same) & LATER
    if finding.verdict != "fault" or not leaks.any():
        return finding
    if torch.equal(leaks, LATER):
        what = f"every output sees every later word: it reads both ways ({int(LATER.sum())} pairs)"
        fix = (
            "right for an encoder (encoder=True); a decoder needs a causal mask in all layers, and "
            "no norm, softmax or view that runs over positions"
        )
        return Finding("causality", "fault", what, fix)
    for length in range(2, WORDS):
        inside = torch.arange(WORDS) < length
        if torch.equal(leaks, LATER & inside & inside[:, None]):
            what = f"the first {length} words see each other both ways: a prefix"
            return Finding("causality", "note", what, "right for a prefix language model")
    return finding


def both_ways(probe: Probe) -> Finding:
    """Tests whether every output of an encoder sees every word, and describes a window."""
    seen = probe.influences[1] > probe.scale.hardly
    distance = (torch.arange(WORDS)[:, None] - torch.arange(WORDS)).abs()
    for size in range(1, WORDS - 1):
        if torch.equal(seen, distance <= size):
            what = f"each output sees the words up to {size} away: a window"
            return Finding("own words", "note", what, "right if the layers are to look so far")
    fix = "is there a mask that hides more than padding?"
    finding = reach.reaches(probe, "own words", "word", probe.influences[1], fix)
    return sparse(finding, seen) if (seen & LATER).any() else finding


def sparse(finding: Finding, seen: Tensor) -> Finding:
    """Turns a fault into a note where each output sees its own word, and all but one another."""
    fine = seen.diagonal().all() and (seen.sum(0) > 1).sum() >= WORDS - 1
    if finding.verdict != "fault" or not fine:
        return finding
    return Finding("own words", "note", finding.what, "right for a sparse mask, as of sinks")


def own_words(probe: Probe) -> Finding:
    """Tests whether an output sees its words so far, and describes windows and chunks."""
    seen = probe.influences[1] > probe.scale.hardly  # [word, output]
    words, outputs = torch.arange(WORDS)[:, None], torch.arange(WORDS)
    past = words <= outputs
    if not seen.diagonal()[1:].any() and seen[0, 1:].any():
        what = "no output sees its own word, only those before: outputs come one too late"
        return Finding("own words", "fault", what, "logits are shifted, or a mask has no diagonal")
    if torch.equal(seen & past, words == outputs):
        what = "each output sees its own word alone: nothing passes between positions"
        return properties.without(probe, "own words", what, "does attention read other positions?")
    for size in range(2, WORDS):
        for named, looks in (
            ("last {} words: a window", outputs - words < size),
            ("words of its own {}: chunks", words // size == outputs // size),
        ):
            if torch.equal(seen & past, past & looks):
                what = f"each output sees the {named.format(size)}"
                return Finding("own words", "note", what, "right if the layers are to look so far")
    fix = "a mask that hides too much, or logits that are shifted"
    finding = sparse(
        reach.reaches(probe, "own words", "token", probe.influences[1], fix), seen & past
    )
    if finding.verdict == "passed" and (missed := reach.unread(probe, 1, reach.own_row_only)):
        module, (output, _) = missed
        what = f"output[{output}] reads earlier words in what {module} returns, not its own"
        return Finding("own words", "note", what, "a causal mask without its diagonal?")
    return finding


def order(probe: Probe, encoder: bool) -> Finding:
    """Tests whether words that change places change the outputs behind them."""
    finding = places.order(probe, ("token",))
    if finding.verdict != "fault" or encoder:
        return finding
    if places.alike(probe):
        what = "all words before an output count alike: no positions but the causal mask"
        return Finding("order", "note", what, "right for a model without positions (NoPE)")
    if max(places.exchanged(probe, 1))[0] <= 20 * probe.scale.swapped:
        what = "words that change places move the outputs by no more than rounding"
        return Finding("order", "note", what, "check again after some training, or in float64")
    return finding


# --- Sentences beside each other ----------------------------------------------------------------


def batch(probe: LanguageProbe) -> Finding:
    """Tests whether a sentence gets the same logits alone, in company, and in another order."""
    fix = (
        "sentences mix: a view, a softmax or norm over the batch, a cache that is kept, or "
        "experts that have room for so many words only"
    )
    for row in (0, ROWS - 1):
        alone = probe.ask(probe.target[[row]])
        require_same(probe, alone, probe.base[[row]], "without the batch's other sentences", fix)
    turned = probe.ask(probe.target.flip(0)).flip(0)
    require_same(probe, turned, probe.base, "with the sentences in another order", fix)
    return Finding("batch", "passed", "no sentence knows another")


def padded(probe: LanguageProbe, side: str) -> Finding:
    """Tests whether short sentences, padded on this side, get the logits that they get alone."""
    left, name = side == "left", f"{side} padding"
    tokens, _ = probe.left() if left else (probe.ragged[1], None)
    fix = "is padding hidden in every layer, by each row's own mask, and not counted as positions?"
    for grad in (False, True):
        together = probe.ask(tokens, grad=grad)
        for row in range(6):
            n = LENGTHS[row][1]
            part = slice(WORDS - n, None) if left else slice(n)
            alone = probe.ask(probe.target[[row]][:, part], grad=grad)
            when = f"{WORDS - n} of padding {'before' if left else 'behind'} {n} words"
            require_same(probe, together[[row]][:, part], alone, f"with {when}", fix)
        if not together[..., can_be_said(probe.base)].isfinite().all():
            what = "outputs at the padding itself are not finite"
            return Finding(name, "fault", what, "a row that is masked everywhere: 0 · NaN is NaN")
    return Finding(name, "passed", "no output moves by more than rounding")


# --- The cache ----------------------------------------------------------------------------------


def cached(
    probe: LanguageProbe, name: str, step: Step, parts: Sequence[int], pads: bool = False
) -> Finding:
    """Tests whether parts, with a cache between them, get the logits of one pass; twice."""
    tokens, real = probe.left(7) if pads else (probe.target, torch.ones_like(probe.target).bool())
    questions = [(each[:, :0], each, counts)
                 for each, counts in ((tokens, real), (tokens.flip(0), real.flip(0)))]  # fmt: skip
    sizes = ", ".join(map(str, sorted(set(parts))))
    how = "token by token" if max(parts) == 1 else f"in parts of {sizes} tokens"
    fix = "the position of each step, the keys' rotation, the mask's and the cache's length"
    in_steps(probe, probe.in_parts(step, parts), questions, f"with a cache, {how}", fix)
    return Finding(name, "passed", f"{len(parts)} steps give the outputs of one pass")


def reordered(probe: LanguageProbe, step: Step, reorder: Any) -> Finding:
    """Tests whether the cache's rows follow when sentences change places, as beams do; twice."""
    rows = torch.tensor([1, 1, 0, *range(ROWS - 1, 2, -1)], device=probe.device)
    final = probe.target
    for cut in (5, 9):
        final = torch.cat([final[rows, :cut], final[:, cut:]], 1)

    def change(number: int, tokens: Tensor, cache: Any, seen: int) -> tuple[Tensor, Any, int]:
        if number in (1, 5):
            tokens = torch.cat([tokens[rows, :seen], tokens[:, seen:]], 1)
            cache = reorder(cache, rows)
        return tokens, cache, seen

    got = probe.ask(probe.target, probe.in_parts(step, [5] + [1] * (WORDS - 5), change))
    last = (torch.arange(WORDS, device=probe.device) >= 9).expand(ROWS, -1)
    fix = "which tensors keep the old rows? A cache that is no nest of tensors needs reorder=…"
    require_same(probe, got, probe.ask(final), "after the cache's rows change places", fix, last)
    return Finding("reordered", "passed", f"the cache's rows follow twice in {WORDS} steps")


def cropped(probe: LanguageProbe, step: Step, crop: Any) -> Finding:
    """Tests whether a cache forgets tokens that are taken back, as speculative decoding does."""
    others = probe.words[1].others(probe.target)
    wrong = torch.cat([probe.target[:, :7], others[:, 7:]], 1)

    def change(number: int, tokens: Tensor, cache: Any, seen: int) -> tuple[Tensor, Any, int]:
        return (probe.target, crop(cache, 3), 7) if number == 2 else (tokens, cache, seen)

    got = probe.ask(wrong, probe.in_parts(step, [6, 4] + [1] * (WORDS - 7), change))
    fix = "does every tensor of the cache forget them, and the next position too?"
    require_same(probe, got, probe.base, "after three tokens are taken back", fix)
    return Finding("cropped", "passed", "three tokens that are taken back leave no trace")


def rows_of(cache: Any, rows: Tensor) -> Any:
    """Returns a cache of nested tuples, lists and dicts with its tensors' first dimension taken."""
    number = isinstance(cache, Tensor) and cache.dim() == 0
    if isinstance(cache, Tensor) and not number and len(cache) == ROWS:
        return cache.index_select(0, rows)
    if isinstance(cache, dict):
        return {key: rows_of(value, rows) for key, value in cache.items()}
    if type(cache) in (tuple, list):
        return type(cache)(rows_of(x, rows) for x in cache)
    if number or cache is None or isinstance(cache, int | float | str):
        return cache
    raise NotImplementedError("pass reorder=…, since the cache's rows cannot be told")


def questions(
    *, encoder: bool, step: Step, reorder: Any, crop: Any, pads: bool
) -> tuple[dict[str, Callable[[Any], Finding]], dict[str, str]]:
    """Returns the tests of a language model by name, and why some of them are not offered."""
    ones, prompt = [1] * WORDS, [8] + [1] * (WORDS - 8)
    tests: dict[str, Callable[[Any], Finding]] = {
        "runs": properties.runs,
        "repeats": properties.repeats,
        "batch": batch,
        "causality": causality,
        "own words": both_ways if encoder else own_words,
        "right padding": partial(padded, side="right"),
        "left padding": partial(padded, side="left"),
        "order": partial(order, encoder=encoder),
        "cached": partial(cached, name="cached", step=step, parts=ones),
        "cached, padded": partial(
            cached, name="cached, padded", step=step, parts=prompt, pads=True
        ),
        "chunked": partial(cached, name="chunked", step=step, parts=[2, 3, 1, 4, 3]),
        "reordered": partial(reordered, step=step, reorder=reorder or rows_of),
        "cropped": partial(cropped, step=step, crop=crop),
    }
    silent = {} if step else dict.fromkeys(CACHES[:5], "no step was given")
    if encoder:
        silent = dict.fromkeys(("causality", *CACHES[:5]), "an encoder reads both ways")
        silent["left padding"] = "an encoder's padding stands behind"
    if not pads:
        why = "the model has no padding"
        silent |= dict.fromkeys(("right padding", "left padding", "cached, padded"), why)
    if crop is None:
        silent.setdefault("cropped", "no crop was given")
    return tests, silent
