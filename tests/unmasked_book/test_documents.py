"""The five documents' models; that they equal PyTorch's is tested with the presets."""

import pytest

from helpers import SMALL, VOCABULARY, ragged
from unmasked import Transformer
from unmasked_book.documents import DOCUMENTS, document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_documents_model_runs(name):
    """With the document's options; changes come last."""
    config = document(name, source_vocab=VOCABULARY, target_vocab=19, **SMALL)
    options = {option: getattr(config, option) for option in DOCUMENTS[name]}
    assert options == DOCUMENTS[name] | {o: SMALL[o] for o in DOCUMENTS[name].keys() & SMALL}
    logits = Transformer(config).eval()(ragged([7, 4, 1]), ragged([6, 2, 5], 19))
    assert logits.shape == (3, 6, 19)
    assert logits.isfinite().all()
