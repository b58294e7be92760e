"""Photos come in clean, requests are checked, objects that stay home hold photos back."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from tests.device.device_site import CANARY, CLASSES, SEGMENTER, DeviceSite, save_photo
from tests.device.test_device_wire import Terminal
from tests.methods.sanitize.painted_world import (
    SIDE,
    ColourSegmenter,
    LyingSegmenter,
    is_red,
    rooms,
)

from understudy.backends.registry import load_encoder
from understudy.core.errors import ConfigError, InputError, RunError, SourceError, WireError
from understudy.core.types import Masks
from understudy.data import open_source
from understudy.device.exposure import exposures, public_homes, synthetic_similarity
from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import ORIGIN_HERE, DeviceModel, ModelIndex
from understudy.device.messages import camera_messages
from understudy.device.photo_store import (
    PhotoFile,
    add_photos,
    labelled_photos,
    photo_files,
    references,
)
from understudy.device.preferences import Preferences, make_preferences, stored_preferences
from understudy.device.preview import (
    LITTLE_FOR_DETECTORS,
    LITTLE_FROM_EDGES,
    more_disclosure_advice,
    preview,
)
from understudy.device.review import reviewed_photos, segment_photos
from understudy.methods.sanitize.ed25519 import new_signing_key
from understudy.methods.sanitize.sanitizers import PhotoPart, SegmentSanitizer
from understudy.methods.sanitize.segments import SearchSettings, SecondLook, search
from understudy.methods.sanitize.signed_results import check_signature, sign
from understudy.methods.sanitize.wire import (
    JobRequest,
    ModelResult,
    PartRequest,
    decode_message,
    encode_message,
)
from understudy.metrics.semantic import part_directions, semantic_similarity

ONCE = SearchSettings(scales=(1.0,), flips=False)


def test_a_request_is_made_again_by_its_words(site: DeviceSite) -> None:
    site.add(2)
    made = make_preferences(
        site.home,
        targets=["dog", "cat"],
        background="room",
        classes=CLASSES,
        levels={"dog": "noise:10", "background": "segment"},
        references=2,
        images_per_class=30,
        segmenter=SEGMENTER,
        mixture=[["dog"], ["dog", "background"]],
        equal_shares=True,
    )
    assert len(made.words()) == 13
    make_preferences(site.home, targets=["dog"], background="room", classes=CLASSES)
    Terminal(site.home.folder)("request", *made.words())
    assert stored_preferences(site.home) == made


def test_a_photo_is_upright_square_and_nothing_but_pixels(site: DeviceSite, tmp_path: Path) -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 40:] = (255, 0, 0)
    save_photo(image, tmp_path / "plain.png")
    # The camera was held on its side (orientation 6).
    save_photo(np.ascontiguousarray(np.rot90(image)), tmp_path / "turned.png", 6)
    files = [PhotoFile(tmp_path / "plain.png"), PhotoFile(tmp_path / "turned.png")]
    added = add_photos(site.home, files, side=SIDE, ledger=site.ledger)
    assert (added.added, added.references) == (2, 2)
    plain, upright = references(site.home).images
    np.testing.assert_array_equal(plain, upright)
    assert plain.shape == (SIDE, SIDE, 3)
    stored = b"".join(path.read_bytes() for path in site.home.path("photos").iterdir())
    assert CANARY.encode() not in stored
    index = site.home.path("photos.json").read_text()
    assert "plain" not in index
    assert site.home.path("photos.json").stat().st_mode & 0o077 == 0


def test_a_photo_is_added_once_and_a_bad_file_is_named(site: DeviceSite) -> None:
    place = site.add(3)
    (place / "broken\x1b[2J.jpg").write_bytes(b"\xff\xd8 no photo")
    again = add_photos(site.home, photo_files(place))
    assert (again.added, again.repeats) == (0, 3)
    assert again.faults[0].startswith("broken\\x1b[2J.jpg ")
    with pytest.raises(InputError, match="32 pixels a side"):
        add_photos(site.home, photo_files(place), side=64)
    with pytest.raises(SourceError, match="one folder a class"):
        photo_files(place, labelled=True)
    with pytest.raises(SourceError, match="one folder a class, --labelled"):
        photo_files(site.folder)


def test_a_photo_of_16_bits_is_refused_with_advice_that_a_device_takes(site: DeviceSite) -> None:
    """It was to be read by an option of a dataset's name, which no command of a device takes."""
    place = site.add(1)
    Image.fromarray(np.full((32, 32), 40_000, np.uint16)).save(place / "deep.png")
    (fault,) = add_photos(site.home, photo_files(place)).faults
    assert fault.startswith("deep.png has grey values of 16 bits or more")
    assert "save it with 8 bits" in fault
    assert "window" not in fault


@pytest.mark.parametrize("first", [None, "blue"])
def test_a_photo_that_is_added_as_something_else_is_named(
    site: DeviceSite, tmp_path: Path, first: str | None
) -> None:
    """It was passed over as known, and a photo that its owner had labelled could leave."""
    save_photo(np.full((SIDE, SIDE, 3), 90, np.uint8), tmp_path / "one.png")
    path = tmp_path / "one.png"
    add_photos(site.home, [PhotoFile(path, first)], side=SIDE, ledger=site.ledger)
    again = add_photos(site.home, [PhotoFile(path, first), PhotoFile(path, "green")])
    assert (again.added, again.repeats, len(again.faults)) == (0, 1, 1)
    stays = "a reference, of which something may leave" if first is None else "labelled 'blue'"
    assert again.faults[0].startswith(f"one.png was added before, and stays {stays}")
    # The same pixels in another file are the same photo.
    Image.open(path).convert("RGBA").save(tmp_path / "other.png")
    other = add_photos(site.home, [PhotoFile(tmp_path / "other.png", "green")])
    assert other.faults[0].startswith(f"other.png was added before, and stays {stays}")


def test_a_label_is_any_name_of_a_folder_and_a_photo_may_be_animated(
    site: DeviceSite, tmp_path: Path
) -> None:
    frames = [Image.fromarray(np.full((SIDE, SIDE, 3), grey, np.uint8)) for grey in (200, 0)]
    frames[0].save(tmp_path / "animated.gif", save_all=True, append_images=frames[1:])
    label = os.fsdecode(b"caf\xe9")  # of a machine whose names are Latin-1
    files = [PhotoFile(tmp_path / "animated.gif", label)]
    with pytest.raises(InputError, match="not 0"):
        add_photos(site.home, files, side=0, ledger=site.ledger)
    add_photos(site.home, files, side=SIDE, ledger=site.ledger)
    photos = labelled_photos(site.home)
    assert photos.classes() == (label,)
    assert (photos.images == 200).all()


def test_labelled_photos_are_never_references(site: DeviceSite) -> None:
    site.add_labelled()
    with pytest.raises(InputError, match="without a label"):
        references(site.home)
    site.add(2)
    assert len(references(site.home).ids) == 2
    assert labelled_photos(site.home).classes() == ("blue", "green")
    assert not set(references(site.home).ids) & set(labelled_photos(site.home).ids)


def test_the_ledger_recognises_the_photos_by_their_files(site: DeviceSite) -> None:
    place = site.add(4)
    with site.home.settings.open_ledger() as ledger:
        assert ledger.look_up(open_source(place))[0].id == site.home.settings.dataset


def test_photos_that_are_another_dataset_by_now_have_another_name(site: DeviceSite) -> None:
    site.add_labelled(1)
    site.add(8)
    with site.home.settings.open_ledger() as ledger:
        names = [dataset.name for dataset in ledger.datasets()]
    assert names == [f"photos of the device device, {count} at first" for count in (2, 10)]


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        ({"dog": "everything"}, "of dog may leave text, box"),
        ({"background": "pose"}, "of room may leave text, edges, segment"),
        ({"cat": "text"}, "a level is given for cat"),
        ({"dog": "pose"}, "finds the keypoints of a person.*--pose-model"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    site: DeviceSite, levels: dict[str, str], problem: str
) -> None:
    site.add(2)
    with pytest.raises(ConfigError, match=problem):
        site.ask(levels)
    with pytest.raises(ConfigError, match="--classes NAME,NAME"):
        make_preferences(site.home, targets=["dog"], background="room")
    with pytest.raises(RunError, match="device request"):
        stored_preferences(site.home)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"file/device cannot be made .*--home"):
        DeviceHome.of(tmp_path / "file" / "device")


@pytest.mark.parametrize("deviation", [5, 10, 50])
def test_noise_of_the_paper_is_asked_for_by_its_deviation(site: DeviceSite, deviation: int) -> None:
    """On one grey, away from black and white, the pixels that would be sent vary by that much."""
    site.add(2)
    site.ask({"dog": f"noise:{deviation}"}, 2)
    asked = stored_preferences(site.home)
    assert f"noise of {deviation} of 255" in asked.lines()[0]
    grey = np.full((1, SIDE, SIDE, 3), 128, np.uint8)
    part = PhotoPart(grey, np.ones((1, SIDE, SIDE), bool), "dog")
    sent = asked.sanitizer(1).sanitize(part, seed=1).values.astype(float)
    assert sent.std() == pytest.approx(deviation, rel=0.06)


def test_a_mixture_is_asked_for_by_the_names_of_parts(site: DeviceSite) -> None:
    site.add()
    device = Terminal(site.home.folder)
    asked = ("request", "--target", "dog", "--background", "room", "--classes", "blue,green")
    asked += ("--level", "dog=segment", "--references", "3", "--segmenter", SEGMENTER)
    with pytest.raises(ConfigError, match="the parts are dog, background"):
        device(*asked, "--mix", "cat")
    device(*asked, "--mix", "dog", "--equal-shares")
    device("segment")
    said = device("preview", "--no-measure")
    assert "drawn from words alone for dog" in said
    assert "is not found is not hidden" in said
    request = stored_preferences(site.home).request
    assert (request.mixture, request.equal_shares) == (((1,),), True)


def test_what_was_segmented_is_of_these_photos_and_objects(site: DeviceSite) -> None:
    site.add(3)
    preferences = site.ask({"dog": "edges"}, 2)
    with pytest.raises(RunError, match="not searched yet"):
        preview(site.home, preferences, site.checks())
    segment_photos(site.home, preferences, [2])
    again = reviewed_photos(site.home, preferences)
    assert again.left_out == (2,)
    assert again.segments.masks.any()
    with Image.open(again.sheet) as sheet:
        assert sheet.height > 3 * SIDE
    with pytest.raises(ConfigError, match="numbered 1 to 3"):
        segment_photos(site.home, preferences, [4])
    site.add(5, seed=9)
    with pytest.raises(RunError, match="changed since"):
        reviewed_photos(site.home, preferences)


def test_no_more_references_are_taken_than_are_clean(site: DeviceSite) -> None:
    site.add(5)
    preferences = site.ask({"dog": "segment"}, 4)
    segment_photos(site.home, preferences, [1, 2])
    with pytest.raises(InputError, match=r"3 of 5 photos.*2 were left out.*--references 3"):
        preview(site.home, preferences, site.checks())
    preferences = site.ask({"dog": "segment"}, 3)
    shown = preview(site.home, preferences, site.checks())
    assert "dog of 3, 4, 5" in shown.text
    assert len(shown.parcel.decoded(1)) == 3


def test_the_page_says_what_leaves_and_what_it_tells(site: DeviceSite) -> None:
    site.add()
    text = site.show({}).text
    assert "dog (object): L0, its name alone\n" in text
    assert "Nothing of any photo leaves" in text
    shown = site.show({"dog": "edges", "background": "segment"})
    assert "dog (object): L1, its edges: 4 items, 640 bytes" in shown.text
    assert "room (background): L2, its pixels: 4 items, 12,416 bytes" in shown.text
    assert "not measured" in shown.text
    assert shown.page.read_text() == shown.text
    assert shown.code in shown.text


def test_figures_of_what_a_server_would_learn(site: DeviceSite) -> None:
    site.add()
    preferences = site.ask({"dog": "segment", "background": "text"}, 6)
    reviewed = segment_photos(site.home, preferences)
    sanitizers = {1: SegmentSanitizer()}
    public = public_homes(preferences, sanitizers, SEGMENTER, str(site.public()[1]))
    assert len(set(public.homes)) == 6
    messages = camera_messages(
        reviewed.photos.images,
        reviewed.segments,
        preferences,
        sanitizers,
        SecondLook(segmenters=(ColourSegmenter(),)),
    )
    measured = exposures(
        reviewed.photos.images,
        reviewed.segments,
        [messages.images[1]],
        {1: messages.images[1]},
        preferences,
        public,
    )
    assert measured[1].status is not None
    assert measured[1].home is not None
    assert measured[0].status is None
    assert set(measured[1].as_json()) >= {"status_read", "home_recognised"}


def test_too_few_homes_to_compare_with_are_refused_by_the_option(site: DeviceSite) -> None:
    site.add()
    preferences = site.ask({"dog": "segment", "background": "text"}, 6)
    homes = site.public()[1]
    lines = (homes / "manifest.csv").read_text().splitlines()
    (homes / "manifest.csv").write_text("\n".join(lines[:7]) + "\n")
    for path in homes.glob("*.png"):
        if path.name >= "3":
            path.unlink()
    with pytest.raises(
        ConfigError, match=r"of 3 homes.* name 4 homes or more, or say --no-measure"
    ):
        public_homes(preferences, {1: SegmentSanitizer()}, SEGMENTER, str(homes))


def test_it_is_said_before_consent_where_more_disclosure_hardly_helped(site: DeviceSite) -> None:
    site.add(2)
    classifier = {feature: site.ask({"dog": feature}, 2) for feature in ("edges", "segment")}
    assert LITTLE_FROM_EDGES in more_disclosure_advice(classifier["edges"], ModelIndex(), 0)
    assert LITTLE_FROM_EDGES not in more_disclosure_advice(classifier["segment"], ModelIndex(), 0)
    assert LITTLE_FOR_DETECTORS in more_disclosure_advice(preferences_of(0, 2), ModelIndex(), 0)
    assert more_disclosure_advice(preferences_of(0, 0), ModelIndex(), 0) == []
    assert "device train" in "".join(more_disclosure_advice(classifier["edges"], ModelIndex(), 40))
    model = DeviceModel("1", ORIGIN_HERE, "classifier", CLASSES, SIDE, 0.9, 0.9, 40)
    here = "".join(more_disclosure_advice(classifier["edges"], ModelIndex((model,), ("1",)), 40))
    assert "device train" not in here
    assert "more disclosure can gain 10% at most" in here


def preferences_of(level: int, background: int) -> Preferences:
    names = {0: "text", 1: "edges", 2: "segment"}
    objects = (PartRequest(noun="dog", level=0), PartRequest(noun="cat", level=level))
    request = JobRequest(
        target_object=objects,
        background=PartRequest(noun="room", level=background),
        training_object="detector",
        label_classes=("dog",),
        side=SIDE,
        references=3 if level or background else 0,
    )
    return Preferences(request, (names[background], "text", names[level]))


@settings(max_examples=15, deadline=None)
@given(lies=arrays(np.int64, (3, SIDE, SIDE), elements=st.integers(0, 2), fill=st.integers(0, 2)))
def test_an_object_that_stays_home_does_whatever_the_segmenter_says(lies: Masks) -> None:
    """Red dogs stay; oranges cats and the room are sent whole, cut out by a segmenter that lies."""
    photos, _ = rooms(3, orange=True)
    segments = search(photos, ["dog", "cat"], LyingSegmenter(lies), ONCE)
    settings_of_look = SearchSettings(look_alikes=False)
    public = np.stack([np.full((SIDE, SIDE, 3), tone, np.uint8) for tone in (60, 120, 180)])
    look = SecondLook(
        segmenters=(ColourSegmenter(),), settings=settings_of_look, bound=0.002, rooms=public
    )
    preferences = preferences_of(2, 2)
    sanitizers = {0: SegmentSanitizer(), 2: SegmentSanitizer()}
    messages = camera_messages(photos, segments, preferences, sanitizers, look)
    for part in (0, 2):
        sent = messages.images[part][messages.usable(part)]
        own = (sent == photos[messages.usable(part)]).all(axis=3)
        left = (is_red(sent) & own).mean(axis=(1, 2))
        assert (left <= look.bound).all()


def test_what_a_server_drew_is_compared_with_the_photos_by_their_mean(site: DeviceSite) -> None:
    """SIM of Eq. 2, over all pairs, although no image comes back and none leaves."""
    site.add(4)
    shown = site.show({"dog": "segment"}, references=3)
    drawn, masks = rooms(5, seed=8)
    encoder = load_encoder("embedded:studio", shape=drawn.shape[1:])
    theirs = part_directions(drawn, masks, encoder)
    fields = {"job": "0" * 32, "submission": "0" * 64, "model": "0" * 64, "model_bytes": 1,
              "kind": "classifier", "label_classes": CLASSES, "side": drawn.shape[1],
              "validation": 0.5, "pipeline": "any"}  # fmt: skip
    key = new_signing_key()
    stated = tuple(tuple(one.round(4).tolist()) for one in theirs)
    result = sign(ModelResult, key, **fields, directions=stated)
    check_signature(decode_message(ModelResult, encode_message(result)), result.public_key)
    request = shown.parcel.request
    similarity = synthetic_similarity(site.home, request, result)
    reviewed = reviewed_photos(site.home, stored_preferences(site.home))
    for inside, value in zip((True, False), similarity or (), strict=True):
        sides = [
            encoder.encode(np.where((where == inside)[..., None], images, np.uint8(127)))
            for images, where in (
                (reviewed.photos.images, reviewed.segments.masks[0]),
                (drawn, masks),
            )
        ]
        assert value == pytest.approx(semantic_similarity(*sides).value, abs=1e-3)
    assert synthetic_similarity(site.home, request, sign(ModelResult, key, **fields)) is None
    cat = request.target_object[0].model_copy(update={"noun": "cat"})
    other = request.model_copy(update={"target_object": (cat,)})
    assert synthetic_similarity(site.home, other, result) is None
    for wrong in ((("1",) * 2,), ((2.0,),), ((float("nan"),),), stated * 2):
        with pytest.raises(WireError):
            sign(ModelResult, key, **fields, directions=wrong)


def test_what_is_not_found_is_named_and_a_remedy_is_one(paired: DeviceSite) -> None:
    """Of photos without a dog the whole room leaves; the advice was --references 0, and noise."""
    room = np.full((SIDE, SIDE, 3), (40, 140, 90), np.uint8)
    for row in range(3):
        room[row, :5] = (120, 30, 180)
        save_photo(room, paired.folder / "empty" / f"{row}.png")
    add_photos(paired.home, photo_files(paired.folder / "empty"), side=SIDE, ledger=paired.ledger)
    text = paired.show({"background": "segment"}, 3).text
    assert "dog was not found in 1, 2, 3: what is not found is not hidden" in text
    with pytest.raises(
        InputError, match=r"0 of 3 photos.*or ask again with no --level, for words alone"
    ):
        paired.show({"dog": "segment"}, 3)
    with pytest.raises(ConfigError, match=r"found 'L0': write dog=text, its name alone"):
        paired.ask({"dog": "L0"})
    paired.add()
    text = paired.show({"background": "segment"}, 4, leave_out=[1, 2, 3]).text
    assert "was not found" not in text
