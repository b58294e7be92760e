"""A source of public or foreign making, with the classes and channels that were declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from understudy.core.errors import SourceError
from understudy.core.image_identity import Values, originals_of
from understudy.core.ports import PhrasedSource, Source
from understudy.core.types import Batch, Shape
from understudy.data.encoded_images import Options, require_labels
from understudy.data.image_decoding import converted_channels
from understudy.data.labels import require_no_column
from understudy.data.names import UNLABELLED_NAME, require_declared


def as_declared(source: Source, options: Options) -> Source:
    """A source that was opened without regard to ``label``, ``classes`` and ``channels``."""
    require_no_column(options.label, options.name, "this dataset has")
    if options.classes is None and options.channels is None and options.labelled:
        return source
    return AdaptedSource(source, options)


class AdaptedSource:
    """The records of another source under declared class names, with declared channels.

    It has ``phrases`` (`PhrasedSource`) only where the other source has some.
    """

    shape: Shape
    kind: Literal["images", "embeddings"]

    def __init__(self, source: Source, options: Options) -> None:
        self.name, self.kind, self.has_units = source.name, source.kind, source.has_units
        self.skipped = source.skipped
        self._source = source
        self.shape = source.shape
        if options.channels is not None:
            if source.kind == "embeddings":
                raise SourceError("embeddings have no channels: leave out --channels", source.name)
            self.shape = (*source.shape[:2], options.channels)
        self.classes = self._declared(options)
        position = {name: index for index, name in enumerate(self.classes)}
        self._index = np.array([position.get(name, 0) for name in source.classes], dtype=np.int64)
        if isinstance(source, PhrasedSource):
            phrase_of = dict(zip(source.classes, source.phrases, strict=True))
            self.phrases = tuple(phrase_of.get(name, name) for name in self.classes)

    def _declared(self, options: Options) -> tuple[str, ...]:
        if not options.labelled:
            return UNLABELLED_NAME
        if options.classes is None:
            return self._source.classes
        if self._source.classes == UNLABELLED_NAME:
            require_labels(options, self.name)
        require_declared(self._source.classes, options.classes, self.name)
        return options.classes

    @classmethod
    def indexed(cls, source: Source, classes: tuple[str, ...]) -> AdaptedSource:
        """Samples whose labels are whole numbers: indices into class names, in their order."""
        adapted = cls(source, Options(source.name))
        adapted.classes = classes
        adapted._index = np.array([int(name) for name in source.classes], dtype=np.int64)
        return adapted

    def __len__(self) -> int:
        return len(self._source)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every record in order, ``size`` at a time."""
        for batch in self._source.batches(size):
            values = batch.values
            if self.kind == "images":
                values = converted_channels(values, self.shape[2])
            yield Batch(values, self._index[batch.labels], batch.units)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """The digests of the other source: declarations are no part of a record."""
        return self._source.digests(key)

    def originals(self) -> Iterator[Values]:
        """The records of the other source as they are stored."""
        return originals_of(self._source)
