"""What is given to the masks that a reader takes in hand; in a browser they are used elsewhere."""

import html
import json
import re

import pytest
import torch

from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask
from unmasked_book.live import explore_masks

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]


def test_it_holds_the_tokens_and_scores_of_three_attentions():
    data = explore_masks(SOURCE, TARGET[:4]).data
    assert data["tokens"] == {"source": SOURCE, "target": TARGET[:4]}
    sides = [(one["name"], one["queries"], one["keys"]) for one in data["attentions"]]
    assert sides == [
        ("encoder", "source", "source"),
        ("decoder", "target", "target"),
        ("cross-attention", "target", "source"),
    ]
    shapes = [torch.tensor(one["scores"]).shape for one in data["attentions"]]
    assert shapes == [(5, 5), (4, 4), (4, 5)]


def test_the_scores_are_short_and_none_is_a_minus_before_zero():
    text = json.dumps(explore_masks(SOURCE, TARGET).data["attentions"])
    numbers = re.findall(r"-?\d+\.\d+", text)
    assert len(numbers) == 75
    assert all(re.fullmatch(r"-?\d\.\d", number) for number in numbers)
    assert "-0.0" not in numbers


def test_its_figure_shows_the_weights_under_the_three_masks():
    explored = explore_masks(SOURCE, TARGET)
    scores = torch.tensor(explored.data["attentions"][1]["scores"])
    weights = masked_softmax(scores, causal_mask(5))
    said = repr(explored.picture)
    assert "decoder: <bos> to <bos> 1.00, " in said
    assert f"want to {TARGET[weights[2].argmax()]} {weights[2].max():.2f}" in said
    assert said.index("encoder: ich to ") < said.index("cross-attention: <bos> to ")


def test_its_html_carries_the_data_and_is_the_same_each_time():
    explored = explore_masks(SOURCE, TARGET)
    page = explored.html()
    carried = html.unescape(re.search(r' data="([^"]*)"', page)[1])
    assert json.loads(carried) == explored.data
    assert explore_masks(SOURCE, TARGET).html() == page
    assert html.escape(repr(explored)) in page


def test_it_says_in_words_what_it_is():
    words = repr(explore_masks(SOURCE, TARGET))
    assert "“ich möchte ein bier <eos>”" in words
    assert "“<bos> i want a beer”" in words


@pytest.mark.parametrize("wrong", [[], list("abcdefg"), "ich"])
@pytest.mark.parametrize("argument", ["source", "target"])
def test_a_sentence_is_a_short_list_of_tokens(argument, wrong):
    given = {"source": SOURCE, "target": TARGET, argument: wrong}
    with pytest.raises(ValueError, match=f"^{argument}: expected a list of 1 to 6 tokens, got "):
        explore_masks(**given)
