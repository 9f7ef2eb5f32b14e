"""Provides small models, ragged batches and comparisons to several test files."""

import socket
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from unmasked import PRESETS, Transformer, TransformerConfig
from unmasked.loss import translation_loss
from unmasked.tokens import BOS, EOS
from unmasked_book.documents import DOCUMENTS

VOCABULARY = 23
SMALL = {"d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2}
MODELS = {**PRESETS, **DOCUMENTS}  # the paper's two and those of the documents
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def small_config(preset: str | None = None, **changes: object) -> TransformerConfig:
    options = {**(MODELS[preset] if preset else {}), **SMALL, **changes}
    return TransformerConfig(**{"source_vocab": VOCABULARY, "target_vocab": VOCABULARY, **options})


def small_model(preset: str | None = None, **changes: object) -> Transformer:
    """Returns a float64 model in evaluation mode, none of whose vectors are all 0 or all 1."""
    model = Transformer(small_config(preset, **changes)).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def ragged(lengths: list[int], vocabulary: int = VOCABULARY) -> Tensor:
    """Returns random sentences of these lengths, padded with zeros on the right: [B, S]."""
    tokens = torch.randint(3, vocabulary, (len(lengths), max(lengths)))
    return tokens * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def operations(run: Callable[[], object]) -> int:
    """Returns PyTorch's count of operations, which leaves out any fused attention."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max())


@cache
def copier() -> Transformer:
    """Trains a model for a second to repeat its source, so that outputs differ in length."""
    torch.manual_seed(0)
    model = Transformer(small_config(
        d_model=32, n_heads=2, n_layers=1, d_ff=64, dropout=0.0, norm="pre", tie_embeddings=True,
        embedding_std=32**-0.5, source_vocab=12, target_vocab=12,
    ))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        source = ragged(torch.randint(1, 8, (64,)).tolist(), 12)
        optimizer.zero_grad()
        translation_loss(model, source, as_target(source)).backward()
        optimizer.step()
    return model.double().eval()


def as_target(source: Tensor) -> Tensor:
    """Puts each sentence between BOS and EOS: [B, S] → [B, S + 2]."""
    target = F.pad(source, (1, 1))
    target[:, 0] = BOS
    target[torch.arange(len(source)), (source != 0).sum(1) + 1] = EOS
    return target


def same_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a
    )


def put(path: str, **attributes: object) -> Callable[[nn.Module], None]:
    """Returns a function that gives other attributes to the module at this path of a model."""

    def change(model: nn.Module) -> None:
        for name, value in attributes.items():
            setattr(model.get_submodule(path), name, value)

    return change
