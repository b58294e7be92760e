"""DP k-means by diffprivlib, on the same points and at the same epsilon as ours.

diffprivlib 0.6.6 does not import beside scikit-learn 1.8 and later, so it runs in a virtual
environment of its own, made on the first call (a minute; under the user's cache folder, or where
``UNDERSTUDY_BENCH_ENVS`` says). Points go there as npz, centres come back as JSON.

    from benchmarks.kmeans_peers import cost, make_clusters, peer
    points, centres = make_clusters(20_000, 16, 5, seed=0)
    other = peer(points, 5, epsilon=1.0)          # .centres, .seconds, .cost

    python -m benchmarks.kmeans_peers             # the peer alone, on the workloads of the table

diffprivlib is pure epsilon-DP (Laplace noise), so it has no delta. It protects the replacement of
a row, and takes the number of rows and the bounds of each coordinate as public.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.floating[Any]]

PINNED = ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy==2.4.6", "scipy==1.17.1")
"""What the separate environment holds."""

WORKLOADS = ((20_000, 16, 5, 1.0), (20_000, 512, 10, 1.0), (20_000, 512, 10, 10.0))
"""(rows, dimensions, clusters, epsilon) that :func:`main` runs."""

_WORKER = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import KMeans
asked = json.loads(sys.argv[2])
with np.load(sys.argv[1], allow_pickle=False) as file:
    points = file["points"]
start = time.perf_counter()
model = KMeans(asked["k"], epsilon=asked["epsilon"], bounds=(-asked["bound"], asked["bound"]),
               random_state=asked["seed"]).fit(points)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "centres": model.cluster_centers_.tolist()}))
"""


@dataclass(frozen=True)
class Clustering:
    """What a k-means found."""

    name: str  # who found it
    centres: Points  # (k, d)
    cost: float  # k-means cost of the points for these centres, see :func:`cost`
    seconds: float  # time to fit, without starting Python or reading the points


def make_clusters(n: int, d: int, k: int, seed: int) -> tuple[Points, Points]:
    """Points of k equal Gaussian clusters inside the unit ball: ((n, d) float32, (k, d) centres).

    Centres lie at random on the sphere of radius 0.5; points scatter around theirs with a norm of
    about 0.25 whatever d is, and those that would leave the ball are pulled onto it.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d))
    centres *= 0.5 / np.linalg.norm(centres, axis=1, keepdims=True)
    points = centres[rng.integers(0, k, n)] + rng.normal(0, 0.25 / np.sqrt(d), (n, d))
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1)
    return points.astype(np.float32), centres


def cost(points: Points, centres: Points, *, block: int = 16_384) -> float:
    """Mean squared distance of a point to its nearest centre; lower is better. Not private."""
    lengths = (centres.astype(np.float64) ** 2).sum(1)
    total = 0.0
    for start in range(0, len(points), block):
        part = points[start : start + block].astype(np.float64)
        squares = (part**2).sum(1)[:, None] - 2 * part @ centres.T + lengths
        total += float(np.maximum(squares.min(1), 0).sum())
    return total / len(points)


def peer(points: Points, k: int, epsilon: float, *, seed: int = 0) -> Clustering:
    """diffprivlib's DP k-means.

    It clips to a box. The tightest one around these points is taken, as if it were public, which
    helps it a good deal in high dimensions.

    Args:
        points: (n, d).
        k: Number of clusters.
        epsilon: Of the centres; delta is 0.
        seed: Of its noise and its first centres.

    Raises:
        RuntimeError: The environment cannot be made, or diffprivlib fails; with its last words.
    """
    bound = float(np.abs(points).max())
    asked = json.dumps({"k": k, "epsilon": epsilon, "bound": bound, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "points.npz"
        np.savez(file, points=points)
        told = _run([str(_python()), "-c", _WORKER, str(file), asked])
    found = json.loads(told)
    centres = np.array(found["centres"])
    return Clustering("diffprivlib", centres, cost(points, centres), found["seconds"])


def _python() -> Path:
    """The interpreter of the separate environment, which is made first if need be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(os.environ.get("UNDERSTUDY_BENCH_ENVS") or cache / "understudy-bench")
    place = place / "diffprivlib"
    python, done = place / "bin" / "python", place / "pinned.json"
    if not done.is_file() or json.loads(done.read_text(encoding="utf-8")) != list(PINNED):
        print(f"making {place} for diffprivlib (once)", file=sys.stderr)
        venv.create(place, with_pip=True, clear=True)
        _run([str(python), "-m", "pip", "install", "--quiet", *PINNED])
        done.write_text(json.dumps(PINNED), encoding="utf-8")
    return python


def _run(command: list[str]) -> str:
    # Without the caller's PYTHONPATH, which could bring the wrong scikit-learn back in.
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=clean)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def main() -> None:
    """Print time and cost of the peer, between the cost of the true centres and of one centre."""
    heads = ("rows", "dim", "k", "epsilon", "seconds", "cost", "true centres", "one centre")
    print("".join(f"{head:>14}" for head in heads))
    for n, d, k, epsilon in WORKLOADS:
        points, truth = make_clusters(n, d, k, seed=0)
        found = peer(points, k, epsilon)
        bounds = cost(points, truth), cost(points, points.mean(0, keepdims=True))
        row = (n, d, k, epsilon, found.seconds, found.cost, *bounds)
        print("".join(f"{value:>14.4g}" for value in row), flush=True)


if __name__ == "__main__":
    main()
