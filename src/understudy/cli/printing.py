"""Text, tables and JSON on standard output, for people and for programs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from understudy.core.errors import escaped

_UNWRAPPED = 10_000  # columns: wider than any table, for what is piped or kept in a file


class _PlainConsole(Console):
    """A console on which a text of others, such as of a release, says nothing to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it is printed, its control characters escaped."""
        return super().render_str("\n".join(map(escaped, text.split("\n"))), **options)


console = _PlainConsole(
    soft_wrap=True,
    highlight=False,
    markup=False,
    emoji=False,
    width=None if sys.stdout.isatty() else _UNWRAPPED,
)
"""Standard output. A terminal wraps the cells of a table; a pipe or a file gets a line a row."""


AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
"""``--json`` of every command that lists something."""


def table(*columns: str) -> Table:
    """An empty table with these headings and no lines about it."""
    empty = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        empty.add_column(column, overflow="fold")
    return empty


def print_json(content: Any) -> None:
    """JSON values, indented."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=str))
