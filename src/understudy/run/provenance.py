"""What candidates and references say of themselves: the guarantee of the release they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Receipt
from understudy.privacy.account import composed, inherited
from understudy.report import Premise, RunRecord, read_record
from understudy.report.meaning import NO_PRIVATE_DATA, Guarantee
from understudy.run.outputs import RunPaths, read_json

_STATEMENT = "privacy.json"


@dataclass(frozen=True)
class Provenance:
    """Where a set of rows comes from, as far as it is stated.

    Attributes:
        name: What the user named.
        place: The folder of the release; None where it is none.
        record: What the release says of itself; None without one.
        declared_public: Whether the owner says that no private image had a part in it.
    """

    name: str
    place: Path | None = None
    record: RunRecord | None = None
    declared_public: bool = False

    @property
    def guarantee(self) -> Guarantee | Literal["unknown"]:
        """The kind of its guarantee; of rows that nobody said anything of: unknown."""
        if self.record is not None:
            return self.record.guarantee
        return "no private data" if self.declared_public else "unknown"

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What its guarantee takes for public, or what the owner declared of it."""
        if self.record is not None:
            return self.record.premises
        if not self.declared_public:
            return ()
        return (Premise("no private image had a part in the candidates", True, "declared"),)

    def require_guarantee(self, role: str) -> None:
        """Refuse rows that no claim can be made of.

        Args:
            role: What they are here: ``"candidates"``, ``"reference"``.

        Raises:
            ConfigError: They have no guarantee, or nothing says where they come from.
        """
        if self.guarantee == "none":
            raise ConfigError(
                f"{self.name} ({role}) has no guarantee: private images had a part in it, without "
                "noise, and what is made of it can never carry a claim, whatever epsilon is spent "
                "on it. Take other candidates, or give up the claim (--no-guarantee)"
            )
        if self.guarantee == "unknown":
            how = (
                "If you know that no private image of this dataset had a part in making them, say "
                "so: --candidates-public. If a generator was fitted to private images without "
                "differential privacy, they can never carry a claim"
                if role == "candidates"
                else "Name a release, or give up the claim (--no-guarantee)"
            )
            raise ConfigError(
                f"{self.name} ({role}) has no {_STATEMENT} that says how private images had a part "
                f"in it. {how}"
            )


def provenance_of(name: str, *, declared_public: bool = False) -> Provenance:
    """Where rows come from: a run's folder, a release, a folder or a file in one, or anything else.

    Args:
        name: As `understudy.data.open_source` takes it.
        declared_public: Whether the owner declares that no private image had a part in them.

    Raises:
        ConfigError: The declaration contradicts what the release says.
        RunError: The run is not finished, or its statement cannot be read.
    """
    path = Path(name).expanduser()
    place = _release_of(path)
    if place is None:
        paths = RunPaths(path)
        if paths.start.is_file():
            raise RunError(f"{name}: holds a run that is not finished: go on with it (--resume)")
        return Provenance(name, declared_public=declared_public)
    record = read_record(read_json(place / _STATEMENT))
    if declared_public and record.guarantee != "no private data":
        raise ConfigError(
            f"{name} says itself how private images had a part in it ({record.guarantee}): leave "
            "out --candidates-public"
        )
    return Provenance(name, place, record)


def _release_of(path: Path) -> Path | None:
    """The release that a path is, holds as a run's folder, or lies in."""
    places = [path / "release", path]
    if path.exists():
        places += [path.parent, path.parent.parent]
    return next((place for place in places if (place / _STATEMENT).is_file()), None)


def made_of(parts: Sequence[tuple[str, Provenance]], own: Receipt | None = None) -> Receipt:
    """The guarantee of what is made of other rows, and of answers that were paid for besides.

    Its delta is that of this run, else that of the first release.

    Args:
        parts: What they are, and where they come from; each release once.
        own: What this run pays for; None: it asks nothing of private records.

    Raises:
        ConfigError: A part of no guarantee, or guarantees that do not compose.
    """
    receipts = [] if own is None else [own]
    for role, part in parts:
        part.require_guarantee(role)
        if part.record is not None and part.guarantee == "differential privacy":
            receipts.append(inherited(part.record.receipt, role))
    if not receipts:
        return NO_PRIVATE_DATA
    return composed(receipts, receipts[0].delta)
