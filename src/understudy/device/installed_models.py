"""The models of the device: measured on the owner's own labelled photos, installed if better.

A model that came back from a server, or was trained here, replaces the installed one only where it
is right more often on photos that the owner has labelled, or where the owner says so. The one
before it stays: a rollback is one command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from understudy.core.errors import RunError, SourceError
from understudy.data.image_decoding import BadImage
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.model_trial import try_model
from understudy.device.photo_store import PhotoSet, decoded_photo, labelled_photos
from understudy.methods.sanitize.signed_results import model_digest
from understudy.methods.sanitize.wire import ModelKind

ORIGIN_HERE = "trained here: nothing left"
_INDEX = "models/models.json"


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A model of the device.

    Attributes:
        digest: BLAKE2b-256 of its bytes; the name of its folder.
        origin: Where it is from, and what had left for it.
        kind: ``"classifier"`` or ``"detector"``.
        validation: What its maker states of synthetic images, or of the owner's photos that were
            left out of a training here, in [0, 1].
        accuracy: Part of the owner's labelled photos in which it is right; None where there are
            none, or it is a detector.
    """

    digest: str
    origin: str
    kind: ModelKind
    classes: tuple[str, ...]
    side: int
    validation: float
    accuracy: float | None = None
    labelled: int = 0


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """All models of the device.

    Attributes:
        installed: Digests of those that were installed, the latest last: it is the one in use.
    """

    models: tuple[DeviceModel, ...] = ()
    installed: tuple[str, ...] = ()

    @property
    def current(self) -> DeviceModel | None:
        """The installed model."""
        return self.of(self.installed[-1]) if self.installed else None

    @property
    def is_trained_here(self) -> bool:
        """Whether the installed model was trained on this device, so that nothing left for it."""
        return self.current is not None and self.current.origin == ORIGIN_HERE

    def of(self, digest: str) -> DeviceModel:
        """A model by its digest."""
        return next(model for model in self.models if model.digest == digest)


@dataclass(frozen=True, slots=True)
class InstalledResult:
    """What became of a model that was offered."""

    model: DeviceModel
    installed: bool
    reason: str


def model_index(home: DeviceHome) -> ModelIndex:
    """The models of the device, and which are or were installed."""
    stored = home.read(_INDEX, {"models": [], "installed": []})
    models = (DeviceModel(**{**one, "classes": tuple(one["classes"])}) for one in stored["models"])
    return ModelIndex(tuple(models), tuple(stored["installed"]))


def model_path(home: DeviceHome, digest: str) -> Path:
    """The ONNX file of a model."""
    return home.path("models", digest, "model.onnx")


def offer_model(
    home: DeviceHome, data: bytes, model: DeviceModel, *, wish: bool = False
) -> InstalledResult:
    """Check a model, store it, measure it, and install it if it is better or wished for.

    What is known of the model needs no digest; ``wish`` installs it in any case.

    Raises:
        WireError: It is refused, and nothing of it is stored.
    """
    model = replace(model, digest=model_digest(data))
    photos = labelled_photos(home)
    rows = [
        row for row, label in enumerate(photos.labels if photos else ()) if label in model.classes
    ]
    images = photos.images[rows] if photos is not None and rows else None
    trial = try_model(data, model.kind, model.side, len(model.classes), images)
    write_file(model_path(home, model.digest), data)
    if model.accuracy is None and photos is not None and trial.labels:
        truth = [model.classes.index(photos.labels[rows[row]]) for row in trial.rows]
        right = sum(one == label for one, label in zip(trial.labels, truth, strict=True))
        model = replace(model, accuracy=right / len(truth), labelled=len(truth))
    with home.locked():
        index = model_index(home)
        better, reason = _is_better(model, index.current, _guess(model, photos))
        installed = wish or better
        models = [one for one in index.models if one.digest != model.digest]
        history = [one for one in index.installed if not (installed and one == model.digest)]
        _store(home, [*models, model], [*history, *([model.digest] if installed else [])])
    return InstalledResult(model, installed, "the owner wished it" if wish else reason)


def judged_photo(home: DeviceHome, photo: Path) -> str:
    """The class that the installed classifier gives a photo, which is neither stored nor sent.

    Raises:
        RunError: No model is installed, or it is a detector.
        SourceError: The photo cannot be read.
    """
    model = model_index(home).current
    if model is None:
        raise RunError("no model is installed: understudy device model, or understudy device train")
    if model.kind != "classifier":
        raise RunError("a detector gives boxes, which are not shown here")
    try:
        image = decoded_photo(photo.read_bytes(), model.side, "crop")
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", photo) from error
    except BadImage as error:
        raise SourceError(f"cannot be read: {error}", photo) from error
    data = model_path(home, model.digest).read_bytes()
    trial = try_model(data, model.kind, model.side, len(model.classes), image[None])
    return model.classes[trial.labels[0]]


def roll_back(home: DeviceHome) -> DeviceModel:
    """Install the model before the current one again.

    Raises:
        RunError: There is none before it.
    """
    with home.locked():
        index = model_index(home)
        if len(index.installed) < 2:
            stands = f"{index.current.origin!r} stays installed" if index.current else "none is"
            raise RunError(f"no model was installed before, to go back to: {stands}")
        _store(home, index.models, index.installed[:-1])
        return index.of(index.installed[-2])


def _guess(model: DeviceModel, photos: PhotoSet | None) -> float:
    """Part of the labelled photos in which one class is right that is always said."""
    labels = [label for label in (photos.labels if photos else ()) if label in model.classes]
    return max(Counter(labels).values(), default=0) / max(1, len(labels))


def _is_better(model: DeviceModel, current: DeviceModel | None, guess: float) -> tuple[bool, str]:
    if model.accuracy is not None and model.accuracy <= guess:
        return False, (
            f"it is right in {model.accuracy:.0%} of the labelled photos, and the commonest class "
            f"alone in {guess:.0%}: --install installs it all the same"
        )
    if current is None:
        return True, "it is the first"
    if set(current.classes) != set(model.classes) or current.kind != model.kind:
        return False, "it answers another question than the installed one: --install replaces it"
    if model.accuracy is None or current.accuracy is None:
        return False, (
            "there are no labelled photos that say which is better: add some with `understudy "
            "device add --labelled`, or say --install"
        )
    figures = (
        f"{model.accuracy:.0%} of {model.labelled} labelled photos, the installed one in "
        f"{current.accuracy:.0%} of the {current.labelled} that there were"
    )
    if model.accuracy > current.accuracy:
        return True, f"it is right in {figures}"
    return False, f"it is right in {figures}: --install replaces it all the same"


def _store(home: DeviceHome, models: Sequence[DeviceModel], installed: Sequence[str]) -> None:
    home.write(
        _INDEX, {"models": [asdict(model) for model in models], "installed": list(installed)}
    )
