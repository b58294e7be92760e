"""The CLIP stage: a tokenizer learnt from the captions, images and captions in one space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional

from understudy.core.types import Images, Texts
from understudy.studio.autoencoder import to_network
from understudy.studio.corpus import Corpus

_BATCH = 128  # images that are embedded at once
_START, _END, _WORD_END = "<|startoftext|>", "<|endoftext|>", "</w>"


def learn_tokenizer(captions: Iterable[str], *, size: int, length: int) -> Any:
    """A CLIPTokenizer of ``size`` tokens at most: any text can be written.

    ``length`` is that of the longest text in tokens, its two ends included.
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
    pairs = json.loads(learner.to_str())["model"]["merges"]
    merges = [(str(left), str(right)) for left, right in pairs]
    tokens = [*alphabet, *(letter + _WORD_END for letter in alphabet)]
    tokens += [left + right for left, right in merges]
    tokens += [_START, _END]
    vocabulary = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=length)


def new_clip(
    tokenizer: Any, *, side: int, patch: int, widths: tuple[int, int], layers: int, dim: int
) -> Any:
    """An untrained CLIPModel; the text side has two layers fewer than the image side.

    ``widths`` of the image side and of the text side are multiples of 32; ``dim`` is d.
    """
    vision, text = (
        {
            "hidden_size": width,
            "intermediate_size": 4 * width,
            "num_attention_heads": width // 32,
            "projection_dim": dim,
        }
        for width in widths
    )
    text_config = transformers.CLIPTextConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=tokenizer.model_max_length,
        num_hidden_layers=max(2, layers - 2),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **text,
    )
    vision_config = transformers.CLIPVisionConfig(
        image_size=side, patch_size=patch, num_hidden_layers=layers, **vision
    )
    config = transformers.CLIPConfig(
        text_config=text_config, vision_config=vision_config, projection_dim=dim
    )
    return transformers.CLIPModel(config)


def tokenise(tokenizer: Any, texts: Texts) -> torch.Tensor:
    """(n, length) token numbers, padded to the tokenizer's length."""
    encoding = tokenizer(list(texts), padding="max_length", truncation=True, return_tensors="pt")
    return encoding["input_ids"]  # type: ignore[no-any-return]


class _WithHeads(nn.Module):
    """A CLIP with a linear classifier for each attribute, which training throws away."""

    def __init__(self, clip: Any, values: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.clip = clip
        dim = clip.config.projection_dim
        self.heads = nn.ModuleDict({key: nn.Linear(dim, len(of)) for key, of in values.items()})


class ClipStage:
    """Contrastive learning (CLIP), helped by the attributes where the corpus knows them."""

    name = "clip"

    def __init__(self, corpus: Corpus, clip: Any, tokenizer: Any, device: torch.device) -> None:
        every: dict[str, set[str]] = {}
        for row in corpus.attributes:
            for key, value in row.items():
                every.setdefault(key, set()).add(value)
        values = {key: sorted(of) for key, of in every.items() if 1 < len(of) <= 64}
        self.network = _WithHeads(clip, values)
        self.rows = len(corpus)
        self._corpus, self._device = corpus, device
        self._tokens = caption_tokens(tokenizer, corpus.captions)
        self._targets = {
            key: torch.tensor(
                [-1 if row.get(key) is None else of.index(row[key]) for row in corpus.attributes]
            )
            for key, of in values.items()
        }

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Cross entropies of image to text, text to image, and image to attributes."""
        rows = rows.sort().values
        pixels = to_network(self._corpus.images[rows.numpy()], self._device)
        flipped = torch.rand(len(pixels), generator=random, device=self._device) < 0.5
        pixels = torch.where(flipped[:, None, None, None], pixels.flip(-1), pixels)
        tokens = any_caption(self._tokens, rows, random).long().to(self._device)
        clip = self.network.clip
        images = clip.visual_projection(clip.vision_model(pixel_values=pixels).pooler_output)
        texts = clip.text_projection(clip.text_model(input_ids=tokens).pooler_output)
        near = functional.normalize(images.float()) @ functional.normalize(texts.float()).T
        near = near * clip.logit_scale.exp().clamp(max=100)
        here = torch.arange(len(rows), device=self._device)
        heads = [
            functional.cross_entropy(
                head(images).float(), self._targets[key][rows].to(self._device), ignore_index=-1
            )
            for key, head in self.network.heads.items()
            if (self._targets[key][rows] >= 0).any()
        ]
        length = images.float().square().mean(dim=1).sqrt()
        return {
            "images": functional.cross_entropy(near, here) / 2,
            "texts": functional.cross_entropy(near.T, here) / 2,
            "attributes": 0.5
            * sum(heads, torch.zeros((), device=self._device))
            / max(1, len(heads)),
            "length": 0.1 * (length - 1).square().mean(),  # so that length carries nothing
        }

    def sheet(self) -> Images | None:
        """Nothing to see."""
        return None


def caption_tokens(tokenizer: Any, captions: Sequence[Sequence[str]]) -> torch.Tensor:
    """Tokens of every caption: (n, captions an image, length) int16."""
    most = max(len(texts) for texts in captions)
    flat = [texts[at % len(texts)] for texts in captions for at in range(most)]
    blocks = [tokenise(tokenizer, flat[i : i + 4096]).short() for i in range(0, len(flat), 4096)]
    return torch.cat(blocks).view(len(captions), most, -1)


def any_caption(tokens: torch.Tensor, rows: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """One caption of each row at random: (rows, length), where ``tokens`` lie."""
    which = torch.randint(tokens.shape[1], (len(rows),), generator=random, device=random.device)
    return tokens[rows.to(tokens.device), which.to(tokens.device)]


@torch.no_grad()
def embed_images(
    clip: Any, images: Images, device: torch.device
) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """Embeddings of many images, each of length sqrt(d): (n, d) float16."""
    embeddings = []
    for start in range(0, len(images), _BATCH):
        pixels = to_network(images[start : start + _BATCH], device)
        with torch.autocast(device.type, torch.bfloat16):
            features = clip.visual_projection(clip.vision_model(pixel_values=pixels).pooler_output)
        unit = functional.normalize(features.float()) * clip.config.projection_dim**0.5
        embeddings.append(unit.to(torch.float16).cpu().numpy())
    return np.concatenate(embeddings)
