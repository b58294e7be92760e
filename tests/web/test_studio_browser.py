"""The studio in a real browser: a story without a mouse, its looks, and who can use it."""

import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import expect
from tests.cli.processes import Commands
from tests.conftest import Missing
from tests.web.browser_site import (
    AXE,
    PATIENCE,
    THEMES,
    LiveSite,
    Watched,
    go_by_keyboard,
    overflow,
    tab_to,
    violations,
)
from tests.web.web_site import HOSTILE_CLASS, HOSTILE_FILE, draw_dataset

from understudy.release.verify import verify
from understudy.run import books

pytestmark = pytest.mark.browser

_FIRST_PAGES = 12  # loads, of which one has to be quick; other programs may have the processor


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, with_pages: Commands) -> Iterator[LiveSite]:
    site = LiveSite(tmp_path_factory.mktemp("live"), with_pages)
    photos = draw_dataset(site.root / "photos", classes=("boots", HOSTILE_CLASS))
    (photos / "boots" / HOSTILE_FILE).write_bytes(b"no image")
    with site.served() as link:
        site.link = link  # type: ignore[attr-defined]
        yield site


@pytest.fixture(scope="module")
def entered(live: LiveSite, browser: Any) -> Watched:
    """A window that followed the link."""
    window = Watched(browser, accept_downloads=True)
    window.page.goto(live.link)  # type: ignore[attr-defined]
    assert "token" not in window.page.url
    return window


@pytest.fixture(scope="module")
def story(live: LiveSite, entered: Watched) -> Watched:
    """From the link to a downloaded release without a mouse; what went wrong, if anything."""
    page = entered.page
    go_by_keyboard(page, "Use photos")
    expect(page.get_by_text("would refuse a run").first).to_be_visible(timeout=PATIENCE)
    go_by_keyboard(page, "How the images are read")
    go_by_keyboard(page, "skip bad", key="Space")
    go_by_keyboard(page, "Read them again")
    expect(page.get_by_text("A run would be accepted.")).to_be_visible(timeout=PATIENCE)
    go_by_keyboard(page, "Plan a run")
    expect(page.get_by_role("heading", name="Why this run")).to_be_visible(timeout=PATIENCE)
    tab_to(page, "From more private to more useful")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#epsilon")).to_have_value("2")
    expect(page.locator("#risk")).to_contain_text("88.1 %")
    expect(page.locator("#risk")).to_contain_text("After such a run: 2")
    tab_to(page, "Name of the new folder")
    page.keyboard.press("Control+a")
    page.keyboard.type("the run")
    go_by_keyboard(page, "Go on to the charge")
    expect(page.get_by_text("This is for good.")).to_be_visible(timeout=PATIENCE)
    go_by_keyboard(page, "Yes, charge epsilon 2")
    page.get_by_role("link", name="See the result").wait_for()
    go_by_keyboard(page, "See the result")
    expect(page.get_by_role("heading", name="What to hand over")).to_be_visible(timeout=PATIENCE)
    with page.expect_download() as download:
        go_by_keyboard(page, "Download for handing over")
    download.value.save_as(live.folder / "handed over.zip")
    return entered


@pytest.mark.slow
def test_from_the_link_to_a_release_without_a_mouse(story: Watched, live: LiveSite) -> None:
    with zipfile.ZipFile(live.folder / "handed over.zip") as archive:
        archive.extractall(live.folder / "recipient")
    checked = verify(live.folder / "recipient" / "the run")
    assert checked.sound, checked.faults
    assert checked.record is not None
    assert checked.record.receipt.epsilon == pytest.approx(2, abs=1e-3)
    assert story.faults == []
    assert story.page.get_by_text(HOSTILE_CLASS).count() > 0
    check_no_network(story, live)


def check_no_network(window: Watched, live: LiveSite) -> None:
    mine = (live.options.address, "data:", "blob:")
    assert window.asked
    assert not [url for url in window.asked if not url.startswith(mine)]


def test_a_planted_script_does_not_run(entered: Watched, live: LiveSite) -> None:
    """Were a name ever written as markup, the policy would still stop its script."""
    page, seen = entered.context.new_page(), []
    page.on("console", lambda message: seen.append(message.text))
    page.on("dialog", lambda dialog: seen.append("a script ran"))

    def planted(route: Any) -> None:
        answer = route.fetch()
        script = "<script>alert(1)</script><img src=x onerror=alert(2)><style>p{color:red}</style>"
        route.fulfill(response=answer, body=answer.text().replace("<main", script + "<main"))

    page.route("**/ledger", planted)
    page.goto(live.options.address + "/ledger")
    assert "a script ran" not in seen
    assert sum("Content Security Policy" in text for text in seen) >= 3
    page.close()


@pytest.mark.slow
def test_several_tabs_and_a_new_browser_show_the_same_run(
    story: Watched, live: LiveSite, browser: Any
) -> None:
    first, second = story.context.new_page(), story.context.new_page()
    for page in (first, second):
        page.goto(live.options.address + "/run?run=data/the+run")
        expect(page.get_by_role("link", name="See the result")).to_be_visible()
    shown = first.locator("main").inner_text()
    assert "the run" in shown
    assert second.locator("main").inner_text() == shown
    first.close()
    second.close()
    stranger = browser.new_context().new_page()
    stranger.goto(live.options.address + "/run?run=data/the+run")
    expect(stranger.get_by_text("open the link that the command printed")).to_be_visible()


PAGES = ("/", "/ledger", "/verify")


def pages_of_a_run(live: LiveSite) -> list[str]:
    (account,) = books.overview(live.options.ledger)
    charge = "source=data%2Fphotos&epsilon=2&out=another&skip_bad=on&size=8&channels=1"
    return [
        *("/data?source=data%2Fphotos", "/data?source=data%2Fphotos&skip_bad=on"),
        f"/plan?{charge}",
        f"/charge?{charge}&encoder=embedded:dct",
        *("/runs?order=recall", "/run?run=data%2Fthe+run", "/result?run=data%2Fthe+run"),
        *("/compare", "/compare?run=data%2Fthe+run&run=data%2Fthe+run"),
        *(f"/ledger?dataset={account.dataset.id}", "/verify?file=data%2Fthe+run", "/nowhere"),
    ]


def check_pages(
    entered: Watched, live: LiveSite, theme: str, missing: Missing, paths: Sequence[str]
) -> None:
    """axe-core finds nothing serious or critical, and nothing overflows a phone of 390 pixels."""
    if not AXE.is_file():
        missing("axe", "needs axe-core: scripts/axe-core.sh fetches it by npm")
    looks = {"color_scheme": theme, "viewport": {"width": 390, "height": 844}}
    browser = entered.context.browser
    window = Watched(browser, **looks, storage_state=entered.context.storage_state())
    found: dict[str, Any] = {}
    for path in paths:
        window.page.goto(live.options.address + path)
        window.page.locator("[data-events]:not([data-events=''])").first.wait_for(state="detached")
        if wrong := violations(window.page):
            found[path] = wrong
        if (wide := overflow(window.page)) > 0:
            found[path + " overflows"] = wide
    window.context.close()
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_everybody_can_use_every_page(
    story: Watched, live: LiveSite, theme: str, missing: Missing
) -> None:
    check_pages(story, live, theme, missing, [*PAGES, *pages_of_a_run(live)])


@pytest.mark.slow
def test_what_is_typed_while_a_plan_is_made_stays(entered: Watched, live: LiveSite) -> None:
    """The page was loaded anew when the plan was there, and the form with it."""
    page = entered.context.new_page()
    page.goto(live.options.address + "/plan?source=data%2Fphotos&skip_bad=on&size=8&epsilon=3")
    assert page.locator("[data-events]:not([data-events=''])").count() == 1
    page.get_by_label("Name of the new folder").fill("my own name")
    page.locator("#epsilon").fill("2.5")
    expect(page.get_by_role("heading", name="Why this run")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_label("Name of the new folder")).to_have_value("my own name")
    expect(page.locator("#epsilon")).to_have_value("2.5")
    page.close()


@pytest.mark.slow
def test_the_risk_is_that_of_the_epsilon_that_is_typed(story: Watched, live: LiveSite) -> None:
    """It stayed that of the slider: a typed 8 was called strong protection."""
    page = story.context.new_page()
    page.goto(live.options.address + pages_of_a_run(live)[2])
    expect(page.get_by_role("heading", name="Why this run")).to_be_visible(timeout=PATIENCE)
    page.locator("#epsilon").fill("8")
    page.locator("#epsilon").blur()
    expect(page.locator("#risk")).to_contain_text("79.8 %", timeout=PATIENCE)
    expect(page.locator("#epsilon")).to_have_value("8")
    page.close()


@pytest.mark.slow
def test_a_dropped_zip_is_verified(story: Watched, live: LiveSite) -> None:
    page = story.context.new_page()
    page.goto(live.options.address + "/verify")
    page.locator("input[type=file]").set_input_files(live.folder / "handed over.zip")
    expect(page.get_by_text("is sound")).to_be_visible(timeout=PATIENCE)
    page.goto(live.options.address + "/verify")
    bad = live.folder / "bad.txt"
    bad.write_text("no zip")
    page.locator("input[type=file]").set_input_files(bad)
    expect(page.get_by_text("That did not work")).to_be_visible()
    assert page.get_by_text("is sound").count() == 0
    page.close()


def test_a_file_chosen_before_the_page_has_loaded_is_taken(
    entered: Watched, live: LiveSite
) -> None:
    page, held = entered.context.new_page(), list[Any]()
    page.route("**/static/studio.js", lambda route: held.append(route))
    with page.expect_request("**/static/studio.js"):
        page.goto(live.options.address + "/verify", wait_until="commit")
    early = live.folder / "early.txt"
    early.write_text("no zip")
    page.locator("input[type=file]").set_input_files(early)
    assert page.get_by_text("That did not work").count() == 0  # nothing has taken it yet
    held[0].continue_()
    expect(page.get_by_text("That did not work")).to_be_visible(timeout=PATIENCE)
    page.close()


def test_the_first_page_is_there_at_once(entered: Watched, live: LiveSite) -> None:
    """By the browser's own clock, with all that the page loads: the best of a few, warm."""
    page, seconds = entered.context.new_page(), [1.0]
    while min(seconds) > 0.5 and len(seconds) <= _FIRST_PAGES:
        page.goto(live.options.address + "/")
        timing = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
        seconds.append(timing["loadEventEnd"] / 1000)
    assert min(seconds) <= 0.5, seconds
    page.close()


def test_the_first_page_needs_no_network(entered: Watched, live: LiveSite) -> None:
    check_no_network(entered, live)
