"""The engine of the live page computes the package's numbers, and refuses what it cannot read."""

import gzip
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Error, Page

import unmasked
from helpers import small_config
from helpers.comparisons import of_configurations, of_model
from helpers.engine import Engine, small_translator
from unmasked.tokens import Subwords
from unmasked.transformer import Transformer
from unmasked.translator import Translator, path_of
from unmasked_book import recorded
from unmasked_book.live.packing import packed


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_page() as page:
        yield page


@pytest.mark.parametrize("model", ["de-en", "en-de", "random weights"])
def test_the_engine_equals_the_package_as_the_page_says(page: Page, model: str):
    """Compares every sixteenth caption; `tools/equality.py` takes them all, and records the table.

    The second model is asked for token IDs, logits, maps and translations alone.
    """
    stored = [row["what"] for row in recorded("live-equality")["rows"] if row["model"] == model]
    whole = model != "en-de"
    rows = of_configurations(page) if "weights" in model else of_model(page, model, every=16)
    for what, row in zip(stored if whole else stored[:10], rows, strict=whole):
        assert row["what"] == what
        assert row.get("differ", row.get("largest")) <= row["limit"], row


def test_searches_draw_what_the_softmax_says_and_begin_as_they_are_told(page: Page):
    translator, engine = unmasked.load("de-en"), Engine(page, path_of("de-en"))
    source = translator.read("Eine Katze jagt eine Frau.")
    [logits] = engine.logits([(source, [1])])
    logits[0, 0] = -torch.inf
    draws = engine.ask("draws", source, 200, {"temperature": 1.5})
    chances, tokens = (logits[0] / 1.5).softmax(-1).topk(3)
    for token, chance in zip(tokens.tolist(), chances.tolist(), strict=True):
        spread = 4 * (chance * (1 - chance) / 200) ** 0.5
        assert abs(draws.count(token) / 200 - chance) <= spread + 1e-3
    assert engine.ask("draws", source, 20, {"temperature": 1.5}) == draws[:20]
    source = translator.read("Ein Hund schläft unter dem Tisch.")
    prefix = translator.target.encode("there is")
    for kind, options in (("greedy", {}), ("beam", {"width": 5}), ("sample", {"seed": 3})):
        [tokens] = engine.search(kind, [source], prefix=prefix, **options)
        assert translator.target.decode(tokens).startswith("there is a")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"unmasked model 4", b"unmasked model 9", "“unmasked model 4”, and this is “unmasked mo"),
        (b'vocab\\":2', b'vocab\\":9', "the file has 23 source words for a model of 9"),
        (None, None, "the model's file is damaged"),
    ],
)
def test_an_unknown_or_a_damaged_file_is_refused_in_a_sentence(page, tmp_path, old, new, message):
    path = tmp_path / "small.safetensors"
    small_translator().save(path)
    whole = packed(path)
    changed = gzip.compress(gzip.decompress(whole).replace(old, new)) if old else whole[:-900]
    with pytest.raises(Error, match=message):
        Engine(page, changed)


def test_case_is_kept_where_a_model_keeps_it(page: Page):
    texts = ["Der Hund sieht den Hund. Die Katze auch!", "hund Hund"]
    words = Subwords.of(texts[:1] * 3, 60, lowercase=False)
    config = small_config(source_vocab=len(words), target_vocab=len(words))
    translator = Translator(Transformer(config), words, words)
    for int8 in (False, True):
        engine = Engine.of(page, translator, int8=int8)
        assert engine.ask("ids", texts) == [*map(words.encode, texts)]


def test_texts_that_a_model_has_not_learnt_are_refused(page: Page):
    engine = Engine.of(page, small_translator(positions="learned", max_len=4))
    assert len(engine.search("greedy", [[5, 6, 2]])[0]) <= 4
    with pytest.raises(Error, match="has learnt 4 positions"):
        engine.search("greedy", [[5, 6, 7, 8, 2]])
    assert engine.ask("ids", ["w0  w3"]) == [[3, 6]]
    with pytest.raises(Error, match="has not learnt the word “hund”"):
        engine.ask("ids", ["hund"])
