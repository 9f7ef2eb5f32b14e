"""The figure's HTML: what a notebook gets, and what a page holds before the click."""

import re

import pytest

from unmasked.translator import shipped_models
from unmasked_book.live import live


@pytest.mark.parametrize("name", shipped_models())
def test_a_notebooks_output_holds_everything(name):
    view = live(name)
    html = view._repr_html_()
    assert len(html) < 4.2e6
    assert not re.search(
        r'(src|href)="|https?://(?!www\.w3\.org|github\.com/transformer-unmasked)', html
    )
    assert "A caption in" in repr(view)
    assert html.count("</script>") == 1
    with pytest.raises(ValueError, match=r"model: .*'de-en' or 'en-de', got 'xx'"):
        live("xx")
    assert live(name)._repr_html_() != html  # two in one notebook do not get in each other's way
