"""``understudy evaluate``: how good is a release, measured on the real data. Owner-only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.backends.registry import load_encoder
from understudy.core.errors import RunError
from understudy.core.ports import Encoder, Source
from understudy.core.types import Shape
from understudy.data import open_source
from understudy.evaluate.utility import Network
from understudy.run.folder import write_json
from understudy.run.measure import Accuracy, measure
from understudy.run.models import encoder_name
from understudy.run.prepare import require_classes
from understudy.run.progress import progress_bars


def release_folder(folder: Path) -> Path:
    """The release in a run's folder, or the folder itself if it is one.

    Raises:
        RunError: There is none.
    """
    for candidate in (folder / "release", folder):
        if (candidate / "privacy.json").is_file():
            return candidate
    raise RunError(f"{folder}: holds no release (no privacy.json, here or in release/)")


def open_release(folder: Path, shape: Shape | None) -> Source:
    """A release as a source: its images where it has some, else its embeddings."""
    if shape is None:
        return open_source(folder / "embeddings.safetensors")
    return open_source(folder, size=(shape[0], shape[1]))


def evaluate_release(
    folder: str | Path,
    *,
    real: str | Path,
    test: str | Path,
    networks: Sequence[Network] | None = None,
    seeds: int = 1,
    epochs: int | None = None,
    encoder: str | None = None,
    skip_bad: bool = False,
) -> tuple[Accuracy, ...]:
    """Accuracy on real data of models trained on a release, beside models trained on real data.

    Reads the private data without noise, so what comes back is for the owner alone. It is also
    written to ``owner/evaluation.json`` where the release lies in a run's folder.

    Args:
        folder: A run's folder, or its release.
        real: The private dataset.
        test: The real test set.
        networks: ``"cnn"``, ``"resnet9"``, ``"resnet50"``, ``"vgg11"`` for images, ``"two-layer"``
            for embeddings.
        seeds: How many trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        encoder: What embeds real images, for a release of embeddings; by default the one named in
            the release.
        skip_bad: Pass over unreadable files.

    Raises:
        InputError: Something is missing, or does not fit together.
    """
    place = release_folder(Path(folder))
    facts = _facts(place)
    shape = tuple(facts["data"]["image_shape"] or ()) or None
    release = open_release(place, shape)
    size = None if shape is None else (shape[0], shape[1])
    train = open_source(real, split="train", size=size, skip_bad=skip_bad)
    held_out = open_source(test, split="test", size=size, skip_bad=skip_bad)
    require_classes(release.classes, held_out)
    model = _encoder(place, facts, encoder, train) if release.kind == "embeddings" else None
    with progress_bars() as bars:
        options: dict[str, Any] = {"networks": networks, "seeds": range(seeds), "epochs": epochs}
        found = measure(release, train, held_out, model, bars, **options)
    _keep(place, found)
    return found


def _keep(place: Path, found: Sequence[Accuracy]) -> None:
    """Write the results into the owner's folder, where the release lies in a run's."""
    owner = place.parent / "owner"
    if place.name == "release" and owner.is_dir():
        content = {"kind": "owner-only", "accuracy": [a.as_dict() for a in found]}
        write_json(owner / "evaluation.json", content)


def _facts(place: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((place / "privacy.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{place / 'privacy.json'}: not JSON: {error}") from error
    return content


def _encoder(place: Path, facts: dict[str, Any], name: str | None, real: Source) -> Encoder | None:
    """The release's encoder: as the owner's run named it, else as the release does."""
    if real.kind == "embeddings":
        return None
    known = [m["name"] for m in facts["models"] if m["role"] == "encoder"]
    owner = place.parent / "owner" / "run.json"
    if owner.is_file():
        known = [json.loads(owner.read_text(encoding="utf-8"))["settings"].get("encoder"), *known]
    found = name or next((one for one in known if one), None)
    if found is None:
        raise RunError("the release names no encoder: say --encoder NAME to embed the real images")
    return load_encoder(encoder_name(found), shape=real.shape)
