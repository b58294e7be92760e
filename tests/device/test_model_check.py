"""Hostile models are refused or stopped in time; what the server trains is installed."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.device import hostile_models
from tests.device.device_site import colour_model
from tests.device.hostile_models import HOSTILE, Hostile, before, node
from tests.methods.sanitize.painted_world import SIDE

from understudy.core.errors import WireError
from understudy.core.types import Images
from understudy.device.model_check import MULTIPLICATIONS, VALUES, check_model
from understudy.device.model_trial import _believed, check_boxes, judged, try_model
from understudy.methods.sanitize.wire import MODEL_BYTES, ModelKind

SECONDS, GIGABYTE = 10, 2**30
_TRIALS = """
import json, resource, sys
from pathlib import Path
from understudy.core.errors import WireError
from understudy.device.model_trial import try_model
def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
for path in map(Path, sys.argv[2:]):
    start, reason = spent(), None
    try:
        try_model(path.read_bytes(), path.suffix[1:], int(sys.argv[1]), 2)
    except WireError as error:
        reason = str(error)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps([path.name, spent() - start, peak, reason]), flush=True)
"""


def trials(folder: Path, models: list[tuple[str, ModelKind, bytes]], side: int) -> dict[str, Any]:
    """Seconds of a processor, bytes of memory so far and reason of a trial of each.

    From a process of its own. How long a trial takes besides is for other processes to say.
    """
    paths = []
    for name, kind, data in models:
        paths.append(folder / f"{name}.{kind}")
        paths[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _TRIALS, str(side), *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name.partition(".")[0]: tuple(rest) for name, *rest in lines}


def test_there_are_more_than_forty_models_and_no_two_alike() -> None:
    assert len({one.name for one in HOSTILE}) == len(HOSTILE) > 40
    assert len(hostile_models.DETECTORS) >= 5


@pytest.mark.parametrize(
    "hostile", [one for one in HOSTILE if not one.runs], ids=lambda one: one.name
)
def test_a_hostile_file_is_refused_before_it_is_run(hostile: Hostile) -> None:
    with pytest.raises(WireError, match=hostile.reason):
        check_model(hostile.data(), hostile.kind, SIDE, hostile_models.CLASSES)


@pytest.fixture(scope="module")
def hostile_trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = [(f"{k}", one.kind, one.data()) for k, one in enumerate(HOSTILE) if one.runs]
    return trials(tmp_path_factory.mktemp("hostile"), run, SIDE)


@pytest.mark.parametrize(
    "number", [k for k, one in enumerate(HOSTILE) if one.runs], ids=lambda k: HOSTILE[k].name
)
def test_a_hostile_model_is_stopped_in_its_trial(
    number: int, hostile_trials: dict[str, Any]
) -> None:
    seconds, peak, reason = hostile_trials[str(number)]
    assert reason is not None
    assert re.search(HOSTILE[number].reason, reason)
    assert seconds < SECONDS
    assert peak < GIGABYTE


def largest_values() -> bytes:
    """As many numbers as are allowed, all of them alive at a time."""
    filters, count = 1024, VALUES // (1024 * SIDE**2) - 2
    weights = {"a": np.full((filters, 3, 1, 1), 1e-3), "z": np.full((3, filters, 1, 1), 1e-3)}
    half = count // 2
    nodes = [node("Conv", ["images", "a"], ["r0"])]
    nodes += [node("Sigmoid", [f"r{k}"], [f"r{k + 1}"]) for k in range(half)]
    nodes += [node("Add", [f"s{k + 1}" if k < half - 1 else f"r{half}", f"r{k}"], [f"s{k}"])
              for k in reversed(range(half))]  # fmt: skip
    return before([*nodes, node("Conv", ["s0", "z"], ["x"])], weights)


def largest_work() -> bytes:
    """As many multiplications as are allowed, on numbers so small that they are slow."""
    filters = 400
    count = (MULTIPLICATIONS - 10**8) // (filters**2 * 9 * SIDE**2)
    weights = {
        "a": np.full((filters, 3, 1, 1), 1e-39),
        "b": np.full((filters, filters, 3, 3), 1e-4),
        "z": np.full((3, filters, 1, 1), 1e-3),
    }
    layers = [node("Conv", ["images", "a"], ["v0"])]
    layers += [node("Conv", [f"v{k}", "b"], [f"v{k + 1}"], pads=[1] * 4) for k in range(count)]
    return before([*layers, node("Conv", [f"v{count}", "z"], ["x"])], weights)


@pytest.mark.slow
def test_what_passes_the_check_stays_within_the_bounds_of_a_trial(tmp_path: Path) -> None:
    models: list[tuple[str, ModelKind, bytes]] = [
        ("values", "classifier", largest_values()),
        ("work", "classifier", largest_work()),
    ]
    for _, kind, data in models:
        check_model(data, kind, SIDE, 2)
    for name, (seconds, peak, _) in trials(tmp_path, models, SIDE).items():
        assert seconds < SECONDS, name
        assert peak < GIGABYTE, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "code"),
    [
        ("model_trial.TRIAL_SECONDS = 1\nmodel_trial._limit()\nwhile True: pass", -signal.SIGALRM),
        ("print(len(bytearray(model_trial.MEMORY * 5 // 4)))", 1),  # a MemoryError
        ("print(len(bytearray(model_trial.MEMORY // 2)))", 0),
    ],
    ids=["time", "memory", "within both"],
)
def test_the_process_of_a_trial_is_stopped(work: str, code: int) -> None:
    limit = "from understudy.device import model_trial\nmodel_trial._limit()"
    words = [sys.executable, "-c", f"{limit}\n{work}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("MemoryError" in done.stderr) == (code == 1)


@pytest.mark.parametrize(
    ("code", "answer", "problem"),
    [
        (-signal.SIGALRM, b"started\n", "more than 8 seconds"),
        (-signal.SIGABRT, b"started\n", "more memory"),
        (0, b"started\n", "no answer"),
        (0, b"started\n[]", "no answer"),
        (0, b"started\n{}", "no answer"),
        (0, b"started\n" + b"[" * 60000, "no answer"),
        (0, b'started\n{"judged": 2, "labels": [0]}', "no answer"),
        (0, b'started\n{"judged": 9, "labels": [0,0,0,0,0,0,0,0,0]}', "no answer"),
        (0, b'started\n{"judged": 1, "labels": [7]}', "no answer"),
        (0, b'started\n{"judged": 1, "labels": ["x"]}', "no answer"),
        (0, b'started\n{"refused": "the model is refused: \\u001b[2J"}', r"refused: \[2J$"),
    ],
)
def test_nothing_but_labels_is_believed_of_a_trial(code: int, answer: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        _believed(code, answer, "classifier", 2, np.arange(3))
    fair = b'started\n{"judged": 2, "labels": [1, 0]}'
    assert _believed(0, fair, "classifier", 2, np.array([5, 4, 3])).rows == (5, 4)


def mean_level(images: Images) -> Any:
    return np.stack([images.mean(axis=(1, 2, 3)), -images.mean(axis=(1, 2, 3))], axis=1)


def by_row(images: Images) -> Any:
    return np.eye(2)[np.arange(len(images)) % 2]


def by_the_batch(images: Images) -> Any:
    levels = mean_level(images)
    return levels - levels.mean(axis=0)


def by_size(images: Images) -> Any:
    return mean_level(images) + (len(images) > 1) * 9


def test_an_answer_by_row_or_by_batch_is_refused_however_it_is_made() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    results = judged(mean_level, images, 16, 60)
    assert (results == mean_level(images)).all()
    for model in (by_row, by_the_batch, by_size):
        with pytest.raises(WireError, match="depends on the others"):
            judged(model, images, 16, 60)


@pytest.mark.parametrize("value", [1e5, -1e5, -1e9])
def test_boxes_that_are_none_are_refused(value: float) -> None:
    maps = np.zeros((2, 6, 4, 4), np.float32)
    check_boxes(maps, 32)
    maps[1, 3, 2, 2] = value
    with pytest.raises(WireError, match="boxes that are none"):
        check_boxes(maps, 32)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes"),
        (b"\0" * (MODEL_BYTES + 1), "are allowed"),
        (b"not a model at all", "not an ONNX file"),
        (colour_model()[:-40], "not an ONNX file|is refused"),
    ],
    ids=["empty", "too large", "text", "cut off"],
)
def test_other_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        check_model(data, "classifier", SIDE, 2)


def test_a_refusal_quotes_nothing_of_the_model() -> None:
    data = before([node("Mul", ["images", "secretword"], ["x"])], {"secretword": [3e38, 3e38]})
    with pytest.raises(WireError) as refusal:
        try_model(data, "classifier", SIDE, 2)
    assert "secretword" not in str(refusal.value)
