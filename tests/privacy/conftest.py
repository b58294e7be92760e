"""Ledgers in SQLite and, where a test is of the database, in a real PostgreSQL too."""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import Missing

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.privacy.ledger.ledger import Ledger

_numbers = itertools.count()


class Rows(InMemorySource):
    """A small real source: one row per embedding, digests of the stored bytes."""

    def __init__(self, name: str, values: NDArray[np.float32]) -> None:
        super().__init__(name, "embeddings", ("all",), values, np.zeros(len(values), np.int64))


def rows(count: int, seed: int = 0, name: str = "photos") -> Rows:
    values = np.random.default_rng(seed).standard_normal((count, 4))
    return Rows(name, values.astype(np.float32))


@dataclass(frozen=True)
class Site:
    """Where a ledger of this test lives, and a way round it: plain SQL, as an intruder has."""

    url: str

    def open(self) -> Ledger:
        return Ledger(self.url)

    def sql(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """What a statement returns, if anything; ``:name`` stands for a value in it."""
        connection: Any
        if self.url.startswith("sqlite:///"):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
        else:
            import psycopg

            connection = psycopg.connect(self.url)
            statement = re.sub(r":([a-z]+)", r"%(\1)s", statement)
        with closing(connection):
            result = connection.execute(statement, values)
            answer = [] if result.description is None else result.fetchall()
            connection.commit()
        return answer


@pytest.fixture(scope="session")
def postgres(missing: Missing) -> Iterator[Callable[[], str]]:
    """Makes an empty place in a real PostgreSQL server and returns its URL."""

    def give_up(reason: object) -> NoReturn:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (CI=true)", pytrace=False)
        missing("postgres", str(reason))

    try:
        from tests.privacy import postgres_server as server
    except ImportError as error:
        give_up(f"needs pip install 'understudy[postgres]': {error}")
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(server.serving())
        except server.NoServerError as error:
            give_up(error)
        yield lambda: server.create_schema(socket, f"ledger{next(_numbers)}")


BOTH_DATABASES = pytest.mark.parametrize("database", ["sqlite", "postgres"])
"""For tests of what a database does: locks, transactions, texts. The others run on SQLite."""


@pytest.fixture
def database() -> str:
    """Overridden by `BOTH_DATABASES`."""
    return "sqlite"


@pytest.fixture
def new_site(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Site]:
    """Makes empty places for ledgers."""
    if database == "sqlite":
        return lambda: Site(f"sqlite:///{tmp_path / f'ledger{next(_numbers)}.db'}")
    postgres: Callable[[], str] = request.getfixturevalue("postgres")
    return lambda: Site(postgres())


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    """An empty place for a ledger."""
    return new_site()


@pytest.fixture
def ledger(site: Site) -> Iterator[Ledger]:
    with site.open() as opened:
        yield opened
