"""One training loop for every stage: it stops and goes on at any moment, and shows what it does."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from understudy.core.types import Images


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast one stage learns.

    Attributes:
        steps: Steps of the optimiser in all.
        batch: Rows a step.
        rate: Highest learning rate; it rises over ``warmup`` steps and falls to 2 % of itself.
        warmup: Steps it rises.
        decay: Weight decay (AdamW).
        average: Decay of the exponential average of the weights, which is what is kept.
        momentum: Decay of the average of the gradients (AdamW's first beta); less of it steadies
            networks that learn against each other.
    """

    steps: int
    batch: int
    rate: float
    warmup: int = 300
    decay: float = 0.01
    average: float = 0.999
    momentum: float = 0.9

    def at(self, step: int) -> float:
        """The learning rate at a step: linear warm-up, then a half cosine."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and how to train.

    Attributes:
        device: Of the networks.
        bfloat16: Whether products run in bfloat16 (weights and averages stay float32); None: on a
            GPU they do, on a processor not. One that has instructions for it is faster with it by
            half for the diffusion network and twice for the decoder; another is far slower.
        compile: Whether to compile the network first.
        save_every: Seconds between two checkpoints.
        seed: Of the order of the rows and of every random draw.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    bfloat16: bool | None = None
    compile: bool = False
    save_every: float = 120.0
    seed: int = 0


class Stage(Protocol):
    """One network being trained.

    Attributes:
        name: Of its folder.
        network: What learns.
        rows: How many rows there are to learn from.
    """

    name: str
    network: Any
    rows: int

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """The loss on some rows, by part; their sum is what falls."""
        ...

    def sheet(self) -> Images | None:
        """(n, height, width, 3) uint8 pictures that show how far it is, of ``network``."""
        ...


Report = Callable[[str, int, int, dict[str, float]], None]
"""Told (stage, step, steps, losses) now and then."""


def train(
    stage: Stage,
    schedule: Schedule,
    machine: Machine,
    folder: Path,
    report: Report,
    show: Callable[[Images, int], None] | None = None,
) -> None:
    """Train a stage to the end of its schedule; its network then holds the averaged weights.

    A run that was stopped goes on from its last checkpoint: with the same order of rows and the
    same draws it would have had, since both depend on the seed and the step only.

    Args:
        stage: What to train.
        schedule: How long and how fast.
        machine: Where.
        folder: For ``checkpoint.pt`` and ``losses.jsonl``.
        report: Told the losses.
        show: Given the sheet and its step each time a checkpoint is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = _Run(stage, schedule, machine, folder)
    run.read()
    saved, told = time.monotonic(), time.monotonic()
    sums: dict[str, float] = {}
    since = 0
    while run.step < schedule.steps:
        for key, value in run.advance().items():
            sums[key] = sums.get(key, 0.0) + value
        since += 1
        now = time.monotonic()
        last = run.step == schedule.steps
        if last or now - told > 10:
            losses = {key: value / since for key, value in sums.items()}
            with (folder / "losses.jsonl").open("a") as file:
                file.write(json.dumps({"step": run.step, **losses}) + "\n")
            report(stage.name, run.step, schedule.steps, losses)
            told, sums, since = now, {}, 0
        if last or now - saved > machine.save_every:
            run.write()
            saved = now
            if show is not None:
                run.shown(show)
    run.finish()


class _Run:
    """The state of one training: weights, their average, the optimiser, the step."""

    def __init__(self, stage: Stage, schedule: Schedule, machine: Machine, folder: Path) -> None:
        self.stage, self.schedule, self.machine = stage, schedule, machine
        self.file = folder / "checkpoint.safetensors"
        self.step = 0
        stage.network.to(device=machine.device, memory_format=torch.channels_last)
        self.average = {k: v.detach().clone() for k, v in stage.network.state_dict().items()}
        learning = [part for part in stage.network.parameters() if part.requires_grad]
        self.optimiser = torch.optim.AdamW(
            learning,
            lr=schedule.rate,
            weight_decay=schedule.decay,
            betas=(schedule.momentum, 0.99),
            fused=True,
        )
        self._order: tuple[int, torch.Tensor] | None = None
        self._loss = torch.compile(stage.loss) if machine.compile else stage.loss

    def rows(self) -> torch.Tensor:
        """The rows of this step: every row once before any comes again."""
        batch, rows = self.schedule.batch, self.stage.rows
        first = self.step * batch
        picked = []
        for place in range(first, first + batch):
            turn, at = divmod(place, rows)
            if self._order is None or self._order[0] != turn:
                order = np.random.default_rng([self.machine.seed, turn]).permutation(rows)
                self._order = (turn, torch.from_numpy(order))
            picked.append(int(self._order[1][at]))
        return torch.tensor(picked)

    def advance(self) -> dict[str, float]:
        """One step of the optimiser."""
        machine, network = self.machine, self.stage.network
        seed = int(np.random.SeedSequence([machine.seed, self.step]).generate_state(1)[0])
        random = torch.Generator(machine.device).manual_seed(seed)
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule.at(self.step)
        network.train()
        half = machine.device.type != "cpu" if machine.bfloat16 is None else machine.bfloat16
        with torch.autocast(machine.device.type, torch.bfloat16, enabled=half):
            losses = self._loss(self.rows(), random)
        total = torch.stack([value.float() for value in losses.values()]).sum()
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        self._follow()
        return {key: float(value.detach()) for key, value in losses.items()}

    @torch.no_grad()
    def _follow(self) -> None:
        keep = min(self.schedule.average, (1 + self.step) / (10 + self.step))
        floats, news = [], []
        for key, value in self.stage.network.state_dict().items():
            if value.is_floating_point():
                floats.append(self.average[key])
                news.append(value)
            else:
                self.average[key].copy_(value)
        torch._foreach_lerp_(floats, news, 1 - keep)

    def write(self) -> None:
        """Write the checkpoint; a kill in between leaves the one before."""
        tensors = {f"average/{key}": value for key, value in self.average.items()}
        for key, value in self.stage.network.state_dict().items():
            tensors[f"network/{key}"] = value
        for at, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{at}/{key}": value for key, value in state.items()}
        new = self.file.with_suffix(".new")
        whole = {key: value.detach().contiguous() for key, value in tensors.items()}
        save_file(whole, new, metadata={"step": str(self.step)})
        os.replace(new, self.file)

    def read(self) -> None:
        """Go on from the checkpoint, if there is one."""
        if not self.file.is_file():
            return
        with safe_open(self.file, "pt", device=str(self.machine.device)) as file:
            self.step = int(file.metadata()["step"])
            parts = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        network = self.stage.network
        network.load_state_dict({key: parts[f"network/{key}"] for key in self.average})
        for key, value in self.average.items():
            value.copy_(parts[f"average/{key}"])
        learning = [part for group in self.optimiser.param_groups for part in group["params"]]
        state: dict[int, dict[str, torch.Tensor]] = {at: {} for at in range(len(learning))}
        for key, value in parts.items():
            kind, _, rest = key.partition("/")
            if kind == "optimiser":
                at, _, name = rest.partition("/")
                like = learning[int(at)]
                # As the weights lie in memory, or the fused optimiser would be slow.
                same = value.shape == like.shape
                state[int(at)][name] = torch.empty_like(like).copy_(value) if same else value
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})

    def shown(self, show: Callable[[Images, int], None]) -> None:
        """Show what the averaged weights do."""
        kept = {k: v.detach().clone() for k, v in self.stage.network.state_dict().items()}
        self.finish()
        sheet = self.stage.sheet()
        if sheet is not None:
            show(sheet, self.step)
        self.stage.network.load_state_dict(kept)

    def finish(self) -> None:
        """Put the averaged weights into the network."""
        self.stage.network.load_state_dict(self.average)
        self.stage.network.eval()
