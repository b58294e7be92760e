"""One server of commands and one small release for all tests of the pages; studios of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.cli.processes import Commands, commands
from tests.conftest import Missing
from tests.device.device_site import install_colours
from tests.web.web_site import (
    CHARGE,
    HOSTILE_CLASS,
    HOSTILE_FILE,
    Site,
    Story,
    draw_dataset,
    hidden_fields,
)

PRELOADED = (
    *("understudy.cli.main", "understudy.run.session", "understudy.backends.embedded.dct"),
    *("understudy.planning.recommendation", "understudy.cli.plan_command"),
    *("understudy.cli.check_command", "dp_accounting"),
    *("understudy.cli.device_command", "understudy.device.preview"),
    *("understudy.cli.web_command", "understudy.web.studio_app"),
    *("cryptography.x509", "PIL.Image", "torch"),
)
"""What the pages' commands import, once for all of them."""


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plug-ins that the pages' commands know: the models of the painted world."""
    folder = tmp_path_factory.mktemp("plugins")
    install_colours(folder)
    return folder


@pytest.fixture(scope="session")
def with_pages(
    tmp_path_factory: pytest.TempPathFactory, plugins: Path, repository: Path
) -> Iterator[Commands]:
    """The command line in processes, as the pages ask for it."""
    paths = [str(plugins), str(repository), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        with commands(tmp_path_factory.mktemp("commands"), ",".join(PRELOADED)) as started:
            yield started


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.client:
        yield site


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory, with_pages: Commands) -> Iterator[Story]:
    """A studio with a finished run, made by clicking through; and its form token."""
    site = Site(tmp_path_factory.mktemp("studio"), with_pages)
    photos = draw_dataset(site.root / "photos", classes=("boots", HOSTILE_CLASS))
    (photos / "boots" / HOSTILE_FILE).write_bytes(b"no image")
    with site.client:
        token = site.enter()
        site.get("/data", source="data/photos", skip_bad="on")
        site.get("/charge", **CHARGE)
        site.work()
        values = hidden_fields(site.get("/charge", **CHARGE).text)
        assert values.pop("form_token") == token
        answers = [site.post("/runs/start", token, **values) for _ in range(2)]
        assert [one.status_code for one in answers] == [303, 303], answers[0].text
        assert site.studio.jobs.report(site.studio.jobs.all()[-1]).state == "queued"
        site.work()
        yield site, token


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
