"""The map of the paper: each name on it leads somewhere, and nothing of the paper is missing.

Below stand the facts that the map states and that no other test proves.
"""

import importlib
import inspect
import re
import runpy
import subprocess
import sys

import pytest
import torch
from pages import BOOK, ROOT, prose
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from unmasked import LayerConfig, MultiHeadAttention, Transformer, TransformerConfig
from unmasked.attention import masked_softmax, scaled_scores
from unmasked.encoder import EncoderLayer, Residual
from unmasked.feed_forward import FeedForward
from unmasked.search import EXTRA_LENGTH, beam
from unmasked.training.recipe import Recipe, optimizer_for
from unmasked_book import recorded

find = runpy.run_path(str(BOOK / "_ext/named.py"))["find"]
PAGE = prose("paper")
# The place, what stands there → chapters | code | tests
ROW = re.compile(r"\| \*\*(.+?)\.\*\* (.+?) → (.+?) \| (.+?) \| (.+?) \|")
LINES = [line for line in PAGE.splitlines() if line.startswith("|") and "**" in line]
ROWS = [match.groups() for line in LINES if (match := ROW.fullmatch(line))]


def named(kind, text=PAGE):
    return re.findall(rf"\{{{kind}\}}`([^`]+)`", text)


def thing(name):
    """What a dotted name means to Python."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except ModuleNotFoundError:
        return getattr(thing(module), rest)


# --- Where the names lead -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(named("source"))))
def test_a_name_of_code_can_be_imported_and_its_link_leads_to_where_it_is_defined(name):
    found, (path, line) = thing(name), find(ROOT, "source", name)
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[line - 1]
    assert re.match(rf"\s*(def |class )?{name.split('.')[-1]}\b", text)
    if inspect.isclass(found) or inspect.isroutine(found):
        found = inspect.unwrap(found)
        lines, first = inspect.getsourcelines(found)
        assert first <= line < first + len(lines)
        assert (ROOT / path).samefile(inspect.getsourcefile(found))


@pytest.mark.parametrize("name", sorted(set(named("test"))))
def test_a_name_of_a_test_is_a_function_that_pytest_runs(name):
    path, line = find(ROOT, "test", name)
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[line - 1]
    assert text.startswith(f"def {name}(")
    assert re.fullmatch(r"tests/(\w+/)*test_\w+\.py", path)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("source", "unmasked.attentoin.attention", "defines no 'attentoin.attention'"),
        ("source", "masked.attention", "no file for 'masked.attention'"),
        ("source", "unmasked.attention.look", "attention.py defines no 'look'"),
        ("source", "unmasked.attention.pair.result", "defines no 'pair.result'"),
        ("source", "unmasked.training.rate_at", "__init__.py defines no 'rate_at'"),
        ("test", "test_that_it_is_right", "no tests are called 'test_that_it_is_right'"),
    ],
)
def test_a_name_that_does_not_exist_is_refused(kind, name, message):
    with pytest.raises(LookupError, match=re.escape(message)):
        find(ROOT, kind, name)


def test_the_build_makes_links_and_stops_at_a_name_that_is_gone(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/thing.py").write_text("A: int = 3\n\nclass Made:\n    def of(self): ...\n")
    (tmp_path / "tests/test_thing.py").write_text("def test_it_is_made(): ...\n")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(BOOK / '_ext')!r})\n"
        "extensions = ['myst_parser', 'named']\nhtml_theme_options = {'repository_url': "
        "'https://github.com/OWNER/NAME', 'repository_branch': 'main'}\n"
    )

    def build(text):
        (tmp_path / "index.md").write_text(f"# T\n\n{text}\n")
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-E", "-b", "xml"]
        done = subprocess.run([*command, tmp_path, tmp_path / "out"], capture_output=True)
        page = (tmp_path / "out/index.xml").read_text(encoding="utf-8")
        return done.returncode, done.stderr.decode(), re.findall('refuri="([^"]*)"', page)

    good = "{source}`thing.Made.of` {source}`thing.A` {test}`test_it_is_made`"
    status, said, links = build(good)
    assert (status, said) == (0, "")
    places = ["src/thing.py#L4", "src/thing.py#L1", "tests/test_thing.py#L1"]
    assert links == [f"https://github.com/OWNER/NAME/blob/main/{place}" for place in places]
    status, said, links = build("{source}`thing.Gone`")
    assert status == 1
    assert re.search(r"index\.md:3: WARNING: thing\.py defines no 'Gone'", said)
    assert links == []


# --- What stands on the page ----------------------------------------------------------------------


def test_each_row_has_a_place_words_a_chapter_code_and_a_test():
    assert len(LINES) == len(ROWS) >= 45
    for place, words, chapters, code, test in ROWS:
        assert re.match(r"(Section|Equation|Figure|Table) ", place)
        assert len(words) > 10
        assert re.fullmatch(r"(\[[^]]+\]\(\d\d_\w+\.ipynb(#[\w-]+)?\)(; )?)+", chapters)
        assert ", ".join(f"{{source}}`{name}`" for name in named("source", code)) == code
        assert ", ".join(f"{{test}}`{name}`" for name in named("test", test)) == test
        assert code
        assert test
    assert len({words for _, words, *_ in ROWS}) == len(ROWS)


SECTIONS = ["3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4"]
SECTIONS += ["5.1", "5.2", "5.3", "5.4", "6.1", "6.2"]
PLACES = [f"Equation ({number})" for number in (1, 2, 3)]
PLACES += ["Figure 1", "Figure 2, left", "Figure 2, right", "Figure 3", "Figure 4", "Figure 5"]
PLACES += ["Table 1, complexity", "Table 1, sequential operations", "Table 1, path length"]
PLACES += ["Table 2, BLEU", "Table 2, cost", "Table 3, base", "Table 3, big"]
PLACES += ["Table 3, rows (A)", "Table 3, rows (C)", "Table 3, rows (D)", "Table 3, row (E)"]


@pytest.mark.parametrize("number", SECTIONS)
def test_every_section_has_its_rows(number):
    part = re.search(rf"^##+ Section {number}: .*?(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert part
    assert len(ROW.findall(part[0])) >= 2


@pytest.mark.parametrize("place", PLACES)
def test_every_equation_figure_and_table_has_a_row(place):
    assert [row[0] for row in ROWS].count(place) == 1


def test_what_is_left_out_is_said():
    left_out = PAGE.partition("## What we leave out")[2]
    for what in ("table 4", "rows (B)", "English to French", "checkpoints"):
        assert what in left_out


@pytest.mark.parametrize(
    "formula",
    [
        r"\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))",
        r"\mathrm{softmax}(QK^\top / \sqrt{d_k})\,V",
        r"\mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\,W^O",
        r"\mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)",
        r"\max(0,\; xW_1 + b_1)\,W_2 + b_2",
        r"\sin(p / 10000^{2i/d})",
        r"\mathrm{PE}_{p,\,2i+1}",
        r"d^{-0.5} \cdot \min(s^{-0.5},\; s \cdot w^{-1.5})",
    ],
)
def test_every_formula_of_the_paper_has_a_row(formula):
    assert sum(formula in row[1] for row in ROWS) == 1


def test_every_chapter_is_linked():
    assert {int(n) for n in re.findall(r"\]\((\d\d)_\w+\.ipynb", PAGE)} == set(range(1, 15))


def test_a_link_to_a_chapter_says_where_it_leads():
    for _, _, chapters, *_ in ROWS:
        for text, number, anchor in re.findall(r"\[(.+?)\]\((\d\d)_\w+\.ipynb#?(.*?)\)", chapters):
            chapter, title = text.split(", ", 1)
            assert int(chapter) == int(number)
            slug = re.sub(r"[^\w -]", "", title).replace(" ", "-").lower()
            assert anchor in ("", slug)


def test_the_map_leads_to_it():
    assert "](paper.md)" in prose("map")


# --- What the page states -------------------------------------------------------------------------


def test_the_papers_numbers_are_our_defaults():
    sizes = ("d_model", "n_heads", "d_ff", "n_layers", "decoder_layers", "dropout", "norm")
    vocabularies = {"source_vocab": 9, "target_vocab": 9}
    for config in (
        TransformerConfig(**vocabularies),
        TransformerConfig.preset("base", **vocabularies),
    ):
        assert [getattr(config, name) for name in sizes] == [512, 8, 2048, 6, 6, 0.1, "post"]
        assert config.positions == "sinusoidal"
        assert config.scale_embeddings
        assert MultiHeadAttention(config.d_model, config.n_heads).split(
            torch.zeros(1, 3, 512)
        ).shape == (1, 8, 3, 64)
    big = TransformerConfig.preset("big", **vocabularies)
    assert [getattr(big, name) for name in sizes] == [1024, 16, 4096, 6, 6, 0.3, "post"]
    search = inspect.signature(beam).parameters
    assert (search["beam_size"].default, search["length_penalty"].default) == (4, 0.6)
    assert EXTRA_LENGTH == 50
    for optimizer in ("adam", "adamw"):
        made = optimizer_for(nn.Linear(2, 2), Recipe(optimizer=optimizer)).defaults
        assert (made["betas"], made["eps"]) == ((0.9, 0.98), 1e-9)
    assert Recipe().smoothing == 0.1


@pytest.mark.parametrize(("name", "said"), [("base", "63.0 million"), ("big", "214.2 million")])
def test_the_numbers_of_parameters_are_those_on_the_page(name, said):
    config = TransformerConfig.preset(name, source_vocab=37_000, target_vocab=37_000)
    with torch.device("meta"):
        count = Transformer(config).count_parameters()
    assert said == f"{count / 1e6:.1f} million"
    assert said in PAGE


@pytest.mark.parametrize(
    ("name", "direction"),
    [("en-de", "English to German"), ("de-en", "German to English")],
)
def test_the_numbers_of_the_shipped_models_are_those_on_the_page(name, direction):
    training = recorded(f"multi30k-{name}")["training"]
    recipe = training["recipe"]
    assert recipe["model"]["norm"] == "pre"
    said = {
        f"pieces from {direction}": recipe["data"]["vocabulary"],
        "for the models that we ship. → [10": recipe["training"]["tokens"],
        "for the models that we ship, chosen": training["length_penalty"],
    }
    for words, number in said.items():
        assert f"{number:,} {words}" in PAGE


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_the_variance_of_a_score_is_the_width_and_the_divisor_undoes_it(width):
    torch.manual_seed(0)
    q, k = torch.randn(2, 1000, width)
    assert float(scaled_scores(q, k, 1.0).var()) == pytest.approx(width, rel=0.06)
    assert float(scaled_scores(q, k, width**-0.5).var()) == pytest.approx(1, rel=0.06)


def test_without_the_divisor_the_softmax_of_wide_vectors_is_flat():
    """Its slopes w (1 - w), summed over the keys: with the divisor the width does not matter."""
    torch.manual_seed(0)
    slopes = {}
    for width in (4, 64, 1024):
        q, k = torch.randn(2, 200, width)
        for scale in (1.0, width**-0.5):
            weights = masked_softmax(scaled_scores(q, k, scale))
            slopes[width, scale] = float((weights * (1 - weights)).sum(-1).mean())
    divided = [slopes[width, width**-0.5] for width in (4, 64, 1024)]
    plain = [slopes[width, 1.0] for width in (4, 64, 1024)]
    assert min(divided) > 0.95
    assert plain[0] > 2 * plain[1] > 4 * plain[2]


def test_one_head_or_eight_cost_the_same():
    costs = set()
    for n_heads in (1, 2, 8):
        module = MultiHeadAttention(16, n_heads)
        with FlopCounterMode(display=False) as counter:
            module(torch.randn(2, 5, 16), maps=[])
        parameters = sum(parameter.numel() for parameter in module.parameters())
        costs.add((counter.get_total_flops(), parameters))
    assert costs == {(2 * 2 * 5 * (4 * 16 * 16 + 2 * 5 * 16), 4 * (16 * 16 + 16))}


def test_in_one_layer_every_word_reaches_every_other():
    """The output at i depends on the input at j: at once in attention, and never without it."""
    layer = EncoderLayer(LayerConfig(d_model=8, n_heads=2, d_ff=16, dropout=0.0)).double()
    for module, expected in (
        (layer, torch.ones(6, 6)),
        (FeedForward(8, 16).double(), torch.eye(6)),
    ):
        x = torch.randn(1, 6, 8, dtype=torch.float64)
        slopes = torch.autograd.functional.jacobian(module, x)[0, :, :, 0]  # [6, D, 6, D]
        assert torch.equal(slopes.abs().amax((1, 3)) > 1e-6, expected.bool())


class Operations(TorchDispatchMode):
    """How many operations PyTorch was asked for, one after the other."""

    count = 0

    def __torch_dispatch__(self, operation, _, args=(), kwargs=None):
        self.count += 1
        return operation(*args, **(kwargs or {}))


def test_longer_sentences_take_no_more_operations_one_after_the_other():
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}
    model = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **sizes)).eval()
    counts = []
    for length in (2, 5, 100):
        tokens = torch.full((1, length), 4)
        with Operations() as operations, torch.no_grad():
            model(tokens, tokens)
        counts.append(operations.count)
    assert counts[0] > 50
    assert len(set(counts)) == 1


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_spares_what_goes_round_a_sublayer(norm):
    residual = Residual(LayerConfig(d_model=8, n_heads=2, dropout=0.5, norm=norm)).double()
    residual.norm = nn.Identity()
    x, y = torch.randn(2, 50, 8).double(), torch.ones(2, 50, 8).double()
    added = (residual(x, lambda _: y) - x).round(decimals=9)
    assert set(added.unique().tolist()) == {0.0, 2.0}


def test_dropout_falls_on_the_sum_of_word_and_position():
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    config = TransformerConfig(source_vocab=9, target_vocab=9, dropout=0.5, **sizes)
    model, tokens = Transformer(config), torch.randint(3, 9, (2, 30))
    for embedding in (model.source_embedding, model.target_embedding):
        dropped, whole = embedding.train()(tokens), embedding.eval()(tokens)
        kept = dropped != 0
        assert torch.equal(dropped[kept], 2 * whole[kept])
        assert 0.4 < kept.float().mean() < 0.6
