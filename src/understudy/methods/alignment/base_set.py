"""The base set: public or synthetic samples of every class, read or drawn, that a method moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods.base import UNLABELLED, Context, Materials, check_template, prompts_of
from understudy.steps.apportionment import apportion

if TYPE_CHECKING:  # which imports this module
    from understudy.methods.alignment.algorithm import AlignmentParams

_AT_ONCE = 256  # samples that are drawn or read, embedded and stored before the next are
_FEWEST = 64  # first images of a class: fewer would leave its mean to chance


@dataclass(frozen=True)
class Base:
    """Public or synthetic samples."""

    embeddings: Embeddings  # (n, d) float32
    labels: Labels  # (n,) class; all 0 for a method that looks at no classes
    prompt_of: Labels  # (n,) index into ``prompts`` of what each sample shows
    prompts: tuple[str, ...]
    cluster_embeddings: Embeddings | None = None  # (n, c) by the encoder of the partition

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def empty(self) -> Base:
        """No samples, of the same prompts."""
        none = None if self.cluster_embeddings is None else self.cluster_embeddings[:0]
        rows = self.embeddings[:0], self.labels[:0], self.prompt_of[:0]
        return Base(*rows, self.prompts, none)

    def extended(self, more: Base) -> Base:
        """These samples, then more of the same kind."""
        cluster_embeddings = None
        if self.cluster_embeddings is not None and more.cluster_embeddings is not None:
            cluster_embeddings = np.concatenate([self.cluster_embeddings, more.cluster_embeddings])
        return Base(
            np.concatenate([self.embeddings, more.embeddings]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.prompt_of, more.prompt_of]),
            self.prompts,
            cluster_embeddings,
        )


@dataclass(frozen=True)
class AlignedSamples:
    """The samples of a base set after they were moved."""

    embeddings: Embeddings  # (n, d) float32, moved
    cluster: Labels  # (n,) cluster of each, of all classes
    shares: Vector  # (classes, k) part of each cluster in its class


def check_base(context: Context, params: AlignmentParams) -> None:
    """Refuse what no base set can be made of: no source of one, or a template for none."""
    images = len(context.shape) == 3
    if not context.base and (context.generator is None or not images):
        what = "--generator, or --base with" if images else "--base with embeddings of"
        raise ConfigError(f"the method starts from a base set: give {what} the same classes")
    if images and context.encoder is None:
        raise ConfigError("a base set of images needs an --encoder")
    if not context.base:
        check_template(context, params.template, conditional=params.conditional)


def first_samples(materials: Materials, params: AlignmentParams) -> Base:
    """The base set that is there before anything is asked of the private records.

    ``first``: images of each class to draw now; fewer where a smaller count is asked for.
    ``least``: samples that each class needs.

    Raises:
        ConfigError: Too few samples of a class, or samples that are all alike.
    """
    if materials.base is not None:
        base = _read(materials, params)
    else:
        count, first = len(materials.context.called), params.first
        each = first if materials.count is None else -(-materials.count // count)
        each = int(np.clip(each, min(_FEWEST, first), first))
        base = _generated(materials, np.full(count, each), params, "base")
    classes = materials.classes if params.conditional else UNLABELLED
    least = 2 * (params.clusters or 1)
    sizes = np.bincount(base.labels, minlength=len(classes))
    if few := [f"{classes[i]} ({n})" for i, n in enumerate(sizes.tolist()) if n < least]:
        raise ConfigError(
            f"the base set needs {least} or more samples of each class (its clusters are found in "
            f"them), found fewer of: {', '.join(few[:10])}. Give more, or fewer clusters"
        )
    firsts = np.unique(base.labels, return_index=True)[1]
    if np.array_equal(base.embeddings, base.embeddings[firsts[base.labels]]):
        raise ConfigError(
            "the samples of the base set are all alike in each class: by how far they differ, "
            "private ones are clipped, which would leave nothing of them. Take others. Nothing "
            "was spent"
        )
    return base


def enough_samples(
    materials: Materials, base: Base, counts: Vector, params: AlignmentParams
) -> tuple[Base, NDArray[np.int64]]:
    """The base set with enough samples for a release, and how many of each class are released.

    By noisy counts (classes,) of the private records. A base set that was given stays as large as
    it is, and so does the release, unless a count is asked for.
    """
    total = max(1, round(params.multiple * float(counts.sum())))
    if materials.base is not None:
        total = min(total, len(base))
    sizes, prompts = materials.class_sizes(counts, total), len(base.prompts)
    prompted = sizes if params.conditional else apportion(int(sizes.sum()), np.ones(prompts))
    lack = np.maximum(prompted - np.bincount(base.prompt_of, minlength=prompts), 0)
    if materials.base is None and lack.any():
        base = base.extended(_generated(materials, lack, params, "more base"))
    return base, sizes


def _generated(
    materials: Materials, sizes: NDArray[np.int64], params: AlignmentParams, name: str
) -> Base:
    """Base Dataset Generation (section 3.2): so many images of each phrase, drawn and embedded.

    What was drawn is stored with the run a part at a time, so a resumed run draws none of it again.
    """
    prompts = prompts_of(materials.context.called, params.template)
    prompt_of = np.repeat(np.arange(len(prompts)), sizes)
    # All classes advance together, so that a look at the first images shows each of them.
    prompt_of = materials.rng_of(name).permutation(prompt_of)
    bar = materials.progress("drawing the base set", len(prompt_of))
    parts = []
    for number, start in enumerate(range(0, len(prompt_of), _AT_ONCE)):
        texts = [prompts[index] for index in prompt_of[start : start + _AT_ONCE]]
        parts.append(_generate(materials, texts, f"{name} {number:05d}"))
        bar(len(texts))
    labels = prompt_of if params.conditional else np.zeros_like(prompt_of)
    embeddings, cluster_embeddings = _concatenated(materials.context, parts)
    return Base(
        embeddings,
        labels.astype(np.int64),
        prompt_of.astype(np.int64),
        prompts,
        cluster_embeddings,
    )


def _generate(materials: Materials, prompts: list[str], name: str) -> dict[str, Embeddings]:
    generator = materials.context.generator
    if generator is None:
        raise ConfigError("a base set needs --generator, or --base with public images")

    def make() -> dict[str, NDArray[Any]]:
        images = materials.fit(generator.generate(prompts, seed=materials.seed_of(name)))
        return _embedded(materials.context, images)

    return dict(materials.keep(name, make))


def _read(materials: Materials, params: AlignmentParams) -> Base:
    """The base set that the user named, embedded."""
    source = materials.base
    if source is None:
        raise ConfigError("a base set needs --generator, or --base with public images")
    bar = materials.progress("reading the base set", len(source))
    parts, labels = [], []
    for batch in source.batches(_AT_ONCE):
        parts.append(_embedded(materials.context, batch.values))
        labels.append(batch.labels)
        bar(len(batch.labels))
    own_labels = np.concatenate(labels)
    embeddings, cluster_embeddings = _concatenated(materials.context, parts)
    if not params.conditional:
        prompts = prompts_of(source.classes, params.template)
        return Base(embeddings, np.zeros_like(own_labels), own_labels, prompts, cluster_embeddings)
    order = {name: index for index, name in enumerate(materials.classes)}
    renumbered = np.array([order.get(name, -1) for name in source.classes])[own_labels]
    mine = renumbered >= 0
    return Base(
        embeddings[mine],
        renumbered[mine],
        renumbered[mine],
        prompts_of(materials.context.called, params.template),
        None if cluster_embeddings is None else cluster_embeddings[mine],
    )


def _embedded(context: Context, values: NDArray[Any]) -> dict[str, Embeddings]:
    """Images by the encoder, and by that of the partition; embeddings stay what they are."""
    encoder, other = context.encoder, context.cluster_encoder
    embedded = {"embeddings": values if encoder is None else encoder.encode(values)}
    return embedded if other is None else embedded | {"cluster_embeddings": other.encode(values)}


def _concatenated(
    context: Context, parts: list[dict[str, Embeddings]]
) -> tuple[Embeddings, Embeddings | None]:
    """What `_embedded` gave of several parts."""
    dim = context.shape[0] if context.encoder is None else context.encoder.dim
    embeddings = [np.zeros((0, dim), np.float32), *(part["embeddings"] for part in parts)]
    if context.cluster_encoder is None:
        return np.concatenate(embeddings), None
    none = np.zeros((0, context.cluster_encoder.dim), np.float32)
    others = [none, *(part["cluster_embeddings"] for part in parts)]
    return np.concatenate(embeddings), np.concatenate(others)
