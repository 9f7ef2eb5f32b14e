"""Configures models like those of the five documents that this book grew out of.

They describe the Transformer, in Chinese and in English: a walkthrough in PyTorch, from masks to a
toy translation; a reading of Harvard's annotated code; a notebook in the manner of Dive into Deep
Learning, with masks as lengths; notes on reading the paper; and a walkthrough in NumPy, of
attention for four words. `book/bugs.md` says which chapters treat which.
"""

from typing import Any

from unmasked.config import TransformerConfig
from unmasked.errors import require_choice

DOCUMENTS: dict[str, dict[str, Any]] = {
    "pytorch_walkthrough": {"feed_forward": "conv", "attention_bias": False,
                            "scale_embeddings": False, "embedding_std": 1.0, "max_len": 1024},
    "source_reading": {"norm": "pre", "output_bias": True},
    "valid_lengths": {"d_model": 8, "n_heads": 4, "d_ff": 16, "n_layers": 2, "dropout": 0.5,
                      "bias": False, "scale_embeddings": False, "max_len": 1000,
                      "output_bias": True},
    "paper_notes": {"final_norm": True},
    "numpy_walkthrough": {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 1},
}  # fmt: skip


def document(
    name: str, *, source_vocab: int, target_vocab: int, **changes: Any
) -> TransformerConfig:
    """Returns a TransformerConfig of `DOCUMENTS`, with your vocabulary sizes and any changes."""
    require_choice("name", name, tuple(DOCUMENTS))
    options = {**DOCUMENTS[name], **changes}
    return TransformerConfig(source_vocab=source_vocab, target_vocab=target_vocab, **options)
