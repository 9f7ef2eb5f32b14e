"""The rules that are printed are those of the file, one for each experiment."""

import pytest

from unmasked_book.experiments import EXPERIMENTS, TIMED
from unmasked_book.experiments.rules import PARTS, rule


def test_every_experiment_has_a_rule_and_an_unknown_one_is_refused():
    real_text = {name for name in EXPERIMENTS if name.startswith("captions")}
    assert set(PARTS) == {*EXPERIMENTS, *TIMED, "captions"} - real_text
    assert "Several heads are better than one" in rule("heads")._repr_markdown_()
    with pytest.raises(ValueError, match="name: expected"):
        rule("odd")
