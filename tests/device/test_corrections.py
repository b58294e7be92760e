"""What the owner corrects of a search, and what each level would leave of the photos."""

import dataclasses

import numpy as np
import pytest
from PIL import Image
from tests.device.device_site import DeviceSite
from tests.device.test_device_wire import Terminal
from tests.methods.sanitize.painted_world import SIDE

from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Images
from understudy.device.consent import standing_offer
from understudy.device.corrections import CELLS, Correction, merged
from understudy.device.messages import camera_messages, unsearched
from understudy.device.parcel import drawn_item
from understudy.device.preferences import BACKGROUND_LEVELS, stored_preferences
from understudy.device.preview import preview
from understudy.device.review import (
    level_picture,
    reviewed_photos,
    segment_photos,
    standing_corrections,
)


def test_a_correction_is_read_as_it_is_written() -> None:
    one = Correction.read(" 3:dog toy=d4-b2, a1 ")
    assert (one.photo, one.noun) == (3, "dog toy")
    assert one.cells == ("A1", "B2", "C2", "D2", "B3", "C3", "D3", "B4", "C4", "D4")
    assert Correction.read(str(one)) == one
    assert one.mask(SIDE).sum() == 10 * (SIDE // 8) ** 2
    assert one.mask(SIDE)[4:8, 4:16].all()
    assert not one.mask(SIDE)[:4, 4:].any()
    assert Correction.read("3=A1-H8").cells == CELLS
    assert str(Correction.read("3=none")) == "3=none"


@pytest.mark.parametrize(
    "text", ["3=I1", "3=A0", "3=A9", "3=A1-B2-C3", "3=A", "dog=A1", "3", "=A1"]
)
def test_what_is_no_cell_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cell"):
        Correction.read(text)


def test_the_last_correction_of_a_photo_and_an_object_counts() -> None:
    read = [Correction.read(text) for text in ("2=A1", "1=B1", "2:dog=C1", "2=D1,E1", "1=none")]
    assert [str(one) for one in merged(read[:2], read[2:])] == ["2=D1,E1", "2:dog=C1"]


def _messages(site: DeviceSite, images: Images) -> list[bytes]:
    """Everything that would leave, but for salts, by seeds that do not hang on the photos."""
    preferences = stored_preferences(site.home)
    reviewed = reviewed_photos(site.home, preferences)
    sanitizers = {part: preferences.sanitizer(part) for part in preferences.request.disclosed}
    messages = camera_messages(images, reviewed.segments, preferences, sanitizers, unsearched)
    items = [item for row in messages.items.values() for item in row]
    return [b"" if item is None else item.payload for item in items]


def test_a_request_of_an_earlier_version_is_to_be_made_again(site: DeviceSite) -> None:
    site.add(4)
    site.home.write("request.json", site.ask().request.model_dump(mode="json"))
    with pytest.raises(RunError, match="earlier version: make the request again"):
        stored_preferences(site.home)


@pytest.mark.parametrize("level", ["box", "edges", "segment", "noise"])
def test_no_pixel_of_a_hidden_cell_is_in_anything_that_leaves(site: DeviceSite, level: str) -> None:
    """Other pixels there, whatever the segmenter made of them, are the same bytes."""
    site.add(4)
    preferences = site.ask({"dog": level, "background": "segment"}, 4)
    before = segment_photos(site.home, preferences)
    row, column = np.argwhere(before.segments.masks[0, 1])[0] // (SIDE // 8)  # of the dog
    cell = "ABCDEFGH"[column] + str(row + 1)
    images = before.photos.images
    changed = images.copy()
    changed[1][Correction(2, "", (cell,)).mask(SIDE)] ^= 128
    assert level == "box" or _messages(site, images) != _messages(site, changed)  # it would tell
    reviewed = segment_photos(site.home, preferences, corrections=[Correction(2, "", (cell, "A1"))])
    shrunk = before.segments.masks.sum() - reviewed.segments.masks.sum()
    assert 0 < shrunk <= (SIDE // 8) ** 2
    assert (reviewed.segments.hidden >= before.segments.hidden).all()
    changed[1, :4, :4] = 77  # and in a corner that nothing was found in
    assert _messages(site, images) == _messages(site, changed)


def test_a_cell_that_belongs_to_an_object_leaves_as_it_does_and_in_no_background(
    site: DeviceSite,
) -> None:
    site.add(3)
    preferences = site.ask({"dog": "segment", "background": "segment"}, 3)
    plain = segment_photos(site.home, preferences).segments
    own = segment_photos(site.home, preferences, corrections=[Correction(1, "dog", ("A1",))])
    assert own.segments.masks[0, 0, :4, :4].all()
    assert own.segments.hidden[0, 0, :7, :4].all()  # with the margin that a search has
    assert (own.segments.masks[0, 1:] == plain.masks[0, 1:]).all()
    both = [Correction(1, "", ("A1",)), Correction(1, "dog", ("A1", "B1"))]
    hidden = segment_photos(site.home, preferences, corrections=both)
    assert not hidden.segments.masks[0, 0, :4, :4].any()  # what is hidden is so all the same
    assert hidden.segments.masks[0, 0, :4, 4:8].all()


def test_corrections_stand_until_they_are_taken_back(site: DeviceSite) -> None:
    """Also where photos have come, and where other ones are left out or searched anew."""
    site.add(3)
    preferences = site.ask({"dog": "segment"}, 2)
    device = Terminal(site.home.folder)
    device("segment", "--leave-out", "3")
    said = device("segment", "--hide", "1=A1-B1", "--belongs", "2:dog=H8")
    assert "photo 1: A1, B1 stays home photo 2: H8 is dog, too" in said
    for words in ((), ("--leave-out", "2"), ("--hide", "1=A1")):
        device("segment", *words)
        reviewed = reviewed_photos(site.home, preferences)
        assert reviewed.segments.hidden[0, 0, :4, :4].all(), words
        assert reviewed.segments.masks[0, 1, 28:, 28:].all(), words
        assert reviewed.left_out == ((3,) if not words else (2,))
    site.add(6, seed=9)
    assert [str(one) for one in standing_corrections(site.home, preferences)] == [
        "1=A1",
        "2:dog=H8",
    ]
    device("segment", "--leave-out", "", "--hide", "1=none")
    reviewed = reviewed_photos(site.home, preferences)
    assert [str(one) for one in reviewed.corrections] == ["2:dog=H8"]
    assert not reviewed.segments.hidden[0, 0, 0, 0]
    assert reviewed.left_out == ()
    with Image.open(reviewed.sheet) as sheet:
        assert sheet.width > 4 * 5 * SIDE  # photo, dog, may be dog, its cells


def test_a_correction_makes_no_search_and_voids_what_was_previewed(
    site: DeviceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add(4)
    site.show({"dog": "edges", "background": "segment"}, 3)
    assert standing_offer(site.home) is not None
    preferences = stored_preferences(site.home)
    with monkeypatch.context() as patch:
        patch.setattr("understudy.device.review.search", None)
        segment_photos(site.home, preferences, corrections=[Correction(1, "", ("C3",))])
    assert standing_offer(site.home) is None
    shown = preview(site.home, preferences, site.checks())
    cell = Correction(1, "", ("C3",)).mask(SIDE)
    other = dataclasses.replace(preferences, segmenter="colours:other")
    monkeypatch.setattr("understudy.device.review.search", None)
    with pytest.raises(TypeError):  # another segmenter searches anew
        segment_photos(site.home, other, corrections=[Correction(1, "", ("C3",))])
    hole = reviewed_photos(site.home, preferences).segments.hidden[0, 0]
    assert (hole >= cell).all()
    assert len(shown.parcel.decoded(0)) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--hide", "9=A1"], "numbered 1 to 2, found 9"),
        (["--belongs", "1:cat=A1"], "no object 'cat' in the request; there is dog"),
        (["--hide", "1:dog=A1"], "--hide 1=B2, or --belongs"),
        (["--belongs", "1=A1"], "names the object: 1:dog=B2"),
    ],
)
def test_a_correction_of_nothing_changes_nothing(
    site: DeviceSite, words: list[str], problem: str
) -> None:
    site.add(2)
    preferences = site.ask({"dog": "segment"}, 2)
    with pytest.raises(ConfigError, match=problem):
        Terminal(site.home.folder)("segment", *words)
    with pytest.raises(RunError, match="not searched yet"):
        reviewed_photos(site.home, preferences)


@pytest.mark.parametrize("level", ["box", "edges", "segment", "noise"])
def test_a_picture_of_a_level_is_what_a_preview_would_send(site: DeviceSite, level: str) -> None:
    """Of a request for words alone: the same pixels and bytes as once that level is asked for."""
    site.add(4)
    preferences = site.ask({"dog": "text"}, 4)
    reviewed = segment_photos(
        site.home, preferences, [1], corrections=[Correction(2, "", ("A1", "C3"))]
    )
    assert level_picture(site.home, reviewed, preferences, 1, "text") is None
    site.home.path("noise.key").write_bytes(b"damaged")  # the page of all levels stopped at it
    lost = level_picture(site.home, reviewed, preferences, 1, level)
    assert (lost is None) == (level == "noise")
    site.home.path("noise.key").unlink()
    background = level if level in BACKGROUND_LEVELS else "segment"
    pictures = [
        level_picture(site.home, reviewed, preferences, part, name)
        for part, name in ((0, background), (1, level))
    ]
    asked = site.ask({"dog": level, "background": background}, 3)
    shown = preview(site.home, asked, site.checks())
    for part, picture in enumerate(pictures):
        assert picture is not None
        assert picture.number == 2
        sent = [drawn_item(item) for item in shown.parcel.decoded(part)]  # by their digests
        assert any((picture.image == image).all() for image in sent)
        assert 3 * picture.size == shown.parcel.part_bytes(part)
