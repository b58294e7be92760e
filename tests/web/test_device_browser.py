"""The device's pages in a real browser, against a server on loopback: from photos to a trial."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright")
pytest.importorskip("cryptography")

from playwright.sync_api import expect
from tests.cli.processes import Commands
from tests.conftest import Missing
from tests.device.device_site import save_photo
from tests.methods.sanitize.painted_world import rooms
from tests.web.browser_site import (
    AXE,
    PATIENCE,
    LiveSite,
    Watched,
    go_by_keyboard,
    overflow,
    tab_to,
    violations,
)
from tests.web.colour_server import colour_server

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory, with_pages: Commands) -> LiveSite:
    """A device's pages, whose commands know the segmenter of the painted world."""
    site = LiveSite(tmp_path_factory.mktemp("household"), with_pages, device=True)
    for row, image in enumerate(rooms(6)[0]):
        save_photo(image, site.root / "photos" / f"<b>{row}.png")
    for channel, name in ((2, "blue"), (1, "green")):
        image = np.full((32, 32, 3), 20, np.uint8)
        image[..., channel] = 170
        for row in range(3):
            image[0, 0] = row
            save_photo(image, site.root / "labelled" / name / f"{row}.png")
    return site


@pytest.fixture(scope="module")
def pairing_code(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[str]:
    """What `understudy serve` prints."""
    with colour_server(tmp_path_factory.mktemp("server"), repository) as code:
        yield code


def follow(page: Any, name: str) -> None:
    """Go on by a link or a button, without a mouse."""
    with page.expect_navigation():
        go_by_keyboard(page, name)


def press(page: Any, name: str) -> None:
    """Press a button, and wait until its command is over."""
    follow(page, name)
    finished(page)


def finished(page: Any) -> None:
    page.locator("[data-events]:not([data-events=''])").first.wait_for(state="detached")
    page.wait_for_load_state()  # the page comes anew once its command is over
    expect(page.get_by_role("alert")).to_have_count(0)


def write(page: Any, label: str, text: str) -> None:
    """Type into a field, in the place of what it holds."""
    tab_to(page, label)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def tick(page: Any, label: str) -> None:
    """Tick or untick a box."""
    tab_to(page, label)
    page.keyboard.press("Space")


def test_a_household_from_photos_to_a_trial_without_a_mouse(
    household: LiveSite, pairing_code: str, browser: Any, missing: Missing
) -> None:
    window = Watched(browser)
    page, root = window.page, household.root
    with household.served() as link:
        page.goto(link)
        photos = sorted((root / "photos").iterdir())
        page.locator("input[type=file]").set_input_files(photos)
        expect(page.locator(".photos li")).to_have_count(6, timeout=PATIENCE)
        write(page, "Or a folder", "data/labelled")
        tick(page, "with a folder for each label")
        press(page, "Add photos")
        expect(page.get_by_text("blue: 3")).to_be_visible()
        follow(page, "Request")
        for label, text in (
            *(("Objects", "dog"), ("Where they are", "room"), ("What the model", "blue,green")),
            *(("Photos of which", "4"), ("What finds", "colours:red")),
        ):
            write(page, label, text)
        press(page, "Ask for this")
        follow(page, "Photos")
        press(page, "Search the objects")
        follow(page, "dog in photo 1")
        expect(page.locator(".levels.chosen legend")).to_have_text("dog")
        tab_to(page, "Words")
        for _ in ("A box", "Edges"):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".levels.chosen input[value=edges]")).to_be_checked()
        write(page, "Photos of which", "4")
        press(page, "Ask for this")
        follow(page, "Photos")
        tick(page, "leave out photo 6")
        press(page, "Leave out the marked photos")
        expect(page.locator(".photos li.out")).to_have_count(1)
        correct_without_a_mouse(page)
        follow(page, "What would leave")
        write(page, "The line that the server printed", pairing_code)
        press(page, "Pair")
        tick(page, "measure what the server would learn")
        press(page, "Show what would leave")
        shown = page.locator("pre").inner_text()
        code = re.search(r"Code of exactly this: (\w{8})", shown)
        assert code
        assert "dog (object): L1, its edges: 4 items" in shown
        write(page, "Code", "0" * 8)
        follow(page, "Agree and send")
        page.get_by_role("alert").wait_for()  # another code sends nothing
        expect(page.get_by_text("Nothing has left.")).to_be_visible()
        follow(page, "What would leave")
        write(page, "Code", code[1])
        press(page, "Agree and send")
        expect(page.get_by_text("dog: edges, 4 items")).to_be_visible()
        follow(page, "What would leave")
        expect(page.get_by_text("All of this was sent.")).to_be_visible()
        expect(page.get_by_text("Do you agree?")).to_have_count(0)
        follow(page, "Model")
        press(page, "Wait for the server")
        press(page, "Get the model")
        expect(page.get_by_text("Right in 100 % of your 6 labelled photos.")).to_be_visible()
        page.locator("input[type=file]").set_input_files(root / "labelled" / "green" / "0.png")
        expect(page.locator("pre", has_text="green")).to_be_visible(timeout=PATIENCE)
        follow(page, "What left")
        press(page, "Let the server delete it")
        expect(page.get_by_text("signed receipt is kept")).to_be_visible()
        assert window.faults == []
        check_looks(window, household, browser, missing)


def correct_without_a_mouse(page: Any) -> None:
    """Hide cells of the first photo by the keyboard, and two more by dragging, as others would."""
    go_by_keyboard(page, "correct photo 1")
    page.wait_for_url("**/correct?*")
    tab_to(page, "A1")
    for key in ("Space", "ArrowRight", "Space", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.name") == "cell.A2"
    assert page.locator(".cells :checked").count() == 2
    page.locator("[name='cell.G8']").hover()
    page.mouse.down()
    page.locator("[name='cell.H8']").hover()
    page.mouse.up()
    assert page.locator(".cells :checked").count() == 4
    go_by_keyboard(page, "Save the marks")
    page.wait_for_url(lambda url: "/correct" not in url)
    finished(page)
    expect(page.get_by_text("photo 1: A1, B1, G8, H8 stays home")).to_be_visible()
    expect(page.locator(".photos .hidden-cells")).to_have_count(1)


def check_looks(window: Watched, household: LiveSite, browser: Any, missing: Missing) -> None:
    """axe-core on every page in both themes, on a phone."""
    if not AXE.is_file():
        missing("axe", "needs axe-core: scripts/axe-core.sh fetches it by npm")
    wrong: dict[str, Any] = {}
    for theme in ("light", "dark"):
        looks = {"color_scheme": theme, "viewport": {"width": 390, "height": 844}}
        phone = Watched(browser, **looks, storage_state=window.context.storage_state())
        for path in (
            *("/", "/correct?number=1", "/correct?number=2&part=dog", "/request?part=dog"),
            *("/preview", "/history", "/model"),
        ):
            phone.page.goto(household.options.address + path)
            if found := violations(phone.page):
                wrong[theme + path] = found
            if (wide := overflow(phone.page)) > 0:
                wrong[path + " overflows"] = wide
        phone.context.close()
    assert not wrong
