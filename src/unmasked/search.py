"""Finding a good translation: the likeliest word each time, or several hypotheses side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .ranking import Finished, extend, penalty, take
from .special import BOS, EOS, PADDING
from .stepping import Cached, Recomputed
from .transformer import AttentionMaps, Transformer
from .validation import check_at_least, check_number, check_tokens, check_type, invalid

EXTRA_LENGTH = 50  # the paper's limit: the source's length and fifty more (section 6.1)


class Hypotheses(NamedTuple):
    """The n best translations of each sentence, best first."""

    tokens: Tensor  # [B, n, T], without the BOS, with the EOS, then padding
    scores: Tensor  # [B, n]: log-probability over the length penalty; -inf where there is none
    maps: AttentionMaps | None  # of the best one, if asked for


@overload
def greedy(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
    drop_finished: bool = True,
    need_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def greedy(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
    drop_finished: bool = True,
    need_weights: Literal[True],
) -> tuple[Tensor, AttentionMaps]: ...
def greedy(
    model: Transformer,
    source: Tensor,
    max_new_tokens: int | None = None,
    *,
    bos: int = BOS,
    eos: int = EOS,
    use_cache: bool = True,
    drop_finished: bool = True,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, AttentionMaps]:
    """The likeliest token at every step: source [B, S] → target [B, T].

    The result has no BOS; each row ends with its EOS and then padding. With `need_weights` the
    attention maps of what was written come too.
    """
    limits = check_search(model, source, max_new_tokens, bos, eos)
    limit = int(limits.max())
    with evaluating(model):
        stepper = (Cached if use_cache else Recomputed)(model, source, 1, limit)
        written = torch.full((len(source), limit), PADDING, device=source.device)
        rows = torch.arange(len(source), device=source.device)  # the sentences still in the batch
        tokens = torch.full((len(source), 1), bos, device=source.device)
        parents = torch.zeros_like(tokens)
        going = torch.ones_like(rows, dtype=torch.bool)
        time = 0
        while True:
            tokens = stepper.step(tokens, parents).max(-1).indices  # argmax, but vectorised
            written[rows, time] = tokens[:, 0]
            time += 1
            going &= (tokens[:, 0] != eos) & (time < limits[rows])
            if not going.any():
                break
            if drop_finished and worth_dropping(going):
                stepper.keep(going)
                rows, tokens, parents, going = (x[going] for x in (rows, tokens, parents, going))
    beyond = torch.arange(limit, device=source.device) >= limits[:, None]
    written = trim(clear_after(written, eos).masked_fill(beyond, PADDING))
    return (written, maps_of(model, source, written, bos)) if need_weights else written


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
    need_weights: bool = False,
) -> Hypotheses:
    """Keeps the `beam_size` best beginnings of each sentence: source [B, S] → Hypotheses.

    Scores are log-probabilities divided by ((5 + length) / 6) ** length_penalty (Wu et al., 2016).
    A sentence is finished when nothing that is still written could enter its `n_best`.
    """
    limits = check_search(model, source, max_new_tokens, bos, eos)
    limit = int(limits.max())
    check_beam(model, beam_size, n_best, length_penalty)
    with evaluating(model):
        stepper = (Cached if use_cache else Recomputed)(model, source, beam_size, limit)
        finished = Finished(len(source), beam_size, limit, source.device)
        rows = torch.arange(len(source), device=source.device)  # the sentences still in the batch
        tokens = torch.full((len(source), beam_size), bos, device=source.device)
        parents, history = torch.zeros_like(tokens), tokens.new_zeros(*tokens.shape, 0)
        totals = torch.full(tokens.shape, -torch.inf, device=source.device)
        totals[:, 0] = 0.0  # all hypotheses begin alike: only the first one counts
        longest = torch.tensor([penalty(n, length_penalty) for n in limits.tolist()]).to(totals)
        time = 0
        while True:
            time += 1
            logits = stepper.step(tokens, parents)
            totals, parents, tokens = extend(totals, logits, 2 * beam_size)  # best first
            history = torch.cat([take(history, parents), tokens[:, :, None]], dim=-1)
            last = limits[rows, None]
            ends = ((tokens == eos) & (time < last)) | (time == last)
            ends[:, beam_size:] = False  # an end counts when it is among the best, not before
            finished.add(rows, history, totals / penalty(time, length_penalty), ends)
            totals, order = totals.masked_fill(tokens == eos, -torch.inf).topk(beam_size)
            history = take(history, order)
            tokens, parents = tokens.gather(1, order), parents.gather(1, order)
            best_to_come = totals[:, 0] / longest[rows]
            going = (finished.scores[rows, n_best - 1] < best_to_come) & (time < last[:, 0])
            if not going.any():
                break
            if worth_dropping(going):
                stepper.keep(going)
                rows, totals, history = rows[going], totals[going], history[going]
                tokens, parents = tokens[going], parents[going]
    best = trim(finished.tokens[:, :n_best].clone())
    maps = maps_of(model, source, best[:, 0], bos) if need_weights else None
    return Hypotheses(best, finished.scores[:, :n_best].clone(), maps)


def worth_dropping(going: Tensor) -> bool:
    """Leaving rows out copies the caches: do it when a quarter of them is finished."""
    return 4 * int(going.sum()) <= 3 * len(going)


def clear_after(tokens: Tensor, eos: int) -> Tensor:
    """Padding from the first EOS on (it stays itself). [B, T] → [B, T]."""
    ended = tokens == eos
    return tokens.masked_fill(ended.cumsum(-1) > ended.long(), PADDING)


def trim(tokens: Tensor) -> Tensor:
    """Without the last columns in which nobody has a token."""
    used = (tokens != PADDING).flatten(0, -2).any(0).nonzero()
    return tokens[..., : int(used.max()) + 1 if len(used) else 1]


def maps_of(model: Transformer, source: Tensor, tokens: Tensor, bos: int) -> AttentionMaps:
    """The attention behind each written token: row t belongs to the t-th token after the BOS."""
    target = F.pad(tokens[:, :-1], (1, 0), value=bos)
    with evaluating(model):
        _, maps = model(source, target, need_weights=True)
    return AttentionMaps(*([weights.clone() for weights in part] for part in maps))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients, whatever the model was doing before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


def check_search(
    model: Transformer, source: Tensor, max_new_tokens: int | None, bos: int, eos: int
) -> Tensor:
    """Refuses what cannot be searched; returns how many tokens each sentence may get: [B]."""
    check_type("model", model, Transformer)
    config = model.config
    check_tokens("source", source, config.source_vocab)
    for name, token in (("bos", bos), ("eos", eos)):
        check_at_least(name, token, 0)
        if token >= config.target_vocab or token == PADDING:
            expected = f"a token of the target vocabulary, 1 to {config.target_vocab - 1}"
            raise invalid(name, expected, token, f"{PADDING} is padding and hidden from attention")
    most = config.max_len if config.positions == "learned" else sys.maxsize
    if max_new_tokens is None:
        return ((source != PADDING).sum(-1) + EXTRA_LENGTH).clamp(max=most)
    check_at_least("max_new_tokens", max_new_tokens, 1)
    if max_new_tokens > most:
        fix = "there are no learned positions beyond it"
        raise invalid("max_new_tokens", f"at most max_len={most}", max_new_tokens, fix)
    return torch.full((len(source),), max_new_tokens, device=source.device)


def check_beam(model: Transformer, beam_size: int, n_best: int, length_penalty: float) -> None:
    check_at_least("beam_size", beam_size, 1)
    check_at_least("n_best", n_best, 1)
    if beam_size > model.config.target_vocab:
        expected = f"at most the target vocabulary's {model.config.target_vocab}"
        raise invalid("beam_size", expected, beam_size, "use a smaller beam")
    if n_best > beam_size:
        fix = "a wider beam finds more hypotheses"
        raise invalid("n_best", f"at most beam_size={beam_size}", n_best, fix)
    fix = "0 compares plain log-probabilities, more favours longer sentences"
    check_number("length_penalty", length_penalty, 0.0, 10.0, fix)
