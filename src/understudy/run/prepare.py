"""Everything that can be refused before anything private is read or spent."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from understudy.backends.arrays import fit_images
from understudy.backends.inference import require_inference
from understudy.core.errors import ConfigError, SourceError
from understudy.core.ports import Source
from understudy.core.remote_models import PlannedCalls, RemoteCalls
from understudy.core.roles import flag_of
from understudy.core.types import Receipt, Shape, Stage
from understudy.data import open_source
from understudy.data.captions import with_captions
from understudy.data.encoded_images import MixedSizes, Observer
from understudy.data.labels import NO_LABELS, NoColumns
from understudy.data.reading_options import window_premise
from understudy.methods.base import (
    UNLABELLED,
    Context,
    Materials,
    Method,
    PrivateView,
    Store,
    sampling_of,
    weights_of,
)
from understudy.privacy.budget_plan import Plan, run_mu_of
from understudy.privacy.probe import SECONDS, require_independent
from understudy.privacy.rows import RECORDS_PER_CALL
from understudy.privacy.sums import require_summable, steps_of_stage
from understudy.privacy.vault import Vault
from understudy.release.provenance import PUBLIC_ROLES, Provenance, made_of, origins_of
from understudy.run.books import with_epsilon
from understudy.run.codec_rules import CodecChoice
from understudy.run.command_words import (
    PROPOSED_SIDES,
    USUAL_FIT,
    USUAL_SIDE,
    amount_words,
)
from understudy.run.config import RunConfig, make_params
from understudy.run.methods import method as method_named
from understudy.run.models import (
    contrast_name,
    load_models,
    named_roles,
    names_of_roles,
    phrases_of,
    procedural_name,
    released_shape,
    require_no_models,
    with_codec,
)
from understudy.run.progress import Bars
from understudy.run.quality_filter import quality_of
from understudy.run.remote_run import connect_remote, planned_calls, reads_private, remote_models
from understudy.run.safeguards import require_apart, require_class_names, require_room
from understudy.run.shared_records import PublicInput
from understudy.steps.quality import QualityFilter

EXPECTED_RUNS = 10.0
"""How many runs are expected of ``--tune``; how many there are is random and secret."""

QUALITY = "quality"
"""The stage that pays for measuring how good the release is (`understudy.run.fitness`)."""


def weights_digest(models: Iterable[Any]) -> str | None:
    """The digest of what shipped models, or models of a record, learnt; None: nothing that varies.

    Another version of them may have learnt something else.
    """
    digests = {getattr(model, "sha256", None) for model in models}
    return "-".join(sorted(digest for digest in digests if digest)) or None


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start.

    Attributes:
        config: What was asked; its epsilon is a number, whatever it was asked as, and a codec
            that was chosen stands in it by its name.
        source: The private dataset.
        base: The dataset to start from, or None.
        contrast: Public images of other kinds, or None.
        candidates: The dataset to select samples from, or None.
        context: What is known before anything private is read: the models, among others.
        released_shape: (height, width, channels) of the images that are released; None: embeddings
            are.
        rows_held_out: Private rows that the run leaves out (`RunConfig.hold_out`); owner-only.
        quality: Which of the images of a sample is released; None: the first.
        origins: Where each dataset, model and file that was named comes from, as far as something
            is stated of it.
        codec: Which encoder and decoder were chosen, and why; None: the user named one.
        asked_epsilon: The part of the dataset's budget that was asked for; None: a number was.
        private: Whether the source is private; of a selection without private records it is the
            candidates.
        calls: What the models that servers run were asked, and its caps.
    """

    config: RunConfig
    method: Method
    params: Any
    plan: Plan
    source: Source
    test: Source | None
    public: Source | None
    base: Source | None
    contrast: Source | None
    candidates: Source | None
    context: Context
    released_shape: Shape | None
    quality: QualityFilter | None = None
    rows_held_out: int = 0
    origins: tuple[Provenance, ...] = ()
    codec: CodecChoice | None = None
    asked_epsilon: str | None = None
    private: bool = True
    calls: RemoteCalls = field(default_factory=RemoteCalls)

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked, as JSON values."""
        return self.config.identity()

    @property
    def weights(self) -> str | None:
        """As `weights_digest` of the models."""
        return weights_digest(self.context.models.values())

    @property
    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        return {**self.settings, **({"weights": self.weights} if self.weights else {})}

    @property
    def compared(self) -> list[PublicInput]:
        """What may hold no record of the private dataset, nor of one that the ledger knows."""
        return [PublicInput(flag_of(role), source) for role, source in self.public_inputs]

    @property
    def dataset(self) -> str:
        """The name of the private dataset; of a selection without one, that of the candidates."""
        return self.source.name if self.private or self.origin is None else self.origin.name

    @property
    def origin(self) -> Provenance | None:
        """Where the candidates come from; None without any."""
        return next((one for one in self.origins if one.role == "candidates"), None)

    def materials(self, vault: Vault, progress: Bars, keep: Store, **more: Any) -> Materials:
        """What the method works with besides its parameters; ``more`` of `Materials`."""
        return Materials(
            context=self.context,
            vault=vault,
            public=self.public,
            seed=self.config.output.seed,
            progress=progress,
            base=self.base,
            contrast=self.contrast,
            candidates=self.candidates,
            resized=fit_images,
            fit=partial(fit_images, shape=self.context.shape),
            keep=keep,
            quality=self.quality,
            **more,
        )

    @property
    def public_inputs(self) -> tuple[tuple[str, Source], ...]:
        """The datasets besides the private one that the user named, each by its role."""
        roles = {one.role for one in self.origins}
        inputs = {name: getattr(self, name) for name in PUBLIC_ROLES}
        return tuple(
            (role, one) for role, one in inputs.items() if one is not None and role in roles
        )


def prepare(config: RunConfig, source: Source | None = None, *, probe: bool = True) -> Prepared:
    """Open the sources, load the models, divide the budget."""
    require_apart(config.data.source, config.output.out)
    if (pool := config.models.roles.get("candidates")) is not None:
        require_apart(pool, config.output.out, "dataset of the candidates")
    method = _method_of(config)
    params = make_params(method.params, config.models.settings)
    source = open_private(config) if source is None else source
    require_class_names(source, declared=config.data.classes is not None)
    budget_share = config.privacy.epsilon if isinstance(config.privacy.epsilon, str) else None
    config = with_epsilon(config, source)
    if source.kind == "embeddings":
        require_no_models(config)
    config, codec = with_codec(config, method, params, source.shape)
    names = names_of_roles(config.models, method, params)
    origins = origins_of(
        names, method.released_role, config.models.candidates_public, config.models.quality
    )
    runs = None if config.privacy.tune is None else EXPECTED_RUNS
    context = Context(
        source.shape,
        public=True,
        mu=run_mu_of(config.privacy.budget, runs) * math.sqrt(1 - config.privacy.quality_part),
        classes=source.classes,
        phrases=phrases_of(source),
        count=config.output.count,
        several=config.privacy.unit_column is not None,
        **load_models(names, source, config.models.device),
    )
    open_matching = partial(_open_matching, source, config)
    test = open_matching(config.data.test, "test")
    base = open_matching(names.get("base"), "base")
    public = open_matching(procedural_name(names.get("public"), context), "public")
    contrast = open_matching(contrast_name(names.get("contrast"), context), "contrast")
    candidates_name = names.get("candidates")
    candidates = None if candidates_name is None else _open_candidates(source, candidates_name)
    context = replace(context, public=public is not None, base=base is not None)
    context = replace(context, candidates=candidates is not None)
    keeps_classes = method.keeps_classes(params)
    shape = released_shape(names, method, context)
    if test is not None:
        _require_testable(source, test, keeps_classes, shape)
    if base is not None and keeps_classes:
        require_classes(source, base, all_of_them=True)
    params = method.settle(params, context)
    _require_measurable(config, context, keeps_classes)
    plan = planned_stages(config, method.stages(params, context))
    stages = map(plan.stage_mu, plan.shares)
    require_summable(len(source), max(map(steps_of_stage, stages)), "this run")
    views = _views_of(method, context)
    calls = connect_remote(context, config, captioned=bool(views))
    if probe:  # of a run that is resampled nothing is asked again
        if shape is None and config.output.format != "png":
            raise ConfigError("embeddings are written as safetensors: leave out --format")
        require_independent_models(context, views)
    named_public = base if config.models.roles.get("public") is None else public
    quality = quality_of(config.models, context, shape, named_public)
    parts = (plan, source, test, public, base, contrast, candidates, context, shape, quality)
    return Prepared(config, method, params, *parts, 0, origins, codec, budget_share, calls=calls)


def calls_of(prepared: Prepared) -> tuple[PlannedCalls, ...]:
    """What the run is to ask of models that servers run; owner-only, for it counts records.

    Raises:
        ConfigError: A cap does not cover it.
    """
    method, context, records = prepared.method, prepared.context, len(prepared.source)
    counts = {} if method.calls is None else method.calls(prepared.params, context, records)
    batch = min((view.batch for view in _views_of(method, context)), default=RECORDS_PER_CALL)
    plan = planned_calls(context, counts, records, batch)
    prepared.calls.require_within(plan)
    return plan


def claim(prepared: Prepared, paid: Receipt | None = None) -> Receipt:
    """The guarantee of a run's release: of what the run pays for, and of its candidates.

    Raises:
        ConfigError: Candidates that no claim can be made of, or whose guarantee does not compose
            with that of the run. Asked before the run, nothing is spent.
    """
    receipt = prepared.plan.receipt(prepared.config.privacy.privacy_unit) if paid is None else paid
    return made_of([(one.role, one) for one in prepared.origins], receipt)


def require_room_of(prepared: Prepared) -> None:
    """Refuse a release of so many samples that this machine cannot hold it."""
    context, shape = prepared.context, prepared.released_shape
    dim = context.shape[0] if len(context.shape) == 1 else None
    if shape is None and context.encoder is not None:
        dim = context.encoder.dim
    # What is selected is at most what there is.
    pool = prepared.source if prepared.candidates is None else prepared.candidates
    count = context.count or len(pool)
    candidates = prepared.method.candidates(prepared.params, count)
    require_room(prepared.config.output.out, count, shape, dim, candidates)


def planned_stages(config: RunConfig, stages: Sequence[Stage]) -> Plan:
    """The budget divided among the method's stages and, if asked for, the measured quality."""
    sampling = sampling_of(stages)
    runs = None if config.privacy.tune is None else EXPECTED_RUNS
    plan = Plan.of(config.privacy.budget, weights_of(stages), sampling, runs)
    plan.require_covers(config.privacy.privacy_unit)
    share = config.privacy.quality_part
    if not share:
        return plan
    rest = {name: (1 - share) * part for name, part in plan.shares.items()}
    return Plan(config.privacy.budget, {**rest, QUALITY: share}, sampling, runs)


def _require_measurable(config: RunConfig, context: Context, keeps_classes: bool) -> None:
    """Refuse a share for the quality of what no classifier can be trained on, before the charge."""
    if config.privacy.quality_part and context.encoder is None and len(context.shape) == 3:
        raise ConfigError(
            "--quality-share pays for a classifier of embeddings, and this method has no encoder"
        )
    if config.privacy.quality_part and (len(context.classes) < 2 or not keeps_classes):
        raise ConfigError(
            "--quality-share pays for the recall of each class, by which --tune chooses, and a "
            "release without classes has none (by the method's settings, or a dataset without "
            "labels): leave both out"
        )


def open_private(
    config: RunConfig, *, skip_bad: bool | None = None, observer: Observer | None = None
) -> Source:
    """The private dataset of a run."""
    try:
        source = open_source(
            config.data.source,
            split="train",
            size=config.data.size,
            unit=config.privacy.unit_column,
            skip_bad=config.data.skip_bad if skip_bad is None else skip_bad,
            label=config.data.label,
            classes=config.data.classes,
            channels=config.data.channels,
            fit=config.data.fit,
            observer=observer,
        )
    except MixedSizes as error:
        raise SourceError(f"{error}. {_size_remedy(config)}") from error
    if (column := config.privacy.unit_column) is not None and not source.has_units:
        raise SourceError(f"has no column {column!r} that says whose row it is", config.data.source)
    if observer is None and lacks_size(config, source.shape):  # a check says it beside all else
        height, width = source.shape[:2]
        raise ConfigError(
            f"the images are {height} x {width} (height x width): no sum under noise carries so "
            "many pixels, and samples would take minutes each. Ask for fewer with --size. "
            f"{_size_remedy(config)}"
        )
    return source


_DECIDES_SIZE = frozenset({"encoder", "decoder", "generator", "renderer", "base", "candidates"})
"""The roles whose models and datasets their owner knows to serve images of a size."""


def lacks_size(config: RunConfig, shape: Shape) -> bool:
    """Whether a run that names no model would decode too large images, for want of a size."""
    size_is_open = config.data.size is None and not _DECIDES_SIZE & set(named_roles(config.models))
    return size_is_open and len(shape) == 3 and max(shape[:2]) > max(PROPOSED_SIDES)


def _size_remedy(config: RunConfig) -> str:
    """What to add to a run, an audit or a plan, and what says which size to take."""
    fit = USUAL_FIT if config.data.fit == "stretch" else config.data.fit
    epsilon = amount_words(config.privacy.epsilon)
    look = f"understudy plan {shlex.quote(config.data.source)} --epsilon {epsilon}"
    return (
        f"Nothing was spent. Add --size {USUAL_SIDE} --fit {fit} "
        f"(which other sizes and fits there are, and what each loses: {look})"
    )


def _views_of(method: Method, context: Context) -> tuple[PrivateView, ...]:
    return () if method.views is None else tuple(method.views(context))


def require_independent_models(context: Context, views: Sequence[PrivateView] = ()) -> None:
    """Refuse a model that lets one private image change what another one adds to a sum.

    Reads no private image and spends nothing; takes `SECONDS` or, of slow models, two calls each.
    Models that servers run are looked at once their plan is agreed to, by `Vault.map`.
    """
    for model in (context.encoder, context.cluster_encoder, context.captioner):
        if model is not None:
            require_inference(model, model.name)
    remote = remote_models(context)
    encoders = [
        model
        for role in ("encoder", "cluster_encoder")
        if (model := context.models.get(role)) is not None and role not in remote
    ]
    if any(map(reads_private, remote)):
        views = ()
    looks = [(PrivateView(one.name, one.encode, RECORDS_PER_CALL), one.dim) for one in encoders]
    looks += [(view, None) for view in views]
    seconds = SECONDS / max(1, len(looks))
    for look, dim in looks:
        require_independent(
            look.embed, context.shape, look.name, batch=look.batch, dim=dim, seconds=seconds
        )


def _method_of(config: RunConfig) -> Method:
    """The method of a run."""
    method = method_named(config.models.method)
    if config.models.otherwise is not None and not method.stops:
        raise ConfigError(
            f"{method.name} asks for all of its budget, so no rest goes to another method: leave "
            "out --otherwise"
        )
    return method


def _open_candidates(source: Source, name: str) -> Source:
    """The candidates as they are, in their own size and channels, with any captions."""
    candidates = with_captions(open_source(name))
    require_same_kind(source, candidates)
    if source.classes == UNLABELLED:
        return candidates  # whether one class will do, the method knows
    if candidates.classes == UNLABELLED:
        raise SourceError("has no labels, and samples are selected class by class", name)
    require_classes(source, candidates)
    return candidates


def require_same_kind(source: Source, other: Source) -> None:
    """Refuse images for embeddings, embeddings for images, or embeddings of another length."""
    if other.kind != source.kind:
        raise SourceError(f"holds {other.kind}, and {source.name} {source.kind}", other.name)
    if other.kind == "embeddings" and other.shape != source.shape:
        raise SourceError(
            f"holds embeddings of {other.shape[0]} numbers, and {source.name} of {source.shape[0]}",
            other.name,
        )


def require_classes(source: Source, other: Source, *, all_of_them: bool = False) -> None:
    """Refuse a dataset of classes that another one lacks."""
    gaps = sorted(set(source.classes) - set(other.classes)) if all_of_them else []
    surplus = sorted(set(other.classes) - set(source.classes))
    if gaps or surplus:
        differences = [f"lacks {', '.join(gaps[:10])}"] if gaps else []
        differences += [f"has {', '.join(surplus[:10])} besides"] if surplus else []
        rule = "must have the classes" if all_of_them else "may have no classes but those"
        raise SourceError(
            f"{rule} of {source.name}, by the same names: it {' and '.join(differences)}",
            other.name,
        )


def _open_matching(
    source: Source,
    config: RunConfig,
    name: str | None,
    role: Literal["test", "base", "public", "contrast"],
) -> Source | None:
    """A test, base or public dataset, brought to the private one's size; None: there is none."""
    if name is None:
        return None
    size = (source.shape[0], source.shape[1]) if source.kind == "images" else None
    options: dict[str, Any] = {"size": size, "skip_bad": config.data.skip_bad}
    if source.kind == "images":
        window = window_premise(source)
        options |= {"channels": source.shape[2], "fit": config.data.fit}
        options["window"] = None if window is None or not window[1] else window[0]
    if role == "test":
        options["nested"] = config.privacy.unit_column is not None  # as the private one may be
        other = open_test(name, label=config.data.label, classes=config.data.classes, **options)
    else:
        label = NO_LABELS if role in ("public", "contrast") else None
        other = open_source(name, label=label, **options)
    require_same_kind(source, other)
    return other


def open_labelled(name: str, *, label: str | None, **options: Any) -> Source:
    """A dataset, with the label column of another one where it has columns."""
    try:
        return open_source(name, label=label, **options)
    except NoColumns:  # class folders, for one, name their classes themselves
        return open_source(name, **options)


def open_test(name: str, *, label: str | None, **options: Any) -> Source:
    """A test set, with the label column of the private dataset where it has columns."""
    return open_labelled(name, label=label, split="test", **options)


def _require_testable(
    source: Source, test: Source, keeps_classes: bool, shape: Shape | None
) -> None:
    """Refuse a test set that nothing trained on the release fits, before it is paid for."""
    from understudy.metrics.networks.architectures import SMALLEST_SIDE  # imports torch

    if len(source.classes) < 2 or not keeps_classes:
        raise ConfigError(
            "a release without classes trains no classifier (by the method's settings, or a "
            "dataset without labels): leave out --test"
        )
    if shape is not None and min(shape[:2]) < SMALLEST_SIDE:
        raise ConfigError(
            f"accuracy is measured on images of at least {SMALLEST_SIDE} pixels a side: give "
            f"--size {SMALLEST_SIDE}, or leave out --test"
        )
    require_classes(source, test)
