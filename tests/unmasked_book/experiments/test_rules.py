"""The rules that are printed are those of the file, one for each experiment."""

import pytest

from unmasked_book.experiments import EXPERIMENTS, TIMED
from unmasked_book.experiments.rules import PARTS, rule, section


def test_every_experiment_has_a_rule():
    real_text = {name for name in EXPERIMENTS if name.startswith("captions")}
    assert set(PARTS) == {*EXPERIMENTS, *TIMED, "captions"} - real_text


def test_a_rule_is_shown_as_a_quotation_and_printed_without_its_marks():
    heads = rule("heads")
    claim = "Several heads are better than one of the same whole width."
    assert heads._repr_markdown_().startswith(f"> **The rule.** *{claim}*")
    assert str(heads).startswith(f"The rule: {claim}")
    assert section("For all claims").endswith("not tested.")  # whole


@pytest.mark.parametrize(("find", "argument"), [(rule, "name"), (section, "title")])
def test_an_unknown_one_is_refused(find, argument):
    with pytest.raises(ValueError, match=f"{argument}: expected"):
        find("odd")
