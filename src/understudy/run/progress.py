"""Where events of long work go: bars on a terminal, plain lines, JSON lines, or nowhere.

All are written to standard error, so that the output of a command can be piped. The number of
private records is for the owner alone: bars on a terminal show it, and lines, which end up in log
files, state a percentage in its place (`Events`, ``owner_only``).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

if TYPE_CHECKING:  # the command line imports this module for the names of the modes
    from rich.progress import Progress, TaskID

    from understudy.core.ports import Events, Step

ProgressMode = Literal["auto", "rich", "plain", "json", "none"]
"""How progress is shown; ``"auto"`` is ``"rich"`` on a terminal and ``"plain"`` elsewhere."""

Clock = Callable[[], float]
Bar = Callable[[int], None]
"""A `Step`, for functions that only advance it."""

Bars = Callable[..., "Step"]
"""`Events.step`, for functions that need nothing else of the port."""

_PLAIN_INTERVAL = 10.0  # seconds between two lines about one step
_JSON_INTERVAL = 1.0
_FIRST_WORD = 1.5  # seconds until something is written at the latest, and
_SILENCE = 10.0  # from then on: also of a step that does not count, and between two steps
_BEAT = 0.5


class CountedStep:
    """A step that counts the items done and says so to its reporter.

    Attributes:
        number: 1 for the first step of a reporter.
        total: The number of items; None where it is not known.
        owner_only: Whether the number of items is private.
        started: When it started, on the reporter's clock.
        written: When something was last written about it.
    """

    def __init__(
        self, reporter: LineEvents, number: int, name: str, total: int | None, owner_only: bool
    ) -> None:
        self.number, self.name, self.total, self.owner_only = number, name, total, owner_only
        self.done, self.finished = 0, False
        self.started = self.written = reporter.clock()
        self._reporter = reporter

    def __call__(self, done: int) -> None:
        """Advance by so many items."""
        with self._reporter.lock:
            self.done += done
            if self.total is not None and self.done >= self.total:
                self.finish()
            elif not self.finished:
                self._reporter.advanced(self)

    def finish(self) -> None:
        """Finish the step."""
        with self._reporter.lock:
            if not self.finished:
                self.finished = True
                self._reporter.completed(self)

    @property
    def fraction(self) -> float | None:
        """The part that is done, 0 to 1; None where the total is not known."""
        return None if not self.total else min(1.0, self.done / self.total)


class LineEvents:
    """Steps that are open, and when something is written of them; how is up to the kinds below."""

    paused = False  # because something is asked on the terminal

    def __init__(self, stream: TextIO, interval: float, clock: Clock) -> None:
        self.stream, self.interval, self.clock = stream, interval, clock
        self.lock = threading.RLock()
        self.begun, self._steps = clock(), 0
        self._open: list[CountedStep] = []
        # when something is written at the latest: nobody takes long work for a stopped one
        self._due = clock() + _FIRST_WORD

    def step(self, name: str, total: int | None = None, *, owner_only: bool = False) -> Step:
        """A step that has started."""
        with self.lock:
            self._steps += 1
            step = CountedStep(self, self._steps, name, total, owner_only)
            self._open.append(step)
            self.write_step("started", step, 0.0)
        return step

    def advanced(self, step: CountedStep) -> None:
        """Write how far a step is, unless something was written about it a moment ago."""
        now = self.clock()
        if now - step.written >= self.interval:
            step.written = now
            self.write_step("advanced", step, now - step.started)

    def completed(self, step: CountedStep) -> None:
        """Write that a step is over."""
        self._open = [other for other in self._open if other is not step]
        self.write_step("finished", step, self.clock() - step.started)

    def beat(self) -> None:
        """Write what is going on, where nothing was written for a while."""
        with self.lock:
            if self.paused or self.clock() < self._due:
                return
            if self._open:
                step = self._open[-1]
                step.written = self.clock()
                self.write_step("advanced", step, self.clock() - step.started)
            else:
                self.notice(f"working: {duration(self.clock() - self.begun)} so far")

    def notice(self, message: str, *, owner_only: bool = False) -> None:
        """A line, unless it is for the owner alone."""
        if not owner_only:
            self.write(message)

    def warning(self, message: str) -> None:
        """A line that begins with ``note:``."""
        self.write(f"note: {message}")

    def pause(self, paused: bool) -> None:
        """Whether something is asked on the terminal, so that nothing beats."""
        self.paused = paused

    def write(self, line: str) -> None:
        """Write a line at once."""
        with self.lock:
            self._due = self.clock() + _SILENCE
            self.stream.write(line + "\n")
            self.stream.flush()

    def write_step(self, event: str, step: CountedStep, seconds: float) -> None:
        """Write about a step that has taken so many seconds."""
        raise NotImplementedError


class PlainEvents(LineEvents):
    """Lines for people who read a log: one when a step starts and one every ten seconds.

    A step that took longer than that gets a last line when it finishes.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        super().__init__(stream, _PLAIN_INTERVAL, clock)

    def write_step(self, event: str, step: CountedStep, seconds: float) -> None:
        """A count, a rate and what is left, as far as they are known and not private."""
        if event == "finished":
            if seconds >= self.interval:
                amount = "" if step.owner_only or not step.done else f"{step.done:,} "
                self.write(f"{step.name}: {amount}done in {duration(seconds)}")
            return
        percentage = "" if step.fraction is None else f"{step.fraction:.0%}"
        parts = [] if event == "started" else [percentage, _rate(step, seconds)]
        if event == "advanced" and step.fraction:
            parts.append(f"{duration(seconds * (1 / step.fraction - 1))} left")
        elif event == "advanced" and not step.done:
            parts.append(f"{duration(seconds)} so far")
        words = [part for part in (_count(step), *parts) if part]
        self.write(f"{step.name}: {', '.join(words)}" if words else step.name)


class JsonEvents(LineEvents):
    """Lines for programs: one JSON object each; docs/progress.md lists their fields."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        super().__init__(stream, _JSON_INTERVAL, clock)

    def write_step(self, event: str, step: CountedStep, seconds: float) -> None:
        """A step with its numbers; of one for the owner alone, the part that is done."""
        content: dict[str, Any] = {"id": step.number, "step": step.name}
        if not step.owner_only:
            content |= {"done": step.done, "total": step.total}
        digits = 2 if step.owner_only else 4
        fraction = None if step.fraction is None else round(step.fraction, digits)
        self._write_event(f"step_{event}", **content, fraction=fraction, took=round(seconds, 3))

    def notice(self, message: str, *, owner_only: bool = False) -> None:
        """A message, unless it is for the owner alone."""
        if not owner_only:
            self._write_event("notice", message=message)

    def warning(self, message: str) -> None:
        """A message."""
        self._write_event("warning", message=message)

    def _write_event(self, event: str, **content: Any) -> None:
        seconds = round(self.clock() - self.begun, 3)
        line = {"event": event, "seconds": seconds, **content}
        self.write(json.dumps(line, ensure_ascii=False))


class SilentEvents:
    """Events that go nowhere."""

    def step(self, name: str, total: int | None = None, *, owner_only: bool = False) -> Step:
        """A step that says nothing."""
        return _SilentStep()

    def notice(self, message: str, *, owner_only: bool = False) -> None:
        """Nothing is written."""

    def warning(self, message: str) -> None:
        """Nothing is written."""


class _SilentStep:
    def __call__(self, done: int) -> None:
        """Nothing is counted."""

    def finish(self) -> None:
        """Nothing is written."""


class RichEvents(LineEvents):
    """One bar on a terminal, of the step that began last and is not over, and lines above it."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(sys.stderr, 0.0, time.monotonic)
        self._progress = progress
        self._task: TaskID | None = None

    def pause(self, paused: bool) -> None:
        """Take the bar off the terminal while something is asked there."""
        super().pause(paused)
        (self._progress.stop if paused else self._progress.start)()

    def write_step(self, event: str, step: CountedStep, seconds: float) -> None:
        """Move the bar, which is of the step that began last."""
        current = self._open[-1] if self._open else None
        if event == "advanced":
            if current is step and self._task is not None:
                self._progress.update(self._task, completed=step.done)
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        if current is not None:
            self._task = self._progress.add_task(current.name, total=current.total)
            self._progress.update(self._task, completed=current.done)

    def notice(self, message: str, *, owner_only: bool = False) -> None:
        """A line above the bar; it says where it is for the owner alone."""
        self.write(message + " (owner only)" if owner_only else message)

    def write(self, line: str) -> None:
        """Write a line above the bar."""
        self._due = self.clock() + _SILENCE
        self._progress.console.print(line, soft_wrap=True, highlight=False, markup=False)


@contextmanager
def reporting(progress: ProgressMode | Events = "auto") -> Iterator[Events]:
    """Events as the caller wants them.

    Args:
        progress: A mode, for standard error; or an object of the caller's own, which is used as
            it is.
    """
    if not isinstance(progress, str):
        yield progress
        return
    mode: str = progress
    if mode == "auto":
        mode = "rich" if sys.stderr.isatty() else "plain"
    if mode == "rich" and "ipykernel" in sys.modules and find_spec("ipywidgets") is None:
        mode = "plain"  # in a notebook, bars are widgets
    if mode == "none":
        yield SilentEvents()
    elif mode == "rich":
        with _bar() as bar, heartbeat(RichEvents(bar)) as shown:
            yield shown
    elif mode in ("plain", "json"):
        with heartbeat((PlainEvents if mode == "plain" else JsonEvents)(sys.stderr)) as lines:
            yield lines
    else:
        from understudy.core.errors import ConfigError

        raise ConfigError(f"progress is auto, rich, plain, json or none, found {progress!r}")


Beating = TypeVar("Beating", bound=LineEvents)


@contextmanager
def heartbeat(events: Beating) -> Iterator[Beating]:
    """Events that beat by themselves, from a thread, until the end of the block."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_BEAT):
            events.beat()

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield events
    finally:
        over.set()
        thread.join()


@contextmanager
def paused(events: Events) -> Iterator[None]:
    """Leave the terminal to a question: no bars and no heartbeat until the end of the block."""
    if not isinstance(events, LineEvents):
        yield
        return
    events.pause(True)
    yield
    events.pause(False)  # not after an error, which ends them


def _bar() -> Progress:
    """A bar with a count, a rate and the time that is left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(TextColumn):
        def render(self, task: Task) -> Text:
            return Text("" if not task.speed else f"{task.speed:,.0f}/s", style="dim")

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, emoji=False),
    )


@contextmanager
def timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    """Note how many seconds the block took."""
    start = time.perf_counter()
    yield
    seconds[part] = round(time.perf_counter() - start, 2)


def duration(seconds: float) -> str:
    """Seconds as ``42 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _count(step: CountedStep) -> str:
    """The items done of all; empty where the number is private or nothing is to be counted."""
    if step.owner_only or (step.total is None and not step.done):
        return ""
    return f"{step.done:,}" if step.total is None else f"{step.done:,} of {step.total:,}"


def _rate(step: CountedStep, seconds: float) -> str:
    """Items a second so far; a rate and a time would tell a private number of items."""
    if step.owner_only or not step.done or seconds <= 0:
        return ""
    rate = step.done / seconds
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
