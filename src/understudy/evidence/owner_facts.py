"""What only the publisher can say of a release: a YAML file, and slots where it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path

import yaml

from understudy.backends.yaml_files import read_yaml
from understudy.core.errors import ConfigError

SLOT = "[to be filled in]"
"""What stands where the publisher has said nothing."""

CURATOR_TYPES = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
"""The values that the registry's schema knows."""

FACTS_FILE = "facts.yaml"


def _fact(explanation: str) -> str:
    """A field that is a slot until it is filled in."""
    return field(default=SLOT, metadata={"explanation": explanation})


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """What stands in the shared part as the publisher says it; `SLOT` where nothing is said."""

    curator: str = _fact("who publishes the data product")
    curator_type: str = _fact(f"one of {', '.join(CURATOR_TYPES)}")
    sector: str = _fact(f"one of {', '.join(SECTORS)}")
    region: str = _fact("which region the data describe, or whose law applies")
    intended_use: str = _fact("what the release is for")
    justification: str = _fact("why this epsilon, this unit and this method")
    recipients: str = _fact("who receives the release, and under which terms")
    retention: str = _fact("how long the private images and the owner's folder are stored, and why")
    author: str = _fact("who wrote this pack")
    review: str = _fact("the day of the next review, YYYY-MM-DD; a year after the release if empty")

    @property
    def open_slots(self) -> tuple[str, ...]:
        """The names of the facts that are missing; a review day follows from the release's."""
        names = (one.name for one in fields(self) if one.name != "review")
        return tuple(name for name in names if getattr(self, name) == SLOT)


def read_facts(path: Path | None) -> OwnerFacts:
    """The facts of a file; slots without one.

    Raises:
        ConfigError: It is no YAML of these facts, or a fact has no such value.
    """
    if path is None:
        return OwnerFacts()
    content = read_yaml(path, "facts")
    names = [one.name for one in fields(OwnerFacts)]
    if not isinstance(content, dict) or (unknown := [str(n) for n in content if n not in names]):
        what = "no mapping" if not isinstance(content, dict) else f"unknown: {', '.join(unknown)}"
        raise ConfigError(f"{path}: holds {what}; the facts are {', '.join(names)}")
    for name, value in content.items():
        if isinstance(value, list | dict):
            raise ConfigError(f"{path}: {name} is a text, not a {type(value).__name__}")
    facts = OwnerFacts(
        **{n: " ".join(str("" if v is None else v).split()) or SLOT for n, v in content.items()}
    )
    for name, terms in (("curator_type", CURATOR_TYPES), ("sector", SECTORS)):
        if getattr(facts, name) not in (*terms, SLOT):
            raise ConfigError(
                f"{path}: {name} is one of {', '.join(terms)}, not {getattr(facts, name)!r}"
            )
    if facts.review != SLOT:
        try:
            date.fromisoformat(facts.review)
        except ValueError as error:
            raise ConfigError(f"{path}: review is a day, YYYY-MM-DD: {error}") from error
    return facts


def facts_text(facts: OwnerFacts) -> str:
    """The file, to be filled in."""
    lines = ["# Fill in, and make the pack again in the same place. What stands here is shared."]
    for one in fields(OwnerFacts):
        value = getattr(facts, one.name)
        text = yaml.safe_dump("" if value == SLOT else value, allow_unicode=True, width=1000)
        lines += [f"# {one.metadata['explanation']}", f"{one.name}: {text.splitlines()[0]}"]
    return "\n".join(lines) + "\n"
