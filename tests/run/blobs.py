"""Pictures that are told apart by eye, and releases made of them."""

import json

import numpy as np
from tests.run.samples import save

SHAPE = (16, 16, 1)


def blobs(seed, count=120):
    """(label, picture): a bright spot of its own place, width and light; dogs have two."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(SHAPE[:2])
    for number in range(count):
        light = np.zeros(SHAPE[:2])
        for _ in range(1 + number % 2):
            y, x = rng.uniform(3, 13, 2)
            tall, wide = rng.uniform(1, 4, 2)
            light += rng.uniform(90, 220) * np.exp(
                -(((rows - y) / tall) ** 2) - ((columns - x) / wide) ** 2
            )
        light += rng.normal(0, 4, SHAPE[:2])
        yield ["cat", "dog"][number % 2], np.clip(light, 0, 255).astype(np.uint8)[..., None]


def folder_of(place, pictures, release=False):
    base = place / "release" / "train" if release else place
    for number, (name, image) in enumerate(pictures):
        (base / name).mkdir(parents=True, exist_ok=True)
        save(image, base / name / f"{number:06d}.png")
    if release:
        facts = {"data": {"image_shape": list(SHAPE), "count": number + 1}, "models": []}
        (place / "release" / "privacy.json").write_text(json.dumps(facts))
        (place / "owner").mkdir()
    return place
