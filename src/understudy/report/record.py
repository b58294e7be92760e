"""What a report is made from: public facts and owner's facts, in two types that do not mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from understudy.core.errors import ConfigError, WrongValue
from understudy.core.files import public_name
from understudy.core.results import Evaluation, Pairs, Verdict
from understudy.core.types import Images, Receipt, Shape
from understudy.report import meaning
from understudy.report.scatter import Scatter

Format = Literal["png", "parquet", "npz", "embeddings"]


def _no_images() -> Images:
    return np.zeros((0, 1, 1, 1), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model that took part in a run."""

    role: str  # what it did: ``"encoder"`` or ``"decoder"``
    name: str  # the name it was asked for by; folders of the owner's machine are cut off
    licence: str  # licence and origin of its weights; ``"none"`` without weights
    # digest in hexadecimal of what it learnt, where another version may have learnt another thing
    sha256: str | None = None
    # the host that was sent private images to run it; None: they did not leave the owner's machine
    host: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", public_name(self.name))

    @classmethod
    def of(cls, role: str, model: Any, host: str | None = None) -> ModelRecord:
        """The record of a model with a ``name`` and a ``licence``, and of some a ``sha256``."""
        digest = getattr(model, "sha256", None)
        return cls(role.replace("_", " "), model.name, model.licence, digest, host)


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
    """What an attack on a release without a guarantee gained; no other release may state it."""

    subject: str  # what was attacked: ``"this release"``, ``"all candidates"``
    attack: str  # what the attacker did, in words
    measured: str  # with what it was measured, and against which records
    # part of the private records that the attacker names while accusing 1 % of the held-out ones:
    # (value, low, high), the last two the ends of a 95 % interval
    tpr: tuple[float, float, float]
    auc: tuple[float, float, float]  # area under the ROC, likewise; 0.5 is guessing


@dataclass(frozen=True, slots=True)
class StatedCopies:
    """How many samples are copies of private records; stated as a `StatedAttack` is."""

    samples: int  # how many samples the release has
    exact: int  # how many equal a private record, value for value
    near: int  # how many others are near-copies
    usual: float  # part of the private records that are as near to another private record
    measured: str  # what a near-copy is, in words


@dataclass(frozen=True, slots=True)
class StatedTotal:
    """What all releases of the dataset so far come to, as its owner states it."""

    epsilon: float  # of all of them together, this one included, at ``delta``
    delta: float
    releases: int  # how many runs were charged
    unprotected: int = 0  # how many releases have no guarantee besides: no epsilon covers them


@dataclass(frozen=True, slots=True)
class PublicQuality:
    """How good a release is by a measure that the run paid for: it is under the guarantee.

    A classifier was trained on the release; a noisy query counted for each class how many private
    records it finds. Numbers are (value, low, high): the last two are the ends of a 95 % interval,
    which holds the noise.
    """

    classifier: str  # what was trained, in words
    balanced_accuracy: tuple[float, float, float]  # the mean of the recalls, 0 to 1
    # by class: the part of its private records that is found, 0 to 1
    recalls: Mapping[str, tuple[float, float, float]]

    def __post_init__(self) -> None:
        if len(self.recalls) < 2:
            raise WrongValue("a classifier tells two classes apart, or more")

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
    """The public facts of a run: everything in it may be printed in the release."""

    method: str  # name of the method
    receipt: Receipt  # the guarantee, and what each stage cost
    classes: tuple[str, ...]  # class names, public by assumption; empty when unlabelled
    count: int  # number of samples
    format: Format  # how the release is stored
    version: str  # version of Understudy
    date: str  # day of the release, ISO 8601
    params: Mapping[str, Any] = field(default_factory=dict)  # options of the method: JSON values
    image_shape: Shape | None = None  # (height, width, channels), where there are images
    dim: int | None = None  # d, where there are embeddings
    models: tuple[ModelRecord, ...] = ()  # the encoder and the decoder, where used
    public_sources: tuple[str, ...] = ()  # names of public datasets used; folders are cut off
    # public facts of the method (`Release.facts`): JSON values
    facts: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""  # how the method works, in a sentence or two
    # heading of the dataset card. Public: never the private folder's name.
    title: str = "A synthetic dataset"
    # licence of the release, as its publisher says; ``"unknown"``: not said
    licence: str = "unknown"
    # what of the private dataset was taken for public, and where that is from
    premises: tuple[Premise, ...] = ()
    # what attacks gained; only where there is no guarantee that stating it would break
    attacks: tuple[StatedAttack, ...] = ()
    # how many samples are copies of private records, likewise; None: not counted
    copies: StatedCopies | None = None
    contact: str = ""  # whom to ask about the release, as its publisher says; empty: not said
    # what all releases of the dataset come to, where the owner has agreed to say it
    total: StatedTotal | None = None
    # how good it is by a measure that the run paid for; None: not measured publicly
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
    def samples(self) -> str:
        """What they are, in the plural."""
        return "images" if self.image_shape else "embeddings"

    @property
    def private_samples(self) -> str:
        """What the private records are, in the plural."""
        own = any(premise.name == "embedding length" for premise in self.premises)
        return "embeddings" if own else "images"

    @property
    def unit(self) -> str:
        """The unit of protection, in words."""
        return meaning.unit_in_words(self.receipt.unit, self.private_samples)

    @property
    def neighbours(self) -> str:
        """What neighbouring datasets differ in, in words."""
        return meaning.neighbours_in_words(self.receipt, self.private_samples)

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
    def disclosed_to(self) -> tuple[str, ...]:
        """The hosts that were sent the private images: no guarantee holds towards them."""
        return tuple(dict.fromkeys(model.host for model in self.models if model.host is not None))

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
    """The part of one class's real test records that a model finds."""

    label: str
    synthetic: float  # when trained on the release, 0 to 1
    real: float | None = None  # when trained on the real data, 0 to 1; None where not measured


@dataclass(frozen=True, slots=True)
class ModelScore:
    """How one model does on the real test split, trained on the release and on the real data."""

    model: str  # what was trained, such as ``"small CNN on images"``
    # balanced accuracy when trained on the release, 0 to 1: the mean of the recalls
    synthetic: float
    real: float | None = None  # the same when trained on the real data; None where not measured
    # part of all test records whose class is found, trained on the release; None: not known
    accuracy: float | None = None
    accuracy_real: float | None = None  # the same when trained on the real data
    # balanced accuracy of one class for all rows: 1 over their number
    majority_balanced: float | None = None
    # accuracy of naming the most frequent class of the test set for all rows
    majority: float | None = None
    recalls: tuple[Recall, ...] = ()  # of every class that has test records, the lowest first
    released: bool = False  # whether it is of what the run released, and no sample had a part in it


@dataclass(frozen=True, slots=True)
class Sheet:
    """A few images of one class, real beside synthetic."""

    name: str
    real: Images  # (k, height, width, channels) uint8 private images; k may be 0
    synthetic: Images  # (m, height, width, channels) uint8; m may be 0
    # likewise: the synthetic images that are least like any real one, the worst first
    worst: Images = field(default_factory=_no_images)


@dataclass(frozen=True, slots=True)
class Sample:
    """A few synthetic images of one class. Public."""

    name: str
    images: Images  # (m, height, width, channels) uint8, of the release
    # likewise: those that are least like the others of their class, the worst first
    worst: Images = field(default_factory=_no_images)


@dataclass(frozen=True, slots=True)
class Released:
    """One release among several, with what was measured of it. Owner-only."""

    name: str  # what to call it: the name of its folder
    record: RunRecord
    evaluation: Evaluation | None = None  # what was measured; None: nothing yet


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """What only the owner may see. No public document takes it."""

    dataset: str  # the private dataset's name
    rows: int  # number of private records
    skipped: int = 0  # bad files that were passed over
    spending: BudgetState | None = None  # the dataset's budget, from the ledger
    scores: tuple[ModelScore, ...] = ()  # balanced accuracies on real data
    sheets: tuple[Sheet, ...] = ()  # real beside synthetic images, a sheet a class
    # seconds per part of the run, in order
    seconds: Mapping[str, float] = field(default_factory=dict)
    evaluation: Evaluation | None = None  # what was measured; None: nothing yet
    utility: Verdict | None = None  # the verdict by ``scores``; None: without any
    held_out: bool = False  # whether the run held a test set out
    # synthetic images beside the private ones nearest to them; None: not measured
    pairs: Pairs | None = None
    # this release and others of the same dataset; empty where it is the only one
    releases: tuple[Released, ...] = ()
    # whether `spending` is of now, or of when the run ended
    budget_from: Literal["ledger", "run"] = "ledger"
    scatter: Scatter | None = None  # synthetic embeddings as points; None of a release of images
    notes: tuple[str, ...] = ()  # what the run told its owner
    faults: tuple[str, ...] = ()  # what is wrong with the release
