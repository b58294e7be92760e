"""How a method selects candidates where no record answers through a vault: nothing is protected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import RunError
from understudy.core.ports import Source
from understudy.core.types import Embeddings, Labels, Release, Vector

if TYPE_CHECKING:
    from understudy.methods.base import Store


@dataclass(frozen=True)
class Selection:
    """Which candidates are selected, and why.

    Attributes:
        indices: (k,) int64, in order.
        gamma: (M,) final weights.
        scores: (M,) of the last round, in the first round's standard deviations.
        warnings: What the owner should know; empty if all is well.
        facts: Public facts of the selection: JSON values.
        distances: (M,) how near each candidate lies to private records, beyond chance; None where
            that was not asked.
    """

    indices: NDArray[np.int64]
    gamma: Vector
    scores: Vector
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    distances: Vector | None = None


LabelledEmbeddings = tuple[Embeddings, Labels]
"""Records or candidates in the encoder's space, (n, D), and the class of each, (n,)."""


@dataclass(frozen=True)
class OpenMaterials:
    """What steers a selection where no record answers through a vault: nothing is protected.

    Attributes:
        source: What the candidates are read from.
        candidates: Of which some are selected.
        reference: What a model trained on the selection is to do well on.
        members: The private records; None without any.
        non_members: Records that are not among them; None without any.
        public: (n, D) public embeddings that the space is whitened on; None: the candidates.
        distances: Given members and non-members, the distance of each candidate to the nearest of
            each, (M,) and (M,).
        names: Of the classes, for warnings.
        progress: As `Materials.progress`.
        keep: As `Materials.keep`.
    """

    source: Source
    candidates: LabelledEmbeddings
    reference: LabelledEmbeddings
    names: tuple[str, ...]
    members: LabelledEmbeddings | None
    non_members: LabelledEmbeddings | None
    public: Embeddings | None
    distances: Callable[[], tuple[Vector, Vector]]
    progress: Callable[[str, int | None], Callable[[int], None]]
    keep: Store


def require_same(keep: Store, name: str, digest: str, records: str = "candidates") -> None:
    """Refuse to go on with other records than a selection was begun with.

    Args:
        keep: As `Materials.keep`.
        name: Of the dataset that they are in.
        digest: Of their values and labels.
        records: What they are to the selection.

    Raises:
        RunError: They have changed.
    """
    record = keep(f"digest of the {records}", lambda: {"digest": np.array(digest)})
    if record["digest"] != digest:
        raise RunError(
            f"{name}: the {records} have changed since the selection was begun: start a new one "
            "in another folder"
        )


@dataclass(frozen=True)
class OpenSelection:
    """How a method selects without noise: of releases, or with no guarantee at all.

    Attributes:
        params: A frozen dataclass of its parameters; ``penalised`` says whether what is near to
            private records is penalised, ``by_distance`` whether in a space of its own.
        settle: Parameters, and whether there are private records, to parameters with nothing open.
        sizes: Labels of the candidates, the number of classes and parameters to how many are
            selected of each class. Raises ConfigError where so many cannot be.
        run: Does it: the release, and why it is what it is.
        unpenalised: The setting that takes no distances, as it is typed.
    """

    params: type[Any]
    settle: Callable[[Any, bool], Any]
    sizes: Callable[[Labels, int, Any], NDArray[np.int64]]
    run: Callable[[OpenMaterials, Any], tuple[Release, Selection]]
    unpenalised: str
