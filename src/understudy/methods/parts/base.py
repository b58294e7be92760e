"""The base set: public or synthetic rows of every class, which a method moves or draws from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods.parts.interface import Context, Materials
from understudy.steps.alignment import shared_out

CLASS = "{class}"
"""What a template has in the place of the class."""

_FEWEST = 64  # first pictures of a class: fewer would leave its mean to chance
_AT_ONCE = 256  # pictures that are drawn, embedded and kept before the next are


@dataclass(frozen=True)
class Base:
    """Rows that anybody may see.

    Attributes:
        rows: (n, d) float32 embeddings.
        labels: (n,) class; all 0 for a method that looks at no classes.
        prompts: (n,) index into ``words`` of what each row shows.
        words: The prompts.
        cues: (n, c) float32 embeddings by the encoder of the partition, where that is another.
    """

    rows: Embeddings
    labels: Labels
    prompts: Labels
    words: tuple[str, ...]
    cues: Embeddings | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def and_more(self, more: Base) -> Base:
        """These rows, then more of the same kind."""
        cues = None
        if self.cues is not None and more.cues is not None:
            cues = np.concatenate([self.cues, more.cues])
        return Base(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.prompts, more.prompts]),
            self.words,
            cues,
        )


def prompts_of(phrases: Sequence[str], template: str) -> tuple[str, ...]:
    """The template with each class's phrase in its place."""
    return tuple(template.replace(CLASS, phrase) for phrase in phrases)


def check_base(context: Context, template: str, *, conditional: bool) -> None:
    """Refuse what no base set can be made of: no source of one, or classes that look alike.

    Raises:
        ConfigError: As said.
    """
    images = len(context.shape) == 3
    if not context.base and (context.generator is None or not images):
        what = "--generator, or --base with" if images else "--base with embeddings of"
        raise ConfigError(f"the method starts from a base set: give {what} the same classes")
    if images and context.encoder is None:
        raise ConfigError("a base set of images needs an --encoder")
    if conditional and not context.base and len(context.classes) > 1 and CLASS not in template:
        raise ConfigError(
            f"the template {template!r} draws all {len(context.classes)} classes alike: write "
            f"{CLASS} where the class's name belongs, such as 'a photo of a {CLASS}'"
        )


def first_rows(
    materials: Materials, template: str, first: int, *, least: int, conditional: bool
) -> Base:
    """The base set that is there before anything is asked of the private rows.

    Args:
        materials: A base set or a generator.
        template: The prompt.
        first: Pictures of each class to draw now; fewer where a smaller count is asked for.
        least: Rows that each class needs.
        conditional: Whether rows keep their class.

    Raises:
        ConfigError: Too few rows of a class.
    """
    if materials.base is not None:
        base = read(materials, template, conditional=conditional)
    else:
        kinds = len(materials.phrases or materials.classes)
        each = first if materials.count is None else -(-materials.count // kinds)
        each = int(np.clip(each, min(_FEWEST, first), first))
        base = generated(materials, np.full(kinds, each), template, "base", conditional=conditional)
    require_every_class(base, materials.classes if conditional else ("all",), least)
    return base


def enough_rows(
    materials: Materials,
    base: Base,
    counts: Vector,
    multiple: float,
    template: str,
    *,
    conditional: bool,
) -> tuple[Base, NDArray[np.int64]]:
    """The base set with enough rows for a release, and how many of each class are released.

    A base set that was given stays as large as it is, and so does the release, unless a count is
    asked for.

    Args:
        materials: A base set or a generator, and the count asked for.
        base: The rows so far.
        counts: (classes,) noisy counts of the private rows.
        multiple: Rows of the release for each private one, where no count is asked for.
        template: The prompt.
        conditional: Whether rows keep their class.
    """
    total = materials.count or max(1, round(multiple * float(counts.sum())))
    if materials.base is not None and materials.count is None:
        total = min(total, len(base))
    sizes, kinds = shared_out(total, counts), len(base.words)
    prompted = sizes if conditional else shared_out(total, np.ones(kinds))
    lack = np.maximum(prompted - np.bincount(base.prompts, minlength=kinds), 0)
    if materials.base is None and lack.any():
        more = generated(materials, lack, template, "more base", conditional=conditional)
        base = base.and_more(more)
    return base, sizes


def generated(
    materials: Materials, sizes: NDArray[np.int64], template: str, name: str, *, conditional: bool
) -> Base:
    """Base Dataset Generation (section 3.2): pictures from a template, drawn and embedded.

    What was drawn is kept with the run a part at a time, so a resumed run draws none of it again.

    Args:
        materials: The generator, the encoders and the phrases.
        sizes: (phrases,) how many of each phrase.
        template: The prompt.
        name: A name for these rows; another name gives other pictures.
        conditional: Whether rows keep their class.

    Raises:
        ConfigError: A dataset without classes, of which the template has to say what it shows.
    """
    phrases = materials.phrases or materials.classes
    if phrases == ("all",) and CLASS in template:
        raise ConfigError(
            "this dataset has no classes, so the template has to say what its pictures show: "
            "--set 'template=a photo of a dog'"
        )
    words = prompts_of(phrases, template)
    prompts = np.repeat(np.arange(len(words)), sizes)
    # All classes advance together, so that a look at the first pictures shows each of them.
    prompts = np.random.default_rng([materials.seed, crc32(name.encode())]).permutation(prompts)
    bar = materials.progress("drawing the base set", len(prompts))
    parts = []
    for number, start in enumerate(range(0, len(prompts), _AT_ONCE)):
        asked = [words[index] for index in prompts[start : start + _AT_ONCE]]
        parts.append(_drawn(materials, asked, f"{name} {number:05d}"))
        bar(len(asked))
    labels = prompts if conditional else np.zeros_like(prompts)
    rows, cues = _joined(materials.context, parts)
    return Base(rows, labels.astype(np.int64), prompts.astype(np.int64), words, cues)


def _drawn(materials: Materials, prompts: list[str], name: str) -> dict[str, Embeddings]:
    generator = materials.context.generator
    if generator is None:
        raise ConfigError("a base set needs --generator, or --base with public pictures")
    seed = int(np.random.SeedSequence([materials.seed, crc32(name.encode())]).generate_state(1)[0])

    def make() -> dict[str, NDArray[Any]]:
        images = materials.fit(generator.generate(prompts, seed=seed))
        return embedded(materials.context, images)

    return dict(materials.keep(name, make))


def read(materials: Materials, template: str, *, conditional: bool) -> Base:
    """The base set that the user named, embedded.

    Raises:
        ConfigError: None was named.
    """
    source = materials.base
    if source is None:
        raise ConfigError("a base set needs --generator, or --base with public pictures")
    bar = materials.progress("reading the base set", len(source))
    parts, labels = [], []
    for batch in source.batches(_AT_ONCE):
        parts.append(embedded(materials.context, batch.values))
        labels.append(batch.labels)
        bar(len(batch.labels))
    found = np.concatenate(labels)
    rows, cues = _joined(materials.context, parts)
    words = prompts_of(source.classes, template)
    if not conditional:
        return Base(rows, np.zeros_like(found), found, words, cues)
    order = {name: index for index, name in enumerate(materials.classes)}
    renumbered = np.array([order.get(name, -1) for name in source.classes])[found]
    mine = renumbered >= 0
    phrases = materials.phrases or materials.classes
    return Base(
        rows[mine],
        renumbered[mine],
        renumbered[mine],
        prompts_of(phrases, template),
        None if cues is None else cues[mine],
    )


def embedded(context: Context, values: NDArray[Any]) -> dict[str, Embeddings]:
    """Images by the encoder, and by that of the partition where it is another.

    Embeddings stay what they are.
    """
    encoder, other = context.encoder, context.cluster_encoder
    found = {"rows": values if encoder is None else encoder.encode(values)}
    return found if other is None else found | {"cues": other.encode(values)}


def _joined(
    context: Context, parts: list[dict[str, Embeddings]]
) -> tuple[Embeddings, Embeddings | None]:
    dim = context.shape[0] if context.encoder is None else context.encoder.dim
    rows = [np.zeros((0, dim), np.float32), *(part["rows"] for part in parts)]
    if context.cluster_encoder is None:
        return np.concatenate(rows), None
    none = np.zeros((0, context.cluster_encoder.dim), np.float32)
    return np.concatenate(rows), np.concatenate([none, *(part["cues"] for part in parts)])


def require_every_class(base: Base, classes: Sequence[str], least: int) -> None:
    """Refuse a base set with hardly any rows of a class, before anything is paid for.

    Raises:
        ConfigError: Naming the classes.
    """
    sizes = np.bincount(base.labels, minlength=len(classes))
    if few := [f"{classes[i]} ({n})" for i, n in enumerate(sizes.tolist()) if n < least]:
        raise ConfigError(
            f"the base set needs {least} or more rows of each class (its clusters are found in "
            f"them), found fewer of: {', '.join(few[:10])}. Give more, or fewer clusters"
        )


def chosen(cell: Labels, sizes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
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
