"""A studio of the module's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.cli.processes import Commands, commands
from tests.conftest import Missing
from tests.web.web_site import Site

PRELOADED = (
    *("understudy.cli.main", "understudy.run.session", "understudy.backends.embedded.dct"),
    *("understudy.planning.recommendation", "understudy.cli.plan_command"),
    *("understudy.cli.check_command", "dp_accounting", "opendp.prelude"),
)
"""What the studio's commands import, once for all of them."""


@pytest.fixture(scope="module")
def with_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line in processes, as the studio's pages ask for it."""
    with commands(tmp_path_factory.mktemp("commands"), ",".join(PRELOADED)) as started:
        yield started


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="module")
def browser(missing: Missing) -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api")
    from tests.web.browser_site import CHROMIUM

    if CHROMIUM is None:
        missing("browser", "needs Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
