"""The ledger's chain of rows: how one is sealed, checked and found to be missing.

Row n holds ``hash = HMAC-SHA256(key, n || hash of row n-1 || entry)`` beside the hash it follows,
so every row can be checked on its own and against its neighbour. The head counts the rows and
repeats the last hash under a seal of its own: without it, rows cut off the end would leave no
trace.

What this finds is a mistake, a broken disk, or an attacker who can write to the database but does
not have the key. It cannot find the whole database put back to an older copy, key and head
included.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import LedgerError

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Link:
    """One row as the database holds it.

    Attributes:
        seq: Its position, from 1.
        previous: Hash of the row before it, `GENESIS` for the first.
        entry: What it says: canonical JSON.
        hash: The seal over the three.
    """

    seq: int
    previous: str
    entry: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends.

    Attributes:
        count: Number of rows.
        hash: Hash of the last row.
        seal: HMAC over the two.
    """

    count: int
    hash: str
    seal: str


def canonical(value: Any) -> str:
    """The one JSON text of a value: ASCII, keys sorted, no spaces, no NaN.

    Raises:
        LedgerError: A value JSON does not have, such as an array or an infinity.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"a ledger row holds plain JSON values only: {error}") from error


def link_after(key: bytes, head: Head, entry: str) -> Link:
    """The row that says ``entry``, appended after ``head``."""
    seq = head.count + 1
    return Link(seq, head.hash, entry, _row_hash(key, seq, head.hash, entry))


def head_at(key: bytes, count: int, last: str) -> Head:
    """The head of a chain of ``count`` rows whose last hash is ``last``."""
    return Head(count, last, _hmac(key, f"head:{count}:{last}"))


def is_intact(key: bytes, link: Link) -> bool:
    """Whether a row is as it was written."""
    expected = _row_hash(key, link.seq, link.previous, link.entry)
    return hmac.compare_digest(expected, link.hash)


def chain_problems(
    key: bytes, links: Sequence[Link], head: Head | None, name: Callable[[Link], str]
) -> list[str]:
    """Everything wrong with a chain, in words; empty when intact."""
    bad = [link for link in links if not is_intact(key, link)]
    if links and len(bad) == len(links) and (head is None or not _is_sealed(key, head)):
        return [f"none of the {len(links)} rows, nor the head, was written with this ledger's key"]
    problems = [f"{name(link)} was changed, moved, or forged without the key" for link in bad]
    problems += _about_gaps(links, {link.seq for link in bad}, name)
    problems += _about_head(key, links, head)
    return problems


def _about_gaps(links: Sequence[Link], bad: set[int], name: Callable[[Link], str]) -> list[str]:
    """Rows missing before the last one, and rows that follow another row than the one before."""
    problems = []
    last, last_hash = 0, GENESIS
    for link in links:
        if link.seq != last + 1:
            problems.append(_missing(last + 1, link.seq - 1))
        elif link.previous != last_hash and link.seq not in bad and last not in bad:
            problems.append(f"{name(link)} does not follow row {last} as it stands now")
        last, last_hash = link.seq, link.hash
    return problems


def _about_head(key: bytes, links: Sequence[Link], head: Head | None) -> list[str]:
    """What the head says of the end of the chain."""
    if head is None:
        return ["the head is missing: rows cut off the end would leave no trace"]
    if not _is_sealed(key, head):
        return ["the head was changed after it was written, or forged without the key"]
    last = links[-1].seq if links else 0
    if last < head.count:
        return [_missing(last + 1, head.count) + ", at the end"]
    if last > head.count:
        extra = "row" if last == head.count + 1 else f"rows {head.count + 1} to"
        return [f"{extra} {last} came after the last row that the head counts"]
    if links and links[-1].hash != head.hash:
        return [f"row {last} is not the last row that the head was written for"]
    return []


def _missing(first: int, last: int) -> str:
    return f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"


def _is_sealed(key: bytes, head: Head) -> bool:
    return hmac.compare_digest(head_at(key, head.count, head.hash).seal, head.seal)


def check_continuation(key: bytes, start: Head, links: Sequence[Link], head: Head | None) -> None:
    """Refuse rows that do not continue the chain known so far up to its head.

    Raises:
        LedgerError: A row changed, missing, added or moved.
    """
    last = start
    for link in links:
        if link.seq != last.count + 1 or link.previous != last.hash or not is_intact(key, link):
            raise _broken(f"row {last.count + 1} is missing or was changed")
        last = Head(link.seq, link.hash, "")
    if head is None or not _is_sealed(key, head):
        raise _broken("its head is missing or was changed")
    if (last.count, last.hash) != (head.count, head.hash):
        raise _broken(f"its head counts {head.count} rows and {last.count} were found")


def _broken(what: str) -> LedgerError:
    return LedgerError(
        f"the ledger does not add up: {what}. What was spent cannot be known, so nothing more is "
        "charged to it. `understudy ledger verify` names every row at fault; restore a backup"
    )


def _row_hash(key: bytes, seq: int, previous: str, entry: str) -> str:
    return _hmac(key, f"row:{seq}:{previous}:{entry}")


def _hmac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()
