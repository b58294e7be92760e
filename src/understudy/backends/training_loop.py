"""One training loop for every network that is trained here; it stops and resumes at any moment.

The optimiser is AdamW, the learning rates are those of `torch.optim.lr_scheduler`, and the average
of the weights is that of `torch.optim.swa_utils`. Every random draw of a pass depends on the seed
and on the number of the pass alone, so a run that was stopped ends like one that was not.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
)
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from understudy.core.errors import BackendError

_Tensors = tuple[torch.Tensor, ...] | list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast a network learns.

    Attributes:
        steps: Steps of the optimiser in all.
        rate: Highest learning rate.
        warmup: Steps over which the rate rises to ``rate``.
        final: What the rate falls to along half a cosine, as a share of ``rate``; 1 for a constant
            rate.
        betas: Decay of the averages of the gradients and of their squares (AdamW). A smaller first
            one steadies networks that learn against each other.
        average: Decay of the exponential average of the weights, which is the result; None: the
            result is the weights of the last step.
    """

    steps: int
    batch: int
    rate: float
    warmup: int = 300
    final: float = 0.02
    decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    average: float | None = 0.999
    accumulation: int = 1
    clip: float = 1.0

    def scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """The learning rates of an optimiser: linear warm-up, then half a cosine."""
        falling: LRScheduler
        if self.final == 1:
            falling = ConstantLR(optimizer, factor=1.0, total_iters=0)
        else:
            falling = CosineAnnealingLR(
                optimizer, max(1, self.steps - self.warmup), eta_min=self.final * self.rate
            )
        if not self.warmup:
            return falling
        rising = LinearLR(
            optimizer, start_factor=1 / self.warmup, total_iters=max(1, self.warmup - 1)
        )
        return SequentialLR(optimizer, [rising, falling], milestones=[self.warmup])


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and how to train.

    Attributes:
        precision: Of the passes: ``"float32"`` or ``"bfloat16"``, or ``"auto"``: bfloat16 on a GPU,
            float32 elsewhere. A processor that has instructions for bfloat16 is
            faster with it by half for a diffusion network and twice for a decoder; another is far
            slower. Weights and averages stay float32.
        save_every: Seconds between two checkpoints.
        report_every: Seconds between two reports.
        seed: Of the order of the samples and of every random draw.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    precision: str = "auto"
    compile: bool = False
    save_every: float = 120.0
    report_every: float = 10.0
    seed: int = 0

    def autocast(self) -> torch.autocast:
        """The context in which a pass runs."""
        usual = "float32" if self.device.type == "cpu" else "bfloat16"
        half = (usual if self.precision == "auto" else self.precision) == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16 if half else None, enabled=half)


class TrainingTask(Protocol):
    """A network to be trained, and its loss.

    Attributes:
        network: What learns; only parameters that require gradients are trained and stored.
    """

    name: str
    network: Any

    def losses(self, index: int, seed: int) -> dict[str, torch.Tensor]:
        """The loss of a pass, by part; the sum of the parts is minimised."""
        ...


LossReport = Callable[[str, int, int, dict[str, float]], None]
"""Called now and then with (name, step, steps, mean losses since the last call)."""


class ShuffledIndices:
    """The samples of each pass: every sample once before any comes again."""

    def __init__(self, count: int, batch: int, seed: int) -> None:
        self._count, self._batch, self._seed = count, batch, seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def __call__(self, index: int) -> torch.Tensor:
        """(batch,) int64: the samples of pass ``index``."""
        samples = []
        for position in range(index * self._batch, (index + 1) * self._batch):
            epoch, rank = divmod(position, self._count)
            if epoch != self._epoch:
                rng = np.random.default_rng([self._seed, epoch])
                self._epoch, self._order = epoch, rng.permutation(self._count)
            samples.append(int(self._order[rank]))
        return torch.tensor(samples)


def train_network(
    task: TrainingTask,
    schedule: Schedule,
    machine: Machine,
    *,
    report: LossReport,
    folder: Path | None = None,
    on_checkpoint: Callable[[int], None] | None = None,
) -> None:
    """Train a network to the end of its schedule; it then holds the averaged weights.

    With a folder, a run that was stopped resumes at its last checkpoint, with the same samples and
    the same draws that it would have had.

    Without one, neither ``checkpoint.safetensors`` nor ``losses.jsonl`` is written. At each
    checkpoint ``on_checkpoint`` is called with the step, the averaged weights in the network.
    """
    run = _Run(task, schedule, machine)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        run.resume(folder)
    saved = reported = time.monotonic()
    sums: dict[str, float] = {}
    since = 0
    devices = [machine.device] if machine.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        while run.step < schedule.steps:
            for key, value in run.advance().items():
                sums[key] = sums.get(key, 0.0) + value
            since += 1
            now = time.monotonic()
            last = run.step == schedule.steps
            if last or now - reported >= machine.report_every:
                means = {key: value / since for key, value in sums.items()}
                if folder is not None:
                    with (folder / "losses.jsonl").open("a") as file:
                        file.write(json.dumps({"step": run.step, **means}) + "\n")
                report(task.name, run.step, schedule.steps, means)
                reported, sums, since = now, {}, 0
            if folder is not None and (last or now - saved > machine.save_every):
                run.save(folder)
                saved = now
                if on_checkpoint is not None:
                    with run.averaged():
                        on_checkpoint(run.step)
    run.finish()


class _Run:
    """The state of one training: weights, their average, optimiser, learning rate, step."""

    def __init__(self, task: TrainingTask, schedule: Schedule, machine: Machine) -> None:
        self.task, self.schedule, self.machine = task, schedule, machine
        self.step = 0
        self.weights = [part for part in task.network.parameters() if part.requires_grad]
        frozen = {key for key, part in task.network.named_parameters() if not part.requires_grad}
        self._stored = [key for key in task.network.state_dict() if key not in frozen]
        self.optimizer = torch.optim.AdamW(
            self.weights,
            lr=schedule.rate,
            weight_decay=schedule.decay,
            betas=schedule.betas,
            fused=True,
        )
        self.scheduler = schedule.scheduler(self.optimizer)
        self.average: AveragedModel | None = None
        if schedule.average is not None:
            self.average = AveragedModel(
                task.network, multi_avg_fn=_ramped_average(schedule.average), use_buffers=True
            )
            self.average.n_averaged += 1  # the initial weights are the first of the average

    def advance(self) -> dict[str, float]:
        """One step of the optimiser; the losses of its passes."""
        accumulation = self.schedule.accumulation
        sums: dict[str, float] = {}
        self.task.network.train()
        for index in range(self.step * accumulation, (self.step + 1) * accumulation):
            seed = int(np.random.SeedSequence([self.machine.seed, index]).generate_state(1)[0])
            torch.manual_seed(seed)  # dropout draws from the global generator
            with self.machine.autocast():
                losses = self.task.losses(index, seed)
            total = torch.stack([value.float() for value in losses.values()]).sum() / accumulation
            total.backward()  # type: ignore[no-untyped-call]
            for key, value in losses.items():
                sums[key] = sums.get(key, 0.0) + float(value.detach()) / accumulation
        if math.isnan(sum(sums.values())):
            raise BackendError(
                f"{self.task.name} failed at step {self.step}: the loss is not a number. Use a "
                f"smaller rate than {self.schedule.rate:g}, or precision=float32"
            )
        nn.utils.clip_grad_norm_(self.weights, self.schedule.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.scheduler.step()
        self.step += 1
        if self.average is not None:
            self.average.update_parameters(self.task.network)
        return sums

    def save(self, folder: Path) -> None:
        """Write the checkpoint; a kill in between leaves the one before."""
        parts = {"network": self.task.network}
        if self.average is not None:
            parts["average"] = self.average.module
        tensors: dict[str, torch.Tensor] = {}
        for name, network in parts.items():
            state = network.state_dict()
            tensors |= {f"{name}/{key}": state[key] for key in self._stored}
        for position, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimiser/{position}/{key}": value for key, value in moments.items()}
        states = {"step": self.step, "scheduler": self.scheduler.state_dict()}
        file = folder / "checkpoint.safetensors"
        new = file.with_suffix(".new")
        save_file(
            {key: value.detach().contiguous() for key, value in tensors.items()},
            new,
            metadata={key: json.dumps(state) for key, state in states.items()},
        )
        os.replace(new, file)

    def resume(self, folder: Path) -> None:
        """Take up the checkpoint of a folder, if there is one."""
        file = folder / "checkpoint.safetensors"
        if not file.is_file():
            return
        try:
            with safe_open(file, "pt", device=str(self.machine.device)) as stored:
                states = {key: json.loads(text) for key, text in stored.metadata().items()}
                tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise BackendError(
                f"{file} is no whole checkpoint ({error}): remove it, and {self.task.name} learns "
                "from the beginning"
            ) from error
        self.step = states["step"]
        _load(self.task.network, {key: tensors[f"network/{key}"] for key in self._stored})
        if self.average is not None:
            _load(self.average.module, {key: tensors[f"average/{key}"] for key in self._stored})
            self.average.n_averaged += self.step
        moments: dict[int, dict[str, torch.Tensor]] = {at: {} for at in range(len(self.weights))}
        for key, value in tensors.items():
            part, _, rest = key.partition("/")
            if part == "optimiser":
                position, _, name = rest.partition("/")
                weight = self.weights[int(position)]
                # As the weights lie in memory, or the fused optimiser would be slow.
                same = value.shape == weight.shape
                moments[int(position)][name] = (
                    torch.empty_like(weight).copy_(value) if same else value
                )
        self.scheduler.load_state_dict(states["scheduler"])
        groups = self.optimizer.state_dict()["param_groups"]
        for group, rate in zip(groups, self.scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with the averaged weights."""
        state = self.task.network.state_dict()
        current = {key: state[key].detach().clone() for key in self._stored}
        self.finish()
        yield
        _load(self.task.network, current)

    def finish(self) -> None:
        """Put the averaged weights into the network."""
        if self.average is not None:
            state = self.average.module.state_dict()
            _load(self.task.network, {key: state[key] for key in self._stored})
        self.task.network.eval()


def _load(network: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Load a state that leaves out what is not trained."""
    network.load_state_dict(state, strict=False)


def _ramped_average(decay: float) -> Callable[[_Tensors, _Tensors, torch.Tensor | int], None]:
    """An exponential average that follows more closely at the beginning, so that few steps do."""

    def update(averages: _Tensors, values: _Tensors, count: torch.Tensor | int) -> None:
        if not averages[0].is_floating_point():
            torch._foreach_copy_(averages, values)
            return
        number = int(count)
        ramped = min(decay, (1 + number) / (10 + number))
        get_ema_multi_avg_fn(ramped)(averages, values, count)  # type: ignore[no-untyped-call]

    return update
