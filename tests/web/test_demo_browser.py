"""The studio on the data of `make demo`: from the link to a verified release, by clicks alone."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import expect
from tests.cli.processes import Commands
from tests.web.browser_site import LiveSite, Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_MINUTES = 20 * 60_000.0  # milliseconds: where other programs have the processors


def test_the_demos_data_from_the_link_to_a_verified_release(
    tmp_path: Path, with_pages: Commands, browser: Any, fashion_mnist: Path
) -> None:
    site = LiveSite(tmp_path, with_pages, roots=(fashion_mnist,))
    window = Watched(browser, accept_downloads=True)
    window.context.set_default_timeout(_MINUTES)
    page = window.page
    with site.served() as link:
        page.goto(link)
        page.get_by_role("link", name="Use fashion-mnist").click()
        expect(page.get_by_text("60,000 images.")).to_be_visible(timeout=_MINUTES)
        page.get_by_role("link", name="Plan a run").click()
        page.get_by_role("heading", name="Why this run").wait_for()
        page.locator("summary", has_text="Output").click()
        page.locator("#f-count").fill("200")
        page.locator("#out").fill("demo")
        page.get_by_role("button", name="Go on to the charge").click()
        page.get_by_role("button", name="Yes, charge epsilon 1 and start").click()
        page.get_by_role("link", name="See the result").click()
        expect(page.get_by_role("heading", name="200 samples")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download for handing over").click()
        file = tmp_path / "demo.zip"
        download.value.save_as(file)
        page.get_by_role("link", name="Verify", exact=True).click()
        page.locator("input[type=file]").set_input_files(file)
        expect(page.get_by_role("heading", name="is sound")).to_be_visible(timeout=_MINUTES)
    assert window.faults == []
