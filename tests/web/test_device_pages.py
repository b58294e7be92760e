"""The device's pages without a browser: what they show of names that want to be markup."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import Commands
from tests.web.web_site import HOSTILE_CLASS, HOSTILE_FILE, Site

pytest.importorskip("cryptography")

from tests.device.device_site import (
    CLASSES,
    SEGMENTER,
    ColourPipeline,
    DeviceSite,
    colour_model,
    save_photo,
)
from tests.methods.sanitize.painted_world import SIDE, rooms
from tests.server.site import Server

from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import DeviceModel, offer_model
from understudy.device.preferences import make_preferences, request_words, stored_preferences
from understudy.device.review import standing_corrections


@pytest.mark.slow
def test_hostile_names_are_text_on_every_page_of_the_device(
    tmp_path: Path, with_pages: Commands
) -> None:
    """Of a label's folder, of a file that is no photo, of an object, and of an address."""
    site = Site(tmp_path, with_pages, device=True)
    with site.client:
        token = site.enter()
        save_photo(
            np.full((32, 32, 3), 90, np.uint8), site.root / "photos" / HOSTILE_CLASS / "0.png"
        )
        (site.root / "photos" / HOSTILE_CLASS / HOSTILE_FILE).write_bytes(b"no photo")
        request = {"targets": HOSTILE_CLASS, "background": "<script>alert(3)</script>"}
        pages = []
        for path, form in (
            ("/", {"action": "add", "folder": "data/photos", "labelled": "on"}),
            ("/request", {"action": "request", **request}),
            ("/preview", {"action": "pair", "code": HOSTILE_CLASS}),
            ("/preview", {"action": "preview", "server": HOSTILE_CLASS}),
            ("/history", {"action": "send", "code": HOSTILE_CLASS}),
            ("/model", {"action": "train"}),
        ):
            assert site.post("/do", token, **form).status_code == 303, form
            pages.append(site.get(path))  # while it waits
            site.work()
            pages += [site.get(path), site.get("/request", part=HOSTILE_CLASS), site.get("/")]
    for answer in pages:
        assert answer.status_code == 200, answer.url
        assert "<img src=x" not in answer.text
        assert "<script>" not in answer.text
    assert sum("&lt;img src=x" in answer.text for answer in pages) >= 4
    assert any("&lt;script&gt;alert(2)" in answer.text for answer in pages)


@pytest.mark.slow
def test_asking_again_takes_what_knows_the_photos_by_then(
    tmp_path: Path, with_pages: Commands
) -> None:
    """A segmenter that ships is not named by the page: other photos may have come since."""
    site = Site(tmp_path, with_pages, device=True)
    save_photo(rooms(1)[0][0], site.root / "photos" / "0.png")
    asked = {"targets": "dog", "background": "room", "classes": "blue,green"}
    with site.client:
        token = site.enter()
        for form in ({"action": "add", "folder": "data/photos"}, {"action": "request", **asked}):
            assert site.post("/do", token, **form).status_code == 303, form
            site.work()
        home = DeviceHome.of(tmp_path / "device")
        assert stored_preferences(home).segmenter == "embedded:studio"
        assert 'name="segmenter" value=""' in site.get("/request").text


def test_a_request_of_the_shell_is_made_again_as_it_was(
    tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has no fields for a mixture, a number of images or a deviation of noise."""
    monkeypatch.syspath_prepend(plugins)
    device, site = DeviceSite(tmp_path), Site(tmp_path, device=True)
    device.add(2)
    made = make_preferences(
        device.home,
        targets=["dog", "cat"],
        background="room",
        classes=("blue", "green"),
        levels={"dog": "noise:5", "room": "segment"},
        images_per_class=30,
        segmenter=SEGMENTER,
        mixture=[["dog"]],
        equal_shares=True,
    )
    with site.client:
        token = site.enter()
        page = site.get("/request").text
        assert re.search(r'name="level.dog" value="noise" checked', page)
        form = {"targets": "dog, cat", "background": "room", "classes": "blue,green"}
        form |= {"level.dog": "noise", "level.cat": "text", "level.room": "segment"}
        form |= {"references": "10", "training": "classifier", "segmenter": SEGMENTER}
        site.post("/do", token, action="request", **form)
        (asked,) = site.studio.jobs.of(device.home.folder)
        assert set(asked.words[3:]) == set(made.words())
        changed = request_words(["dog"], "room", {"dog": "noise"}, like=made)
        assert not [word for word in changed if "mix" in word or "shares" in word]


@pytest.mark.slow
def test_a_photo_is_corrected_and_its_levels_are_pictures_of_it(
    tmp_path: Path, with_pages: Commands
) -> None:
    """By the same command that the page shows; what was marked before stays marked."""
    site = Site(tmp_path, with_pages, device=True)
    for row, image in enumerate(rooms(3)[0]):
        save_photo(image, site.root / "photos" / f"{row}.png")
    asked = {"targets": "dog", "background": "room", "segmenter": "colours:red"}
    asked |= {"classes": "blue,green", "references": "2", "level.room": "segment"}
    steps = [
        {"action": "add", "folder": "data/photos"},
        {"action": "request", **asked},
        {"action": "segment"},
        {"action": "correct", "number": "2", "part": "", "cell.A1": "on", "cell.B1": "on"},
        {"action": "correct", "number": "2", "part": "dog", "cell.H8": "on"},
        {"action": "segment", "reviewed": "1", "leave.3": "on"},
    ]
    with site.client:
        token = site.enter()
        assert site.get("/correct", number=1).status_code == 400  # nothing was searched
        for form in steps:
            assert site.post("/do", token, **form).status_code == 303, form
            if form["action"] == "correct" and form["part"]:
                site.get("/")  # two corrections wait for one another, and neither loses the other
                continue
            site.work()
        home = DeviceHome.of(tmp_path / "device")
        texts = [str(one) for one in standing_corrections(home, stored_preferences(home))]
        assert texts == ["2=A1,B1", "2:dog=H8"]
        page = site.get("/correct", number=2).text
        assert page.count(" checked") == 2
        assert 'name="cell.A1" checked' in page
        assert "<span>segment</span> <span>--hide=2=A1,B1</span>" in page
        assert 'name="cell.H8" checked' in site.get("/correct", number=2, part="dog").text
        photos = site.get("/").text
        assert "hidden-cells" in photos
        assert photos.count('class="out"') == 1
        pictures = site.get("/request").text
        assert 'value="colours:red"' in pictures
        assert pictures.count("<img ") == 4 + 2  # of the dog all but words, and of the room
        for part, level in ((1, "edges"), (1, "noise"), (0, "segment")):
            answer = site.get("/level", part=part, level=level)
            assert answer.headers["content-type"] == "image/png", answer.text
        for refused in (
            site.get("/correct", number=4),
            site.get("/correct", number=2, part=HOSTILE_CLASS),
            site.get("/level", part=2, level="edges"),
            site.get("/level", part=0, level="box"),
            site.get("/level", part=1, level="text"),
            site.post("/do", token, action="correct", number="2", **{"cell.<b>": "on"}),
            site.post("/do", token, action="correct", number="x=A1", part=""),
        ):
            assert refused.status_code == 400, refused.url
            assert "<img src" not in refused.text


def test_what_was_sent_is_not_offered_again_and_a_model_not_before_it_is_done(
    tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(plugins)
    device, server = DeviceSite(tmp_path), Server(tmp_path / "server", pipeline=ColourPipeline())
    site = Site(tmp_path, device=True)
    with server.client() as client, site.client:
        site.enter()
        device.pair(server, client)
        device.add()
        shown = device.show({"dog": "edges"})
        asked = site.get("/request").text
        for word in ("--background=room", "--target=dog", "--level=dog=edges", "--references=4"):
            assert f"<span>{word}</span>" in asked  # asked for in the shell
        assert asked.count("The box is the whole photo") == 1  # of 32 pixels, as its grid is
        assert "To agree and send it" in site.get("/preview").text
        device.outbox.send(shown.parcel.digest, shown.code)
        page = site.get("/preview").text
        assert "Exactly this" in page
        assert "To agree and send it" not in page
        assert re.search(r"<time>\d{4}-\d\d-\d\d \d\d:\d\d UTC</time>", site.get("/history").text)
        for fetched in (False, True):
            device.outbox.status(device.attempt(shown))
            page = site.get("/model").text
            assert "Wait for the server" in page
            assert ("Get the model" in page) == fetched
            server.work()
    server.store.close()


@pytest.mark.slow
def test_a_model_is_gone_back_from_only_where_there_was_one_before(
    tmp_path: Path, with_pages: Commands
) -> None:
    site = Site(tmp_path, with_pages, device=True)
    home = DeviceHome.of(tmp_path / "device")
    model = DeviceModel("", "server", "classifier", CLASSES, SIDE, 0.9)
    with site.client:
        site.enter()
        for gain in (1.0, 2.0):
            offer_model(home, colour_model(gain=gain), model, wish=True)
            assert ('value="rollback"' in site.get("/model").text) == (gain == 2)
