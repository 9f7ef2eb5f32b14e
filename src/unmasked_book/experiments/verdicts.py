"""What the measurements say of each claim: the rules of `rules.md`, as functions of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from textwrap import fill
from typing import Any, NamedTuple

from unmasked_book.experiments.beyond import KINDS, LENGTHS, TRAINED
from unmasked_book.experiments.by_length import MODELS as RACERS
from unmasked_book.experiments.copying import LENGTHS as COPIED
from unmasked_book.experiments.copying import MODELS as COPIERS
from unmasked_book.experiments.root_of_width import DIVIDED, SMALLER, UNDIVIDED, WIDTHS
from unmasked_book.experiments.small_data import LSTMS, SIZES
from unmasked_book.experiments.statistics import (
    Rows,
    above,
    difference,
    options,
    row,
    trials,
    with_ends,
)
from unmasked_book.experiments.texts import LONG, SHORT
from unmasked_book.experiments.variations import LEARNED, NAMES, SCALED, SINUSOIDAL
from unmasked_book.experiments.warm_up import CLIPS, NORMS, WARM_UPS
from unmasked_book.machines import exponent, where
from unmasked_book.records import recorded

YES, PARTLY, NO = "confirmed", "confirmed with a condition", "not confirmed"
UNTESTED = "not tested"
NEAR = 0.02  # nats per word: what still counts as no difference between kinds of positions
SEVERAL = tuple(f"{n} heads" for n in (2, 4, 8, 16))  # those compared with one
POINTS = 0.02  # of letters right: what still counts as no gain by a warm-up


class Verdict(NamedTuple):
    """Shown as a paragraph where Markdown is, and as lines elsewhere."""

    word: str
    reason: str
    ran: str = ""  # where and when

    def _repr_markdown_(self) -> str:
        text = f"**{self.word.capitalize()}:** {self.reason}."
        return f"{text} *({self.ran})*" if self.ran else text

    def __repr__(self) -> str:
        text = fill(f"{self.word.upper()}: {self.reason}", 90)
        return f"{text}\n{self.ran}" if self.ran else text


def percent(values: list[float], digits: int = 0) -> str:
    return f"{100 * fmean(values):.{digits}f}%"


def loss_of(each: Mapping[str, Any]) -> float:
    """The validation loss at the options that a case has chosen: the lowest of the last ladder."""
    return float(min(list(each["tried"].values())[-1].values()))


def by_length(rows: Rows) -> Verdict:
    """All positions at once: a Transformer trains faster."""
    lengths, most = options(rows, "length"), max(options(rows, "threads"))
    took = {(n, model): row(rows, threads=most, length=n, model=model)["seconds"]
            for n in lengths for model in RACERS}  # fmt: skip
    ends = lengths[0], lengths[-1]
    ratios = {lstm: [took[n, lstm] / took[n, RACERS[-1]] for n in ends] for lstm in RACERS[:-1]}
    reason = f"a step's time relative to the Transformer's, at {ends[0]} words and at {ends[1]:,}: "
    reason += "; ".join(f"{lstm}, {a:.2f} and {b:.2f}" for lstm, (a, b) in ratios.items())
    reason += f"; but on {most} threads of a CPU, and the claim is about "
    return Verdict(UNTESTED, reason + "hardware that does many things at once")


def copying(rows: Rows) -> Verdict:
    """A short way between any two words: a Transformer learns more easily what is far away."""
    n = options(rows, "letters_a_row")[-1]
    *lstms, transformer = (trials(rows, "right", letters_a_row=n, model=m) for m in COPIERS)
    shares = "; ".join(
        f"{m} {percent(r, 3)}" for m, r in zip(COPIERS, [*lstms, transformer], strict=True)
    )
    reason = f"share of letters right, in rows of {n}: {shares}"
    if all(above(transformer, lstm) for lstm in lstms):
        return Verdict(YES, reason)
    if above(transformer, lstms[0]):
        return Verdict(PARTLY, f"{reason}; with attention an LSTM does as well")
    return Verdict(NO, reason)


def small_data(rows: Rows) -> Verdict:
    """A short text, or little data, favours the LSTM."""
    sizes = options(rows, "pairs")
    better = {}
    for sentences in (SHORT, LONG):
        for size in sizes:
            where = {"sentences": sentences, "pairs": size}
            lstm = min((row(rows, **where, model=m) for m in LSTMS), key=loss_of)["model"]
            ours, its = (trials(rows, "nats", **where, model=m) for m in ("Transformer", lstm))
            better[sentences, size] = above(ours, its) - above(its, ours)
    wins = sum(sign > 0 for sign in better.values())
    losses = sum(sign < 0 for sign in better.values())
    reason = f"the better LSTM is clearly ahead in {wins} of {len(better)} cases, the Transformer "
    reason += f"in {losses}"
    few = [better[sentences, sizes[0]] > 0 for sentences in (SHORT, LONG)]
    many = [better[sentences, sizes[-1]] > 0 for sentences in (SHORT, LONG)]
    if all(few) and not any(many):
        return Verdict(YES, reason)
    return Verdict(PARTLY if any(few) else NO, reason)


def root_of_width(rows: Rows) -> Verdict:
    """Without the division by √K, learning suffers, and the more the wider the heads."""
    widths = options(rows, "width")
    right = {(w, kind): trials(rows, "right", width=w, kind=kind)
             for w in widths for kind in (DIVIDED, UNDIVIDED, SMALLER)}  # fmt: skip
    gains = {w: difference(right[w, DIVIDED], right[w, UNDIVIDED]).mean for w in widths}
    left = {w: difference(right[w, DIVIDED], right[w, SMALLER]).mean for w in widths}
    reason = ", ".join(f"{100 * gains[w]:+.1f} points at K = {w}" for w in widths)
    rest = ", ".join(f"{100 * left[w]:+.1f}" for w in widths)
    reason = f"the division gives {reason}; "
    reason += f"against an undivided model with the same first scores, {rest}"
    sure = {kind: [above(right[w, DIVIDED], right[w, kind]) for w in widths]
            for kind in (UNDIVIDED, SMALLER)}  # fmt: skip
    if all(sure[UNDIVIDED] + sure[SMALLER]) and gains[widths[-1]] > gains[widths[0]]:
        return Verdict(YES, reason)
    return Verdict(PARTLY if sure[UNDIVIDED][-1] else NO, reason)


def heads(rows: Rows) -> Verdict:
    """Several heads are better than one of the same whole width."""
    one = trials(rows, "nats", variation="1 head")
    better = [name for name in SEVERAL if above(one, trials(rows, "nats", variation=name))]
    reason = f"clearly better than one head: {', '.join(better) or 'none'}"
    if not better:
        return Verdict(NO, reason)
    return Verdict(YES if better == list(SEVERAL) else PARTLY, reason)


def positions(rows: Rows) -> Verdict:
    """Learned positions and sinusoids give nearly the same."""
    nats = {v: trials(rows, "nats", variation=v) for v in (SINUSOIDAL, LEARNED, SCALED)}
    gaps = {v: difference(nats[v], nats[SINUSOIDAL]) for v in (LEARNED, SCALED)}
    within = [gap.low > -NEAR and gap.high < NEAR for gap in gaps.values()]
    reason = "; ".join(f"{NAMES[name]} minus sinusoidal: {with_ends(gap)} nats"
                       for name, gap in gaps.items())  # fmt: skip
    return Verdict(YES if all(within) else PARTLY if any(within) else NO, reason)


def beyond(rows: Rows) -> Verdict:
    """Sinusoids allow for longer sequences than were trained."""
    _, longest = TRAINED
    longer = [i for i, n in enumerate(LENGTHS) if n > longest]
    exact = {kind: exact_by_length(rows, kind) for kind in KINDS}
    ahead = {i: all(above(exact[SINUSOIDAL][i], exact[kind][i]) for kind in (LEARNED, SCALED))
             for i in longer}  # fmt: skip
    reach = [i for i in longer if ahead[i]]
    first = longer[0]
    shares = "; ".join(f"{NAMES[kind]} {percent(exact[kind][first], 1)}" for kind in KINDS)
    reason = f"right at {LENGTHS[first]} letters, where {longest} were trained: {shares}"
    if not reach:
        return Verdict(NO, reason)
    return Verdict(YES if len(reach) == len(longer) else PARTLY, reason)


def exact_by_length(rows: Rows, kind: str) -> list[list[float]]:
    """The shares of words that were right, for each length seed by seed."""
    by_length = zip(*trials(rows, "exact", positions=kind), strict=True)
    return [list(shares) for shares in by_length]


def warm_up(rows: Rows) -> Verdict:
    """Post-norm needs warm-up; pre-norm does without."""
    none, some = options(rows, "warmup")

    gains, holds = [], {}
    for clip in options(rows, "clip"):
        pairs = {norm: [trials(rows, "right", norm=norm, warmup=warmup, clip=clip)
                        for warmup in (some, none)] for norm in ("post", "pre")}  # fmt: skip
        needs = above(*pairs["post"])
        spared = difference(pairs["pre"][0], pairs["pre"][1])
        holds[clip] = needs, needs and max(-spared.low, spared.high) < POINTS
        points = (100 * difference(pairs[norm][0], pairs[norm][1]).mean for norm in ("post", "pre"))
        gains.append(
            "{:+.1f} and {:+.1f} points".format(*points).replace("-", "−")
            + (" without clipping" if clip is None else " with clipping")
        )
    reason = f"at the best rates, a warm-up gains post-norm and pre-norm {'; '.join(gains)}"
    clipped = next(clip for clip in holds if clip is not None)
    if all(whole for _, whole in holds.values()):
        return Verdict(YES, reason)
    return Verdict(PARTLY if holds[clipped][0] else NO, reason)


def squared(scaling: Mapping[str, Mapping[str, list[float]]], lengths: list[int]) -> Verdict:
    """Attention costs n² time and n² memory."""
    last = slice(-3, None)
    grows = {(kind, unit): exponent(lengths[last], scaling[unit][kind][last])
             for unit in ("seconds", "mebibytes") for kind in ("explicit", "fused")}  # fmt: skip
    times, memory = ([grows[kind, unit] for kind in ("explicit", "fused")]
                     for unit in ("seconds", "mebibytes"))  # fmt: skip
    reason = "exponents over the last three lengths: time {:.1f} with explicit weights and {:.1f} "
    reason = (reason + "with the fused kernel; memory {:.1f} and {:.1f}").format(*times, *memory)
    if min(*times, *memory) > 1.5:
        return Verdict(YES, reason)
    return Verdict(PARTLY if max(times) > 1.5 else NO, reason)


VERDICTS: Mapping[str, Callable[[Rows], Verdict]] = {
    "by-length": by_length,
    "copying": copying,
    "small-data": small_data,
    "root-of-width": root_of_width,
    "heads": heads,
    "positions": positions,
    "beyond": beyond,
    "warm-up": warm_up,
}
"""By the name of the experiment; each takes its rows."""


def judged(name: str) -> Verdict:
    """What the recorded runs make of the rule, and where they ran."""
    run = recorded(f"claim-{name}")
    return VERDICTS[name](run["rows"])._replace(ran=where(run["machine"]))


Values = list[float]


def comparisons() -> Iterator[tuple[Values, Values]]:
    """The recorded runs that decide the verdicts, two and two, seed by seed."""

    def pairs(name: str, measured: str, key: str, first: Any, others: Sequence[Any], **at: Any,
              ) -> Iterator[tuple[Values, Values]]:  # fmt: skip
        rows = recorded(f"claim-{name}")["rows"]
        for other in others:
            a, b = (trials(rows, measured, **at, **{key: each}) for each in (first, other))
            yield a, b

    *lstms, transformer = COPIERS
    yield from pairs("copying", "right", "model", transformer, lstms, letters_a_row=COPIED[-1])
    for width in WIDTHS:
        kinds = (UNDIVIDED, SMALLER)
        yield from pairs("root-of-width", "right", "kind", DIVIDED, kinds, width=width)
    yield from pairs("heads", "nats", "variation", "1 head", SEVERAL)
    for sentences, size in product((SHORT, LONG), SIZES):
        at = {"sentences": sentences, "pairs": size}
        yield from pairs("small-data", "nats", "model", "Transformer", ("LSTM",), **at)
    yield from pairs("positions", "nats", "variation", SINUSOIDAL, (LEARNED, SCALED))
    rows = recorded("claim-beyond")["rows"]
    exact = {kind: exact_by_length(rows, kind) for kind in KINDS}
    longer = [i for i, n in enumerate(LENGTHS) if n > TRAINED[1]]
    for i, kind in product(longer, (LEARNED, SCALED)):
        yield exact[SINUSOIDAL][i], exact[kind][i]
    for norm, clip in product(NORMS, CLIPS):
        at = {"norm": norm, "clip": clip}
        yield from pairs("warm-up", "right", "warmup", WARM_UPS[0], WARM_UPS[1:], **at)
