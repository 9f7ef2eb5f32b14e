"""Tests that `check` names bugs planted in a GPT, and describes or passes what is sound."""

import pytest
import torch
from torch import nn

from helpers.gpt import VOCABULARY, forward, gpt, step
from unmasked import check

NEW = "new = k, v"
NORM = "self.norm(x), positions"
LOOK = "mask = (keys <= queries) &"
LOGITS = "return self.output(self.norm(x)), new"
PAST = "cache[number]"
PLANTED = [  # the property that the first line names, and what was changed
    ("repeats", ("weights =", "scores = F.dropout(scores)\n        weights =")),
    ("repeats", (LOGITS, "self.kept = x * 0.1 + (self.kept if torch.is_tensor(self.kept) and "
                         "self.kept.shape == x.shape else 0)\n        x = self.kept\n        "
                         + LOGITS)),
    ("causality", (LOOK, "mask = (keys <= queries + 1) &")),
    ("causality", (LOOK, "mask = (keys >= 0) &")),
    ("causality", (".masked_fill(~mask, -1e9).softmax(-1)", ".softmax(-1) * mask")),
    ("causality", ("softmax(-1)", "softmax(-2)")),
    ("causality", ("(weights @ v).transpose(1, 2)", "(weights @ v)")),
    ("causality", (NORM, "self.norm(x - x.mean(1, keepdim=True)), positions")),
    ("own words", (LOGITS, "return F.pad(self.output(self.norm(x)), (0, 0, 1, 0))[:, :-1], new")),
    ("batch", (LOGITS, "return self.output(self.norm(x - x.mean(0))), new")),
    ("right padding", ("real[:, None]) |", "real[:1, None]) |")),
    ("left padding", ("real[:, None]) |", "(real | True)[:, None]) |")),
    ("left padding", (" | (keys == queries)", ""), ("-1e9", "-torch.inf")),
    ("cached", (PAST, "cache[0]")),
    ("cached", (NEW, "new = k[:, :, -6:], v[:, :, -6:]")),
    ("cached", (NEW, "new = k, v * 0")),
    ("cached", ("rotated(k, positions)", "rotated(k, positions * (past is None))")),
    ("cached", ("torch.arange(seen, length)[:, None]", "torch.arange(length - seen)[:, None]")),
    ("chunked", (LOOK, "mask = (keys <= queries + 9 * (seen > 0)) &")),
    ("gradient", ("F.gelu(self.up(self.second(x)))", "F.gelu(self.up(self.second(x))).detach()")),
    ("registered", ("nn.ModuleList(Block(width, heads, groups) for _ in range(layers))",
                    "[Block(width, heads, groups) for _ in range(layers)]")),
    ("tied", ("nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)",
              "nn.init.normal_(weight, std=0.2, generator=torch.Generator().manual_seed(0))")),
]  # fmt: skip

CONSISTENT = {  # bugs that only a reference shows, and the module of the reference that names them
    "keys of the wrong group": (("(each.repeat_interleave(self.heads // self.groups, 1)",
                                 "(each.repeat(1, self.heads // self.groups, 1, 1)"), "attention"),
    "no rotation of queries": (("rotated(q, positions)", "q"), "attention"),
    "no scale": ((" / math.sqrt(self.size)", ""), "attention"),
    "no residual": (("x = x + y", "x = y"), "blocks.0.second"),
    "another activation": (("F.gelu", "F.relu"), "blocks.0.down"),
}  # fmt: skip
GIVEN = {"vocab": VOCABULARY, "padding": 0, "step": step, "quiet": True}


@pytest.mark.parametrize(("name", "changes"), [(name, changes) for name, *changes in PLANTED])
def test_the_first_fault_is_the_bugs_own(name, changes):
    report = check(gpt(*changes), forward, **GIVEN)
    assert report.faults[0].property == name, report


@pytest.mark.parametrize(("change", "where"), CONSISTENT.values(), ids=CONSISTENT)
def test_a_reference_shows_what_is_consistent_with_itself_and_where(change, where):
    model, reference = gpt(change), gpt()
    model.load_state_dict(reference.state_dict())
    assert check(model, forward, **GIVEN).ok
    [fault] = check(model, forward, **GIVEN, like=reference).faults
    assert fault.property == "like"
    assert where in fault.what.partition("part in")[2]
    assert check(gpt(), forward, **GIVEN, like=reference).ok


SOUND = {
    "as it is": ({}, ()),
    "a window": ({"window": 5}, ("the last 9 words: a window",)),
    "chunks": (("keys <= queries)", "keys <= queries) & (keys // 4 == queries // 4)"),
               ("words of its own 4: chunks",)),
    "a prefix": (("(keys <= queries)", "((keys <= queries) | ((keys < 4) & (queries < 4)))"),
                 ("the first 4 words see each other both ways: a prefix",)),
    "no positions": (("return x * angles.cos()", "return x\n    return x * angles.cos()"),
                     ("no positions but the causal mask",)),
}  # fmt: skip


@pytest.mark.parametrize(("made", "notes"), SOUND.values(), ids=SOUND)
def test_what_is_sound_is_described_and_not_accused(made, notes):
    model = gpt(**made) if isinstance(made, dict) else gpt(made)
    given = GIVEN | ({} if isinstance(made, dict) else {"padding": None})
    given |= {"step": None} if "prefix" in str(notes) else {}
    report = check(model, forward, **given)
    assert report.ok, report
    found = [finding.what for finding in report.findings if finding.verdict == "note"]
    assert len(found) == len(notes)
    assert all(part in text for part, text in zip(notes, found, strict=True))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
        self.embedding, self.output = nn.Embedding(VOCABULARY, 32), nn.Linear(32, VOCABULARY)
        self.layers, self.places = nn.TransformerEncoder(layer, 2), nn.Embedding(40, 32)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.places.weight[: tokens.shape[1]]
        return self.output(self.layers(x, src_key_padding_mask=tokens == 0))


@pytest.mark.filterwarnings("ignore:.*nested tensor")
def test_an_encoder_reads_both_ways_and_a_decoder_may_not():
    torch.manual_seed(0)
    model = Encoder().eval()
    assert check(model, vocab=VOCABULARY, encoder=True, quiet=True).ok
    [first, *_] = check(model, vocab=VOCABULARY, quiet=True).faults
    assert first.property == "causality"
    assert "it reads both ways" in first.what
