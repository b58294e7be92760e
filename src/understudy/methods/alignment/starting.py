"""The base set that a method starts from, read or drawn: enough rows of every class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Vector
from understudy.methods.alignment.base_set import Base
from understudy.methods.alignment.generating import generated
from understudy.methods.alignment.reading import read
from understudy.methods.base import UNLABELLED, Context, Materials, check_template
from understudy.steps.alignment import shared_out

_FEWEST = 64  # first pictures of a class: fewer would leave its mean to chance


def check_base(context: Context, template: str, *, conditional: bool) -> None:
    """Refuse what no base set can be made of: no source of one, or a template for none.

    Raises:
        ConfigError: As said.
    """
    images = len(context.shape) == 3
    if not context.base and (context.generator is None or not images):
        what = "--generator, or --base with" if images else "--base with embeddings of"
        raise ConfigError(f"the method starts from a base set: give {what} the same classes")
    if images and context.encoder is None:
        raise ConfigError("a base set of images needs an --encoder")
    if not context.base:
        check_template(context, template, conditional=conditional)


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
        kinds = len(materials.context.called)
        each = first if materials.count is None else -(-materials.count // kinds)
        each = int(np.clip(each, min(_FEWEST, first), first))
        base = generated(materials, np.full(kinds, each), template, "base", conditional=conditional)
    require_every_class(base, materials.classes if conditional else UNLABELLED, least)
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
