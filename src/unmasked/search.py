"""Generates translations by greedy search, by beam search, or at random."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from .attention import AttentionMaps
from .errors import (
    invalid,
    require_choice,
    require_number,
    require_seed,
    require_tokens,
    require_type,
    require_whole,
    shape,
)
from .kernels import take
from .layers import LaidOut, mixing
from .masks import padding_mask
from .tokens import BOS, EOS, PADDING
from .transformer import Transformer, evaluating, require_called

EXTRA_LENGTH = 50  # the paper's limit: the source's length and fifty more (section 6.1)


def greedy(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    prefix: Tensor | None = None,
    use_cache: bool = True,
) -> Tensor:
    """Translates by the likeliest token at every step: source [B, S] → target [B, T].

    The result has no BOS; each row ends with its EOS and then padding.

    Args:
        model: one of this package; the search calls its encode, decode and generator.
        source: token IDs, each sentence with its EOS, padded.
        max_new_tokens: the most that a translation may get; by default its source's length + 50.
        prefix: token IDs [B, P] to begin each translation with; padding leaves a position free.
        use_cache: False computes each step from the first token on.
    """
    limits = limits_of(model, source, max_new_tokens, prefix)
    return one_by_one(model, source, limits, prefix, lambda x, _: likeliest_of(x), use_cache)


def sample(
    model: Transformer,
    source: Tensor,
    *,
    max_new_tokens: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    seed: int | torch.Generator | None = None,
    prefix: Tensor | None = None,
    use_cache: bool = True,
) -> Tensor:
    """Translates by drawing each token at random: source [B, S] → target [B, T].

    For several samples of a sentence, repeat its row: each row is drawn independently.

    Args:
        model, source, max_new_tokens, prefix, use_cache: are those of `greedy`.
        temperature: below 1 it favours likely tokens, above 1 it evens them out.
        top_k: keeps only so many of the likeliest tokens,
        top_p: and of those the likeliest that together have this probability.
        seed: makes the same batch give the same result each time, on every device, with and without
            the cache, unless rounding tips a draw. A generator (on the CPU) continues where it is;
            without either, PyTorch's own generator draws.
    """
    require_chance(temperature, top_k, top_p, seed)
    limits = limits_of(model, source, max_new_tokens, prefix)
    drawn_by = generator_of(seed)

    def by_chance(logits: Tensor, rows: list[int]) -> Tensor:
        chances = torch.rand(len(source), generator=drawn_by)[rows]
        return draw(logits.float() / temperature, chances[:, None].to(logits.device), top_k, top_p)

    return one_by_one(model, source, limits, prefix, by_chance, use_cache)


def generator_of(seed: int | torch.Generator | None) -> torch.Generator | None:
    """Returns a generator with this seed, or what is given: a generator, or None, PyTorch's own."""
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(int(seed))


class Hypotheses(NamedTuple):
    """Holds the n best translations of each sentence, best first."""

    tokens: Tensor  # [B, n, T], without the BOS, with the EOS, then padding
    scores: Tensor  # [B, n]: log-probability over the length penalty; -inf where there is none


def beam(
    model: Transformer,
    source: Tensor,
    beam_size: int = 4,
    max_new_tokens: int | None = None,
    *,
    n_best: int = 1,
    length_penalty: float = 0.6,
    normalize: str = "gnmt",
    prefix: Tensor | None = None,
    use_cache: bool = True,
) -> Hypotheses:
    """Returns each sentence's best translations by beam search: source [B, S] → Hypotheses.

    Args:
        model, source, max_new_tokens, prefix, use_cache: are those of `greedy`; a prefix's tokens
            are certain, so they add nothing to a score.
        beam_size: says how many unfinished translations of a sentence are kept at each step.
        n_best: says how many finished ones are returned; a search ends when no unfinished one
            could enter them.
        length_penalty: is the power of the length by which log-probabilities are divided;
        normalize: measures that length: "gnmt" is (5 + length) / 6 (Wu et al., 2016), and "length"
            the number of tokens, EOS included.
    """
    limits = limits_of(model, source, max_new_tokens, prefix)
    require_beam(model, beam_size, n_best, length_penalty)
    require_choice("normalize", normalize, tuple(LENGTHS))
    penalties = torch.tensor([penalty(n, length_penalty, normalize) for n in limits.tolist()])
    penalties = penalties.to(source.device)
    with evaluating(model):
        steps = Steps(model, source, beam_size, int(limits.max()), prefix, use_cache)
        finished = Finished(len(source), beam_size, source.device)
        alive = Alive.begin(len(source), beam_size, source.device)
        for time in count(1):
            alive = alive.extend(steps.step(alive.tokens, alive.parents), 2 * beam_size)
            last = limits[alive.rows] == time
            ends = (alive.tokens == EOS) | last[:, None]
            ends[:, beam_size:] = False  # an end counts when it is among the best, not before
            finished.add(alive, penalty(time, length_penalty, normalize), ends)
            alive = alive.best(beam_size, alive.tokens != EOS)
            best_to_come = alive.totals[:, 0] / penalties[alive.rows]
            going = (finished.scores[alive.rows, n_best - 1] < best_to_come) & ~last
            n_going = int(going.sum())
            if n_going == 0:
                break
            if worth_dropping(n_going, len(going)):
                steps.keep(going)
                alive = alive.keep(going)
    best = finished.tokens[:, :n_best].clone()
    used = (best != PADDING).flatten(0, 1).any(0).nonzero()  # the columns that have a token
    longest = int(used.max()) + 1 if len(used) else 1
    return Hypotheses(best[..., :longest], finished.scores[:, :n_best].clone())


class Alive(NamedTuple):
    """Holds the W unfinished hypotheses of each sentence, best first."""

    rows: Tensor  # [B]: which sentences are still in the batch
    tokens: Tensor  # [B, W]: the newest of each hypothesis
    parents: Tensor  # [B, W]: which one of the step before it continues
    totals: Tensor  # [B, W]: log-probabilities
    history: Tensor  # [B, W, time]: all tokens so far

    @classmethod
    def begin(cls, n_sentences: int, width: int, device: torch.device) -> Alive:
        tokens = torch.full((n_sentences, width), BOS, device=device)
        totals = torch.full(tokens.shape, -torch.inf, device=device)
        totals[:, 0] = 0.0  # all hypotheses begin alike: only the first one counts
        rows, history = torch.arange(n_sentences, device=device), tokens.new_zeros(*tokens.shape, 0)
        return cls(rows, tokens, torch.zeros_like(tokens), totals, history)

    def extend(self, logits: Tensor, n: int) -> Alive:
        """Returns each sentence's n best continuations by next-token logits [B, W, V]."""
        logits = logits.float()
        best, words = top_k(logits, min(n, logits.shape[-1]))  # [B, W, n]
        scores = self.totals[:, :, None] + best - logits.logsumexp(-1, keepdim=True)
        totals, chosen = scores.flatten(1).topk(min(n, scores[0].numel()))
        parents, tokens = chosen // best.shape[-1], words.flatten(1).gather(1, chosen)
        history = torch.cat([take(self.history, parents), tokens[:, :, None]], dim=-1)
        return Alive(self.rows, tokens, parents, totals, history)

    def best(self, n: int, going: Tensor) -> Alive:
        """Returns the n best hypotheses of each sentence where `going` [B, W] is True."""
        totals, order = self.totals.masked_fill(~going, -torch.inf).topk(n)
        tokens, parents = self.tokens.gather(1, order), self.parents.gather(1, order)
        return Alive(self.rows, tokens, parents, totals, take(self.history, order))

    def keep(self, going: Tensor) -> Alive:
        """Returns the hypotheses of the sentences where `going` [B] is True."""
        return Alive(*(x[going] for x in self))


def written_maps(model: Transformer, source: Tensor, tokens: Tensor) -> AttentionMaps:
    """Returns the attention weights behind translations [B, T]: row t made each one's token t."""
    target = F.pad(tokens[:, :-1], (1, 0), value=BOS)
    with evaluating(model):
        _, maps = model(source, target, need_weights=True)
    return AttentionMaps(*([weights.clone() for weights in part] for part in maps))


# --- One token after the other ------------------------------------------------------------------


def one_by_one(
    model: Transformer,
    source: Tensor,
    limits: Tensor,
    prefix: Tensor | None,
    choose: Callable[[Tensor, list[int]], Tensor],
    use_cache: bool,
) -> Tensor:
    """Returns translations [B, T]; `choose` gets logits [B, 1, V] and the sentences' indices."""
    last = limits.tolist()
    rows = list(range(len(source)))  # the sentences still in the batch
    written: list[list[int]] = [[] for _ in rows]
    with evaluating(model):
        steps = Steps(model, source, 1, max(last), prefix, use_cache)
        tokens = torch.full((len(source), 1), BOS, device=source.device)
        parents, going, time = torch.zeros_like(tokens), [True] * len(rows), 0
        while any(going):
            if worth_dropping(sum(going), len(going)):
                kept = torch.tensor(going, device=source.device)
                steps.keep(kept)
                tokens, parents = tokens[kept], parents[kept]
                rows = [row for row, goes in zip(rows, going, strict=True) if goes]
                going = [True] * len(rows)
            tokens = choose(steps.step(tokens, parents), rows)
            time += 1
            for place, (row, token) in enumerate(zip(rows, tokens[:, 0].tolist(), strict=True)):
                if going[place]:
                    written[row].append(token)
                    going[place] = token != EOS and time < last[row]
    rows_written = [torch.tensor(row) for row in written]
    return pad_sequence(rows_written, batch_first=True, padding_value=PADDING).to(source.device)


def draw(logits: Tensor, chances: Tensor, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    """Draws tokens from the `top_k` likeliest, or the fewest of them with `top_p` of their sum.

    The `chances` are uniform random numbers from 0 to 1. Logits [..., V], [...] → [...].
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


class Steps:
    """Computes the next token's logits, step by step, for W hypotheses of each sentence."""

    def __init__(
        self,
        model: Transformer,
        source: Tensor,
        width: int,
        limit: int,
        prefix: Tensor | None = None,
        use_cache: bool = True,
    ) -> None:
        require_type("use_cache", use_cache, bool)
        self.model, self.width, self.mask = model, width, padding_mask(source)
        unknown, foreign, heard = mixing(model)
        if unknown and use_cache:
            fix = "say `by_position = True` in its class if it does not, else use_cache=False"
            warnings.warn(f"search: {unknown} may look at other positions: {fix}", stacklevel=4)
        rows, real = len(source) * width, source != PADDING
        self.begins = True  # until the first step is done
        self.laid_out, alone = LaidOut(rows), not foreign and not heard
        packed = alone and not real.all() and bool(real.any())
        with self.laid_out:
            self.memory = model.encode(source, only=real) if packed else model.encode(source)
        self.written = source.new_zeros(len(source), width, 0, dtype=torch.long)
        self.prefix = source.new_zeros(0, len(source)) if prefix is None else prefix.T  # [P, B]
        self.state = model.start(min(limit, 128), width) if use_cache else None
        if self.state is not None:
            self.state.generated = True
            self.state.rank = 3 if not alone else 1 if rows == 1 else 2

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Takes new tokens and which hypotheses they continue, [B, W]; returns logits [B, W, V].

        Padding has -inf, since it fills rows and is never generated, and so has every token but the
        prefix's where there is one.
        """
        compute = self.recomputed if self.state is None else self.continued
        logits = without_padding(compute(tokens, parents))
        if self.begins and logits.isnan().any():
            raise invalid("model", "finite logits", "NaN", "its weights are broken: train it anew")
        self.begins = False
        if len(self.prefix):
            token, self.prefix = self.prefix[0, :, None], self.prefix[1:]
            others = (token != PADDING) & (token != torch.arange(logits.shape[-1]).to(token.device))
            logits.masked_fill_(others[:, None], -torch.inf)
        return logits

    def continued(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns logits [B, W, V], computed at the newest position only, with the cache."""
        state = self.state
        assert state is not None
        if self.width > 1:
            state.descend(parents)
        with self.laid_out:
            new = tokens.reshape(-1, 1)
            x = self.model.decode(new, self.memory, source_mask=self.mask, state=state)
            logits = self.model.generator(x).view(*tokens.shape, -1)
        if state.length == 1 and not all(back.length for back, _ in state.looks):
            what = "an attention does not use its look: each step is computed from the first token"
            warnings.warn(what, stacklevel=4)
            self.state, self.written = None, tokens[:, :, None]
        return logits

    def recomputed(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns logits [B, W, V], computed from the first token on, without a cache."""
        self.written = torch.cat([take(self.written, parents), tokens[:, :, None]], dim=-1)
        memory, mask = (x.repeat_interleave(self.width, dim=0) for x in (self.memory, self.mask))
        x = self.model.decode(self.written.flatten(0, 1), memory, source_mask=mask)
        return self.model.generator(x[:, -1]).view(*tokens.shape, -1)

    def keep(self, rows: Tensor) -> None:
        """Drops the sentences where `rows` [B] is False, which are finished."""
        self.mask, self.memory = self.mask[rows], self.memory[rows]
        self.written, self.prefix = self.written[rows], self.prefix[:, rows]
        if self.state is not None:
            self.state.select(rows)


def without_padding(logits: Tensor) -> Tensor:
    """Sets padding's logits to -inf in place, so that it is never chosen, and returns all."""
    logits[..., PADDING] = -torch.inf
    return logits


# --- Ranking ----------------------------------------------------------------------------------


class Finished:
    """Holds the best finished translations of each sentence so far, best first."""

    def __init__(self, n_sentences: int, width: int, device: torch.device) -> None:
        self.tokens = torch.full((n_sentences, width, 1), PADDING, device=device)
        self.scores = torch.full((n_sentences, width), -torch.inf, device=device)

    def add(self, alive: Alive, penalty: float, ends: Tensor) -> None:
        """Adds the hypotheses that `ends` [B, W] marks if they are among a sentence's best."""
        if not ends.any():
            return
        rows, history = alive.rows, alive.history
        ended = (alive.totals / penalty).masked_fill(~ends, -torch.inf)
        best, order = torch.cat([self.scores[rows], ended], dim=1).topk(self.scores.shape[1])
        more = history.shape[-1] - self.tokens.shape[-1]  # memory for what is written, no more
        self.tokens = F.pad(self.tokens, (0, more), value=PADDING)
        tokens = take(torch.cat([self.tokens[rows], history], dim=1), order)
        self.scores[rows] = best
        self.tokens[rows] = tokens.masked_fill(best.isneginf()[:, :, None], PADDING)


def likeliest_of(x: Tensor) -> Tensor:
    """Returns x.argmax(-1), the first of equals; on a CPU NumPy takes a fraction of the time."""
    if x.device.type != "cpu":
        return x.argmax(-1)
    x = x if x.dtype.itemsize > 2 else x.float()
    return torch.from_numpy(np.asarray(x.numpy().argmax(-1)))


def top_k(x: Tensor, k: int, block: int = 32) -> tuple[Tensor, Tensor]:
    """Returns x.topk(k), quickly if x is long: they lie in the k blocks with the largest maxima."""
    if x.shape[-1] < 4 * k * block:
        return x.topk(k)
    if room := -x.shape[-1] % block:  # what is missing in the last block is never the best
        x = F.pad(x, (0, room), value=-torch.inf)
    blocks = x.view(*x.shape[:-1], -1, block)
    chosen = blocks.amax(-1).topk(k).indices  # [..., k]
    inside = blocks.gather(-2, chosen[..., None].expand(*chosen.shape, block))
    values, at = inside.flatten(-2).topk(k)
    return values, chosen.gather(-1, at // block) * block + at % block


LENGTHS: dict[str, Callable[[int], float]] = {"gnmt": lambda n: (5 + n) / 6, "length": float}


def penalty(length: int, alpha: float, normalize: str = "gnmt") -> float:
    """Returns the number that divides the log-probability of a hypothesis of `length` tokens."""
    return float(LENGTHS[normalize](length) ** alpha)


# --- What a search may be asked ---------------------------------------------------------------


def limits_of(
    model: Transformer, source: Tensor, max_new_tokens: int | None, prefix: Tensor | None = None
) -> Tensor:
    """Returns how many tokens each translation may have, [B]; ValueError for wrong arguments."""
    require_called(model)
    require_tokens("source", source, model.config.source_vocab)
    reach, begun = model.config.reach, 0
    if max_new_tokens is not None:
        require_whole("max_new_tokens", max_new_tokens)
        if max_new_tokens > reach:
            fix = "there are no learned positions beyond it"
            raise invalid("max_new_tokens", f"at most max_len={reach}", max_new_tokens, fix)
    if prefix is not None:
        require_tokens("prefix", prefix, model.config.target_vocab)
        most = reach if max_new_tokens is None else max_new_tokens
        begun = prefix.shape[1]
        if len(prefix) != len(source) or begun > most:
            expected = f"{len(source)} rows of at most {most} tokens"
            raise invalid("prefix", expected, shape(prefix), "give one row a sentence")
    if max_new_tokens is None:
        return ((source != PADDING).sum(-1) + EXTRA_LENGTH).clamp(begun, reach)
    return torch.full((len(source),), max_new_tokens, device=source.device)


def require_beam(model: Transformer, beam_size: int, n_best: int, length_penalty: float) -> None:
    require_whole("beam_size", beam_size)
    if beam_size > model.config.target_vocab:
        expected = f"at most the target vocabulary's {model.config.target_vocab}"
        raise invalid("beam_size", expected, beam_size, "use a smaller beam")
    require_whole("n_best", n_best)
    if n_best > beam_size:
        fix = "a wider beam finds more hypotheses"
        raise invalid("n_best", f"at most beam_size={beam_size}", n_best, fix)
    fix = "0 compares plain log-probabilities, more favours longer sentences"
    require_number("length_penalty", length_penalty, 0.0, 10.0, fix)


def require_chance(temperature: float, top_k: int | None, top_p: float, seed: object) -> None:
    fix = "as it nears 0, sampling becomes greedy search: call `greedy` for that"
    require_number("temperature", temperature, 1e-3, 1e3, fix)
    if top_k is not None:
        require_whole("top_k", top_k)
    require_number("top_p", top_p, 1e-9, 1.0, "it is a probability; 1 leaves out nothing")
    if seed is not None and not isinstance(seed, torch.Generator):
        require_seed(seed)


def worth_dropping(n_going: int, n: int) -> bool:
    """Returns True if a quarter is finished: dropping sentences copies caches, so not before."""
    return 4 * n_going <= 3 * n
