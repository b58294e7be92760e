"""A base set that the user named, read and embedded."""

from __future__ import annotations

import numpy as np

from understudy.core.errors import ConfigError
from understudy.methods.alignment.base_set import AT_ONCE, Base, embedded, joined
from understudy.methods.base import Materials, prompts_of


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
    for batch in source.batches(AT_ONCE):
        parts.append(embedded(materials.context, batch.values))
        labels.append(batch.labels)
        bar(len(batch.labels))
    found = np.concatenate(labels)
    rows, cues = joined(materials.context, parts)
    words = prompts_of(source.classes, template)
    if not conditional:
        return Base(rows, np.zeros_like(found), found, words, cues)
    order = {name: index for index, name in enumerate(materials.classes)}
    renumbered = np.array([order.get(name, -1) for name in source.classes])[found]
    mine = renumbered >= 0
    return Base(
        rows[mine],
        renumbered[mine],
        renumbered[mine],
        prompts_of(materials.context.called, template),
        None if cues is None else cues[mine],
    )
