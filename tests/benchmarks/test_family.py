"""Tests that chapter 14's models compute what the classes of transformers compute."""

import pytest
import torch
from torch import nn
from transformers import T5Config, WhisperConfig
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from family import MODELS, compared
from unmasked.masks import causal_mask
from unmasked_book import recorded
from unmasked_book.exercises.family import Ear, t5_attention


@pytest.mark.parametrize("name", MODELS)
def test_a_model_equals_that_of_transformers_with_the_same_weights(name):
    found, row = compared(name), recorded("family")["rows"][name]
    for each in (found, row):
        assert each["difference"] < 1e-5
        assert each["largest"] > 1
        assert each["parameters"] == [found["parameters"][0]] * 2


@torch.no_grad()
def test_the_exercise_on_t5_asks_for_its_attention_in_encoder_and_decoder():
    x = torch.randn(2, 200, 10)
    for decoder in (False, True):
        config = T5Config(d_model=10, d_kv=4, num_heads=3, is_decoder=decoder)
        theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.5)
        mask = causal_mask(200) if decoder else (torch.arange(200) < 190)[None]
        parts = (theirs.q, theirs.k, theirs.v)
        q, k, v = (part(x).unflatten(-1, (3, 4)).transpose(1, 2) for part in parts)
        table = theirs.relative_attention_bias.weight
        heads = t5_attention(q, k, v, mask, table, both_ways=not decoder)
        right = theirs(x, torch.zeros(mask.shape).masked_fill(~mask, -torch.inf))[0]
        assert (theirs.o(heads.transpose(1, 2).flatten(2)) - right).abs().max() < 1e-5
        assert right.abs().max() > 1


@torch.no_grad()
def test_the_exercise_on_whisper_asks_for_what_comes_before_its_encoders_layers():
    config = WhisperConfig(d_model=12, encoder_layers=0, max_source_positions=50)
    theirs, ours, sound = WhisperEncoder(config).eval(), Ear(12), torch.randn(2, 80, 100)
    for one, two in ((theirs.conv1, ours.first), (theirs.conv2, ours.second)):
        nn.init.normal_(one.bias)
        two.load_state_dict(one.state_dict())
    found = theirs.layer_norm(ours(sound))
    assert (found - theirs(sound).last_hidden_state).abs().max() < 1e-5
