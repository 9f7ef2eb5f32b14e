"""The engine of the live page is the package: equal numbers, and a right model's properties."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Error, Page

import unmasked
from helpers import VOCABULARY, small_config
from helpers.comparisons import of_configurations, of_model, random_translator
from helpers.engine import Engine, InBrowser
from unmasked.storage.model import CONFIG
from unmasked.translator import folder_of, shipped_models
from unmasked_book import recorded


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def small_engine(page: Page, folder: Path, **changes: object) -> Engine:
    torch.manual_seed(1)
    random_translator(small_config(**changes), VOCABULARY).save(folder)
    return Engine(page, folder)


def agrees(found: list[dict], model: str) -> bool:
    """The comparisons that the page lists of a model, and all of them within its limits."""
    stored = [row for row in recorded("live-equality")["rows"] if row["model"] == model]
    assert [row["what"] for row in found] == [row["what"] for row in stored]
    for row, old in zip(found, stored, strict=True):
        assert 5 <= row["cases"] <= old["cases"]
        kind = "differ" if "differ" in old else "largest"
        assert row[kind] <= row["limit"], row
        assert kind == "largest" or "own" in row or row["limit"] == old["limit"], row
    return True


@pytest.mark.parametrize("model", shipped_models())
def test_the_engine_equals_the_package_as_the_page_says(page: Page, model: str):
    """With every sixteenth caption; `tools/equality.py` takes them all, and records the table."""
    assert agrees(list(of_model(page, model, every=16)), model)


def test_the_engine_equals_every_configuration(page: Page):
    assert agrees(list(of_configurations(page)), "random weights")


@pytest.mark.parametrize(
    ("changes", "off", "failing"),
    [
        ({}, {}, []),
        ({"norm": "post", "positions": "learned"}, {}, []),
        ({}, {"encoderPositions": True}, ["order"]),  # without them the order does not matter
    ],
)
def test_the_engine_has_the_properties_of_a_right_model(
    page: Page, tmp_path: Path, changes: dict, off: dict, failing: list[str]
):
    model = InBrowser(small_engine(page, tmp_path, **changes), off)
    report = unmasked.check(model, source_vocab=VOCABULARY, target_vocab=VOCABULARY, quiet=True)
    verdicts = {finding.property: finding.verdict for finding in report.findings}
    asked = ("runs", "repeats", "causality", "own words", "source", "order", "padding")
    assert [fault.property for fault in report.faults][:1] == failing
    assert failing or {verdicts[name] for name in asked} == {"passed"}


def test_searches_draw_what_the_softmax_says_and_begin_as_they_are_told(page: Page):
    translator, engine = unmasked.load("de-en"), Engine(page, folder_of("de-en"))
    source = translator.read("Eine Katze jagt eine Frau.")
    [logits] = engine.logits([(source, [1])])
    logits[0, 0] = -torch.inf
    for temperature in (0.5, 1.5):
        draws = [
            engine.search("sample", [source], seed=seed, temperature=temperature, limit=1)[0][0]
            for seed in range(400)
        ]
        expected = (logits[0] / temperature).softmax(-1)
        for token in expected.topk(3).indices.tolist():
            chance = float(expected[token])
            spread = 4 * (chance * (1 - chance) / 400) ** 0.5
            assert abs(draws.count(token) / 400 - chance) <= spread + 1e-3
    again = [engine.search("sample", [source], seed=7)[0] for _ in range(2)]
    assert again[0] == again[1]
    source = translator.read("Ein Hund schläft unter dem Tisch.")
    prefix = translator.target.encode("there is")
    for kind, options in (("greedy", {}), ("beam", {"width": 5}), ("sample", {"seed": 3})):
        [tokens] = engine.search(kind, [source], prefix=prefix, **options)
        assert translator.target.decode(tokens).startswith("there is a")


def test_other_models_are_refused_in_a_sentence(page: Page, tmp_path: Path):
    small_engine(page, tmp_path)
    config = (tmp_path / CONFIG).read_text(encoding="utf-8")
    for old, new, said in (
        ("unmasked model 3", "unmasked model 9", "reads the format “unmasked model 3”"),
        ('"activation": "relu"', '"activation": "swish"', "does not know activation"),
        ('"n_heads"', '"heads"', "does not know heads"),
        ('"n_layers": 2', '"n_layers": 3', "lack a tensor “encoder.layers.2"),
    ):
        assert old in config
        (tmp_path / CONFIG).write_text(config.replace(old, new), encoding="utf-8")
        with pytest.raises(Error, match=re.escape(said)):
            Engine(page, tmp_path)


def test_texts_that_a_model_has_not_learnt_are_refused(page: Page, tmp_path: Path):
    engine = small_engine(page, tmp_path, positions="learned", max_len=4)
    assert len(engine.greedy([[5, 6, 2]])[0]) <= 4
    with pytest.raises(Error, match="has learnt 4 positions"):
        engine.greedy([[5, 6, 7, 8, 2]])
    assert engine.ids(["w0  w3"]) == [[3, 6]]
    with pytest.raises(Error, match="has not learnt the word “hund”"):
        engine.ids(["hund"])
