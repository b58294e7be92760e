"""From a scene to a picture."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from understudy.playhouse import dog, person, things
from understudy.playhouse.canvas import Canvas, Point
from understudy.playhouse.outline import Ink
from understudy.playhouse.picture import SEGMENT_CLASSES, DrawnImage, Instance
from understudy.playhouse.room import draw_room
from understudy.playhouse.scene import Actor, Light, Scene

TARGET_KEYPOINTS = {
    "dog": dog.DOG_KEYPOINTS,
    "person": person.PERSON_KEYPOINTS,
    "bottle": things.BOTTLE_KEYPOINTS,
    "frame": things.FRAME_KEYPOINTS,
}
_FAR = 1e6


def render(
    scene: Scene, size: int, *, caption: str = "", label: int | None = None, unit: str = "world"
) -> DrawnImage:
    """Draw a scene, ``size`` pixels a side."""
    canvas = Canvas(size, scene.camera, scene.room.wall)
    draw_room(canvas, scene.room, scene.ink)
    points = []
    for actor in scene.actors:
        canvas.set_transform(actor.at)
        keypoints = _draw(canvas, actor, scene.ink)
        points.append([canvas.pixel(keypoints[name]) for name in TARGET_KEYPOINTS[actor.kind]])
    segments = canvas.segments()
    instances = [
        _instance(actor.kind, segments, place)
        for actor, place in zip(scene.actors, points, strict=True)
    ]
    instances.sort(key=lambda keypoints: -int(np.count_nonzero(keypoints.mask)))
    return DrawnImage(
        image=lit(canvas.image(), scene.light),
        caption=caption,
        attributes=dict(scene.attributes),
        label=label,
        segments=segments,
        instances=tuple(instances),
        unit=unit,
    )


def _draw(canvas: Canvas, actor: Actor, ink: Ink) -> dict[str, Point]:
    look = actor.look
    if isinstance(look, dog.DogLook):
        return dog.draw_dog(canvas, actor.status, look, ink, light=actor.contrast)
    if isinstance(look, person.PersonLook):
        return person.draw_person(
            canvas, actor.status, look, ink, light=actor.contrast, seated=actor.seated
        )
    if isinstance(look, things.BottleLook):
        return things.draw_bottle(canvas, look, ink, light=actor.contrast)
    return things.draw_frame(canvas, look, ink, light=actor.contrast)


def _instance(kind: str, segments: NDArray[np.uint8], points: list[Point]) -> Instance:
    """One target of each kind at most is in a scene, so its class is its mask."""
    mask = segments == SEGMENT_CLASSES.index(kind)
    rows = np.flatnonzero(mask.any(axis=1))
    columns = np.flatnonzero(mask.any(axis=0))
    box = np.zeros(4, dtype=np.float32)
    if len(rows):
        box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    size = len(segments)
    places = [(x, y, float(0 <= x < size and 0 <= y < size)) for x, y in points]
    return Instance(kind, mask, box, np.array(places, dtype=np.float32), TARGET_KEYPOINTS[kind])


@lru_cache(maxsize=16)
def _grid(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """x along a row and y along a column, -1 to 1, shaped to be multiplied with a picture."""
    along = ((np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1).astype(np.float32)
    return along[None, :, None], along[:, None, None]


def lit(image: NDArray[np.uint8], light: Light) -> NDArray[np.uint8]:
    """The picture in its light: tint, gradient, vignette, grain."""
    x, y = _grid(len(image))
    right, down = light.slope
    factor = 1 + (np.float32(right) * x + np.float32(down) * y)
    if light.vignette:
        factor = factor - np.float32(light.vignette * 0.5) * (x * x + y * y)
    values = image * (factor * np.array(light.tint, dtype=np.float32))
    if light.sensor_noise:
        rng = np.random.Generator(np.random.PCG64(light.sensor_noise_seed))
        # The noise is coarser than a pixel in a large image.
        cell = ceil(len(image) / 96)
        side = ceil(len(image) / cell)
        noise = rng.standard_normal((side, side, 1), dtype=np.float32) * np.float32(
            light.sensor_noise
        )
        values += np.repeat(np.repeat(noise, cell, 0), cell, 1)[: len(image), : len(image)]
    np.clip(values, 0, 255, out=values)
    lit_up: NDArray[np.uint8] = values.astype(np.uint8)
    return lit_up
