"""Record independence: crafted copies against each encoder, and what constant shapes cost.

Nine copies of an image against eight, and 64 k + 9 against 64 k + 8: one record more may change
the exact sums by the stated bound and no more. The questions are crafted for the encoder: two
candidates that are its embedding of eight copies and of nine, a centre between them, and radii as
short as their distance. So an encoder that rounds the two batches differently moves every copy.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import DATA, Table
from understudy.backends.registry import load_encoder
from understudy.core.errors import UnderstudyError
from understudy.core.ports import Encoder
from understudy.core.types import Batch, Vector
from understudy.engine.local import LocalEngine
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.cells import Cells
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.nearest import Nearest
from understudy.privacy.probe import require_independent
from understudy.privacy.queries import CountAndSum, DiagonalMoments, FullMoments, Query, Votes
from understudy.privacy.rows import RECORDS_PER_CALL
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

ENCODERS = {
    "studio": ("embedded:studio", (64, 64, 3)),
    "MobileNetV2": (f"onnx:{DATA / 'models' / 'mobilenet_v2_features.onnx'}", (64, 64, 3)),
    "scattering": ("embedded:scattering?log=10&coefficients=400", (28, 28, 1)),
    "DCT": ("embedded:dct", (28, 28, 1)),
}
COUNTS = (8, 64 + 8, 512 + 8)
_FULL = 64  # numbers of which full moments are asked
_TURNS, _PART = 3, 104 * 64  # 19,968 images: turns of whole calls pad no more than one run does
_IMAGES = _TURNS * _PART


class Copies:
    """A source of as many copies of each of some images."""

    kind = "images"
    classes = ("all",)
    has_units = False
    skipped = 0
    name = "copies"

    def __init__(self, images: NDArray[np.uint8], count: int) -> None:
        self.images, self.count = images, count
        self.shape = images.shape[1:]

    def __len__(self) -> int:
        return self.count

    def batches(self, size: int) -> Iterator[Batch]:
        """``size`` at a time."""
        for start in range(0, self.count, size):
            index = np.arange(start, min(start + size, self.count)) % len(self.images)
            yield Batch(self.images[index], np.zeros(len(index), dtype=np.int64))

    def digests(self, key: bytes) -> Iterator[bytes]:
        """Of each record."""
        return (index.to_bytes(16) for index in range(self.count))


def vault_of(source: Any, folder: Path) -> PrivateVault:
    """A vault of a source, that a sum may be asked of."""
    (folder / "cache").mkdir(parents=True)
    with Ledger(str(folder / "ledger.db")) as ledger:
        plan = Plan.of(Budget(1.0), {"a": 1.0})
        account = Account(ledger, "none", Unit(), plan, folder / "stages")
    # Encoders that mix records are what this looks at: they are not refused.
    return PrivateVault(source, account, LocalEngine(1), folder / "cache", probe=False)


def candidates(one: Vector, other: Vector) -> Vector:
    """Two candidates of which ``one`` is nearest to the first and ``other`` to the second: (2, d).

    Where no candidates part them, the two themselves.
    """
    rng = np.random.default_rng(0)
    middle, apart = (one + other) / 2, one - other
    apart /= max(float(np.linalg.norm(apart)), 1e-300)
    for _ in range(300):
        away = apart * np.linalg.norm(middle) * 2.0 ** rng.uniform(-6, 2)
        away *= rng.uniform(0.5, 1.0, len(away))
        shift = 2.0**-24 * np.linalg.norm(middle) * rng.normal(size=len(away))
        found = np.stack([middle + away + shift, middle - away + shift])
        if Nearest(found)(np.stack([one, other])).tolist() == [0, 1]:
            return found
    return np.stack([one, other])


def queries_of(one: NDArray[np.float32], other: NDArray[np.float32]) -> dict[str, Query]:
    """Questions crafted for two embeddings of the same image, (d,) each."""
    pair = np.stack([one, other]).astype(np.float64)
    if np.array_equal(one, other):  # the smallest step there is
        pair[0] = np.nextafter(one, np.float32(np.inf))
    middle, radius = pair.mean(axis=0), max(float(np.linalg.norm(pair[0] - pair[1])) / 2, 1e-30)
    return {
        "votes": Votes(candidates(*pair)[None]),
        "means": CountAndSum(Cells(middle[None, None]), radius),
        "moments": DiagonalMoments(Cells(pair[None, :1]), radius),
        "full moments": FullMoments(Cells(pair[None, :1, :_FULL]), radius),
    }


def changes(encoder: Encoder, image: NDArray[np.uint8], count: int) -> dict[str, float]:
    """L2 change of each exact sum, over its bound, for ``count`` + 1 copies against ``count``."""
    copies = np.repeat(image[None], 9, axis=0)
    queries = queries_of(encoder.encode(copies[:8])[0], encoder.encode(copies)[0])
    sums: list[dict[str, NDArray[np.int64]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in (count, count + 1):
            vault = vault_of(Copies(image[None], number), Path(folder) / str(number))
            rows = vault.map(encoder.encode)
            leading = rows.view(lambda values: values[:, :_FULL])
            found = {}
            for name, query in queries.items():
                asked = leading if name == "full moments" else rows
                found[name] = asked._exact(query, query.grid(4 * query.bound))
            sums.append(found)
    result = {}
    for name, query in queries.items():
        step = query.grid(4 * query.bound)
        # Off the diagonal of full moments numbers count twice.
        weights = 1.0 if query.weights is None else query.weights
        change = (sums[1][name] - sums[0][name]) * weights * step
        result[name] = float(np.linalg.norm(change)) / query.bound
    return result


def crafted(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The image: noise, which no kernel rounds by luck."""
    return np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)


def seconds(encoder: Encoder, shape: tuple[int, ...]) -> tuple[float, float]:
    """Processor seconds to embed the images by a vault: a call for each read batch, and as it is.

    A call for each batch of 512 that is read was what a vault did before calls had one shape.
    """
    images = np.random.default_rng(0).integers(0, 256, (512, *shape), dtype=np.uint8)
    spent = {512: 0.0, RECORDS_PER_CALL: 0.0}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(_TURNS):  # because other work on the machine comes and goes
            for size in spent:
                vault = vault_of(Copies(images, _PART), Path(folder) / f"{turn} {size}")
                start = time.process_time()
                vault.map(encoder.encode, batch=size)
                spent[size] += time.process_time() - start
    return spent[512], spent[RECORDS_PER_CALL]


def opened() -> Iterator[tuple[str, Encoder, tuple[int, ...]]]:
    """The encoders that are here."""
    for name, (model, shape) in ENCODERS.items():
        try:
            yield name, load_encoder(model, shape=shape), shape
        except UnderstudyError as error:
            print(f"{name}: skipped, {error}")


def main() -> None:
    """Both tables."""
    title = "one copy more: change of the exact sums over their bound (at most 1)"
    table = Table(title, ("encoder", "copies", "votes", "means", "moments", "full moments"))
    for name, encoder, shape in opened():
        for count in COUNTS:
            found = changes(encoder, crafted(shape), count).values()
            table.row(name, f"{count + 1}", *(f"{value:.3f}" for value in found))
    title = f"processor seconds for {_IMAGES:,} images, and wall-clock seconds of the probe"
    columns = ("encoder", "calls of 512", f"of {RECORDS_PER_CALL}", "ratio", "probe")
    cost = Table(title, columns)
    for name, encoder, shape in opened():
        start = time.perf_counter()
        require_independent(encoder.encode, shape, name)
        probe = time.perf_counter() - start
        before, now = seconds(encoder, shape)
        cost.row(name, before, now, f"{now / before:.3f}", probe)
