"""Every shipped DP method, ready to run again and again on rows that take a moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.methods.colour_world import Eye, Painter, Pen, Squares

from understudy.methods.evolution import METHOD, EvolutionParams
from understudy.methods.parts.interface import Context
from understudy.privacy.account import Plan, run_mu_of
from understudy.privacy.budget import Budget
from understudy.privacy.unit import Unit
from understudy.run.auditing.neighbours import Rows
from understudy.run.auditing.runs import Bench
from understudy.run.config import make_config
from understudy.run.prepare import prepare

NAMES = np.array(["cat", "dog"])
METHODS = ("clustering", "alignment", "evolution")


@dataclass(frozen=True)
class Ready:
    bench: Bench
    rows: Rows


def clouds(path: Path, seed: int, per_class: int = 30, dim: int = 4, people: int = 0) -> Path:
    """An npz of embeddings: two classes, a cloud each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(2), per_class)
    values = (2.0 * labels[:, None] + rng.normal(size=(len(labels), dim))).astype(np.float32)
    columns: dict[str, Any] = {"embeddings": values, "labels": NAMES[labels]}
    if people:
        columns["person"] = np.array([f"p{i % people}" for i in range(len(labels))])
    np.savez(path, **columns)
    return path


def ready(method: str, folder: Path, **options: Any) -> Ready:
    """A method on tiny embeddings; evolution on coloured squares."""
    if method == "evolution":
        return squares(options.get("epsilon", 1.0))
    given = {"count": 20, "source": clouds(folder / "private.npz", 0), "out": folder / "out"}
    if method == "alignment":
        given |= {"base": str(clouds(folder / "base.npz", 1)), "settings": {"clusters": 2}}
    prepared = prepare(make_config({**given, "method": method, **options}))
    return Ready(Bench.of(prepared), Rows.of(prepared.source))


def squares(epsilon: float) -> Ready:
    source = Squares({"cat": ["red"] * 20 + ["blue"] * 10, "dog": ["green"] * 30})
    budget = Budget(epsilon, 1e-5)
    context = Context(
        source.shape,
        Eye(),
        decoder=None,
        public=False,
        mu=run_mu_of(budget),
        classes=source.classes,
        count=12,
        generator=Painter(),
        writer=Pen(),
    )
    params = METHOD.settle(EvolutionParams(population=16, rounds=2, lookahead=0), context)
    plan = Plan.of(budget, METHOD.weights(params, context))
    return Ready(Bench(METHOD, params, plan, context, Unit()), Rows.of(source))
