"""Every error Understudy raises on purpose.

    UnderstudyError
    ├── InputError                 bad input; the command line exits with 2
    │   ├── SourceError            a dataset, or one file of it, cannot be read
    │   ├── ConfigError            an option or a configuration file is wrong
    │   │   └── WrongValue         an option cannot take a value
    │   ├── BackendError           a model cannot be loaded or used
    │   │   ├── MissingExtra       a package is not installed; names the pip command
    │   │   ├── HubUnreachable     a model is not on this machine and the hub does not answer
    │   │   └── UnsupportedTask    a model was asked for something it cannot do
    │   ├── LedgerError            the ledger cannot be reached, or its rows do not add up
    │   │   └── CommitInDoubt      it was lost as it recorded: the rows may stand or not
    │   ├── RunError               a run folder cannot be started, resumed or read
    │   │   └── RunComplete        a run that is complete was to be resumed
    │   └── WireError              bytes between device and server are not what the schema allows
    ├── RunStopped                 the machine could not go on with a run; exits with 1
    ├── MethodStopped              a method does not suit the records; exits with 4
    ├── BudgetRefused              the budget does not cover the request; exits with 3
    ├── Declined                   the owner was asked, and did not want the run
    └── PrivateValueError          something tried to print, pickle, log or copy a private value

A message says what is wrong, what was found, and what to do.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # between letters of Persian and Hindi, among others


def escaped(name: str) -> str:
    """A name with control characters as escapes: newlines, terminal codes, reversed writing.

    Whoever named a file or a class says nothing else by it on a terminal or in a document. What
    stands for bytes that are no text is escaped too.
    """
    if name.isprintable():
        return name
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in _UNSEEN and char not in _JOINERS
        else char
        for char in name
    )


def count_words(count: int, one: str, several: str = "") -> str:
    """How many there are, as a message says it: ``1 file``, ``2,000 files``."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """``"a, b and 3 more"``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


class UnderstudyError(Exception):
    """The root of every error raised on purpose."""

    exit_code = 1


class InputError(UnderstudyError):
    """Bad input. Nothing was spent and nothing was lost."""

    exit_code = 2


class SourceError(InputError):
    """A dataset, or one file of it, cannot be read."""

    def __init__(self, message: str, path: Path | str | None = None) -> None:
        self.path = None if path is None else Path(path)
        super().__init__(message if path is None else f"{escaped(str(path))}: {message}")


class ConfigError(InputError):
    """An option or a configuration file is wrong."""


class WrongValue(ConfigError, ValueError):
    """An option cannot take a value; the message names the option and the value."""


class BackendError(InputError):
    """A model cannot be loaded or used."""


class MissingExtra(BackendError):
    """A package that a backend needs is not installed, or cannot be loaded by its ``fault``."""

    def __init__(self, what: str, extra: str, fault: object = None) -> None:
        self.extra = extra
        missing = f"is not installed: pip install 'understudy[{extra}]'"
        super().__init__(
            f"{what} needs a package that {f'cannot be loaded: {fault}' if fault else missing}"
        )


@contextmanager
def packages_for(what: str, extra: str) -> Iterator[None]:
    """Imports of packages that ``what`` needs, in this block: a `MissingExtra` without them."""
    try:
        yield
    except ImportError as error:
        fault = None if isinstance(error, ModuleNotFoundError) else error
        raise MissingExtra(what, extra, fault) from error


class HubUnreachable(BackendError):
    """A model is not on this machine and the model hub cannot be reached."""

    def __init__(self, name: str, instead: str, local: str) -> None:
        self.name = name
        super().__init__(
            f"{name} is not on this machine and the model hub cannot be reached. Connect, or give "
            f"{local}, or use {instead}, which needs no download"
        )


class UnsupportedTask(BackendError):
    """A model was asked for something it cannot do."""

    def __init__(self, name: str, task: str, tasks: Iterable[str]) -> None:
        supported = ", ".join(sorted(tasks)) or "nothing else"
        super().__init__(f"{name} cannot do {task}; it can do {supported}")


class LedgerError(InputError):
    """The ledger cannot be reached, or its rows do not add up."""


class CommitInDoubt(LedgerError):
    """The ledger was lost while it recorded something, which may stand or not."""


class SecondRelease(LedgerError):
    """The ledger knows another release for a charge."""


class RunError(InputError):
    """A run folder cannot be started, resumed or read."""


class RunStopped(UnderstudyError):
    """A run stopped on the way: disk full, memory short. Says what was charged and how to go on."""


class MethodStopped(UnderstudyError):
    """A method found, by answers that it paid for, that it does not suit the private records.

    What it would have asked besides is not charged.
    """

    exit_code = 4

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{reason}. {remedy}")


class RunComplete(RunError):
    """A run that is complete was to be resumed."""

    def __init__(self, folder: Path | str) -> None:
        super().__init__(
            f"{folder}: this run is complete; there is nothing to resume. A new "
            "one needs another --out"
        )


class WireError(InputError):
    """Bytes between a device and a server are not what the wire's schema allows.

    The message names the field at fault and never what stood there.
    """


class BudgetRefused(UnderstudyError):
    """The dataset's budget does not cover the request. Nothing was released.

    Args:
        dataset: The dataset's name in the ledger.
        requested: Epsilon in total if the request were granted, at the budget's delta.
        budget: The epsilon the owner allows in total.
        spent: Epsilon spent so far.
        remaining: Epsilon of the largest run that it would still cover.
        delta: The delta at which the four are stated.
        why: Why that dataset's budget is asked, where the run is on another one: a clause that
            follows its name.
    """

    exit_code = 3

    def __init__(
        self,
        dataset: str,
        *,
        requested: float,
        budget: float,
        spent: float,
        remaining: float,
        delta: float,
        why: str = "",
    ) -> None:
        self.dataset, self.requested, self.budget = dataset, requested, budget
        self.spent, self.remaining, self.delta = spent, remaining, delta
        super().__init__(
            f"the budget of {dataset}{why} does not cover this run (all at delta {delta:g}).\n"
            f"  Budget:     epsilon {budget:.4f}\n"
            f"  Spent:      epsilon {spent:.4f}\n"
            f"  Remaining:  epsilon {remaining:g}, as one more run (--epsilon rest)\n"
            f"  Requested:  epsilon {requested:.4f} in total, after this run\n"
            f"  Difference: epsilon {max(requested - budget, 0):.4f} over the budget\n"
            "Ask for a smaller epsilon, or let the data owner raise the total: "
            "understudy ledger set-budget SOURCE --epsilon E --delta D"
        )


class Declined(UnderstudyError):
    """The owner was asked whether a run is to be charged, and did not say yes."""

    def __init__(self) -> None:
        super().__init__("not confirmed: nothing was charged, and no folder was begun")


class PrivateValueError(UnderstudyError, TypeError):
    """Something tried to print, pickle, log, count or copy a private value."""
