"""What `run` needs to know of a method, and what a method is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from understudy.core.blocks import in_blocks
from understudy.core.errors import ConfigError
from understudy.core.ports import Decoder, Encoder, LatentEncoder, LinearDecoder, Source
from understudy.core.roles import MODEL_ROLES, Models
from understudy.core.types import (
    Embeddings,
    Fit,
    Images,
    Release,
    Sampling,
    Seeds,
    Shape,
    Stage,
    UnitCounts,
    Vector,
)
from understudy.steps.apportionment import apportion
from understudy.steps.grid import is_grid
from understudy.steps.quality import Draw, QualityFilter

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.methods.open_selection import OpenSelection
    from understudy.privacy.vault import Vault

PROCEDURAL = "procedural"
"""Default of the role ``public``: procedural images, where encoder and decoder could use some."""

AUTO = "auto"
"""Default of the roles ``encoder`` and ``decoder``: a pair chosen by the size of the images."""

UNLABELLED = ("all",)
"""The classes of a dataset, or of a release, without labels."""

CLASS = "{class}"
"""What a template has in the place of the class."""

Arrays = Mapping[str, NDArray[Any]]
Make = Callable[[], Arrays]
Store = Callable[[str, Make], Arrays]
"""Given a name and a function, what the function returns: stored, and read back by a resumed run,
which does not call the function again. Arrays of numbers or of text; never anything private."""


def memory_store() -> Store:
    """A run's stored public arrays, in memory."""
    stored: dict[str, Arrays] = {}

    def keep(name: str, make: Make) -> Arrays:
        if name not in stored:
            stored[name] = make()
        return stored[name]

    return keep


@dataclass(frozen=True)
class Resampling:
    """What is sampled anew from the answers that an earlier run paid for.

    Attributes:
        seed: Seed of the new samples.
        count: Samples wanted in all.
        per_class: As many samples of each class; None: in proportion to the released class sizes.
        keep: As `Materials.keep`, for what is made for the new samples alone.
    """

    seed: int
    count: int
    per_class: int | None
    keep: Store


@dataclass(frozen=True)
class Context(Models):
    """What is known of a run before anything private is read, its models among others.

    Attributes:
        shape: Shape of a record.
        public: Whether a public dataset is given.
        mu: Gaussian-DP parameter of the run's budget.
        classes: Class names of the private dataset, which are public.
        phrases: A public noun phrase for each class, such as ``"dog eating"``; () if none is known.
        count: Samples wanted; None: about as many as there are private records (noisy).
        base: Whether a base set is given.
        candidates: Whether candidates are given.
        several: Whether a unit may have several records.
    """

    shape: Shape
    _: KW_ONLY
    public: bool
    mu: float
    classes: tuple[str, ...] = UNLABELLED
    phrases: tuple[str, ...] = ()
    count: int | None = None
    base: bool = False
    candidates: bool = False
    several: bool = False

    def mixed_units(self, classes: int) -> bool:
        """Whether a unit may have records of several of so many classes, and count in each."""
        return self.several and classes > 1

    @property
    def called(self) -> tuple[str, ...]:
        """What each class is called in prompts."""
        return self.phrases or self.classes

    @property
    def models(self) -> Mapping[str, Any]:
        """The models by their roles; each states its ``name`` and ``licence``."""
        return {role: model for role in MODEL_ROLES if (model := getattr(self, role)) is not None}

    @property
    def grid(self) -> Shape | None:
        """(C, H, W) of the latents, where images are decoded from a grid by public images."""
        latent = self.encoder.latent if isinstance(self.encoder, LatentEncoder) else ()
        images = self.decoder is not None and not isinstance(self.decoder, LinearDecoder)
        return latent if images and self.public and is_grid(latent) else None


@dataclass(frozen=True)
class Materials:
    """Everything a method works with besides its parameters. All of it is public but the vault.

    Attributes:
        context: The run's public facts: shape, classes, models, mu.
        vault: The private records.
        public: A public dataset, for what may be learnt for free; or None.
        seed: Seed of everything public. Never of the noise.
        progress: Given words for a step, returns a function that is called with how many are done.
        base: A public or synthetic dataset of the same classes to start from; or None.
        contrast: Public images of other kinds than ``public``; or None.
        fit: Brings images of any size to the private images' shape, which the encoder expects.
        resized: Brings images of any size to a (height, width, channels).
        keep: Stores what is made in the run's folder (`Store`).
        in_blocks: Asks a function of public rows block by block, on workers if there are any.
        watch: Given words and the embeddings of samples, tells the owner how far they are from the
            private records; None unless the owner asked for it.
        report_fit: Given a measure of how well the models fit, tells the owner and records it.
        quality: Which images of a sample are released; None: the first that is drawn.
        candidates: A synthetic or public dataset of these classes, or of some of them, to select
            samples from, its images of any size; or None.
        resampling: What is sampled anew from the vault's stored answers; None: a run of its own.
        per_class: Samples of each class; None: in proportion to the released class sizes.
    """

    context: Context
    vault: Vault
    public: Source | None
    seed: int
    progress: Callable[[str, int | None], Callable[[int], None]]
    base: Source | None = None
    contrast: Source | None = None
    fit: Callable[[Images], Images] = lambda images: images
    resized: Callable[[Images, Shape], Images] = lambda images, _: images
    keep: Store = lambda _, make: make()
    in_blocks: Callable[..., NDArray[Any]] = in_blocks
    watch: Callable[[str, Embeddings], None] | None = None
    report_fit: Callable[[Fit], None] = lambda fit: None
    quality: QualityFilter | None = None
    candidates: Source | None = None
    resampling: Resampling | None = None
    per_class: int | None = None

    @property
    def for_samples(self) -> Materials:
        """What samples are drawn with once everything is asked.

        Those that are sampled anew have a count and a seed of their own.
        """
        anew = self.resampling
        if anew is None:
            return self
        context = replace(self.context, count=anew.count)
        return replace(
            self, context=context, seed=anew.seed, keep=anew.keep, per_class=anew.per_class
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Public class names; labels index into them."""
        return self.context.classes

    @property
    def count(self) -> int | None:
        """Samples wanted; None: about as many as there are private records (noisy)."""
        return self.context.count

    @property
    def shape(self) -> Shape:
        """Shape of a private record: (height, width, channels) or (d,)."""
        return self.context.shape

    @property
    def encoder(self) -> Encoder | None:
        """Images to embeddings; None where the source holds embeddings."""
        return self.context.encoder

    @property
    def decoder(self) -> Decoder | None:
        """Embeddings back to images; None for a release of embeddings."""
        return self.context.decoder

    def seed_of(self, name: str) -> int:
        """A public seed of its own for each thing that is made."""
        return int(np.random.SeedSequence(self._entropy_of(name)).generate_state(1)[0])

    def seeds_of(self, name: str, samples: NDArray[np.int64]) -> Seeds:
        """A public seed for each of these samples of something: (n,) uint64, no two alike.

        Outputs number ``samples`` of SplitMix64 (Steele, Lea and Flood 2014), a bijection of them.
        """
        state = np.random.SeedSequence(self._entropy_of(name)).generate_state(1, np.uint64)
        mixed = state + samples.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)

    def class_sizes(self, shares: Vector, total: float) -> NDArray[np.int64]:
        """Samples of each class, (classes,).

        Args:
            shares: (classes,) what they are in proportion to, unless each is to have as many.
            total: How many there are in all where no count is asked for.
        """
        if self.per_class is not None:
            return np.full(len(shares), self.per_class)
        return apportion(self.count or max(1, round(total)), shares)

    def selected(self, count: int, draw: Draw) -> Images:
        """An image for each of ``count`` samples: the first drawn, or the best by the quality."""
        if self.quality is None:
            return draw(np.arange(count), 0, 0)
        return self.quality(count, draw)

    def rng_of(self, name: str) -> np.random.Generator:
        """A public generator of its own for each thing that is drawn."""
        return np.random.default_rng(self._entropy_of(name))

    def _entropy_of(self, name: str) -> list[int]:
        return [self.seed, crc32(name.encode())]


@dataclass(frozen=True)
class Expectation:
    """What to expect of a release, by one rule of public arithmetic.

    Attributes:
        rule: The name of the rule.
        words: What to expect, and why: a sentence without its capital and its full stop.
        instead: What would serve better than the images of the run, the best first:
            ``"classifier"``, made of the released statistics, or ``"embeddings"``. Empty: nothing.
    """

    rule: str
    words: str
    instead: tuple[str, ...] = ()


class ClassCapacity(Protocol):
    """What a class of so many records can carry under the noise of a plan."""

    @property
    def size(self) -> float:
        """Records of the class."""

    @property
    def own_mean(self) -> bool:
        """Whether its mean stands out of the noise."""

    @property
    def columns(self) -> Mapping[str, str]:
        """What of the class stands out of the noise, in words, by the heading of a table."""

    @property
    def summary(self) -> str:
        """The same in a few words."""


NoiseOfStage = Callable[[Stage], float]
"""The noise of a stage over the bound on what a unit contributes."""


@dataclass(frozen=True)
class Explanation:
    """What a method says of a run before anything is spent, by public arithmetic alone.

    Attributes:
        capacity: What a class of so many records can carry; None where the method cannot tell.
        expectations: What to expect of the release; () where the method cannot say.
        notes: What the owner should know of the settings.
    """

    capacity: Callable[[float], ClassCapacity] | None = None
    expectations: Sequence[Expectation] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Inventory:
    """What is at hand for a run whose method is not settled.

    Attributes:
        roles: The models and datasets that the owner named, by their roles.
        images: Whether the records are images.
        same_classes: Whether the base set or public dataset among them has the private classes.
    """

    roles: Mapping[str, str]
    images: bool
    same_classes: bool


@dataclass(frozen=True)
class Proposal:
    """What a method would do with an inventory.

    Attributes:
        priority: Of several proposals, the one of the highest priority is taken.
        reason: Why, in words.
        roles: The models and datasets of the run.
    """

    priority: int
    reason: str
    roles: Mapping[str, str]


@dataclass(frozen=True)
class Advice:
    """A setting that serves a planned run better than its default, as it is typed, and why."""

    setting: str
    value: str
    reason: str


@dataclass(frozen=True)
class PrivateView:
    """A function of private images that a method embeds them by, besides its encoders.

    Attributes:
        name: Of the model.
        embed: Images to embeddings.
        batch: Images in every call.
    """

    name: str
    embed: Callable[[Images], Embeddings]
    batch: int


@dataclass(frozen=True)
class Method:
    """A method as the registry, the planning and the command line see it.

    Attributes:
        name: Its name on the command line.
        summary: One line.
        source: The paper.
        params: A frozen dataclass whose fields are the parameters, each with a default and, by
            ``Annotated``, an `understudy.core.option.Option` that says what it means and its range.
        settle: Parameters and context to parameters with nothing left open, for the record.
        stages: Parameters and context to the releases that the budget is divided among, each of
            which is made once. Raises ConfigError for parameters that do not fit the context,
            before anything is spent.
        run: Does it.
        roles: Parameters, and the roles that the user named, to the roles the method can use and
            the default name of each; None: nothing by default.
        explain: Parameters, context, the noise of each stage and how many units there are (None:
            unknown), to what can be said before anything is spent.
        propose: What is at hand to what the method would do with it; None: it is not proposed.
        advise: Context and how many units there are to a setting that serves better.
        views: The functions of private images that it embeds them by, besides its encoders; each
            is probed for records that change one another.
        calls: Parameters, context and the number of private records to how many images or texts
            the model of each role is asked for; a role that it leaves out is asked for one a
            record or sample. None: all are.
        check_resample: Parameters and context to nothing. Raises ConfigError where no more samples
            can be drawn from what such a run has paid for; None: they never can. A method that has
            it draws its samples by `Materials.for_samples`, and asks nothing that depends on them.
        tuning: Parameters and context to a small space of settings for ``--tune quick``: values by
            the names of settings; None, or an empty one: there is none.
        stops: Whether it may find by its first answers that it does not suit the records, and raise
            `understudy.core.errors.MethodStopped`.
        open_selection: How it selects candidates without noise (`understudy select`); None: not.
        released_role: The role of a public dataset whose images may be the samples; None: none is.
    """

    name: str
    summary: str
    source: str
    params: type[Any]
    settle: Callable[[Any, Context], Any]
    stages: Callable[[Any, Context], tuple[Stage, ...]]
    run: Callable[[Materials, Any], Release]
    roles: Callable[[Any, frozenset[str]], Mapping[str, str | None]]
    explain: Callable[[Any, Context, NoiseOfStage, UnitCounts | None], Explanation] | None = None
    propose: Callable[[Inventory], Proposal | None] | None = None
    advise: Callable[[Context, UnitCounts], Advice | None] | None = None
    views: Callable[[Context], Sequence[PrivateView]] | None = None
    calls: Callable[[Any, Context, int], Mapping[str, int]] | None = None
    check_resample: Callable[[Any, Context], None] | None = None
    released_role: str | None = None
    tuning: Callable[[Any, Context], Mapping[str, Sequence[Any]]] | None = None
    stops: bool = False
    open_selection: OpenSelection | None = None

    def keeps_classes(self, params: Any) -> bool:
        """Whether samples have the classes of the private records."""
        return bool(getattr(params, "conditional", True))

    def prompt(self, params: Any) -> str | None:
        """The template of its prompts; None where it draws nothing by words."""
        return getattr(params, "template", None)

    def candidates(self, params: Any, count: int) -> int:
        """How many samples are drawn, and held in memory together, for ``count`` released ones."""
        filtered = getattr(params, "filter", "none") != "none"
        return count * int(params.oversample) if filtered else count


def stages_of(plan: Any) -> tuple[Stage, ...]:
    """The stages of a plan in their order: a dataclass of stages, tuples, other plans and Nones."""
    if isinstance(plan, Stage):
        return (plan,)
    if is_dataclass(plan):
        plan = tuple(getattr(plan, part.name) for part in fields(plan))
    return () if plan is None else tuple(stage for part in plan for stage in stages_of(part))


def planned(stage: Stage | None) -> Stage:
    """The stage.

    Raises:
        ConfigError: There is none: what was planned does not fit what is about to be released.
    """
    if stage is None:
        raise ConfigError("a release is due that the plan has no stage for: nothing is spent on it")
    return stage


def weights_of(stages: Sequence[Stage]) -> dict[str, float]:
    """The weight of each stage by its name.

    Raises:
        ConfigError: Two stages of one name, of which the account would know only one.
    """
    weights = {stage.name: stage.weight for stage in stages}
    if len(weights) < len(stages):
        names = ", ".join(stage.name for stage in stages)
        raise ConfigError(f"every stage of a plan needs a name of its own, found {names}")
    return weights


def sampling_of(stages: Sequence[Stage]) -> dict[str, Sampling]:
    """The sampling of each stage that has one, by its name."""
    return {stage.name: stage.sampling for stage in stages if stage.sampling is not None}


def prompts_of(phrases: Sequence[str], template: str) -> tuple[str, ...]:
    """The template with each class's phrase in its place."""
    return tuple(template.replace(CLASS, phrase) for phrase in phrases)


def check_template(context: Context, template: str, *, conditional: bool) -> None:
    """Refuse a template that draws all classes alike, or one that has no phrase for anything.

    Args:
        context: The classes and their phrases.
        template: The prompt.
        conditional: Whether samples keep their class.

    Raises:
        ConfigError: As said.
    """
    if context.called == UNLABELLED and CLASS in template:
        raise ConfigError(
            "this dataset has no classes, so the template has to say what its images show: "
            "--set 'template=a photo of a dog'"
        )
    if conditional and len(context.classes) > 1 and CLASS not in template:
        raise ConfigError(
            f"the template {template!r} draws all {len(context.classes)} classes alike: write "
            f"{CLASS} where the class's name belongs, such as 'a photo of a {CLASS}'"
        )
