"""Tells `check` how a model of transformers is called, cached, saved and searched."""

import copy
import inspect
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, StaticCache
from transformers.models.auto import modeling_auto
from transformers.utils import logging

from .language import WORDS, LanguageProbe, cached, cropped, padded
from .probe import AnswerError, Probe, told
from .properties import require_same
from .report import Finding

CACHES = ("cache", "past_key_values", "cache_params", "state", "mems")


def options(model: PreTrainedModel) -> dict[str, Any]:
    """Returns the arguments with which `check` asks a causal, a masked or a translation model."""
    config: Any = model.config.get_text_config(decoder=True)
    padding = getattr(config, "pad_token_id", None)
    output = model.get_output_embeddings()
    vocab = config.vocab_size if output is None else output.weight.shape[0]
    padding = padding if isinstance(padding, int) and 0 <= padding < vocab else 0
    if model.config.is_encoder_decoder:
        translator = Translation(padding)
        return {"source_vocab": vocab, "target_vocab": vocab, "padding": padding,
                "forward": translator.forward, "step": translator.step,
                "tests": {"saved": saved, "generate": generated}}  # fmt: skip
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()
    encoder = type(model).__name__ in masked and not getattr(config, "is_decoder", False)
    known = Language(model, padding, encoder)
    given: dict[str, Any] = {"vocab": vocab, "padding": padding, "forward": known.forward,
                             "encoder": encoder, "tests": {"saved": saved},
                             "rests": True}  # parts for other than words  # fmt: skip
    if not encoder:
        given |= {"step": known.step, "reorder": known.reorder, "crop": known.crop}
        crops = partial(cropped, step=partial(known.step, kind="cropped"), crop=known.crop)
        given["tests"] |= {"static": known.static, "generate": generated, "cropped": crops}
        if known.first is None:
            given["tests"]["left padding"] = unplaced
    return given


def cache_of(model: PreTrainedModel) -> str:
    """Returns the name of the cache among forward's arguments; it changed over the versions."""
    taken = inspect.signature(model.forward).parameters
    return next((name for name in CACHES if name in taken), CACHES[0])


def first_position(model: Any, padding: int) -> int | None:
    """Returns the number of the first word in the positions that a model makes itself, if known."""
    tokens, count = torch.arange(3, 8, device=model.device)[None], torch.arange(5)[None]
    model = copy.deepcopy(model).eval()
    with torch.no_grad(), suppress(Exception):  # "runs" tells of what is wrong
        own = model(tokens).logits
        for first in (0, padding + 1):
            given = model(tokens, position_ids=(count + first).to(tokens)).logits
            if torch.allclose(own, given, rtol=1e-2, atol=1e-2):
                return first
    return None


class Translation:
    """An encoder-decoder is given both sides' tokens, and a mask of the source's padding."""

    def __init__(self, padding: int) -> None:
        self.padding = padding

    def forward(self, model: Any, source: Tensor, target: Tensor) -> Tensor:
        mask = source.ne(self.padding).long()
        return model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits

    def step(self, model: Any, source: Tensor, target: Tensor) -> Tensor:
        """Returns the logits [B, T, V], computed token by token with the library's cache."""
        mask, found, cache = source.ne(self.padding).long(), [], None
        name = cache_of(model)
        memory = model.get_encoder()(input_ids=source, attention_mask=mask)
        for token in target.unbind(1):
            output = model(
                encoder_outputs=memory, attention_mask=mask, decoder_input_ids=token[:, None],
                use_cache=True, **{name: cache},
            )  # fmt: skip
            cache = output.get(name)
            found.append(output.logits)
        return torch.cat(found, 1)


class Language:
    """A causal or masked model is given tokens, a mask of padding, and positions of words alone."""

    def __init__(self, model: PreTrainedModel, padding: int, encoder: bool) -> None:
        self.padding = padding
        self.takes = set(inspect.signature(model.forward).parameters)
        self.cache = cache_of(model)
        counts = not encoder and "position_ids" in self.takes
        self.first = first_position(model, padding) if counts else None

    def given(self, tokens: Tensor) -> dict[str, Tensor]:
        """Returns the mask of the words, and positions that count words alone."""
        real = tokens.ne(self.padding)
        given = {"attention_mask": real.long()}
        if self.first is not None:
            positions = real.long().cumsum(1) - 1 + self.first
            given["position_ids"] = positions.masked_fill(~real, max(self.first - 1, 0))
        return given

    def forward(self, model: Any, tokens: Tensor) -> Tensor:
        given = self.given(tokens) if tokens.eq(self.padding).any() else {}
        if not tokens.eq(self.padding)[:, 0].any():
            given.pop("position_ids", None)
        cached = {"use_cache": False} if "use_cache" in self.takes else {}
        return model(input_ids=tokens, **given, **cached).logits

    def step(self, model: Any, tokens: Tensor, seen: int, cache: Any, kind: str = "") -> Any:
        """Returns the new tokens' logits and the cache, by the inputs that `generate` prepares."""
        if cache is None and model._supports_default_dynamic_cache():
            config = model.config.get_text_config(decoder=True)
            long: dict[str, Any] = {"max_cache_len": 16} if kind == "static" else {}
            cache = (StaticCache if long else DynamicCache)(config=config, **long)
            if kind == "cropped":
                getattr(cache, "activate_past_recording", int)()
        new = tokens.shape[1] - seen
        inputs = model.prepare_inputs_for_generation(
            tokens, next_sequence_length=new if seen else None, is_first_iteration=seen == 0,
            use_cache=True, **{self.cache: cache}, **self.given(tokens),
        )  # fmt: skip
        inputs |= {"logits_to_keep": 0} if "logits_to_keep" in inputs else {}
        output = model(**inputs, return_dict=True)
        cache = output.get(self.cache)
        if cache is None:
            raise NotImplementedError("no cache comes back")
        return output.logits[:, -new:], cache

    def static(self, probe: LanguageProbe) -> Finding:
        """Tests a cache of fixed size, as `cached` does one that grows."""
        model: Any = probe.model
        if not model._supports_default_dynamic_cache():
            return Finding("static", "not offered", "the model has a cache of its own kind")
        try:
            StaticCache(model.config.get_text_config(decoder=True), max_cache_len=16)
        except Exception as error:  # there is no such layer for some kinds of attention
            return Finding("static", "not offered", f"none can be made: {told(error)}")

        return cached(probe, "static", partial(self.step, kind="static"), [1] * WORDS)

    def reorder(self, cache: Any, rows: Tensor) -> Any:
        if not hasattr(cache, "reorder_cache"):
            raise NotImplementedError("the cache has no reorder_cache")
        cache.reorder_cache(rows)
        return cache

    def crop(self, cache: Any, n: int) -> Any:
        if not getattr(cache, "is_croppable", hasattr(cache, "crop")):
            raise NotImplementedError("the cache cannot be cropped")
        cache.crop(-n)
        return cache


def generated(probe: Probe) -> Finding:
    """Tests whether `generate` has the logits of forward, alone and in a padded batch."""
    model: Any = probe.model
    alone, more = isinstance(probe, LanguageProbe), dict[str, Any]()
    if isinstance(probe, LanguageProbe):
        prompts, more["suppress_tokens"] = probe.left(5)[0][:6, -8:], [probe.padding]
    else:
        prompts, more["decoder_start_token_id"] = probe.ragged[0], probe.padding
    for given in (prompts[4:5], prompts):
        try:
            made = model.generate(
                given, attention_mask=given.ne(probe.padding).long(), max_new_tokens=4,
                min_new_tokens=4, do_sample=False, num_beams=1, output_logits=True,
                return_dict_in_generate=True, pad_token_id=probe.padding, **more,
            )  # fmt: skip
        except Exception as error:
            raise AnswerError(told(error), "generate itself stops") from error
        source = given[:, :0] if alone else given
        expected = probe(source, made.sequences[:, :-1])[:, -4:]
        got = torch.stack(made.logits, 1).cpu().double()
        fix = "which positions and which mask does generate pass, and which does forward make?"
        require_same(probe, got, expected, f"in generate, at batch {len(given)}", fix)
    return Finding("generate", "passed", f"at batch 1 and {len(prompts)}, four tokens each")


def unplaced(probe: LanguageProbe) -> Finding:
    """Tests padding before the words where no position_ids can be given: a limit, and no fault."""
    try:
        return padded(probe, "left")
    except AnswerError as error:
        fix = "forward takes no position_ids: let padding stand behind"
        return Finding("left padding", "note", error.what, fix)


@contextmanager
def quietly() -> Iterator[None]:
    """Keeps the library from drawing progress bars in a `with` block."""
    drew = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drew:
            logging.enable_progress_bar()


def saved(probe: Probe) -> Finding:
    """Tests whether the model that is saved and loaded gives the same logits."""
    model: Any = probe.model
    with tempfile.TemporaryDirectory() as folder, quietly():
        model.save_pretrained(folder)
        probe.model = type(model).from_pretrained(folder, dtype=model.dtype).eval()
        probe.model.to(probe.device)
        answer, fix = probe(probe.source, probe.target), "what is not in state_dict, or made anew?"
        require_same(probe, answer, probe.base, "after saving and loading", fix)
    return Finding("saved", "passed", "the same logits")
