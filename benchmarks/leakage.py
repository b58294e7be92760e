"""Five releases of one dataset, from the private data itself to honest DP: what is said of each.

Fashion-MNIST's training split is cut into private rows, a release's worth of strangers and a
held-out test set. Needs the Debian package ``dataset-fashion-mnist``.
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.fashion_mnist import FOLDER
from benchmarks.tables import Table, load, need
from understudy import evaluate, synthesize
from understudy.metrics.utility import Labelled

PRIVATE, RELEASE, TEST = 5000, 1000, 1000


def changed(images: np.ndarray, seed: int = 0) -> np.ndarray:
    """Noise, a shift by a pixel, another brightness or JPEG, in turn."""
    rng = np.random.default_rng(seed)
    made = images.astype(np.float64)
    made[0::4] += rng.normal(0, 8, made[0::4].shape)
    made[1::4] = np.roll(made[1::4], 1, axis=2)
    made[2::4] = made[2::4] * 0.9 + 8
    for at in range(3, len(images), 4):
        file = io.BytesIO()
        Image.fromarray(images[at, :, :, 0]).save(file, "JPEG", quality=60)
        made[at, :, :, 0] = np.asarray(Image.open(file))
    return np.clip(np.rint(made), 0, 255).astype(np.uint8)


def save(folder: Path, images: np.ndarray, labels: np.ndarray, *, release: bool = False) -> None:
    """Class folders; as a release, with the facts that an evaluation needs."""
    base = folder / "release" / "train" if release else folder
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = base / f"class-{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[:, :, 0]).save(place / f"{number:06d}.png")
    if release:
        facts = {"data": {"image_shape": list(images.shape[1:])}, "models": []}
        (folder / "release" / "privacy.json").write_text(json.dumps(facts))


def releases(place: Path, data: Labelled) -> list[str]:
    """Write the private rows, the test rows and the five releases; their names."""
    order = np.random.default_rng(0).permutation(len(data.labels))[: PRIVATE + RELEASE + TEST]
    values, labels = data.values[order], data.labels[order]
    private, ours = slice(0, PRIVATE), slice(0, RELEASE)
    others, test = slice(PRIVATE, PRIVATE + RELEASE), slice(PRIVATE + RELEASE, None)
    save(place / "real", values[private], labels[private])
    save(place / "test", values[test], labels[test])
    copied, mixed = values[others].copy(), labels[others].copy()
    copied[: RELEASE // 100], mixed[: RELEASE // 100] = (
        values[: RELEASE // 100],
        labels[: RELEASE // 100],
    )
    made = {
        "the private data": (values[ours], labels[ours]),
        "1 % exact copies": (copied, mixed),
        "changed copies": (changed(values[ours]), labels[ours]),
        "held-out real data": (values[others], labels[others]),
    }
    for name, (images, classes) in made.items():
        save(place / name, images, classes, release=True)
    ledger = str(place / "ledger.db")
    synthesize(place / "real", out=place / "DP", epsilon=1.0, count=RELEASE, ledger=ledger)
    return [*made, "DP"]


def main() -> None:
    """Print the verdict on each, and the figures that decided."""
    need(FOLDER)
    heads = ("", "verdict", "exact", "near-copies", "chance", "best AUC")
    table = Table(f"{RELEASE:,} synthetic, {PRIVATE:,} private, {TEST:,} test rows", heads, 24)
    sentences = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for one in releases(place, load(FOLDER)):
            found = evaluate(place / one, real=place / "real", test=place / "test")
            verdict = {each.group: each for each in found.verdicts}["leakage"]
            exact = found.find("exact copies")
            near = max(
                (each for each in found.values if each.name == "near-copies"),
                key=lambda each: each.value,
            )
            areas = [each.value for each in found.of("attack") if each.name.endswith("AUC")]
            table.row(
                "DP, epsilon 1" if one == "DP" else one,
                verdict.grade,
                f"{exact.value:.1%}" if exact else "",
                f"{near.value:.1%}",
                f"{near.baseline:.1%}",
                max(areas),
            )
            sentences.append(f"{one}: {verdict.sentence}")
    print()
    print("\n".join(sentences))


if __name__ == "__main__":
    main()
