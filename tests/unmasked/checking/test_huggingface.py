"""Tests that `check` asks models of transformers by itself, from Python, the shell and pytest."""

import json

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import unmasked
from helpers import small_config
from unmasked import Transformer, check
from unmasked.checking.report import CLAIMS
from unmasked.checking.state import redrawn
from unmasked.checking.tiny import tiny
from unmasked.cli import main
from unmasked.testing import assert_sound, sound

pytestmark = pytest.mark.filterwarnings("ignore")  # what the library says about itself
FOUND = {  # defects of transformers 5, and what is sound
    "LlamaForCausalLM": None,
    "RwkvForCausalLM": "cached",
    "MiniMaxForCausalLM": "reordered",
    "RobertaForCausalLM": "generate",
    "BertForMaskedLM": None,
    "MarianMTModel": None,
}


@pytest.mark.parametrize("name", FOUND)
def test_a_class_needs_no_other_argument(name):
    report = check(name, quiet=True)
    assert report.faults[0].property == FOUND[name] if FOUND[name] else report.ok, report
    if name == "LlamaForCausalLM":
        asked = {finding.property for finding in report.findings}
        assert asked == set(CLAIMS) - {"source", "padding", "like"}


def test_a_new_model_with_dropout_is_asked_and_stays_in_training_mode():
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 99, "n_positions": 40}
    model = GPT2LMHeadModel(GPT2Config(**sizes)).train()
    report = check(model, quiet=True)
    assert report.ok, report
    assert report["generate"].verdict == "passed"
    assert model.training


def test_a_tiny_model_is_drawn_from_a_class_or_a_configuration():
    one, two, other = (tiny(which) for which in (LlamaForCausalLM, LlamaConfig(), GPT2Config()))
    assert torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert sum(p.numel() for p in other.parameters()) < 10**5
    frozen = one.model.norm.weight.requires_grad_(False).clone()
    redrawn(one, seed=1)
    assert not torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert torch.equal(one.model.norm.weight, frozen)


def test_the_shell_names_a_fault_and_ends_with_it(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["unmasked", "check", "--hf", "RwkvForCausalLM", "--json"])
    with pytest.raises(SystemExit, match="1"):
        main()
    found = {each["property"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["cached"]["verdict"] == "fault"
    monkeypatch.setattr(unmasked, "mine", lambda: Transformer(small_config()), raising=False)
    monkeypatch.setattr("sys.argv", ["unmasked", "check", "unmasked:mine"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "ok     causality" in capsys.readouterr().out


def test_one_line_makes_a_test_of_each_property():
    model = Transformer(small_config())
    assert_sound(model)
    test, seen = sound(lambda: tiny("RwkvForCausalLM")), {}
    for name in CLAIMS:
        try:
            test(name)
        except BaseException as error:
            seen[name] = type(error).__name__
    assert seen["cached"] == seen["generate"] == "AssertionError"
    assert seen["source"] == "Skipped"
    assert "causality" not in seen
    with pytest.raises(AssertionError, match="FAULT  cached"):
        assert_sound(tiny("RwkvForCausalLM"))
