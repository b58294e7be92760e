"""A release of samples of the base set that were moved: decoded with the prompt of their class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Embeddings, Images, Labels, Release, Seeds, SyntheticBatch
from understudy.methods.alignment import arithmetic
from understudy.methods.alignment.base_set import AlignedSamples, Base
from understudy.methods.alignment.sensor_noise import split_noise_levels, with_sensor_noise
from understudy.methods.base import UNLABELLED, Context, Materials
from understudy.steps.apportionment import apportion

if TYPE_CHECKING:  # which imports this module
    from understudy.methods.alignment.algorithm import AlignmentParams

_AT_ONCE = 64


def check_decoder(context: Context) -> None:
    """Refuse a decoder that cannot take what it will be given."""
    decoder, encoder = context.decoder, context.encoder
    if decoder is not None and encoder is not None and decoder.dim != encoder.dim:
        raise ConfigError(
            f"{decoder.name} decodes embeddings of {decoder.dim} numbers, {encoder.name} makes "
            f"{encoder.dim}: name the encoder that belongs to it, or --decoder none"
        )


def decoded(
    materials: Materials, embeddings: Embeddings, prompts: list[str], seeds: Seeds
) -> Images | None:
    """unCLIP(v, prompt) (Algorithm 1, line 15), or plain decoding; None without a decoder.

    Where noise levels follow the embeddings, such noise is drawn on the images. ``seeds``: one a
    sample.
    """
    decoder = materials.decoder
    if decoder is None:
        return None
    embeddings, levels = split_noise_levels(materials.context, embeddings)
    if isinstance(decoder, PromptedDecoder):
        images = decoder.decode_prompted(embeddings, prompts, seeds=seeds)
    else:
        images = decoder.decode(embeddings, seeds=seeds)
    rng = np.random.default_rng([materials.seed, 9, *seeds.tolist()])
    return images if levels is None else with_sensor_noise(images, levels, rng)


def release_aligned(
    materials: Materials,
    base: Base,
    aligned: AlignedSamples,
    sizes: NDArray[np.int64],
    params: AlignmentParams,
    facts: Mapping[str, Any],
) -> Release:
    """D(pasda) <- unCLIP(v + gap) (line 15), so many samples of each class, (classes,)."""
    on_sphere = _on_sphere(materials.context, base.embeddings, aligned.embeddings, params.sphere)
    order = _order(aligned, sizes, materials.seed)
    aligned = replace(aligned, embeddings=on_sphere)
    embeddings, labels = on_sphere[order], base.labels[order]
    if materials.watch is not None:
        before = split_noise_levels(materials.context, base.embeddings[order])[0]
        materials.watch("base set", before)
        materials.watch("aligned", split_noise_levels(materials.context, embeddings)[0])

    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(labels), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            if decoder is None:
                yield SyntheticBatch(labels[part], embeddings=embeddings[part])
            else:
                images = _images(materials, base, aligned, order[part], start)
                yield SyntheticBatch(labels[part], images=images)

    decoder = materials.decoder
    classes = materials.classes if params.conditional else UNLABELLED
    dim, shape = (embeddings.shape[1], None) if decoder is None else (None, decoder.shape)
    return Release("alignment", classes, len(labels), batches, dim, shape, facts)


def _images(
    materials: Materials,
    base: Base,
    aligned: AlignedSamples,
    indices: NDArray[np.int64],
    first: int,
) -> Images:
    """Images of these of the base set, which are samples ``first`` and on of the release."""

    def draw(samples: NDArray[np.int64], number: int, image: int) -> Images:
        name, rows = f"decoded round {number}", indices[samples]
        if number:
            rng = materials.rng_of(f"{name} {first}")
            rows = _of_same_cluster(aligned.cluster, rows, rng)
        prompts = [base.prompts[index] for index in base.prompt_of[rows]]
        seeds = materials.seeds_of(f"{name} image {image}", first + samples)
        images = decoded(materials, aligned.embeddings[rows], prompts, seeds)
        if images is None:
            raise ConfigError("images need a decoder: this release is of embeddings alone")
        return images

    return materials.selected(len(indices), draw)


def _on_sphere(
    context: Context, before: Embeddings, after: Embeddings, sphere: bool | None
) -> Embeddings:
    """Moved embeddings, of the lengths they had before if asked; noise levels stay."""
    old = split_noise_levels(context, before)[0]
    new, levels = split_noise_levels(context, after)
    if not (arithmetic.equal_lengths(old) if sphere is None else sphere):
        return after
    new = arithmetic.with_lengths(new, np.linalg.norm(old, axis=1))
    return new if levels is None else np.concatenate([new, after[:, new.shape[1] :]], axis=1)


def _order(aligned: AlignedSamples, sizes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which base samples are released: so many of each class, and their share of each cluster.

    In a random order; those of a cluster that has too few come again and again.
    """
    of_clusters = [apportion(n, s) for n, s in zip(sizes.tolist(), aligned.shares, strict=True)]
    rng = np.random.default_rng([seed, 5])
    picks = [
        np.resize(rng.permutation(np.flatnonzero(aligned.cluster == index)), size)
        for index, size in enumerate(np.concatenate(of_clusters).tolist())
    ]
    return np.asarray(rng.permutation(np.concatenate(picks)))


def _of_same_cluster(
    cluster: Labels, samples: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each sample another one of its cluster by chance; itself where there is no other."""
    others = samples.copy()
    for position, sample in enumerate(samples.tolist()):
        mine = np.flatnonzero(cluster == cluster[sample])
        others[position] = rng.choice(mine[mine != sample] if len(mine) > 1 else mine)
    return others
