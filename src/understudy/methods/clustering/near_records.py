"""Private images beside public examples: how many look like one, and like which of them.

Both are asked with noise, and answer whether samples are drawn from the examples, and from which
(`understudy.methods.clustering.labelled_examples`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import row_squares
from understudy.core.ports import Source
from understudy.core.public_examples import PublicExamples
from understudy.core.types import Embeddings, Images, Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import Context, Materials
from understudy.methods.clustering.example_images import examples_of, given_images
from understudy.privacy.cells import Cells
from understudy.privacy.nearest import Nearest
from understudy.privacy.queries import Counts

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_NEAR, _NEAR_OF_CLASS = 0.6, 0.4  # of all private images, and of those of each class, at least
_CLEAR = 4.0  # deviations of the noise that the number of private images has at least
_FILLED = 0.25  # of the votes that a cluster would have if its kind's were even: fewer are none


def example_words(context: Context, public: Source | None, part: float) -> str:
    """What may be released of a run with examples, in a sentence.

    Args:
        context: The generator of examples.
        public: The public dataset.
        part: Of the samples, how many are drawn like the examples.
    """
    examples, whose = examples_of(context), "public images that are given"
    if examples is not None and given_images(public) is None:
        kinds = ", ".join(examples.kind_names)
        whose = f"{len(examples.features):,} public examples that come with the program ({kinds})"
    some, others, every = "", "", ""
    if part < 1:
        some, others, every = f"{part:.0%} of the ", ", and the others from a mixture", "all "
    return (
        f"where at least {_NEAR:.0%} of the private images (DP count) look like one of the "
        f"{whose}, {some}samples are drawn like those, labelled by a DP classifier{others}; "
        f"elsewhere {every}from a mixture (--examples none: always)"
    )


@dataclass(frozen=True)
class NearRecords:
    """Private images beside public examples.

    Attributes:
        examples: The examples.
        vault: Features of the records, and then the cluster of the nearest example, from 1 on; 0
            where it lies too far from the record.
        sizes: (classes,) released class sizes.
        size_sd: Standard deviation of the noise in each.
        near: (classes,) part of each class that looks like an example, as released.
        share: The same of all records.
        share_sd: Standard deviation of the noise in ``near``.
        kinds: (kinds,) as `kinds_of_classes` gives them.
        clear: Whether the number of records stands out of the noise in ``share``.
    """

    examples: PublicExamples
    vault: Vault
    sizes: Vector
    size_sd: float
    near: Vector
    share: float
    share_sd: Vector
    kinds: Vector
    clear: bool

    @property
    def enough(self) -> bool:
        """Whether samples are drawn from the examples."""
        every = bool((self.near + self.share_sd >= _NEAR_OF_CLASS).all())
        return self.clear and every and self.share >= _NEAR and bool(self.kinds.any())

    @property
    def lack(self) -> str:
        """Why samples are not drawn from the examples, in a sentence; only where they are not."""
        if self.clear and self.share < _NEAR:
            return f"only {self.words}"
        if not self.clear or not self.kinds.any():
            return "the images (DP count) are too few for this noise to tell what they look like"
        return (
            f"of a class only {np.clip(self.near.min(), 0, 1):.0%} of the images (DP count) look "
            "like a public example"
        )

    def samples(self, materials: Materials) -> Labels:
        """How many samples of each class there are: (classes,)."""
        total = float(self.sizes.sum())
        return materials.for_samples.class_sizes(self.sizes / total, total)

    @property
    def words(self) -> str:
        """What was released, in a sentence."""
        return (
            f"{np.clip(self.share, 0, 1):.0%} of the private images (DP count) look like one of "
            f"{len(self.examples.features):,} public examples"
        )


def near_records(
    materials: Materials, examples: PublicExamples, sizes: Stage, nearness: Stage
) -> NearRecords:
    """How many records of each class look like a public example."""
    nearest = Nearest(examples.features.astype(np.float64))
    squares = examples.radii[examples.clusters].astype(np.float64) ** 2

    def compared(images: Images) -> Embeddings:
        features = examples.encode(images)
        example = nearest(features)
        within = row_squares(features - examples.features[example]) <= squares[example]
        cluster = np.where(within, 1 + examples.clusters[example], 0)
        return np.concatenate([features, cluster[:, None]], axis=1, dtype=np.float32)

    vault, classes = materials.vault.map(compared), len(materials.classes)
    class_sizes, size_sd = dp_estimators.class_sizes(
        vault, classes, examples.features.shape[1] + 1, sizes
    )
    kind_of = np.concatenate([[0], 1 + examples.kinds])  # of a record's last number
    codes = np.arange(len(examples.kind_names) + 1.0)
    query = Counts(Cells(np.tile(codes[:, None], (classes, 1, 1))))
    view = vault.view(lambda rows: kind_of[rows[:, -1:].astype(np.int64)].astype(np.float64))
    answer = view.release(query, stage=nearness.name).reshape(classes, len(codes))
    noise = vault.noise_sd(query, stage=nearness.name)
    counts, near = np.maximum(answer.sum(axis=1), 1.0), answer[:, 1:].sum(axis=1)
    # A class's size was released twice: once by itself, and once as the sum of these counts.
    class_sizes, size_sd = dp_estimators.counted_twice(
        class_sizes, size_sd, counts, noise * len(codes) ** 0.5
    )
    return NearRecords(
        examples,
        vault,
        class_sizes,
        size_sd,
        near / counts,
        float(near.sum() / counts.sum()),
        noise * np.sqrt(len(codes) - 1) / counts,
        kinds_of_classes(answer[:, 1:], noise),
        bool(counts.sum() >= _CLEAR * noise * np.sqrt(answer.size)),
    )


def kinds_of_classes(near: Vector, noise: float) -> Vector:
    """How many records look like an example of each kind, (kinds,); 0 where no class mostly does.

    A kind is kept if the records of a class, or of all together, look like its examples more often
    than like those of any other: a few look like what they are not, and a kind has examples by the
    thousand.

    Args:
        near: (classes, kinds) of each class, how many look like an example of each kind.
        noise: Standard deviation of the noise in each.
    """
    totals = near.sum(axis=0)
    clear = near.max(axis=1) >= dp_estimators.CLEAR * noise
    main = np.append(near.argmax(axis=1)[clear], totals.argmax())
    least = dp_estimators.CLEAR * noise * np.sqrt(len(near))
    chosen = np.isin(np.arange(len(totals)), main) & (totals >= least)
    return np.where(chosen, totals, 0.0)


def voted_examples(records: NearRecords, stage: Stage) -> NDArray[np.int64]:
    """The examples that look like private records, by the votes of these: (m',) rows.

    A cluster's votes are shrunk, by the noise in them, to its even part of the records of its kind,
    so that votes that drown in noise leave all of a kind in.
    """
    examples = records.examples
    count = len(examples.kinds)
    query = Counts(Cells(np.arange(count + 1.0)[None, :, None]))
    view = records.vault.unconditional().view(lambda rows: rows[:, -1:])
    votes = view.release(query, stage=stage.name)[1:, 0]
    noise = view.noise_sd(query, stage=stage.name)
    sizes = np.bincount(examples.clusters, minlength=count)
    even = (
        records.kinds[examples.kinds] * sizes / np.bincount(examples.kinds, sizes)[examples.kinds]
    )
    trust = even**2 / (even**2 + noise**2)
    estimate = trust * votes + (1 - trust) * even
    chosen = (even > 0) & (estimate >= _FILLED * even)
    if not chosen.any():  # two releases that noise has set apart
        chosen = even > 0
    return np.flatnonzero(chosen[examples.clusters])
