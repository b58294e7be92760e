"""What a run takes for public about its private records: declared by the owner, or inferred."""

from __future__ import annotations

from understudy.core.ports import Source
from understudy.data.labels import NO_LABELS, label_column_of
from understudy.data.names import UNLABELLED_NAME
from understudy.report import Premise
from understudy.run.config import RunConfig

OPTIONS = {
    "class names": "--classes",
    "label column": "--label",
    "image size": "--size",
    "colour channels": "--channels",
}
"""The option that declares each premise; the length of embeddings has none."""

ONE_CLASS = (
    "nothing in the dataset says what the class is, so it is one class, 'all'; --label none says "
    "that this is meant"
)
"""The note on a dataset without labels that nobody declared to be without."""


def is_unlabelled(source: Source, config: RunConfig) -> bool:
    """Whether a dataset was taken for one class, and nobody declared that."""
    return source.classes == UNLABELLED_NAME and config.label != NO_LABELS


def premises_of(source: Source, config: RunConfig) -> tuple[Premise, ...]:
    """Everything about the private dataset that steers a run without noise, by where it is from.

    The guarantee takes all of it for public. What no option declares is called inferred, also
    where a schema or a header says it: those are part of the private dataset.
    """
    unlabelled = config.label == NO_LABELS
    by_name = unlabelled or config.classes is not None
    found = [Premise.of("class names", list(source.classes), declared=by_name)]
    column = label_column_of(source)
    if column is not None or unlabelled or source.classes == UNLABELLED_NAME:
        declared = config.label is not None
        found.append(Premise.of("label column", column or NO_LABELS, declared=declared))
    if source.kind == "embeddings":
        return (*found, Premise.of("embedding length", source.shape[0], declared=False))
    height, width, channels = source.shape
    size, colour = config.size is not None, config.channels is not None
    found.append(Premise.of("image size", [height, width], declared=size))
    found.append(Premise.of("colour channels", channels, declared=colour))
    return tuple(found)
