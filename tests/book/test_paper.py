"""The map of the paper: each name leads somewhere, nothing is missing, each row has its evidence.

Below are the facts that the map states and no other test proves.
"""

import importlib
import inspect
import re
import runpy
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from helpers.pages import BOOK, ROOT, prose
from unmasked import LayerConfig, MultiHeadAttention, Transformer, TransformerConfig
from unmasked.attention import (
    AttentionMaps,
    additive_attention,
    attention,
    masked_softmax,
    scaled_scores,
)
from unmasked.encoder import EncoderLayer, Residual
from unmasked.feed_forward import FeedForward
from unmasked.masks import padding_mask
from unmasked.positions import frequencies, sinusoids
from unmasked.search import EXTRA_LENGTH, beam
from unmasked.training.recipe import Recipe, optimizer_for
from unmasked.transformer import Embedding
from unmasked_book import recorded
from unmasked_book.diagram import architecture

find = runpy.run_path(str(BOOK / "_ext/named.py"))["find"]
PAGE = prose("paper")
# The place, what it says → chapters | code | evidence
ROW = re.compile(r"\| \*\*(.+?)\.\*\* (.+?) →\u00a0(.+?) \| (.+?) \| (.+?) \|")
# One kind of evidence: names of tests, or an experiment and its outcome, or that there is none
EVIDENCE = re.compile(
    r"(?P<tests>\{test\}`\w+`(, \{test\}`\w+`)*)"
    r"|(?P<experiment>\[chapter \d+\]\(\d\d_\w+\.ipynb#[\w-]+\): [^;]{5,80})"
    r"|(?P<none>([^;]+: )?not tested)"
)
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


def test_each_row_has_a_place_words_a_chapter_code_and_evidence():
    assert len(LINES) == len(ROWS) >= 45
    for place, words, chapters, code, evidence in ROWS:
        assert re.match(r"(Section|Equation|Figure|Table) ", place)
        assert len(words) > 10
        assert re.fullmatch(r"(\[[^]]+\]\(\d\d_\w+\.ipynb(#[\w-]+)?\)(; )?)+", chapters)
        assert ", ".join(f"{{source}}`{name}`" for name in named("source", code)) == code
        assert code
        kinds = [EVIDENCE.fullmatch(part) for part in evidence.split("; ")]
        assert all(kinds), evidence
        assert len({kind.lastgroup for kind in kinds}) == len(kinds), evidence
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
    assert {int(n) for n in re.findall(r"\]\((\d\d)_\w+\.ipynb", PAGE)} == set(range(1, 16))


def test_a_link_to_a_chapter_says_where_it_leads():
    for _, _, chapters, *_ in ROWS:
        for text, number, anchor in re.findall(r"\[(.+?)\]\((\d\d)_\w+\.ipynb#?(.*?)\)", chapters):
            chapter, title = text.split(", ", 1)
            assert int(chapter) == int(number)
            slug = re.sub(r"[^\w -]", "", title).replace(" ", "-").lower()
            assert anchor in ("", slug)


def test_an_experiment_is_linked_by_the_number_of_its_chapter():
    links = re.findall(r"\[chapter (\d+)\]\((\d\d)_", PAGE)
    assert len(links) > 10
    assert all(int(said) == int(number) for said, number in links)


def test_the_page_says_what_each_kind_of_evidence_means():
    beginning = PAGE.partition("## Sections 1 to 3")[0]
    for word in (
        "a test checks",
        "a link to a chapter leads to the experiment that measured",
        "*Not tested*",
    ):
        assert word in beginning
    assert "| in the paper | code | evidence |" in PAGE
    assert "| code | test |" not in PAGE


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
        assert config.dropout_inside == (0.0 if config.tie_embeddings else 0.1)
        assert MultiHeadAttention(config.d_model, config.n_heads).split(
            torch.zeros(1, 3, 512)
        ).shape == (1, 8, 3, 64)
    big = TransformerConfig.preset("big", **vocabularies)
    assert big.dropout_inside == 0.0
    assert [getattr(big, name) for name in sizes] == [1024, 16, 4096, 6, 6, 0.3, "post"]
    search = inspect.signature(beam).parameters
    assert (search["beam_size"].default, search["length_penalty"].default) == (4, 0.6)
    assert EXTRA_LENGTH == 50
    for optimizer in ("adam", "adamw"):
        made = optimizer_for(nn.Linear(2, 2), Recipe(optimizer=optimizer)).defaults
        assert (made["betas"], made["eps"]) == ((0.9, 0.98), 1e-9)
    ours = Recipe()
    assert (ours.smoothing, ours.clip) == (0.1, 1.0)
    assert (ours.optimizer, ours.schedule) == ("adamw", "trapezoid")


@pytest.mark.parametrize(("name", "said"), [("base", "63.0 million"), ("big", "214.2 million")])
def test_the_numbers_of_parameters_are_those_on_the_page(name, said):
    config = TransformerConfig.preset(name, source_vocab=37_000, target_vocab=37_000)
    with torch.device("meta"):
        count = Transformer(config).count_parameters()
    assert said == f"{count / 1e6:.1f} million"
    assert said in PAGE


@pytest.mark.parametrize("name", ["en-de", "de-en"])
def test_the_numbers_of_the_shipped_models_are_those_on_the_page(name):
    training = recorded(f"multi30k-{name}")["training"]
    recipe = training["recipe"]
    assert recipe["model"]["norm"] == "pre"
    assert recipe["training"]["warmup"] < 4000
    penalties = {
        float(alpha): score for alpha, score in recorded(f"multi30k-{name}")["penalties"].items()
    }
    assert penalties[training["length_penalty"]] == max(penalties.values())
    assert 0 < round(max(penalties.values()) - penalties[0.6], 2) <= 0.5
    said = {
        "subwords for each direction": recipe["data"]["vocabulary"],
        "for the models that we ship. →\u00a0[10": recipe["training"]["tokens"],
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


def test_without_the_divisor_the_softmax_of_wide_vectors_saturates():
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
    for n_heads in (1, 2, 4, 8, 16, 32):
        module = MultiHeadAttention(32, n_heads)
        with FlopCounterMode(display=False) as counter:
            module(torch.randn(2, 5, 32), maps=[])
        parameters = sum(parameter.numel() for parameter in module.parameters())
        costs.add((counter.get_total_flops(), parameters))
    assert costs == {(2 * 2 * 5 * (4 * 32 * 32 + 2 * 5 * 32), 4 * (32 * 32 + 32))}


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


def test_attention_takes_fewer_operations_than_an_lstm_in_short_sentences():
    """With the matrices of either: n² d grows faster than n d², and overtakes it beyond n = 2 d."""
    width = 16
    layer, cell = MultiHeadAttention(width, 2), nn.LSTMCell(width, width)

    def loop(x):
        state = None
        for word in x.unbind(1):
            state = cell(word, state)

    for length, fewer in ((2, True), (width - 1, True), (3 * width, False)):
        x, costs = torch.randn(1, length, width), []
        for run in (lambda x: layer(x, maps=[]), loop):
            with FlopCounterMode(display=False) as counter:
                run(x)
            costs.append(counter.get_total_flops())
        attends = 4 * length * width**2 + 2 * length**2 * width
        assert costs == [2 * attends, 2 * 8 * length * width**2]
        assert (costs[0] < costs[1]) == fewer


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor holds that an operation makes."""

    numbers = 0

    def __torch_dispatch__(self, operation, _, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        self.numbers = max(self.numbers, made.numel())
        return made


def test_additive_attention_needs_more_memory():
    """A vector for every pair of query and key, where a product needs one number."""
    q, k, v = torch.randn(3, 20, 8)
    for call, expected in (
        (lambda: attention(q, k, v, maps=[]), 20 * 20),
        (lambda: additive_attention(q, k, v, torch.randn(8)), 20 * 20 * 8),
    ):
        with Largest() as largest:
            call()
        assert largest.numbers == expected


def test_the_picture_has_the_sublayers_of_figure_1():
    """From bottom to top; the encoder's blocks are left of the decoder's."""
    block = r'<rect[^>]* x="(\d+)" y="(\d+)"[^>]*/><text[^>]*>([^<]+)<'
    columns = {}
    for x, y, label in re.findall(block, architecture()._repr_html_()):
        if label in ("add &amp; norm", "feed-forward") or label.endswith("-attention"):
            columns.setdefault(int(x), []).append((int(y), label))
    (left, encoder), (right, decoder) = sorted(columns.items())
    assert left < right
    found = [[label for _, label in sorted(column)] for column in (encoder, decoder)]
    norm = "add &amp; norm"
    assert found[0] == ["self-attention", norm, "feed-forward", norm]
    assert found[1] == ["self-attention", norm, "cross-attention", norm, "feed-forward", norm]


def small_transformer(**changes):
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 2, "dropout": 0.0, **changes}
    return Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **sizes)).double().eval()


def test_the_decoder_reads_one_vector_for_each_source_token():
    model = small_transformer()
    source, target = torch.randint(3, 9, (2, 1, 5))
    memory = model.encode(source).detach().requires_grad_()
    assert memory.shape == (1, 5, 16)
    logits = model.generator(model.decode(target, memory, source_mask=padding_mask(source)))
    assert torch.equal(logits, model(source, target))
    logits.square().sum().backward()
    assert (memory.grad.abs().amax(-1) > 1e-9).all()


def test_a_step_with_the_cache_is_the_work_of_one_token():
    """Its matrix products and one query's attention. The first step also reads the memory."""
    model, d, ff = small_transformer(), 16, 24
    source, target = torch.randint(3, 9, (2, 1, 6))
    memory, state = model.encode(source), model.start()
    for time in range(6):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            token, maps = target[:, time : time + 1], AttentionMaps.empty()
            mask = padding_mask(source)
            model.decode(token, memory, source_mask=mask, state=state, maps=maps)
        layer = 6 * d * d + 2 * d * ff + 2 * d * (time + 1) + 2 * d * 6
        layer += 2 * 6 * d * d if time == 0 else 0
        assert counter.get_total_flops() == 2 * 2 * layer


def test_every_sublayer_and_embedding_has_the_width_of_the_model():
    model, widths = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, n_layers=1)), []
    kinds = (Embedding, MultiHeadAttention, FeedForward, Residual)
    for module in model.modules():
        if isinstance(module, kinds):
            module.register_forward_hook(lambda *given: widths.append(given[-1].shape[-1]))
    tokens = torch.randint(3, 9, (1, 4))
    model(tokens, tokens)
    assert widths == [512] * (2 + 2 * 2 + 2 * 3)


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_embedding_is_a_learned_row_times_the_root_plus_its_position(side):
    """And it is what the first layer of its stack reads."""
    model, tokens, seen = small_transformer(), torch.tensor([[5, 3, 5]]), []
    embedding, stack = {
        "source": (model.source_embedding, model.encoder),
        "target": (model.target_embedding, model.decoder),
    }[side]
    table = embedding.tokens.weight
    found = embedding(tokens)
    assert (found - (table[tokens] * 16**0.5 + sinusoids(0, 3, 16))).abs().max() < 1e-6
    stack.layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(tokens, tokens)
    assert torch.equal(seen[0], found)
    (slopes,) = torch.autograd.grad(found.sum(), table)
    assert torch.equal(slopes[:, 0], torch.tensor([0, 0, 0, 4, 0, 8, 0, 0, 0]).double())


def test_the_wavelengths_are_a_geometric_progression():
    waves = 2 * torch.pi / frequencies(512)
    ratios = waves[1:] / waves[:-1]
    assert float(waves[0]) == pytest.approx(2 * torch.pi)
    assert 0.96 < float(waves[-1]) / (10_000 * 2 * torch.pi) < 1
    assert ratios.min() > 1
    assert float(ratios.max() - ratios.min()) < 1e-12


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
