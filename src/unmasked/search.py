"""Generating translations: the likeliest token each time, a beam of hypotheses, or by chance."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from .config import BOS, EOS, PADDING
from .errors import checked, contracts
from .fast.guard import is_plain
from .fast.steps import FastSteps, take
from .inspection.maps import AttentionMaps
from .masks import padding_mask
from .transformer import Transformer

EXTRA_LENGTH = 50  # the paper's limit: the source's length and fifty more (section 6.1)


@checked(contracts.search)
def greedy(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
    drop_finished: bool = True,
) -> Tensor:
    """The likeliest token at every step: source [B, S] → target [B, T].

    The result has no BOS; each row ends with its EOS and then padding. Without `max_new_tokens`
    each sentence gets at most its source's length and fifty more.
    """

    def likeliest(logits: Tensor, _rows: list[int], _time: int) -> Tensor:
        return likeliest_of(logits)

    return one_by_one(
        model,
        source,
        limits_of(model, source, max_new_tokens),
        likeliest,
        bos=bos,
        eos=eos,
        use_cache=use_cache,
        drop_finished=drop_finished,
    )


@checked(contracts.sample)
def sample(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int | torch.Generator | None = None,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
) -> Tensor:
    """Draws each token from the model's distribution: source [B, S] → target [B, T].

    A temperature below 1 favours likely tokens, one above 1 evens them out. Then only the `top_k`
    likeliest stay, and of those the likeliest that together have a probability of `top_p`. For
    several samples of a sentence, repeat its row: each row is drawn independently.

    With a seed, the same batch gives the same result each time: on every device, with and without
    the cache, unless rounding tips a draw. A generator (on the CPU) continues where it is; without
    either, the random numbers are PyTorch's own.
    """
    limits = limits_of(model, source, max_new_tokens)
    drawn_by = generator_of(seed)
    chances = torch.rand(int(limits.max()), len(source), generator=drawn_by).to(source.device)

    def by_chance(logits: Tensor, rows: list[int], time: int) -> Tensor:
        return draw(logits / temperature, chances[time, rows, None], top_k, top_p)

    return one_by_one(model, source, limits, by_chance, bos=bos, eos=eos, use_cache=use_cache)


def generator_of(seed: int | torch.Generator | None) -> torch.Generator | None:
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(int(seed))


class Hypotheses(NamedTuple):
    """The n best translations of each sentence, best first."""

    tokens: Tensor  # [B, n, T], without the BOS, with the EOS, then padding
    scores: Tensor  # [B, n]: log-probability over the length penalty; -inf where there is none


@checked(contracts.beam)
def beam(
    model: Transformer,
    source: Tensor,
    beam_size: int = 4,
    max_new_tokens: int | None = None,
    *,
    n_best: int = 1,
    length_penalty: float = 0.6,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
) -> Hypotheses:
    """Keeps the `beam_size` best beginnings of each sentence: source [B, S] → Hypotheses.

    Scores are log-probabilities divided by ((5 + length) / 6) ** length_penalty (Wu et al., 2016).
    A sentence is finished when nothing that is still written could enter its `n_best`.
    """
    limits = limits_of(model, source, max_new_tokens)
    limit = int(limits.max())
    with evaluating(model):
        steps = steps_of(model, source, beam_size, limit, use_cache=use_cache)
        finished = Finished(len(source), beam_size, limit, source.device)
        rows = torch.arange(len(source), device=source.device)  # the sentences still in the batch
        tokens = torch.full((len(source), beam_size), bos, device=source.device)
        parents, history = torch.zeros_like(tokens), tokens.new_zeros(*tokens.shape, 0)
        totals = torch.full(tokens.shape, -torch.inf, device=source.device)
        totals[:, 0] = 0.0  # all hypotheses begin alike: only the first one counts
        penalties = torch.tensor([penalty(n, length_penalty) for n in limits.tolist()]).to(totals)
        time = 0
        while True:
            time += 1
            logits = steps.step(tokens, parents)
            totals, parents, tokens = extend(totals, logits, 2 * beam_size)  # best first
            history = torch.cat([take(history, parents), tokens[:, :, None]], dim=-1)
            last = limits[rows, None]
            ends = ((tokens == eos) & (time < last)) | (time == last)
            ends[:, beam_size:] = False  # an end counts when it is among the best, not before
            finished.add(rows, history, totals / penalty(time, length_penalty), ends)
            totals, order = totals.masked_fill(tokens == eos, -torch.inf).topk(beam_size)
            history = take(history, order)
            tokens, parents = tokens.gather(1, order), parents.gather(1, order)
            best_to_come = totals[:, 0] / penalties[rows]
            going = (finished.scores[rows, n_best - 1] < best_to_come) & (time < last[:, 0])
            n_going = int(going.sum())
            if n_going == 0:
                break
            if worth_dropping(n_going, len(going)):
                steps.keep(going)
                rows, totals, history = rows[going], totals[going], history[going]
                tokens, parents = tokens[going], parents[going]
    best = trim(finished.tokens[:, :n_best].clone())
    return Hypotheses(best, finished.scores[:, :n_best].clone())


def written_maps(
    model: Transformer, source: Tensor, tokens: Tensor, bos: int = BOS
) -> AttentionMaps:
    """The attention behind each token of a search: row t belongs to the t-th one after the BOS."""
    target = F.pad(tokens[:, :-1], (1, 0), value=bos)
    with evaluating(model):
        _, maps = model(source, target, need_weights=True)
    return AttentionMaps(*([weights.clone() for weights in part] for part in maps))


# --- One token after the other ------------------------------------------------------------------


def one_by_one(
    model: Transformer,
    source: Tensor,
    limits: Tensor,
    choose: Callable[[Tensor, list[int], int], Tensor],
    *,
    bos: int,
    eos: int,
    use_cache: bool,
    drop_finished: bool = True,
) -> Tensor:
    """One translation of each sentence: `choose` takes logits [B, 1, V], which rows and time."""
    last = limits.tolist()
    rows = list(range(len(source)))  # the sentences still in the batch
    written: list[list[int]] = [[] for _ in rows]
    with evaluating(model):
        steps = steps_of(model, source, 1, max(last), use_cache=use_cache)
        tokens = torch.full((len(source), 1), bos, device=source.device)
        parents, going, time = torch.zeros_like(tokens), [True] * len(rows), 0
        while any(going):
            if drop_finished and worth_dropping(sum(going), len(going)):
                kept = torch.tensor(going, device=source.device)
                steps.keep(kept)
                tokens, parents = tokens[kept], parents[kept]
                rows = [row for row, goes in zip(rows, going, strict=True) if goes]
                going = [True] * len(rows)
            tokens = choose(steps.step(tokens, parents), rows, time)
            time += 1
            for place, (row, token) in enumerate(zip(rows, tokens[:, 0].tolist(), strict=True)):
                if going[place]:
                    written[row].append(token)
                    going[place] = token != eos and time < last[row]
    found = [torch.tensor(row) for row in written]
    return pad_sequence(found, batch_first=True, padding_value=PADDING).to(source.device)


def draw(logits: Tensor, chances: Tensor, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    """Draws a token from the `top_k` likeliest, or the few of them that hold `top_p` of their sum.

    `chances` are uniform random numbers from 0 to 1. [..., V], [...] → [...].
    """
    probabilities, tokens = logits.float().softmax(-1).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        probabilities[..., top_k:] = 0.0
    sums = probabilities.cumsum(-1)
    probabilities[sums - probabilities >= top_p * sums[..., -1:]] = 0.0
    sums = probabilities.cumsum(-1)
    place = torch.searchsorted(sums, chances[..., None] * sums[..., -1:], right=True)
    last = (probabilities > 0).sum(-1, keepdim=True) - 1  # rounding must not go beyond it
    return tokens.gather(-1, torch.minimum(place, last))[..., 0]


# --- Steps ------------------------------------------------------------------------------------


class Steps(Protocol):
    """A decoder that is asked for one token after the other."""

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The newest tokens and the hypotheses they continue, both [B, W] → logits [B, W, V].

        Padding has -inf: it fills rows, and is never generated.
        """

    def keep(self, rows: Tensor) -> None:
        """Forgets the sentences that are finished."""


def steps_of(
    model: Transformer, source: Tensor, width: int, limit: int, *, use_cache: bool = True
) -> Steps:
    """The fastest that is right for this model and these sentences."""
    if not use_cache:
        return Recomputed(model, source, width, limit)
    fast = is_plain(model) and bool((source != PADDING).any(-1).all())
    return (FastSteps if fast else Cached)(model, source, width, limit)


class Cached:
    """With what `decode` remembers: a row and a cache for each hypothesis, of any model."""

    def __init__(self, model: Transformer, source: Tensor, width: int, limit: int) -> None:
        self.model, self.state = model, model.start(min(limit, 128))
        self.mask = padding_mask(source).repeat_interleave(width, dim=0)
        self.memory = model.encode(source).repeat_interleave(width, dim=0)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        batch, width = tokens.shape
        if width > 1:  # each goes on where its parent was
            first = torch.arange(batch, device=tokens.device)[:, None] * width
            self.state.select((first + parents).flatten())
        x = self.model.decode(
            tokens.reshape(-1, 1), self.memory, source_mask=self.mask, state=self.state
        )
        return without_padding(self.model.generator(x).view(batch, width, -1))

    def keep(self, rows: Tensor) -> None:
        rows = rows.repeat_interleave(len(self.memory) // len(rows))
        self.mask, self.memory = self.mask[rows], self.memory[rows]
        self.state.select(rows)


class Recomputed:
    """Each step from the first token on: to compare with, and to trust."""

    def __init__(self, model: Transformer, source: Tensor, width: int, _: int) -> None:
        self.model = model
        self.mask = padding_mask(source).repeat_interleave(width, dim=0)
        self.memory = model.encode(source).repeat_interleave(width, dim=0)
        self.written = source.new_zeros(len(source), width, 0, dtype=torch.long)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        inherited = take(self.written, parents)
        self.written = torch.cat([inherited, tokens[:, :, None]], dim=-1)  # [B, W, time]
        x = self.model.decode(self.written.flatten(0, 1), self.memory, source_mask=self.mask)
        return without_padding(self.model.generator(x[:, -1]).view(*tokens.shape, -1))

    def keep(self, rows: Tensor) -> None:
        self.written = self.written[rows]
        rows = rows.repeat_interleave(len(self.memory) // len(rows))
        self.mask, self.memory = self.mask[rows], self.memory[rows]


def without_padding(logits: Tensor) -> Tensor:
    """Logits in which padding cannot win."""
    logits[..., PADDING] = -torch.inf
    return logits


# --- Ranking ----------------------------------------------------------------------------------


class Finished:
    """The best complete hypotheses of each sentence so far, best first."""

    def __init__(self, n_sentences: int, width: int, limit: int, device: torch.device) -> None:
        self.tokens = torch.full((n_sentences, width, limit), PADDING, device=device)
        self.scores = torch.full((n_sentences, width), -torch.inf, device=device)

    def add(self, rows: Tensor, history: Tensor, scores: Tensor, ends: Tensor) -> None:
        """Lets the candidates that end compete with those that already stand here."""
        if not ends.any():
            return
        scores = torch.cat([self.scores[rows], scores.masked_fill(~ends, -torch.inf)], dim=1)
        room = self.tokens.shape[-1] - history.shape[-1]
        tokens = torch.cat([self.tokens[rows], F.pad(history, (0, room), value=PADDING)], dim=1)
        best, order = scores.topk(self.scores.shape[1])
        self.scores[rows] = best
        self.tokens[rows] = take(tokens, order).masked_fill(best.isneginf()[:, :, None], PADDING)


def extend(totals: Tensor, logits: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n best continuations of each sentence's hypotheses: their totals, parents and tokens.

    [B, W], [B, W, V] → three times [B, n].
    """
    logits = logits.float()
    best, tokens = top_k(logits, min(n, logits.shape[-1]))  # [B, W, n]
    scores = totals[:, :, None] + best - logits.logsumexp(-1, keepdim=True)
    totals, chosen = scores.flatten(1).topk(min(n, scores[0].numel()))
    return totals, chosen // best.shape[-1], tokens.flatten(1).gather(1, chosen)


def likeliest_of(x: Tensor) -> Tensor:
    """x.argmax(-1), the first of equals; on a CPU by NumPy, in a fraction of the time."""
    if x.device.type != "cpu":
        return x.argmax(-1)
    x = x if x.dtype.itemsize > 2 else x.float()
    return torch.from_numpy(np.asarray(x.numpy().argmax(-1)))


def top_k(x: Tensor, k: int, block: int = 32) -> tuple[Tensor, Tensor]:
    """x.topk(k) over a long last dimension: the k best are in the k blocks with the best maxima."""
    if x.shape[-1] < 4 * k * block:
        return x.topk(k)
    blocks = in_blocks(x, block)
    chosen = blocks.amax(-1).topk(k).indices  # [..., k]
    inside = blocks.gather(-2, chosen[..., None].expand(*chosen.shape, block))
    values, at = inside.flatten(-2).topk(k)
    return values, chosen.gather(-1, at // block) * block + at % block


def in_blocks(x: Tensor, block: int) -> Tensor:
    """[..., V] → [..., blocks, block]; what is missing in the last one is never the best."""
    if room := -x.shape[-1] % block:
        x = F.pad(x, (0, room), value=-torch.inf)
    return x.view(*x.shape[:-1], -1, block)


def penalty(length: int, alpha: float) -> float:
    return float(((5 + length) / 6) ** alpha)


# --- Rows -------------------------------------------------------------------------------------


def limits_of(model: Transformer, source: Tensor, max_new_tokens: int | None) -> Tensor:
    """How many tokens each sentence may get: [B]."""
    if max_new_tokens is not None:
        return torch.full((len(source),), max_new_tokens, device=source.device)
    config = model.config
    most = config.max_len if config.positions == "learned" else sys.maxsize
    return ((source != PADDING).sum(-1) + EXTRA_LENGTH).clamp(max=most)


def worth_dropping(n_going: int, n: int) -> bool:
    """Leaving rows out copies the caches: do it when a quarter of them is finished."""
    return 4 * n_going <= 3 * n


def trim(tokens: Tensor) -> Tensor:
    """Without the last columns in which nobody has a token."""
    used = (tokens != PADDING).flatten(0, -2).any(0).nonzero()
    return tokens[..., : int(used.max()) + 1 if len(used) else 1]


EVALUATIONS = threading.Lock()  # held while a model's mode is changed
EVALUATED: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients, whatever the model was doing before.

    Several threads may be in here with one model at once: the first one changes its mode, the last
    one restores it.
    """
    with EVALUATIONS:
        many, training = EVALUATED.get(model, (0, []))
        if many == 0:
            training = [module for module in model.modules() if module.training]
        EVALUATED[model] = many + 1, training
    try:
        if training:
            model.eval()
        with torch.inference_mode():
            yield
    finally:
        with EVALUATIONS:
            many, training = EVALUATED.pop(model)
            if many > 1:
                EVALUATED[model] = many - 1, training
            else:
                for module in training:
                    module.training = True
