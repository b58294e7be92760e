"""What a report is made from: public facts and owner's facts, in two types that do not mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.files import public_name
from understudy.core.results import Evaluation, Pairs, Verdict
from understudy.core.types import Images, Receipt, Shape
from understudy.report import meaning
from understudy.report.scatter import Scatter

Format = Literal["png", "parquet", "embeddings"]


def _no_images() -> Images:
    return np.zeros((0, 1, 1, 1), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model that took part in a run.

    Attributes:
        role: What it did: ``"encoder"`` or ``"decoder"``.
        name: The name it was asked for by; folders of the owner's machine are cut off.
        licence: Licence and origin of its weights; ``"none"`` without weights.
        sha256: Digest of its file in hexadecimal, where it has one.
    """

    role: str
    name: str
    licence: str
    sha256: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", public_name(self.name))


@dataclass(frozen=True, slots=True)
class Premise:
    """Something about the private dataset that the guarantee takes for public.

    Attributes:
        name: What it is, such as ``"class names"``.
        value: A JSON value.
        origin: ``"declared"`` by the owner, whatever the records are; or ``"inferred"`` from the
            private records.
    """

    name: str
    value: Any
    origin: Literal["declared", "inferred"]

    @classmethod
    def of(cls, name: str, value: Any, *, declared: bool) -> Premise:
        """A premise that was declared or, if not, inferred."""
        return cls(name, value, "declared" if declared else "inferred")


@dataclass(frozen=True, slots=True)
class StatedAttack:
    """What an attack on a release without a guarantee gained: private data without noise.

    A release without a guarantee states it; no other may, for it would be outside of its guarantee.

    Attributes:
        subject: What was attacked: ``"this release"``, ``"all candidates"``.
        attack: What the attacker did, in words.
        measured: With what it was measured, and against which records.
        tpr: Part of the private records that the attacker names while accusing 1 % of the
            held-out ones: (value, low, high), the last two the ends of a 95 % interval.
        auc: Area under the ROC, likewise; 0.5 is guessing.
    """

    subject: str
    attack: str
    measured: str
    tpr: tuple[float, float, float]
    auc: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class StatedCopies:
    """How many samples of a release without a guarantee are copies of private records.

    A release without a guarantee states it; no other may, for it would be outside of its guarantee.

    Attributes:
        samples: How many samples the release has.
        exact: How many equal a private record, value for value.
        near: How many others are near-copies.
        usual: Part of the private records that are as near to another private record.
        measured: What a near-copy is, in words.
    """

    samples: int
    exact: int
    near: int
    usual: float
    measured: str


@dataclass(frozen=True, slots=True)
class StatedTotal:
    """What all releases of the dataset so far come to, as its owner states it.

    Attributes:
        epsilon: Of all of them together, this one included, at ``delta``.
        delta: Delta of the same.
        releases: How many runs were charged.
        unprotected: How many releases have no guarantee besides: no epsilon covers them.
    """

    epsilon: float
    delta: float
    releases: int
    unprotected: int = 0


@dataclass(frozen=True, slots=True)
class PublicQuality:
    """How good a release is by a measure that the run paid for: it is under the guarantee.

    A classifier was trained on the release; a noisy query counted for each class how many private
    records it finds. All numbers are (value, low, high): the last two are the ends of a 95 %
    interval, which holds the noise.

    Attributes:
        classifier: What was trained, in words.
        balanced_accuracy: The mean of the recalls, 0 to 1.
        recalls: By class: the part of its private records that is found, 0 to 1.
    """

    classifier: str
    balanced_accuracy: tuple[float, float, float]
    recalls: Mapping[str, tuple[float, float, float]]

    @property
    def chance(self) -> float:
        """Balanced accuracy of guessing."""
        return 1 / len(self.recalls)

    @property
    def worst_first(self) -> list[tuple[str, tuple[float, float, float]]]:
        """The classes with their recalls, the lowest first."""
        return sorted(self.recalls.items(), key=lambda one: one[1][0])


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The public facts of a run: everything in it may be printed in the release.

    Attributes:
        method: Name of the method.
        receipt: The guarantee, and what each stage cost.
        classes: Class names, public by assumption; empty when unlabelled.
        count: Number of synthetic rows.
        format: How the release is stored.
        version: Version of Understudy.
        date: Day of the release, ISO 8601.
        params: Options of the method: JSON values.
        image_shape: (height, width, channels), where there are images.
        dim: d, where there are embeddings.
        models: The encoder and the decoder, where used.
        public_sources: Names of public datasets used; folders are cut off.
        facts: Public facts of the method (`Release.facts`): JSON values.
        how: How the method works, in a sentence or two.
        title: Heading of the dataset card. Public: never the private folder's name.
        licence: Licence of the release, as its publisher says; ``"unknown"``: not said.
        premises: What of the private dataset was taken for public, and where that is from.
        attacks: What attacks gained; only where there is no guarantee that stating it would break.
        copies: How many samples are copies of private records, likewise; None: not counted.
        contact: Whom to ask about the release, as its publisher says; empty: not said.
        total: What all releases of the dataset come to, where the owner has agreed to say it.
        quality: How good it is by a measure that the run paid for; None: not measured publicly.
    """

    method: str
    receipt: Receipt
    classes: tuple[str, ...]
    count: int
    format: Format
    version: str
    date: str
    params: Mapping[str, Any] = field(default_factory=dict)
    image_shape: Shape | None = None
    dim: int | None = None
    models: tuple[ModelRecord, ...] = ()
    public_sources: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    title: str = "A synthetic dataset"
    licence: str = "unknown"
    premises: tuple[Premise, ...] = ()
    attacks: tuple[StatedAttack, ...] = ()
    copies: StatedCopies | None = None
    contact: str = ""
    total: StatedTotal | None = None
    quality: PublicQuality | None = None

    def __post_init__(self) -> None:
        if (self.attacks or self.copies) and not self.unprotected:
            raise ConfigError(
                "what attacks gained and what is a copy is measured on private data without "
                "noise: a release that has a guarantee cannot state it"
            )
        sources = tuple(public_name(source) for source in self.public_sources)
        object.__setattr__(self, "public_sources", sources)
        if self.format != "embeddings" and self.image_shape is None:
            raise ConfigError(f"a release in format {self.format!r} needs the shape of its images")

    @property
    def selection(self) -> bool:
        """Whether the rows are candidates as they are, of which a selection was made."""
        return "selected" in self.facts and "candidates" in self.facts

    @property
    def candidates_covered(self) -> bool:
        """Whether the candidates of a selection have a guarantee that is part of this one."""
        return any(stage.origin == "candidates" for stage in self.receipt.stages)

    @property
    def public(self) -> bool:
        """Whether no private data was used at all."""
        return meaning.is_public(self.receipt)

    @property
    def unprotected(self) -> bool:
        """Whether there is no guarantee: private data steered the release without noise."""
        return meaning.is_unprotected(self.receipt)

    @property
    def guarantee(self) -> meaning.Guarantee:
        """The kind of its guarantee."""
        return meaning.guarantee_of(self.receipt)

    @property
    def conditional_on(self) -> tuple[str, ...]:
        """What the guarantee is conditional on: premises that are inferred from private records."""
        if self.guarantee != "differential privacy":
            return ()
        inferred = (premise.name for premise in self.premises if premise.origin == "inferred")
        return tuple(dict.fromkeys(inferred))


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The dataset's budget after the run, from the ledger.

    Attributes:
        epsilon: What the owner allows in total, at ``delta``; None where no total was set.
        delta: The delta at which the others are stated.
        spent: Epsilon of everything released so far, by this run and all before it.
        remaining: Epsilon of the largest run that the budget still covers; None where no total
            was set.
        disclosures: How many releases private data steered without noise: no epsilon covers them.
    """

    epsilon: float | None
    delta: float
    spent: float
    remaining: float | None
    disclosures: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The part of one class's real test rows that a model finds.

    Attributes:
        label: The class.
        synthetic: When trained on the release, 0 to 1.
        real: When trained on the real data, 0 to 1; None where not measured.
    """

    label: str
    synthetic: float
    real: float | None = None


@dataclass(frozen=True, slots=True)
class ModelScore:
    """How one model does on the real test split, trained on the release and on the real data.

    Attributes:
        model: What was trained, such as ``"small CNN on images"``.
        synthetic: Balanced accuracy when trained on the release, 0 to 1: the mean of the recalls.
        real: The same when trained on the real data; None where not measured.
        accuracy: Part of all test rows whose class is found, trained on the release; None: not
            known.
        accuracy_real: The same when trained on the real data.
        majority_balanced: Balanced accuracy of one class for all rows: 1 over their number.
        majority: Accuracy of naming the most frequent class of the test set for all rows.
        recalls: Of every class that has test rows, the lowest first.
        released: Whether it is of what the run released, and no sample had a part in it.
    """

    model: str
    synthetic: float
    real: float | None = None
    accuracy: float | None = None
    accuracy_real: float | None = None
    majority_balanced: float | None = None
    majority: float | None = None
    recalls: tuple[Recall, ...] = ()
    released: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A few images of one class, real beside synthetic.

    Attributes:
        name: The class.
        real: (k, height, width, channels) uint8 private images; k may be 0.
        synthetic: (m, height, width, channels) uint8; m may be 0.
        worst: Likewise: the synthetic images that are least like any real one, the worst first.
    """

    name: str
    real: Images
    synthetic: Images
    worst: Images = field(default_factory=_no_images)


@dataclass(frozen=True, slots=True)
class Sample:
    """A few synthetic images of one class. Public.

    Attributes:
        name: The class.
        images: (m, height, width, channels) uint8, of the release.
        worst: Likewise: those that are least like the others of their class, the worst first.
    """

    name: str
    images: Images
    worst: Images = field(default_factory=_no_images)


@dataclass(frozen=True, slots=True)
class Released:
    """One release among several, with what was measured of it. Owner-only.

    Attributes:
        name: What to call it: the name of its folder.
        record: Its public facts.
        evaluation: What was measured; None: nothing yet.
    """

    name: str
    record: RunRecord
    evaluation: Evaluation | None = None


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """What only the owner may see. No public document takes it.

    Attributes:
        dataset: The private dataset's name.
        rows: Number of private rows.
        skipped: Bad files that were passed over.
        spending: The dataset's budget, from the ledger.
        scores: Balanced accuracies on real data.
        sheets: Real beside synthetic images, a sheet a class.
        seconds: Seconds per part of the run, in order.
        evaluation: What was measured; None: nothing yet.
        utility: The verdict by ``scores``; None: without any.
        pairs: Synthetic images beside the private ones nearest to them; None: not measured.
        releases: This release and others of the same dataset; empty where it is the only one.
        budget_from: Whether `spending` is of now, or of when the run ended.
        scatter: Synthetic embeddings as points; None of a release of images.
        notes: What the run told its owner.
    """

    dataset: str
    rows: int
    skipped: int = 0
    spending: BudgetState | None = None
    scores: tuple[ModelScore, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    utility: Verdict | None = None
    pairs: Pairs | None = None
    releases: tuple[Released, ...] = ()
    budget_from: Literal["ledger", "run"] = "ledger"
    scatter: Scatter | None = None
    notes: tuple[str, ...] = ()
