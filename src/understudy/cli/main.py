"""``understudy``: private images in, a release out."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Annotated

import typer

from understudy.cli.output_streams import prepare_output
from understudy.cli.program import Program
from understudy.core.errors import UnderstudyError, escaped
from understudy.core.version import __version__

app = typer.Typer(
    cls=Program,
    name="understudy",
    help="Turn a private image dataset into a synthetic one that can be shared.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold private values
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(flag: bool) -> None:
    if flag:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[  # `_show_version` answers
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Its version.")
    ] = False,
) -> None:
    """Its commands do the work; `understudy.cli.program` lists them."""


def main() -> None:
    """Run the command line; errors raised on purpose become a message and an exit code."""
    prepare_output()
    # What imports make stays: looking at it again and again would be a twelfth of a start.
    gc.set_threshold(50_000, 20, 20)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # it would ask every package for some
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except UnderstudyError as error:
        _say("\n".join([f"understudy: {error}", *getattr(error, "__notes__", ())]))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        interrupt = _interrupt_of(end)
        if interrupt is None:
            if getattr(end, "code", None) and (failure := _failure_of_others(end)):
                _say(f"understudy: {failure}")
            raise
        for note in getattr(interrupt, "__notes__", ()):
            _say(f"understudy: stopped. {note}")
        sys.exit(143 if isinstance(interrupt, _Terminated) else 130)
    except MemoryError:
        _say("understudy: the memory is full. Nothing was charged by this command")
        sys.exit(1)
    except OSError as error:
        _say(f"understudy: {_failure_of_others(error) or error}")
        sys.exit(1)
    except Exception as error:
        failure = _failure_of_others(error)
        reasons = [one for one in error.args if isinstance(one, OSError)]  # as of OpenDP's import
        if reasons and not failure:
            failure = f"{error.args[0]}: {reasons[0]}. The memory may be full"
        if not failure:
            raise
        _say(f"understudy: {failure}")
        sys.exit(1)


def _failure_of_others(error: BaseException) -> str:
    from understudy.core.entry_points import failure_of_others  # which most ends do without

    return failure_of_others(error)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which stops a run as Ctrl-C does."""


def _interrupt_of(end: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that ended a command; Typer exits because of one, without its notes."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # whoever asks twice: it is stopping already
    raise _Terminated


def _say(message: str) -> None:
    typer.echo("\n".join(map(escaped, message.split("\n"))), err=True)
