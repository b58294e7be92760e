"""Public images that the owner names, labelled by a DP classifier of the private ones.

Where public images look like the private ones, what a generator has to learn of the shape of the
data they have for free, and what is left to ask is what their classes would be. That is how PATE
releases knowledge (Papernot et al. 2017), with a softmax regression trained by noisy gradients for
its teachers. Whether they look alike is tested first, and little is spent where they don't:
docs/methods/labelling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from understudy.core.errors import ConfigError, MethodStopped
from understudy.core.files import public_name
from understudy.core.option import Option, check_options
from understudy.core.ports import Encoder, Generator, Source
from understudy.core.types import Embeddings, Images, Labels, Release, Stage, UnitCounts
from understudy.methods import dp_estimators
from understudy.methods.base import (
    PROCEDURAL,
    Context,
    Explanation,
    Materials,
    Method,
    NoiseOfStage,
    check_template,
    prompts_of,
    stages_of,
)
from understudy.methods.labelling.image_labels import (
    DESCENT,
    FEWEST_IMAGES_OF_CLASS,
    LabelledImages,
    LabelledSampler,
    Recalls,
    Redraw,
    counted_recalls,
    fitted_classifier,
    leading_inputs,
    readable_axes,
)
from understudy.methods.labelling.likeness import (
    FEWEST_IMAGES,
    FEWEST_OF_CLASS,
    ClassCounts,
    Likeness,
    LikenessStages,
    PublicKind,
    least_units,
    scrambled,
    tested_likeness,
)
from understudy.steps.row_arithmetic import evenly_spread, spread_batches

ENCODER = "embedded:scattering?J=3&L=4&log=10&colour=opponent&coefficients=600"

_SIZES, _COUNTS, _MEAN = 0.0016, 0.0026, 0.0073
"""Shares of a run's squared mu: together 0.0115, which is a tenth of its epsilon or less."""

_RECALLS = 0.05  # of the same: it also counts the classes well
_MOST_BYTES = 1 << 28  # of public images that are labelled, at most
_MOST_IMAGES = 16_384
_CONTRAST_IMAGES = 2_000  # of each kind that the named images are held against

_REMEDY = (
    "Name public images of the private ones' kind (--public), or take a method that needs none: "
    "--method clustering"
)


@dataclass(frozen=True)
class LabellingParams:
    """Parameters of labelling.

    Raises:
        ConfigError: A value out of range.
    """

    draw: Annotated[
        Literal["unchanged", "varied"],
        Option("unchanged: samples are public images as they are; varied: redrawn by a generator"),
    ] = "unchanged"
    strength: Annotated[
        float, Option("how much of an image is redrawn, where draw=varied", least=0, most=1)
    ] = 0.5
    template: Annotated[
        str, Option("prompt by which an image is redrawn; {class} is its class")
    ] = "a photo of a {class}"

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class LabellingStages:
    """The releases of labelling, in their order."""

    class_sizes: Stage
    units: Stage | None  # how many there are, where one may be of several classes
    likeness: LikenessStages  # whether the private images look like the public ones
    steps: tuple[Stage, ...]
    recalls: Stage  # how many private records it gets right


def _plan(context: Context) -> LabellingStages:
    each = (1 - _SIZES - _COUNTS - _MEAN - _RECALLS) / DESCENT.steps
    return LabellingStages(
        Stage("class sizes", _SIZES),
        dp_estimators.units_stage(context, len(context.classes), _SIZES),
        LikenessStages(Stage("likeness", _COUNTS), Stage("depth", _MEAN)),
        tuple(Stage(f"fit {step + 1}", each) for step in range(DESCENT.steps)),
        Stage("recalls", _RECALLS),
    )


def _roles_used(params: LabellingParams, _: frozenset[str]) -> Mapping[str, str | None]:
    used: dict[str, str | None] = {"encoder": ENCODER, "public": None, "contrast": PROCEDURAL}
    return used | ({"generator": "embedded:studio"} if params.draw == "varied" else {})


def _stages(params: LabellingParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    if len(context.shape) != 3:
        raise ConfigError("labelling names public images, and this dataset holds embeddings")
    if len(context.classes) < 2:
        raise ConfigError("this dataset has one class: there is nothing that labels would say")
    if not context.public:
        raise ConfigError(
            "labelling releases public images with the private ones' classes: name public images "
            "of the private ones' kind (--public SOURCE)"
        )
    feature_encoder(context)
    if params.draw == "varied":
        check_template(context, params.template, conditional=True)
        variation_generator(context)
    return stages_of(_plan(context))


def _explain(
    _: LabellingParams, context: Context, noise: NoiseOfStage, units: UnitCounts | None
) -> Explanation:
    """As `Method.explain`: whether the noise leaves the test of likeness anything to tell."""
    least = least_units(noise(_plan(context).likeness.mean))
    if units is None or units.total >= least:
        return Explanation()
    words = (
        f"{units.total:,.0f} units are few under this noise (owner only): below {least:,.0f} the "
        "method may stop because it cannot tell what they look like, at the cost of its first "
        "answers. Take a larger epsilon, or --method clustering"
    )
    return Explanation(notes=(words,))


def labelling(materials: Materials, params: LabellingParams) -> Release:
    """Test the likeness, train a classifier, test it, label the public images."""
    plan, encoder = _plan(materials.context), feature_encoder(materials.context)
    # The public images, and what tells their kind from others. A public fact that forbids the run
    # is found here, before anything is paid.
    public = named_images(materials)
    features = _encoded(encoder, public)
    kind = PublicKind.of(
        features,
        np.concatenate([_encoded(encoder, part) for part in _contrast(materials, public)]),
        materials.rng_of("held-out public images"),
    )
    inputs = kind.inputs(features.astype(np.float64))
    # 1: the class sizes. 2: the test of likeness.
    vault = materials.vault.map(lambda images: kind.described(encoder.encode(images)))
    classes, length = materials.classes, kind.length
    dim = length + 1 + kind.points.shape[1]
    sizes, sd = dp_estimators.class_sizes(vault, len(classes), dim, plan.class_sizes)
    counted = None if plan.units is None else dp_estimators.units(vault, sizes, dim, plan.units)
    counts = ClassCounts(sizes, sd, counted)
    likeness = tested_likeness(vault, kind, classes, counts, plan.likeness)
    if likeness.difference is not None:
        raise MethodStopped(likeness.difference, _REMEDY)
    # 3: the classifier, by noisy gradients. 4: how many private records it gets right.
    axes = readable_axes(materials.context.mu, likeness.counts.units, length)
    records, inputs = (
        vault.view(lambda rows: leading_inputs(rows, axes)),
        leading_inputs(inputs, axes),
    )
    theta = fitted_classifier(materials, records, inputs, likeness.counts, plan.steps)
    theta = materials.keep("classifier", lambda: {"theta": theta})["theta"]
    recalls = counted_recalls(records, theta, inputs, likeness.counts, plan.recalls)
    if recalls.failure is not None:
        raise MethodStopped(recalls.failure, _REMEDY)
    # Samples are public images of each class: post-processing.
    labelled = LabelledImages.of(public, inputs @ theta[:-1] + theta[-1])
    return _release(materials, params, labelled, likeness, recalls)


def _release(
    materials: Materials,
    params: LabellingParams,
    labelled: LabelledImages,
    likeness: Likeness,
    recalls: Recalls,
) -> Release:
    materials, counts = materials.for_samples, recalls.counts
    shares = counts.sizes / counts.sizes.sum()
    sizes = materials.class_sizes(shares, counts.units)
    redraw = _redrawn(materials, params) if params.draw == "varied" else None
    sampler = LabelledSampler.of(materials, labelled, sizes, redraw)
    facts = _facts(materials, params, labelled, sizes, likeness, recalls)
    return Release(
        METHOD.name,
        materials.classes,
        int(sizes.sum()),
        sampler.batches,
        image_shape=materials.shape,
        facts=facts,
    )


def _facts(
    materials: Materials,
    params: LabellingParams,
    labelled: LabelledImages,
    sizes: Labels,
    likeness: Likeness,
    recalls: Recalls,
) -> dict[str, object]:
    """What the release says of itself: JSON values."""
    classes = materials.classes
    per_class = {
        "public_images_per_class": labelled.labelled.tolist(),
        "recall_per_class": recalls.recalls.round(3).tolist(),
    }
    return {
        "noisy_rows": round(recalls.counts.units),
        "public_samples": ", ".join(_made_of(materials, params)),
        **likeness.facts(),
        **{name: dict(zip(classes, values, strict=True)) for name, values in per_class.items()},
        "notes": list(_notes(materials, params, labelled, sizes)),
    }


def _made_of(materials: Materials, params: LabellingParams) -> tuple[str, str]:
    """The public dataset, and what is made of its images."""
    source = "" if materials.public is None else public_name(materials.public.name)
    return source, "redrawn by a generator" if params.draw == "varied" else "as they are"


def _notes(
    materials: Materials, params: LabellingParams, labelled: LabelledImages, sizes: Labels
) -> Iterator[str]:
    source, change = _made_of(materials, params)
    yield (
        f"samples are public images of {source}, {change}; the private images gave each its class, "
        "and whether the two look alike, by noisy answers alone. The licence of the public images "
        "holds for the samples"
    )
    pairs = list(zip(materials.classes, labelled.labelled, strict=True))
    if scarce := [name for name, number in pairs if number < FEWEST_IMAGES_OF_CLASS]:
        yield (
            f"{', '.join(scarce)}: hardly any public image looks like this class, so its samples "
            f"are drawn from the {FEWEST_IMAGES_OF_CLASS} that come nearest"
        )
    repeated = [
        name
        for name, size, rows in zip(materials.classes, sizes, labelled.rows, strict=True)
        if size > len(rows)
    ]
    if repeated and params.draw == "unchanged":
        yield (
            f"{', '.join(repeated)}: more samples than public images, so images come more than "
            "once (--count asks for fewer)"
        )


def feature_encoder(context: Context) -> Encoder:
    """The encoder."""
    if context.encoder is None:
        raise ConfigError("labelling compares images by an --encoder: name one")
    return context.encoder


def variation_generator(context: Context) -> Generator:
    """The generator that redraws images.

    Raises:
        ConfigError: There is none, or it cannot.
    """
    if context.generator is None:
        raise ConfigError("draw=varied redraws images by a --generator: name one")
    if "variation" not in context.generator.tasks:
        raise ConfigError(
            f"draw=varied redraws images, and {context.generator.name} can only do "
            f"{', '.join(sorted(context.generator.tasks))}: take another --generator"
        )
    return context.generator


def named_images(materials: Materials) -> Images:
    """The public images that the owner names: (m, height, width, c).

    Raises:
        ConfigError: There are too few, or they are all alike.
    """
    least = max(FEWEST_IMAGES, FEWEST_OF_CLASS * len(materials.classes))
    most = min(_MOST_IMAGES, max(least, _MOST_BYTES // int(np.prod(materials.shape))))
    public = _images_of(materials, materials.public, most)
    if len(public) < least:
        raise ConfigError(
            f"{len(public):,} public images are too few to test whether private ones look like "
            f"them, and to be the samples: {least:,} or more are needed. Nothing was spent"
        )
    if (public == public[0]).all():
        raise ConfigError(
            "the public images are all alike, and samples would be: name others. Nothing was spent"
        )
    return public


def _contrast(materials: Materials, public: Images) -> Iterator[Images]:
    """What the named images are held against: other public images, and themselves scrambled."""
    if materials.contrast is not None:
        yield _images_of(materials, materials.contrast, _CONTRAST_IMAGES)
    some = evenly_spread(len(public), _CONTRAST_IMAGES)
    yield scrambled(public[some], materials.rng_of("scrambled public images"))


def _images_of(materials: Materials, source: Source | None, most: int) -> Images:
    """Images of a public dataset, evenly spread where there are more."""
    if source is None:
        raise ConfigError("labelling needs public images (--public SOURCE)")
    batches = spread_batches(source, most, materials.progress, "reading public images")
    parts = [materials.fit(batch) for batch in batches]
    return np.concatenate([np.empty((0, *materials.shape), dtype=np.uint8), *parts])


def _encoded(encoder: Encoder, images: Images) -> Embeddings:
    parts = [encoder.encode(images[start : start + 256]) for start in range(0, len(images), 256)]
    return np.concatenate(parts)


def _redrawn(materials: Materials, params: LabellingParams) -> Redraw:
    """A function that redraws images by the generator, at the size that it draws."""
    generator = variation_generator(materials.context)
    prompts = prompts_of(materials.context.called, params.template)

    def redraw(images: Images, labels: Labels, name: str) -> Images:
        texts = [prompts[label] for label in labels]
        varied = generator.vary(
            materials.resized(images, generator.shape),
            texts,
            strength=params.strength,
            seed=materials.seed_of(name),
        )
        return materials.resized(varied, materials.shape)

    return redraw


def _check_resample(params: LabellingParams, context: Context) -> None:
    """More samples are other public images of each class, or other drawings of them."""


METHOD = Method(
    name="labelling",
    summary="public images that the owner names, labelled by a DP classifier of the private ones",
    source="after Papernot et al., Semi-supervised Knowledge Transfer for Deep Learning from "
    "Private Training Data (PATE), with noisy gradients (Abadi et al.) for the teachers",
    params=LabellingParams,
    settle=lambda params, context: params,
    stages=_stages,
    run=labelling,
    explain=_explain,
    check_resample=_check_resample,
    roles=_roles_used,
    released_role="public",
    stops=True,
)
