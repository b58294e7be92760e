"""A look, before anything is charged, whether an encoder treats records independently.

Every sensitivity rests on it: what is added up for a record depends on that record alone (see
docs/promise.md). Some public images are encoded beside each other, in other positions beside other
neighbours, and alone. A single bit that differs refuses the encoder. A hostile encoder can tell
the probe's images from private ones and behave, so this is evidence and no proof: that encoders
are independent is among the assumptions that a release states.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import BackendError
from understudy.core.independence import filled
from understudy.core.types import Embeddings, Images, Shape
from understudy.privacy.rows import RECORDS_PER_CALL

Positions = NDArray[np.intp]

SECONDS = 2.0
"""What the probes of a run may take; a slow encoder is looked at in two calls instead of four."""


def probe_records(shape: Shape, count: int) -> NDArray[Any]:
    """Public records of a shape, (count, *shape): images, or embeddings of many lengths."""
    if len(shape) == 3:
        return probe_images(shape, count)
    bits = hashlib.shake_256(b"public embeddings").digest(count * math.prod(shape))
    numbers = np.frombuffer(bits, dtype=np.uint8).reshape(count, *shape)
    lengths = np.geomspace(1e-3, 1e2, count).reshape(-1, *[1] * len(shape))
    lengths[:1] = 0
    return np.asarray(lengths * (numbers / 127.5 - 1), dtype=np.float32)


def probe_images(shape: Shape, count: int) -> Images:
    """Public images of many kinds, (count, *shape) uint8: black, white, ramps, blocks, noise."""
    height, width, _ = shape
    noise = hashlib.shake_256(b"public images").digest(count * math.prod(shape))
    images = np.frombuffer(noise, dtype=np.uint8).reshape(count, *shape).copy()
    ramp = np.linspace(0, 255, height * width).reshape(height, width, 1)
    heights = np.linspace(0.1, 1.0, len(images[1::4]))[:, None, None, None]
    images[1::4] = (ramp * heights).astype(np.uint8)
    images[2::4] = images[2::4, :1, :1]  # one colour each
    images[:1], images[1:2] = 0, 255
    return images


def require_independent(
    encode: Callable[[NDArray[Any]], Embeddings],
    shape: Shape,
    name: str,
    *,
    batch: int = RECORDS_PER_CALL,
    dim: int | None = None,
    seconds: float = SECONDS,
    spent: str = "Nothing was spent",
) -> None:
    """Refuse an encoder whose embedding of a record depends on anything but the record.

    Every call has the shape that `Vault.map` gives it, and has to give finite numbers, a row each.

    Args:
        encode: As it will be given to `Vault.map`.
        shape: (height, width, channels) of the private images, or (d,) of embeddings. Public.
        name: The model, for the message.
        batch: As it will be given to `Vault.map`.
        dim: Numbers of an embedding, as the model states it; None: any number.
        seconds: After this time no call begins but the first two.
        spent: What the message says of the budget.

    Raises:
        BackendError: Naming the model and what its embeddings are or depend on.
    """

    def bits(records: NDArray[Any]) -> NDArray[np.uint8]:
        result = encode(given := records.copy())
        try:
            return _bits(result, np.array_equal(given, records), batch, dim)
        except ValueError as error:
            raise BackendError(f"{name} is refused: {error}. {spent}") from error

    images, half = probe_records(shape, batch), np.arange(batch)[::2]
    # Half of the records in other positions, beside others and black images, without the white one.
    others = np.flip(images[3 : batch // 2], axis=2 if len(shape) == 3 else 1)
    companions, position = filled(others, batch), batch - 1 - half
    companions[position] = images[half]
    all_positions = np.arange(batch)
    trials: list[tuple[str, Positions, Images, Positions]] = [
        ("its position or its neighbours", half, companions, position),
        ("whether it is alone", all_positions[-1:], filled(images[-1:], batch), all_positions[:1]),
        ("the order of the batch", all_positions, images[::-1], all_positions[::-1]),
    ]
    start = time.perf_counter()
    embeddings = bits(images)
    for calls, (dependence, index, changed_batch, positions) in enumerate(trials, 1):
        elapsed = time.perf_counter() - start
        if calls > 1 and elapsed * (calls + 1) / calls > seconds:
            return
        changed = bits(np.ascontiguousarray(changed_batch))[positions]
        if not np.array_equal(embeddings[index], changed):
            raise BackendError(
                f"{name} is refused: its embedding of an image depends on {dependence}, so one "
                f"image can change what others add, which no noise covers. {spent}. Put "
                "the network into inference mode, without statistics of the batch; on a GPU take "
                "?dtype=float32 or ?device=cpu; or take another model, such as embedded:dct"
            )


def _bits(result: Any, unchanged: bool, batch: int, dim: int | None) -> NDArray[np.uint8]:
    """The bytes of each embedding, (n, bytes); a ValueError where they are no embeddings.

    Or where the records are not ``unchanged`` of which they are made.
    """
    if not unchanged:
        raise ValueError("it changes the records that it is given: let it change a copy")
    rows = np.asarray(result)
    is_matrix = rows.ndim == 2 and len(rows) == batch and dim in (None, rows.shape[1])
    if not is_matrix or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"of {batch} public records it made {rows.dtype} of shape {rows.shape}, where numbers "
            f"of shape ({batch}, {'d' if dim is None else dim}) are expected"
        )
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("of public records it made NaN or infinite numbers")
    return numbers.view(np.uint8)
