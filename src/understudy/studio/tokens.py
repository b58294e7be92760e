"""A tokenizer in CLIP's format, learnt from the captions of a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import transformers as _transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

transformers: Any = _transformers  # its calls carry no types

_START, _END, _WORD_END = "<|startoftext|>", "<|endoftext|>", "</w>"


def learn_tokenizer(captions: Iterable[str], *, size: int, length: int) -> Any:
    """A CLIPTokenizer: any text can be written, and frequent words are one token.

    Args:
        captions: Texts to learn from.
        size: Tokens at most.
        length: Longest text in tokens, its two ends included.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learner = Tokenizer(models.BPE(end_of_word_suffix=_WORD_END))
    learner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(alphabet) - 2,
        initial_alphabet=alphabet,
        end_of_word_suffix=_WORD_END,
        show_progress=False,
    )
    learner.train_from_iterator(captions, trainer)
    merges = _merges(learner)
    tokens = [*alphabet, *(letter + _WORD_END for letter in alphabet)]
    tokens += [left + right for left, right in merges]
    tokens += [_START, _END]
    vocabulary = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=length)


def _merges(learner: Tokenizer) -> list[tuple[str, str]]:
    pairs = json.loads(learner.to_str())["model"]["merges"]
    return [(str(left), str(right)) for left, right in pairs]
