"""Progress bars on a terminal, silence elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as RichTask
from rich.text import Text

Bar = Callable[[int], None]
Bars = Callable[..., Bar]


class _Rate(TextColumn):
    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: RichTask) -> Text:
        return Text("" if not task.speed else f"{task.speed:,.0f}/s", style="dim")


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Bars]:
    """``bars(words, total=None)`` starts a bar and returns a function to call with rows done.

    Bars go to standard error, and only to a terminal: they may show how many private rows there
    are, which is for the owner's eyes and not for a log file.
    """
    console = console or Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:

        def start(words: str, total: int | None = None) -> Bar:
            task = progress.add_task(words, total=total)
            return lambda done: progress.advance(task, done)

        yield start
