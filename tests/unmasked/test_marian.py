"""A model in OPUS-MT's format computes here what it computes in transformers."""

import json
import os
import shutil
import sys
from unittest.mock import Mock

import pytest
import torch
from torch.nn import functional as F
from transformers import MarianMTModel

from helpers import difference, same_tensors
from helpers.marian import checkpoint, tokenizer
from unmasked import AttentionMaps, interop, load
from unmasked.evaluation import maps_of_pairs
from unmasked.plots.viewer import attention_view
from unmasked.search import beam, greedy
from unmasked.storage.weights import tensors_of
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import BOS, PADDING
from unmasked.translator import Translator, path_of

TEXTS = [pair.german for pair in sentence_pairs(60, seed=5)]
ODD = ["", " Ein  Hund ", ">>eng<< ein", ">>xyz<< ein", "ein >>eng<<", "日本 ½", "a\u0301 ▁"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Makes a small model; every Monday, fetches a published one."""
    if name := os.environ.get("UNMASKED_MARIAN"):
        return path_of(name)
    torch.manual_seed(0)
    return checkpoint(tmp_path_factory.mktemp("marian"))


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def numbered(folder, ours):
    """Returns the ID that transformers has for each of our tokens."""
    numbers = json.loads((folder / "vocab.json").read_text())
    begin = [numbers["<pad>"]] * 2 + [numbers["</s>"], numbers["<unk>"]]
    return torch.tensor(begin + [numbers[word] for word in ours.source.words[4:]])


def test_texts_are_cut_and_put_together_as_by_transformers(folder):
    ours, theirs = interop.from_marian(folder), tokenizer(folder)
    order = numbered(folder, ours)
    for text in TEXTS + ODD:
        for side, words in (("text", ours.source), ("text_target", ours.target)):
            expected = theirs(**{side: text}).input_ids[:-1]
            assert order[words.encode(text)].tolist() == expected, text
            again = theirs.decode(expected, skip_special_tokens=True)
            assert words.decode(words.encode(text)) == again
    assert ours.source.knows("ein hund")
    assert not ours.source.knows("\ue123")


def test_logits_and_both_searches_are_those_of_transformers(folder):
    """By default, its beams stop by a guess, and at the limit it adds an end free of charge."""
    ours, theirs = interop.from_marian(folder), MarianMTModel.from_pretrained(folder).eval()
    order, source = numbered(folder, ours), ours.tokens(TEXTS)
    asked = {"input_ids": order[source], "attention_mask": (source != PADDING).long()}
    found = {
        1: greedy(ours.model, source, 70),
        4: beam(ours.model, source, 4, 70, length_penalty=1.0, normalize="length").tokens[:, 0],
    }
    for width, tokens in found.items():
        exactly = {"forced_eos_token_id": None, "early_stopping": "never" if width > 1 else False}
        written = theirs.generate(**asked, max_length=71, num_beams=width, **exactly)[:, 1:]
        assert torch.equal(order[tokens], written)
        assert 6 < (tokens[:, -1] == PADDING).sum() < 60
    assert not torch.equal(*(F.pad(found[width], (0, 70))[:, :70] for width in (1, 4)))
    read = F.pad(found[1][:, :-1], (1, 0), value=BOS)
    with torch.no_grad():
        right = theirs(**asked, decoder_input_ids=order[read]).logits[..., order]
        logits = ours.model(source, read)
    assert difference(logits[read != PADDING][:, 2:], right[read != PADDING][:, 2:]) < 1e-5
    assert right.abs().max() > 5


def test_it_is_kept_by_us_too_and_read_from_a_pickle(folder, copied, tmp_path):
    ours, theirs = interop.from_marian(folder), MarianMTModel.from_pretrained(folder)
    ours.save(tmp_path / "kept.safetensors")
    found = [load(tmp_path / "kept.safetensors")]
    file = copied / "model.safetensors"
    for zipped in (True, False):  # as today, and as before PyTorch 1.6
        file.unlink()  # what is mapped may be deleted, and must not be written over
        file = copied / "pytorch_model.bin"
        torch.save(theirs.state_dict(), file, _use_new_zipfile_serialization=zipped)
        found.append(load(copied))
    for again in found:
        assert same_tensors(tensors_of(again.model), tensors_of(ours.model))
        assert again.translate(TEXTS[:9]) == ours.translate(TEXTS[:9], beam_size=4)
        assert again.about == ours.about
    assert ours.about == {
        "format": "OPUS-MT", "normalize": "length", "beam_size": 4, "length_penalty": 1.0,
    }  # fmt: skip
    ours.save(tmp_path / "half.safetensors", dtype=torch.float16)
    assert load(tmp_path / "half.safetensors").model.generator.bias[BOS] < -9000


def test_its_attention_can_be_seen(folder):
    ours, pairs = interop.from_marian(folder), [pair[:2] for pair in sentence_pairs(9, seed=6)]
    maps = AttentionMaps(*(list(part) for part in next(maps_of_pairs(ours, pairs))))
    tokens = [[*ours.source.pieces(pairs[0][0]), "."], ["", *ours.target.pieces(pairs[0][1])]]
    assert "▁" in repr(attention_view(maps, *tokens))


@pytest.mark.parametrize(
    "strange",
    [torch.empty(2, device="meta"), torch.eye(2).to_sparse(), 5, torch.ones(2, dtype=torch.int64)],
)
def test_a_pickle_holds_plain_numbers_or_is_refused(copied, strange):
    weights = MarianMTModel.from_pretrained(copied).state_dict()
    (copied / "model.safetensors").unlink()
    torch.save({**weights, "model.shared.weight": strange}, copied / "pytorch_model.bin")
    with pytest.raises(ValueError, match=f"^{copied}: expected a model, got .*; it is damaged"):
        load(copied)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share_encoder_decoder_embeddings": False}, "embeddings: expected True, got False; only"),
        ({"decoder_vocab_size": 7}, r"decoder_vocab_size: expected \d+, got 7; only one voc"),
        ({"activation_function": "tanh"}, "function: expected relu or gelu or swish, got tanh"),
        ({"d_model": 64}, "a model, got .* expected shape .* got .*; it is damaged"),
        ({"max_position_embeddings": 10**12}, "a model, got a table of 1,000,000,000,000 pos"),
        ({"encoder_layers": 9}, "a model, got 11 layers and weights of"),
        ({"vocab_size": 10**9, "decoder_vocab_size": 10**9}, "a model, got a vocab.json that does"),
        ({"pad_token_id": None}, r"a model, got special tokens numbered \[None, "),
        ({"eos_token_id": 10**6}, r"a model, got special tokens numbered .*, 1000000, "),
        ("target_vocab.json", "target_vocab.json: expected False, got True; only one vocabulary"),
        ("source.spm", "a model, got pieces: expected a model of sentencepiece, got"),
        ("pytorch_model.bin", "a model, got a pytorch_model.bin that cannot be read"),
    ],
)
def test_what_is_not_ours_or_damaged_is_said_in_one_line(copied, change, message):
    if isinstance(change, dict):
        config = json.loads((copied / "config.json").read_text())
        (copied / "config.json").write_text(json.dumps(config | change))
    else:
        (copied / change).write_bytes(b"" if change == "source.spm" else b"damage")
        if change.endswith(".bin"):
            (copied / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=f"^{copied}[:,].*{message}") as error:
        load(copied)
    assert str(error.value).isprintable()


def test_a_repository_is_fetched_by_its_name(folder, monkeypatch):
    fetch = Mock(side_effect=[str(folder), OSError("no such repository")])
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert isinstance(load("some-body/opus.mt"), Translator)
    assert fetch.call_args.args == ("some-body/opus.mt",)
    assert "*.spm" in fetch.call_args.kwargs["allow_patterns"]
    with pytest.raises(ValueError, match=r"^model: .* a file.* de-en, .* no such repository$"):
        load("some/none")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"^model: .* got 'some/one'; .* pip install .*\[hub\]"):
        load("some/one")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ValueError, match=r'^pieces: .* sentencepiece, got none; .*hub\]"$'):
        load(folder)
