"""Trains a small model in OPUS-MT's format until its sentences end and its beams differ."""

import io
import json
import warnings
from pathlib import Path

import sentencepiece
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

from unmasked.text.phrasebook import Pair, sentence_pairs

SIZES = {"d_model": 32, "dropout": 0.0, "init_std": 0.1, "max_position_embeddings": 128}
for side in ("encoder", "decoder"):
    SIZES |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}


def checkpoint(folder: Path) -> Path:
    """Writes the model and its tokenizer as transformers writes them, and returns the folder."""
    pairs, numbers = sentence_pairs(400), {"</s>": 0, "<unk>": 1}
    german, english, *_ = zip(*pairs, strict=True)
    for side, texts in (("source", german), ("target", english)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, vocab_size=120, minloglevel=2
        )
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        cutter = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        for piece in map(cutter.id_to_piece, range(3, len(cutter))):
            numbers.setdefault(piece, len(numbers))
    last = len(numbers) + 1
    (folder / "vocab.json").write_text(json.dumps({**numbers, ">>eng<<": last - 1, "<pad>": last}))
    tokens = {"pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0}
    options = {"activation_function": "swish", "scale_embedding": True, **SIZES}
    model = MarianMTModel(MarianConfig(vocab_size=last + 1, **options, **tokens))
    model.generation_config = GenerationConfig(
        num_beams=4, bad_words_ids=[[last]], renormalize_logits=True, max_length=100, **tokens
    )
    torch.nn.init.normal_(model.final_logits_bias, std=0.3)
    train(model, tokenizer(folder), pairs)
    model.save_pretrained(folder)
    return folder


def tokenizer(folder: Path) -> MarianTokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it does not call
        return MarianTokenizer.from_pretrained(folder)


def train(model: MarianMTModel, cutter: MarianTokenizer, pairs: list[Pair]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(80):
        some = [pairs[number][:2] for number in torch.randint(len(pairs), (32,)).tolist()]
        german, english = map(list, zip(*some, strict=True))
        batch = cutter(german, text_target=english, return_tensors="pt", padding=True)
        labels = batch.pop("labels")
        batch["labels"] = labels.masked_fill(labels == cutter.pad_token_id, -100)
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
