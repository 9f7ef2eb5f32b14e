"""What the measurements say of each claim: worked out from them, and not written by hand.

A difference counts if its 95% interval, over the seeds, leaves out zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from textwrap import fill
from typing import NamedTuple

from ..machines import exponent
from .beyond import TRAINED
from .by_length import MODELS as RACERS
from .copying import MODELS as COPIERS
from .learning import LONG, SHORT
from .root_of_width import KINDS as DIVIDED
from .statistics import Rows, above, difference, options, row, trials

_, LONGEST = TRAINED  # letters of a word
YES, PARTLY, NO = "confirmed", "confirmed with a condition", "not confirmed"


class Verdict(NamedTuple):
    word: str
    reason: str

    def __str__(self) -> str:
        return f"{self.word}:\n{fill(self.reason, 80)}"


def by_length(rows: Rows) -> Verdict:
    """All positions at once: a Transformer's training step is the faster one."""
    lengths, most = options(rows, "length"), max(options(rows, "threads"))
    took = {(n, model): row(rows, threads=most, length=n, model=model)["seconds"]
            for n in lengths for model in RACERS}  # fmt: skip
    ratios = {n: took[n, RACERS[0]] / took[n, RACERS[1]] for n in lengths}
    faster = [n for n in lengths if ratios[n] > 1]
    ends = " and ".join(f"{ratios[n]:.2f} at {n:,} words" for n in (lengths[0], lengths[-1]))
    reason = f"the LSTM's time over the Transformer's is {ends}"
    if not faster:
        return Verdict(NO, reason)
    if len(faster) == len(lengths):
        return Verdict(YES, reason)
    which = ", ".join(map(str, faster))
    return Verdict(PARTLY, f"{reason}; the Transformer is faster at {which} words only")


def copying(rows: Rows) -> Verdict:
    """A short way between any two words: what is far away is learnt more easily."""
    n = options(rows, "letters")[-1]
    alone, attending, transformer = (trials(rows, "right", letters=n, model=m) for m in COPIERS)
    means = [100 * fmean(right) for right in (alone, attending, transformer)]
    shares = [f"{mean:.0f}%" for mean in means]
    reason = f"at {n} letters the LSTM has {shares[0]} right, with attention {shares[1]}, "
    reason += f"the Transformer {shares[2]}"
    if not above(transformer, alone):
        return Verdict(NO, reason)
    if means[1] - means[0] < 0.9 * (means[2] - means[0]):  # attention alone leaves a tenth open
        return Verdict(YES, reason)
    return Verdict(PARTLY, f"{reason}; attention is what it takes, in either model")


def small_data(rows: Rows) -> Verdict:
    """A short text, or little data, favours the LSTM."""
    sizes = options(rows, "pairs")
    better = {}
    for sentences in (SHORT, LONG):
        for size in sizes:
            lstm, transformer = (trials(rows, "surprise", sentences=sentences, pairs=size, model=m)
                                 for m in ("LSTM", "Transformer"))  # fmt: skip
            gain = difference(transformer, lstm)
            better[sentences, size] = 1 if gain.low > 0 else -1 if gain.high < 0 else 0
    wins = [case for case, sign in better.items() if sign > 0]
    losses = [case for case, sign in better.items() if sign < 0]
    reason = f"the LSTM foresees more in {len(wins)} of {len(better)} cases, "
    reason += f"the Transformer in {len(losses)}"
    little = better[SHORT, sizes[0]] > 0 and better[LONG, sizes[0]] > 0
    if not little:
        return Verdict(NO, reason)
    if losses and max(case[1] for case in wins) < max(sizes):
        return Verdict(YES, reason)
    return Verdict(PARTLY, f"{reason}; with {max(sizes):,} pairs too it is not the Transformer")


def root_of_width(rows: Rows) -> Verdict:
    """Without the division by √K, learning suffers, and the more the wider the heads."""
    widths = options(rows, "width")
    gains = {w: difference(*(trials(rows, "right", width=w, kind=kind) for kind in DIVIDED))
             for w in widths}  # fmt: skip
    sure = [w for w in widths if gains[w].low > 0]
    reason = ", ".join(f"{100 * gains[w].mean:+.0f} points at K = {w}" for w in widths)
    reason = f"the division gives {reason}"
    if widths[-1] not in sure:
        return Verdict(NO, reason)
    if sure == widths and gains[widths[-1]].mean > gains[widths[0]].mean:
        return Verdict(YES, reason)
    return Verdict(PARTLY, f"{reason}; not clearly in every case")


def heads(rows: Rows) -> Verdict:
    """Several heads are better than one of the same whole width."""
    one = trials(rows, "surprise", variation="1 head")
    others = [name for name in options(rows, "variation") if name != "1 head"]
    gains = {name: difference(one, trials(rows, "surprise", variation=name)) for name in others}
    better = [name for name in others if gains[name].low > 0]
    reason = f"{', '.join(better) or 'none'} foresee more than one head, clearly"
    if not better:
        return Verdict(NO, reason)
    return Verdict(YES if better == others else PARTLY, reason)


def positions(rows: Rows) -> Verdict:
    """Learned positions and sinusoids give nearly the same."""
    gap = difference(*(trials(rows, "surprise", variation=v) for v in ("learned", "sinusoidal")))
    reason = f"learned less sinusoidal is {gap} nats a word"
    return Verdict(YES if gap.low <= 0 <= gap.high else NO, reason)


def beyond(rows: Rows) -> Verdict:
    """Sinusoids allow for longer sequences than were trained."""
    lengths = rows[0]["lengths"]
    found = {r["positions"]: list(zip(*r["trials"], strict=True)) for r in rows}
    longer = [i for i, n in enumerate(lengths) if n > LONGEST]
    reach = [lengths[i] for i in longer if above(found["sinusoidal"][i], found["learned"][i])]
    first = longer[0]
    shares = [100 * fmean(found[kind][first]) for kind in ("sinusoidal", "learned")]
    reason = (
        f"at {lengths[first]} letters, where {LONGEST} were trained, {shares[0]:.0f}% are right "
    )
    reason += f"with sinusoids and {shares[1]:.0f}% with a table"
    if not reach:
        return Verdict(NO, reason)
    if len(reach) == len(longer):
        return Verdict(YES, reason)
    others = [str(lengths[i]) for i in longer if lengths[i] not in reach]
    return Verdict(PARTLY, f"{reason}; no clear difference at {' and '.join(others)} letters")


def warm_up(rows: Rows) -> Verdict:
    """Post-norm needs warm-up; pre-norm does without."""
    rates, (none, some) = options(rows, "rate"), options(rows, "warmup")
    helped = {norm: [rate for rate in rates if above(
        trials(rows, "right", norm=norm, warmup=some, rate=rate),
        trials(rows, "right", norm=norm, warmup=none, rate=rate))]
        for norm in ("post", "pre")}  # fmt: skip
    where = {norm: ", ".join(map(str, found)) or "none" for norm, found in helped.items()}
    reason = f"warm-up helps post-norm at rates {where['post']}, pre-norm at {where['pre']}"
    if not helped["post"]:
        return Verdict(NO, reason)
    if helped["post"] == rates and not helped["pre"]:
        return Verdict(YES, reason)
    return Verdict(PARTLY, f"{reason}; it is a matter of the rate")


def squared(scaling: Mapping[str, Mapping[str, list[float]]], lengths: list[int]) -> Verdict:
    """Attention costs n² time and n² memory."""
    last = slice(-3, None)
    grows = {(kind, unit): exponent(lengths[last], scaling[unit][kind][last])
             for unit in ("seconds", "mebibytes") for kind in ("explicit", "fused")}  # fmt: skip
    times, memory = ([grows[kind, unit] for kind in ("explicit", "fused")]
                     for unit in ("seconds", "mebibytes"))  # fmt: skip
    reason = f"over the last three lengths time grows like n^{times[0]:.1f} written down and "
    reason += f"n^{times[1]:.1f} fused, memory like n^{memory[0]:.1f} and n^{memory[1]:.1f}"
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
