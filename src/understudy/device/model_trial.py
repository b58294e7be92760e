"""A trial: a model is read, checked and run in a process of its own, with little memory and time.

The process (``python -m understudy.device.model_trial``) is given the bytes and some photos. It
checks the file (`model_check`), loads it, and runs it on images of its own and on the photos: each
by itself, in random order, and all in batches of another order. A model whose answer depends on
where an image stands, or on the others of its batch, is refused, and so is one whose answers are no
scores or boxes. Where the process takes too much it is killed. It answers in JSON, of which nothing
but labels and a line of text is believed.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from understudy.backends.onnx_model import OnnxModel, OnnxOptions, require_onnx_runtime
from understudy.core.errors import BackendError, RunError, WireError
from understudy.core.types import Images
from understudy.device.model_check import VALUES, check_model
from understudy.methods.sanitize.wire import ModelKind
from understudy.metrics.box_maps import decode_boxes

TRIAL_SECONDS = 8
"""Time of a trial, from when its libraries are loaded."""
MEMORY = 640 * 2**20
"""Bytes beyond those of its libraries."""
PHOTOS = 256
"""Photos of a trial at most; more are drawn from by chance."""
_OWN_SECONDS, _PHOTO_SECONDS = 2.0, 4.0
"""Time for images of its own and for photos. What is left out is so by chance: the order is."""
_STARTING_SECONDS = 30
_ANSWER_BYTES = 2**16
_LOGIT = 1e4
"""Largest number of a detector's maps: exp(10) is 22,026, so that no box or score needs more."""
_SAME = 1e-3
"""By how much of its largest number a result may differ in a batch: float32 in another order."""

Run = Callable[[Images], NDArray[np.float32]]
"""A model: from (n, side, side, 3) uint8 images to n results."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a model answered.

    Attributes:
        labels: Of a classifier, the index of the class that it gave to each; none of a detector.
    """

    rows: tuple[int, ...]
    labels: tuple[int, ...]


def try_model(
    data: bytes, kind: ModelKind, side: int, classes: int, photos: Images | None = None
) -> TrialResult:
    """Check a model and run it, in a process with limits.

    ``photos``: (n, side, side, 3) uint8 that it is to judge; `PHOTOS` of them at most are.

    Raises:
        WireError: It is refused, or took too much memory or time; nothing of it is quoted.
        RunError: No process could be started, which says nothing of the model.
    """
    count = 0 if photos is None else len(photos)
    order = np.random.default_rng(secrets.randbits(128)).permutation(count)[:PHOTOS]
    images = np.empty((0, side, side, 3), np.uint8) if photos is None else photos[order]
    head = {
        "kind": kind,
        "side": side,
        "classes": classes,
        "bytes": len(data),
        "photos": len(images),
    }
    body = json.dumps(head).encode() + b"\n" + data + np.ascontiguousarray(images).tobytes()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            # -P: no file of the folder that the owner is in takes the place of a library
            [sys.executable, "-P", "-m", "understudy.device.model_trial"],
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_STARTING_SECONDS + TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WireError("the model is refused: its trial took too long") from None
    return _believed(done.returncode, done.stdout, kind, classes, order)


def _believed(
    code: int, answer: bytes, kind: ModelKind, classes: int, order: NDArray[np.int64]
) -> TrialResult:
    """The answer of the process, of which every field is checked: a model may have written it."""
    started, _, line = answer.partition(b"\n")
    if started != b"started":
        raise RunError(f"the process that tries models could not be started (status {code})")
    if code < 0:
        late = -code in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL)
        took = (
            f"more than {TRIAL_SECONDS} seconds" if late else "more memory than it may, or crashed"
        )
        raise WireError(f"the model is refused: its trial took {took}")
    try:
        fields = json.loads(line[:_ANSWER_BYTES])
        if isinstance(reason := fields.get("refused"), str):
            text = "".join(letter for letter in reason[:200] if " " <= letter <= "~")
            raise WireError(text or "the model is refused")
        labels = [int(label) for label in fields["labels"]]
        judged = int(fields["judged"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise WireError("the model is refused: its trial gave no answer") from None
    expected = judged if kind == "classifier" else 0
    fits = 0 <= judged <= len(order) and len(labels) == expected
    if not fits or not all(0 <= label < classes for label in labels):
        raise WireError("the model is refused: its trial gave no answer")
    return TrialResult(tuple(order[:judged].tolist()), tuple(labels))


def judged(run: Run, images: Images, batch: int, seconds: float) -> NDArray[np.float32]:
    """(m, ...) results of the first images, one by one, as many as the time allows.

    Args:
        run: Results of (n, side, side, 3) images.
        images: One or more.
        batch: How many are run at a time to compare.
        seconds: Half of it is for single images, the rest for batches; one of each is run.

    Raises:
        WireError: An image gives another result in a batch of others.
    """
    start = time.monotonic()
    singles: list[NDArray[np.float32]] = []
    for row in range(len(images)):
        if row > 0 and time.monotonic() > start + seconds / 2:
            break
        singles.append(run(images[row : row + 1])[0])
    results = np.stack(singles)
    order = np.random.default_rng(secrets.randbits(128)).permutation(len(results))
    order = np.resize(order, max(batch, len(order)))
    bound = _SAME * max(1.0, float(np.abs(results).max()))
    for at in range(0, len(order), batch):
        if at > 0 and time.monotonic() > start + seconds:
            break
        rows = order[at : at + batch]
        if np.abs(run(images[rows]) - results[rows]).max() > bound:
            raise WireError(
                "the model is refused: its answer to an image depends on the others of its batch, "
                "or on their order"
            )
    return results


def check_boxes(maps: NDArray[np.float32], side: int) -> None:
    """Refuse a detector's maps that are no boxes inside of the image with scores in [0, 1].

    Raises:
        WireError: They are not.
    """
    for boxes in decode_boxes(maps, (side, side), certainty=0):
        values = boxes.boxes
        flat = (values[:, 2:] <= values[:, :2]).any()
        if flat or (values < 0).any() or (values > side).any() or (abs(maps) > _LOGIT).any():
            raise WireError("the model is refused: it states boxes that are none")


class _Trial:
    """The model in the process."""

    def __init__(self, data: bytes, kind: ModelKind, side: int, classes: int) -> None:
        cost = check_model(data, kind, side, classes)
        self._kind, self._side, self._shape = kind, side, cost.output
        self._batch = max(2, min(16, VALUES // (2 * cost.values)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(data)
            self._model = OnnxModel(str(path), OnnxOptions(batch=self._batch, threads=1))

    def judge(self, images: Images, seconds: float) -> NDArray[np.float32]:
        results = judged(self._run, images, self._batch, seconds)
        if self._kind == "detector":
            check_boxes(results, self._side)
        return results

    def _run(self, images: Images) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)
        result = self._model.run(rows)
        if result.shape != (len(images), *self._shape):
            raise WireError("the model is refused: its results are of another size than it states")
        return result


def _own_images(side: int) -> Images:
    """Black, white, a gradient, a board, and noise: what any network of images can take."""
    rows, columns = np.mgrid[0:side, 0:side]
    board = ((rows // 4 + columns // 4) % 2 * 255).astype(np.uint8)
    gradient = (columns * 255 // max(1, side - 1)).astype(np.uint8)
    flat = [np.zeros_like(board), np.full_like(board, 255), board, gradient]
    noise = np.random.default_rng(secrets.randbits(128)).integers(0, 256, (4, side, side, 3))
    return np.concatenate([np.stack([np.stack([one] * 3, -1) for one in flat]), noise]).astype(
        np.uint8
    )


def _limit() -> None:
    """Bound this process from here on, in memory and time; breaking a bound kills it."""
    used = 0
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        used = int(statistics.read_text().split()[0]) * resource.getpagesize()
    for what, bound in ((resource.RLIMIT_AS, used + MEMORY), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(what)
        if hard == resource.RLIM_INFINITY or bound < hard:
            resource.setrlimit(what, (bound, bound))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, TRIAL_SECONDS)


def _answer(source: BinaryIO) -> dict[str, object]:
    head = json.loads(source.readline())
    kind, side = head["kind"], head["side"]
    data = source.read(head["bytes"])
    photos = np.frombuffer(source.read(), np.uint8).reshape(head["photos"], side, side, 3)
    _limit()
    try:
        trial = _Trial(data, kind, side, head["classes"])
        trial.judge(_own_images(side), _OWN_SECONDS)
        results = trial.judge(photos, _PHOTO_SECONDS) if len(photos) else np.empty((0, 1))
    except WireError as error:
        return {"refused": str(error)}
    except BackendError:  # what the runtime says of it may quote it
        return {"refused": "the model is refused: it cannot be run, or its answers are not finite"}
    except MemoryError:
        return {"refused": "the model is refused: its trial took more memory than it may"}
    labels = results.argmax(axis=1).tolist() if kind == "classifier" else []
    return {"judged": len(results), "labels": labels}


if __name__ == "__main__":
    require_onnx_runtime()  # loaded before the limits: its memory is none of the model's
    print("started", flush=True)
    print(json.dumps(_answer(sys.stdin.buffer)), flush=True)
