"""A release of rows of the base set that were moved: decoded with the cue of their class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Embeddings, Images, Labels, Release, Seeds, SyntheticBatch
from understudy.methods.alignment.base_set import Base
from understudy.methods.alignment.cluster_gaps import Moves
from understudy.methods.alignment.sensor_noise import parted
from understudy.methods.base import UNLABELLED, Context, Materials
from understudy.steps import alignment as steps
from understudy.steps.grain import with_grain

_AT_ONCE = 64


def check_decoder(context: Context, noise_level: int) -> None:
    """Refuse a decoder that cannot take what it will be given.

    Raises:
        ConfigError: As said.
    """
    decoder, encoder = context.decoder, context.encoder
    if noise_level and not isinstance(decoder, PromptedDecoder):
        named = "this release has no decoder" if decoder is None else f"{decoder.name} has none"
        raise ConfigError(f"noise_level={noise_level} is for unCLIP decoders: {named}")
    if decoder is not None and encoder is not None and decoder.dim != encoder.dim:
        raise ConfigError(
            f"{decoder.name} decodes embeddings of {decoder.dim} numbers, {encoder.name} makes "
            f"{encoder.dim}: name the encoder that belongs to it, or --decoder none"
        )


def decoded(
    materials: Materials,
    rows: Embeddings,
    prompts: list[str],
    noise_level: int,
    seeds: Seeds,
) -> Images | None:
    """unCLIP(v, cue) (Algorithm 1, line 15), or plain decoding; None without a decoder.

    Where rows say how much noise a picture has, it is drawn on it. ``seeds``: one a row.
    """
    decoder = materials.decoder
    if decoder is None:
        return None
    rows, levels = parted(materials.context, rows)
    if isinstance(decoder, PromptedDecoder):
        images = decoder.decode_prompted(rows, prompts, seeds=seeds, noise_level=noise_level)
    else:
        images = decoder.decode(rows, seeds=seeds)
    rng = np.random.default_rng([materials.seed, 9, *seeds.tolist()])
    return images if levels is None else with_grain(images, levels, rng)


def release_moved(
    materials: Materials,
    base: Base,
    moves: Moves,
    sizes: NDArray[np.int64],
    method: str,
    facts: Mapping[str, Any],
    *,
    sphere: bool | None,
    noise_level: int,
    conditional: bool,
) -> Release:
    """D(pasda) <- unCLIP(v + gap) (line 15).

    Args:
        materials: The decoder and the seed.
        base: The base set.
        moves: Where its rows go.
        sizes: (classes,) rows of the release.
        method: The method's name.
        facts: Public facts.
        sphere: Whether rows keep their length; None: where the base set's are of one length.
        noise_level: Of an unCLIP decoder.
        conditional: Whether the release has classes.
    """
    moved = _on_sphere(materials.context, base.rows, moves.rows, sphere)
    order = _order(moves, sizes, materials.seed)
    rows, labels, shown = moved[order], base.labels[order], replace(moves, rows=moved)
    if materials.watch is not None:
        materials.watch("base set", parted(materials.context, base.rows[order])[0])
        materials.watch("aligned", parted(materials.context, rows)[0])

    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            if decoder is None:
                yield SyntheticBatch(labels[part], embeddings=rows[part])
            else:
                images = _images(materials, base, shown, noise_level, order[part], start)
                yield SyntheticBatch(labels[part], images=images)

    decoder = materials.decoder
    classes = materials.classes if conditional else UNLABELLED
    dim, shape = (rows.shape[1], None) if decoder is None else (None, decoder.shape)
    return Release(method, classes, len(rows), batches, dim, shape, facts)


def _images(
    materials: Materials,
    base: Base,
    moves: Moves,
    noise_level: int,
    rows: NDArray[np.int64],
    first: int,
) -> Images:
    """Images of these rows of the base set, which are samples ``first`` and on of the release."""

    def draw(samples: NDArray[np.int64], number: int, image: int) -> Images:
        name, chosen = f"decoded round {number}", rows[samples]
        if number:
            chosen = _of_same_cell(moves.cell, chosen, materials.rng_of(f"{name} {first}"))
        prompts = [base.words[index] for index in base.prompts[chosen]]
        seeds = materials.seeds_of(f"{name} image {image}", first + samples)
        images = decoded(materials, moves.rows[chosen], prompts, noise_level, seeds)
        if images is None:
            raise ConfigError("images need a decoder: this release is of embeddings alone")
        return images

    return materials.selected(len(rows), draw)


def _on_sphere(
    context: Context, before: Embeddings, moved: Embeddings, sphere: bool | None
) -> Embeddings:
    """Moved rows, of the lengths they had before if asked; the noise beside them stays."""
    old, (new, levels) = parted(context, before)[0], parted(context, moved)
    if not (steps.one_length(old) if sphere is None else sphere):
        return moved
    new = steps.with_lengths(new, np.linalg.norm(old, axis=1))
    return new if levels is None else np.concatenate([new, moved[:, new.shape[1] :]], axis=1)


def _order(moves: Moves, sizes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which rows are released, with so many of each class and their share of each cluster."""
    each = [steps.shared_out(n, s) for n, s in zip(sizes.tolist(), moves.shares, strict=True)]
    return _chosen(moves.cell, np.concatenate(each), seed)


def _of_same_cell(
    cell: Labels, rows: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each of these rows another one of its cell by chance; itself where it has no other."""
    others = rows.copy()
    for position, row in enumerate(rows.tolist()):
        mine = np.flatnonzero(cell == cell[row])
        others[position] = rng.choice(mine[mine != row] if len(mine) > 1 else mine)
    return others


def _chosen(cell: Labels, sizes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which rows to use for a release with so many of each cell, in a random order.

    Rows of a cell that has too few come again and again.

    Args:
        cell: (n,) cell of each row.
        sizes: (cells,) how many; 0 where there are no rows.
        seed: Public.
    """
    rng = np.random.default_rng([seed, 5])
    picks = [
        np.resize(rng.permutation(np.flatnonzero(cell == place)), size)
        for place, size in enumerate(sizes.tolist())
    ]
    return np.asarray(rng.permutation(np.concatenate(picks)))
