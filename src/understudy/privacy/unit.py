"""What one person contributes, and what it means for two datasets to be neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from understudy.core.errors import ConfigError

Adjacency = Literal["add-remove", "replace-one"]


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of protection: one image, or all images of one person.

    Attributes:
        column: The column of the source that names the unit of a record; None: every image is a
            unit of its own.
        max_rows: Contribution bounding: of a unit's records at most so many are used, spread evenly
            over them in the source's order. Whatever is left still counts no more than one unit,
            because the vault clips the unit's whole contribution; the cap limits work, not privacy.
        adjacency: ``"add-remove"`` (neighbours differ by one unit's records being there or not, so
            class sizes and n are private) or ``"replace-one"`` (n is public).

    Raises:
        ConfigError: max_rows below 1, or an unknown adjacency.
    """

    column: str | None = None
    max_rows: int = 64
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise ConfigError(f"a unit keeps at least 1 row, found max_rows={self.max_rows}")
        if self.adjacency not in ("add-remove", "replace-one"):
            raise ConfigError(
                f"adjacency is 'add-remove' or 'replace-one', found {self.adjacency!r}"
            )

    @property
    def name(self) -> str:
        """The unit as the ledger knows it: units that differ here do not compose."""
        return "image" if self.column is None else f"rows sharing '{self.column}'"
