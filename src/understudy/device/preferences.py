"""What the owner asks for, and how much may leave for it: the four keys of SpinML, Table 2.

Target object, background, training object and label classes; a privacy level for each object and
for the background (section 3.2): ``text`` is L0, ``box``, ``edges`` and ``pose`` are L1,
``segment`` and ``noise`` are L2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, RunError, WireError
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.device.consent import void_offer
from understudy.device.home_folder import DeviceHome
from understudy.device.photo_domain import SHIPPED, STUDIO, problem_of_all, shipped_segmenter
from understudy.methods.sanitize.sanitizers import (
    PoseSanitizer,
    Sanitizer,
    load_sanitizer,
    skeleton_of,
)
from understudy.methods.sanitize.segments import classes_of
from understudy.methods.sanitize.wire import (
    JobRequest,
    ModelKind,
    PartRequest,
    canonical_json,
    decode_message,
)
from understudy.methods.sanitize.wire_items import SKELETONS, first_problem
from understudy.steps.hints import LIMBS

BACKGROUND = "background"
"""What the background is called where a level is given for it, beside its own noun."""

NOISES: Mapping[str, float] = {"noise:5": 5.0, "noise:10": 10.0, "noise:50": 50.0}
"""The deviations of SpinML's noise, of 255 (section 5.5); ``noise`` alone is the last."""

OBJECT_LEVELS: Mapping[str, int] = {
    "text": 0,
    "box": 1,
    "edges": 1,
    "pose": 1,
    "segment": 2,
    "noise": 2,
    **dict.fromkeys(NOISES, 2),
}
"""What may leave of an object, and the level of the paper that it belongs to."""
BACKGROUND_LEVELS: Mapping[str, int] = {"text": 0, "edges": 1, "segment": 2}
"""What may leave of a background."""

POSES = "embedded:photo"
"""What finds the keypoints of a person where no other model is named."""

_REQUEST = "request.json"
PAPER_REFERENCES = 10
"""Reference photos of SpinML's experiments."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """A request, and the sanitizer of each part.

    Attributes:
        sanitizers: Names of the sanitizers, of the background and then of each object.
        pose_model: What finds keypoints; None where no pose is sent.
        segmenter: What finds the objects, and has a class for each.
        references: Photos of which something may leave, if anything may; the request states none
            where nothing does.
    """

    request: JobRequest
    sanitizers: tuple[str, ...]
    pose_model: str | None = None
    segmenter: str = STUDIO
    references: int = PAPER_REFERENCES

    @property
    def other_segmenter(self) -> str | None:
        """One that does not ship; None: which of those is taken depends on the photos."""
        return None if self.segmenter in SHIPPED else self.segmenter

    @property
    def nouns(self) -> tuple[str, ...]:
        """Of the objects."""
        return tuple(part.noun for part in self.request.target_object)

    @property
    def levels(self) -> tuple[int, ...]:
        """Of the objects."""
        return tuple(part.level for part in self.request.target_object)

    def sanitizer(self, part: int) -> Sanitizer:
        """What makes the messages of a part, by its number in the request."""
        name = self.sanitizers[part]
        if name in NOISES:
            return load_sanitizer("noise", deviation=NOISES[name])
        if name != "pose":
            return load_sanitizer(name)
        estimator = load_model(PoseEstimator, self.pose_model or POSES)
        skeleton = self.request.parts[part].skeleton or skeleton_of(estimator.keypoints)
        return PoseSanitizer(estimator, str(skeleton))

    def words(self) -> list[str]:
        """The options of ``understudy device request`` that make this request."""
        return request_words(
            self.nouns,
            self.request.background.noun,
            {
                part.noun: name
                for part, name in zip(self.request.parts, self.sanitizers, strict=True)
            },
            classes=",".join(self.request.label_classes),
            references=self.references,
            training=self.request.training_object,
            segmenter=self.other_segmenter,
            like=self,
        )

    def lines(self) -> list[str]:
        """What would leave of each part, a line each."""
        parts = self.request.parts
        rows = [*range(1, len(parts)), 0]
        return [
            f"{parts[k].noun} ({BACKGROUND if k == 0 else 'object'}): L{parts[k].level}, "
            f"{_MEANING[self.sanitizers[k]]}"
            for k in rows
        ]


def request_words(
    targets: Sequence[str],
    background: str,
    levels: Mapping[str, str],
    *,
    like: Preferences | None = None,
    **options: object,
) -> list[str]:
    """The options of ``understudy device request`` that make a request.

    Args:
        targets: The objects.
        background: Where they are.
        levels: What may leave, by noun.
        like: A request whose mixture, images and pose model, and whose deviations of noise, are
            this one's as far as it has the same parts; None: those are not given.
        options: Others by their names; those that are empty are not given.
    """
    words = [f"--background={background}", *(f"--target={noun}" for noun in targets)]
    mixture: list[str] = []
    if like is not None:
        parts = like.request.parts
        options["images"] = options.get("images") or like.request.images_per_class
        options["pose_model"] = None if like.pose_model == POSES else like.pose_model
        own = {part.noun: name for part, name in zip(parts, like.sanitizers, strict=True)}
        levels = {
            noun: own[noun] if own.get(noun, "").partition(":")[0] == name else name
            for noun, name in levels.items()
        }
        if {part.noun for part in parts} == {background, *targets}:
            mixture = [",".join(parts[one].noun for one in row) for row in like.request.mixture]
    words += [f"--{n.replace('_', '-')}={value}" for n, value in options.items() if value]
    words += [f"--level={noun}={name}" for noun, name in levels.items() if name != "text"]
    words += [f"--mix={names}" for names in mixture]
    return words + ["--equal-shares"] * bool(mixture and like and like.request.equal_shares)


_MEANING = {
    "text": "its name alone",
    "box": "where it is, on a grid",
    "edges": "its edges",
    "pose": "its keypoints",
    "segment": "its pixels",
    "noise": "its pixels with noise on them",
    **{name: f"its pixels with noise of {one:g} of 255 on them" for name, one in NOISES.items()},
}


def make_preferences(
    home: DeviceHome,
    *,
    targets: Sequence[str],
    background: str,
    classes: Sequence[str] = (),
    training: ModelKind = "classifier",
    levels: Mapping[str, str] | None = None,
    references: int = PAPER_REFERENCES,
    images_per_class: int = 400,
    pose_model: str | None = None,
    segmenter: str | None = None,
    mixture: Sequence[Sequence[str]] = (),
    equal_shares: bool = False,
) -> Preferences:
    """The owner's request, checked and stored. It voids what was previewed before.

    Photos settle the pixels a side, and which of the segmenters that ship finds the objects, where
    none is named (`shipped_segmenter`). A classifier's classes are about the first target; a
    detector's are those targets that it is to find, all by default. ``levels`` say what may leave
    of a part, by its noun or ``background``; text where none is given. ``mixture`` are lower
    preferences whose images the server adds: of each, the parts of which it draws these from words
    alone; with ``equal_shares`` it draws an equal share of every preference, and no more images in
    all.

    Raises:
        ConfigError: A value makes no sense, the wire does not have it, or the segmenter does not
            know such photos or has no class for an object, so that neither this device nor a
            server with it could find one.
        BackendError: The pose model or the segmenter cannot be loaded.
    """
    sanitizers = _sanitizers(targets, background, dict(levels or {}))
    item_names = [name for name in sanitizers if name != "text"]
    objects = zip(targets, sanitizers[1:], strict=True)
    fields: dict[str, Any] = {
        "target_object": tuple(_part(noun, name, pose_model) for noun, name in objects),
        "background": _part(background, sanitizers[0], None),
        "training_object": training,
        "label_classes": _label_classes(training, classes, targets),
        "side": home.settings.side,
        "references": references if item_names else 0,
        "images_per_class": images_per_class,
        "mixture": tuple(_part_numbers(names, (background, *targets)) for names in mixture),
        "equal_shares": equal_shares,
    }
    try:
        request = JobRequest.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(
            f"this cannot be asked for: {first_problem(error)}. Nouns and classes are up to 32 "
            "letters a to z, blanks and hyphens"
        ) from None
    model = (pose_model or POSES) if "pose" in sanitizers else None
    finder = _segmenter_for(home, targets, segmenter, disclosed=bool(request.disclosed))
    preferences = Preferences(request, sanitizers, model, finder, references)
    with home.locked():
        void_offer(home)
        home.write(_REQUEST, asdict(preferences) | {"request": request.model_dump(mode="json")})
    return preferences


def _label_classes(
    training: ModelKind, classes: Sequence[str], targets: Sequence[str]
) -> tuple[str, ...]:
    if training == "classifier" and len(classes) < 2:
        raise ConfigError("a classifier tells 2 to 16 classes apart: --classes NAME,NAME")
    return tuple(classes or targets)


def _part_numbers(names: Sequence[str], nouns: Sequence[str]) -> tuple[int, ...]:
    """Numbers of parts by their nouns, of the background by its own or ``background``."""
    numbers = {noun: number for number, noun in enumerate(nouns)} | {BACKGROUND: 0}
    if unknown := [name for name in names if name not in numbers]:
        raise ConfigError(
            f"a mixture names {unknown[0]!r}; the parts are {', '.join((*nouns[1:], BACKGROUND))}"
        )
    return tuple(sorted({numbers[name] for name in names}))


def stored_preferences(home: DeviceHome) -> Preferences:
    """The request that was made last.

    Raises:
        RunError: None was, or it was damaged.
    """
    values = home.read(_REQUEST, None)
    if values is None:
        raise RunError("no model was asked for yet: understudy device request ...")
    try:
        request = decode_message(JobRequest, canonical_json(values.pop("request")))
        preferences = Preferences(request, tuple(values.pop("sanitizers")), **values)
    except (KeyError, TypeError, WireError) as error:
        raise RunError(
            f"{home.path(_REQUEST)} is damaged, or of an earlier version: make the request again"
        ) from error
    levels = [OBJECT_LEVELS.get(name) for name in preferences.sanitizers]
    if levels != [part.level for part in request.parts]:
        raise RunError(f"{home.path(_REQUEST)} is damaged: make the request again")
    return preferences


def _sanitizers(targets: Sequence[str], background: str, levels: dict[str, str]) -> tuple[str, ...]:
    """The sanitizer of the background and of each object."""
    if background in targets:
        raise ConfigError(f"the background and an object are both called {background!r}")
    names = [levels.pop(BACKGROUND, levels.pop(background, "text"))]
    names += [levels.pop(noun, "text") for noun in targets]
    if levels:
        parts = ", ".join((*targets, BACKGROUND))
        raise ConfigError(f"a level is given for {', '.join(levels)}; the parts are {parts}")
    for noun, name, known_levels in zip(
        (background, *targets),
        names,
        (BACKGROUND_LEVELS, *[OBJECT_LEVELS] * len(targets)),
        strict=True,
    ):
        if name not in known_levels:
            raise ConfigError(
                f"of {noun} may leave {', '.join(known_levels)}, found {name!r}: write "
                f"{noun}={next(iter(known_levels))}, its name alone, or what else may"
            )
    return tuple(names)


def _segmenter_for(
    home: DeviceHome, targets: Sequence[str], segmenter: str | None, *, disclosed: bool
) -> str:
    """The one that is named, once it is known to have the objects and to know the photos."""
    if segmenter is None:
        return shipped_segmenter(home, targets, disclosed=disclosed)
    model = load_model(Segmenter, segmenter)
    for noun in targets:
        classes_of(noun, model.classes)
    if disclosed and (problem := problem_of_all(home, segmenter, model)):
        raise ConfigError(problem)
    return segmenter


def _part(noun: str, sanitizer: str, pose_model: str | None) -> PartRequest:
    level = OBJECT_LEVELS[sanitizer]
    try:
        return PartRequest.model_validate(
            {
                "noun": noun,
                "level": level,
                "feature": sanitizer if level == 1 else None,
                "skeleton": _skeleton(noun, pose_model) if sanitizer == "pose" else None,
            }
        )
    except ValidationError:
        raise ConfigError(
            f"{noun!r} is no noun of the wire: 1 to 32 letters a to z, blanks and hyphens"
        ) from None


def _skeleton(noun: str, pose_model: str | None) -> str:
    """The wire's name for the keypoints of a model."""
    if pose_model is None and "person" not in noun:
        raise ConfigError(
            f"{POSES} finds the keypoints of a person; those of a {noun} need a model that finds "
            "them: --pose-model"
        )
    keypoints = load_model(PoseEstimator, pose_model or POSES).keypoints
    if (name := skeleton_of(keypoints)) is None:
        raise ConfigError(
            f"{pose_model} does not find what a server draws a skeleton by: of "
            + "; of ".join(f"a {kind} {', '.join(SKELETONS[kind])}" for kind in LIMBS)
        )
    return name
