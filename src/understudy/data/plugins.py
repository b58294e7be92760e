"""Datasets of other packages, by a prefix: ``playhouse:pet-status``.

A prefix is an entry point of the group ``understudy.sources``, for the built-in one too. It names a
function ``(name, size, *, split, unit) -> Source`` that gets the whole name with its options.
"""

from __future__ import annotations

from typing import Any

from understudy.core.entry_points import SOURCES, registration_of
from understudy.core.errors import SourceError, UnderstudyError
from understudy.core.ports import Source
from understudy.data.encoded_images import Options


def open_plugin(options: Options) -> Source | None:
    """The dataset of a plug-in; None where the name begins with no plug-in's prefix."""
    prefix, colon, _ = options.name.partition(":")

    def error(message: str) -> SourceError:
        return SourceError(message, options.name)

    registration = registration_of(SOURCES, prefix, "prefix", error) if colon else None
    if registration is None:
        return None
    opener: Any = registration.load("prefix", error)
    try:
        source = opener(options.name, options.size, split=options.split, unit=options.unit)
    except UnderstudyError:
        raise
    except Exception as failure:  # whatever a plug-in raises while it opens
        name = type(failure).__name__
        raise error(f"{registration.value} failed: {name}: {failure}") from failure
    if not isinstance(source, Source):
        raise error(f"{registration.value} gave a {type(source).__name__}, no dataset")
    return source
