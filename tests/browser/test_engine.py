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


def recorded_rows(model: str) -> list[dict]:
    return [row for row in recorded("live-equality")["rows"] if row["model"] == model]


def agrees(found: list[dict], stored: list[dict]) -> bool:
    """The comparisons that the page lists, and all of them within its limits."""
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
    assert agrees(list(of_model(page, model, every=16)), recorded_rows(model))


def test_the_engine_equals_every_configuration(page: Page):
    assert agrees(list(of_configurations(page)), recorded_rows("random weights"))


@pytest.mark.parametrize("changes", [{}, {"norm": "post", "positions": "learned"}])
def test_the_engine_has_the_properties_of_a_right_model(page: Page, tmp_path: Path, changes: dict):
    torch.manual_seed(1)
    random_translator(small_config(**changes), VOCABULARY).save(tmp_path)
    model = InBrowser(Engine(page, tmp_path))
    report = unmasked.check(model, source_vocab=VOCABULARY, target_vocab=VOCABULARY, quiet=True)
    verdicts = {finding.property: finding.verdict for finding in report.findings}
    asked = ("runs", "repeats", "causality", "own words", "source", "order", "padding")
    assert {name: verdicts[name] for name in asked} == dict.fromkeys(asked, "passed")


def test_the_properties_see_a_switched_off_part(page: Page, tmp_path: Path):
    """What `check` says of the engine without its source positions: the order does not matter."""
    torch.manual_seed(1)
    random_translator(small_config(), VOCABULARY).save(tmp_path)
    model = InBrowser(Engine(page, tmp_path), {"encoderPositions": True})
    report = unmasked.check(model, source_vocab=VOCABULARY, target_vocab=VOCABULARY, quiet=True)
    assert [fault.property for fault in report.faults][:1] == ["order"]


def test_sampling_draws_what_the_softmax_says_and_repeats_with_its_seed(page: Page):
    engine = Engine(page, folder_of("de-en"))
    source = unmasked.load("de-en").read("Eine Katze jagt eine Frau.")
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


def test_searches_begin_as_they_are_told(page: Page):
    translator = unmasked.load("de-en")
    engine = Engine(page, folder_of("de-en"))
    source = translator.read("Ein Hund schläft unter dem Tisch.")
    prefix = translator.target.encode("there is")
    for kind, options in (("greedy", {}), ("beam", {"width": 5}), ("sample", {"seed": 3})):
        [tokens] = engine.search(kind, [source], prefix=prefix, **options)
        assert translator.target.decode(tokens).startswith("there is a")


def test_other_models_are_refused_in_a_sentence(page: Page, tmp_path: Path):
    random_translator(small_config(), VOCABULARY).save(tmp_path)
    config = (tmp_path / CONFIG).read_text(encoding="utf-8")
    for old, new, said in (
        ("unmasked model 3", "unmasked model 9", "The engine reads the format “unmasked model 3”"),
        ('"activation": "relu"', '"activation": "swish"', "does not know activation"),
        ('"n_heads"', '"heads"', "does not know heads"),
        ('"n_layers": 2', '"n_layers": 3', "The weights lack a tensor “encoder.layers.2"),
    ):
        assert old in config
        (tmp_path / CONFIG).write_text(config.replace(old, new), encoding="utf-8")
        with pytest.raises(Error, match=re.escape(said)):
            Engine(page, tmp_path)


def test_a_text_beyond_the_learned_positions_is_refused(page: Page, tmp_path: Path):
    config = small_config(positions="learned", max_len=4)
    random_translator(config, VOCABULARY).save(tmp_path)
    engine = Engine(page, tmp_path)
    assert len(engine.greedy([[5, 6, 2]])[0]) <= 4
    with pytest.raises(Error, match="has learnt 4 positions"):
        engine.greedy([[5, 6, 7, 8, 2]])


def test_a_word_that_is_not_known_is_named(page: Page, tmp_path: Path):
    random_translator(small_config(), VOCABULARY).save(tmp_path)
    engine = Engine(page, tmp_path)
    assert engine.ids(["w0  w3"]) == [[3, 6]]
    with pytest.raises(Error, match="has not learnt the word “hund”"):
        engine.ids(["hund"])
