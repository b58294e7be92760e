"""What a curious server reads out of several photos and several sends: fills, noise, sums."""

import shutil
import stat
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image
from tests.device.device_site import SEGMENTER, DeviceSite, save_photo
from tests.methods.sanitize.painted_world import SIDE, ColourSegmenter, rooms
from tests.server.site import Server

from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Images, Masks
from understudy.device.messages import camera_messages, noise_seeds
from understudy.device.parcel import Parcel
from understudy.device.photo_store import add_photos, photo_files, references
from understudy.device.preferences import make_preferences
from understudy.device.preview import preview
from understudy.device.review import segment_photos
from understudy.methods.sanitize.sanitizers import NoiseSanitizer, PhotoPart, SegmentSanitizer
from understudy.methods.sanitize.segments import Remnants, SearchSettings, search

KEY, SENDS = b"k" * 32, 16
DOG, HOLE = np.s_[8:18, 8:20], np.s_[4:22, 4:24]


def hidden_pattern() -> Images:
    """A pattern that no room has."""
    rng = np.random.default_rng(3)
    pattern: Images = rng.integers(0, 120, (18, 20, 3), dtype=np.uint8)
    return pattern


def photos_with_a_pattern(count: int) -> Images:
    """Dogs at one place in all photos but the last: it has its dog elsewhere, a pattern there."""
    room = rooms(1)[0][0]
    room[:, :] = (40, 140, 90)
    photos = np.repeat(room[None], count, axis=0)
    photos[:-1, *DOG] = (210, 40, 30)
    photos[-1, *HOLE] = hidden_pattern()
    photos[-1, 26:31, 24:31] = (210, 40, 30)
    photos[:, 0, 0, 0] += np.arange(count, dtype=np.uint8)  # no two files are the same
    return photos


def shares_with_pattern(images: Images) -> float:
    """Part of the pattern's pixels that is in any of the images, within 2 of 255."""
    apart = np.abs(images[:, *HOLE].astype(int) - hidden_pattern()).max(axis=3)
    return float((apart <= 2).mean(axis=(1, 2)).max())


@pytest.mark.parametrize("why", ["left out", "beyond the number"])
def test_a_fill_has_no_pixel_of_a_photo_that_is_not_sent(site: DeviceSite, why: str) -> None:
    for row, photo in enumerate(photos_with_a_pattern(5)):
        save_photo(photo, site.folder / "photos" / f"{row}.png")
    add_photos(site.home, photo_files(site.folder / "photos"), side=SIDE, ledger=site.ledger)
    preferences = site.ask({"background": "segment"}, 4)
    segment_photos(site.home, preferences, [5] if why == "left out" else [])
    shown = preview(site.home, preferences, site.checks())
    assert "background of 1, 2, 3, 4\n" in shown.text
    sent = np.stack([item.image() for item in shown.parcel.decoded(0)])  # type: ignore[union-attr]
    assert shares_with_pattern(sent) < 0.05


def test_a_fill_has_no_pixel_of_a_photo_that_is_held_back(site: DeviceSite) -> None:
    """Whatever the second look holds back: the photos that take its place are made anew."""
    small = np.roll(photos_with_a_pattern(5), 1, axis=0)  # the one with the pattern comes first
    photos = np.full((5, 64, 64, 3), (40, 140, 90), np.uint8)
    photos[:, :SIDE, :SIDE] = small
    photos[0, :, 60:] = (0, 0, 200)  # by which the look below knows it

    def look(images: Images, nouns: Sequence[str], filler: Masks) -> Remnants:
        blue = images[:, 40, 62, 2] == 200
        return Remnants(np.zeros(images.shape[:3], bool), np.zeros(len(images)), blue)

    site.add(1)
    preferences = site.ask({"background": "segment"}, 4)
    once = SearchSettings(scales=(1.0,), flips=False)
    segments = search(photos, ["dog"], ColourSegmenter(), once)
    sanitizers = {0: SegmentSanitizer()}
    messages = camera_messages(photos, segments, preferences, sanitizers, look, count=4)
    assert messages.usable(0).tolist() == [False, True, True, True, True]
    assert shares_with_pattern(messages.images[0][1:]) < 0.05
    all_of_all = camera_messages(photos, segments, preferences, sanitizers, look)
    assert shares_with_pattern(all_of_all.images[0][1:]) > 0.9  # as it was


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "an item is lost"])
@pytest.mark.parametrize(
    ("left_out", "references"),
    [(([4, 5, 8], [2, 3, 8]), 5), (([3, 5, 6, 7, 8], [1, 2, 3, 4, 5]), 3)],
    ids=["the same photo", "a copy of it"],
)
def test_two_holes_of_a_photo_tell_no_more_than_one(
    paired: DeviceSite, left_out: tuple[list[int], list[int]], references: int, lost: bool
) -> None:
    """What is in both holes is the object's own box: each send alone hid it among others' boxes."""
    rng = np.random.default_rng(4)
    photos = np.full((7, 64, 64, 3), (40, 140, 90), np.uint8)
    photos += rng.integers(0, 9, photos.shape, dtype=np.uint8)  # by which its pixels are known
    middle = np.s_[22:27, 22:27]
    corners = [np.s_[53:58, 6:11], *[np.s_[6:11, 53:58]] * 2, *[np.s_[53:58, 53:58]] * 2]
    corners += [middle, middle]
    for photo, corner in zip(photos, corners, strict=True):
        photo[corner] = (210, 40, 30)
    for row, photo in enumerate(photos):
        save_photo(photo, paired.folder / "cells" / f"{row}.png")
    Image.fromarray(photos[0]).save(paired.folder / "cells" / "8.png")  # without its EXIF
    add_photos(paired.home, photo_files(paired.folder / "cells"), side=64, ledger=paired.ledger)
    own = []
    for numbers in left_out:
        shown = paired.show({"background": "segment"}, references, leave_out=numbers)
        sent = np.stack([item.image() for item in shown.parcel.decoded(0)])  # type: ignore[union-attr]
        same = (sent == photos[0]).all(axis=3).reshape(-1, 4, 16, 4, 16).mean(axis=(2, 4))
        own.append(same.max(axis=0) > 0.9)  # (4, 4): cells in which photo 1 is read as it is
        paired.outbox.send(shown.parcel.digest, shown.code)
        if lost:
            next(paired.home.path("outbox", shown.parcel.digest, "items").iterdir()).unlink()
    assert own[0].sum() == 16 - 3
    assert not (own[1] & ~own[0]).any()


def noisy_photo(parcel: Parcel) -> tuple[Images, Masks]:
    item = parcel.decoded(1)[0]
    return item.image(), item.mask()  # type: ignore[union-attr]


def grey_site(site: DeviceSite, *more: Images) -> Images:
    """A photo whose object is of a middle brightness, so that hardly any noise is clipped."""
    photo = rooms(1)[0][0]
    photo[4:28, 4:28] = (160, 85, 85)
    for row, image in enumerate((photo, *more)):
        save_photo(image, site.folder / "grey" / f"{row}.png")
    add_photos(site.home, photo_files(site.folder / "grey"), side=SIDE, ledger=site.ledger)
    return photo


def error_of(values: np.ndarray, photo: Images, mask: Masks) -> float:
    return float(np.sqrt(np.square(values[mask] - photo[mask]).mean()))


def test_the_mean_of_many_sends_is_no_better_than_one(site: DeviceSite) -> None:
    """Redrawn for each parcel, the error of the mean of 40 was 7.7 where that of one was 48."""
    photo = grey_site(site)
    draws = []
    for number in range(SENDS):
        noun = ("dog", "small dog", "my dog")[number % 3]  # other settings, the same pixels
        preferences = make_preferences(
            site.home,
            targets=[noun],
            background="room",
            classes=["blue", "green"],
            levels={noun: "noise"},
            references=1,
            images_per_class=100 + number,
            segmenter=SEGMENTER,
        )
        segment_photos(site.home, preferences)
        image, mask = noisy_photo(preview(site.home, preferences, site.checks()).parcel)
        draws.append(image.astype(float))
    one, mean = (error_of(values, photo, mask) for values in (draws[0], np.mean(draws, axis=0)))
    assert 40 < one < 52
    assert mean > 0.98 * one


def test_several_deviations_tell_no_more_than_the_least(site: DeviceSite) -> None:
    """Independent noises are averaged; one noise that is scaled is solved for, to the last bit."""
    photo = np.full((1, 64, 64, 3), 127, np.uint8)
    photo[0, :32] = 140
    part = PhotoPart(photo, np.ones((1, 64, 64), bool), "dog")
    (seed,) = noise_seeds(photo, KEY)
    values = {
        deviation: NoiseSanitizer(deviation).sanitize(part, seed=seed).values.astype(float)
        for deviation in (5, 10, 20)
    }
    noises = [one - photo for one in values.values()]
    for deviation, noise in zip(values, noises, strict=True):
        assert np.isclose(noise.std(), deviation, rtol=0.03)
        assert abs(noise.mean()) < 3 * deviation / np.sqrt(noise.size)
    assert np.sqrt(np.square(2 * values[5] - values[10] - photo).mean()) > 5
    covariance = np.cov(np.stack([noise.ravel() for noise in noises]))
    ones = np.ones(3)
    best = 1 / np.sqrt(ones @ np.linalg.solve(covariance, ones))  # of all unbiased combinations
    assert best > 0.97 * 5


def test_a_copy_that_was_encoded_again_has_the_same_noise_and_another_photo_has_not(
    site: DeviceSite,
) -> None:
    rng = np.random.default_rng(0)
    room = rooms(1)[0][0].repeat(8, axis=0).repeat(8, axis=1)
    room = np.clip(room + rng.normal(0, 9, room.shape), 0, 255).astype(np.uint8)
    place = site.folder / "copies"
    save_photo(room, place / "0.png")
    for row, quality in enumerate((85, 60, 35), start=1):
        Image.fromarray(room).save(place / f"{row}.jpg", quality=quality)
    Image.fromarray(room).resize((160, 160)).save(place / "4.png")
    add_photos(site.home, photo_files(place), side=SIDE, ledger=site.ledger)
    copies = references(site.home).images
    assert len(np.unique(copies, axis=0)) == 5
    dark = np.stack([np.full((SIDE, SIDE, 3), 3, np.uint8)] * 2)
    dark[1, ::2, ::2] = 6
    seeds = noise_seeds(np.concatenate([copies, rooms(4, seed=4)[0], dark]), KEY)
    assert len(set(seeds[:5])) == 1
    assert len(set(seeds)) == 1 + 4 + 2
    assert noise_seeds(copies[:1], KEY) == seeds[:1]  # whatever comes later
    assert noise_seeds(copies[:1], b"o" * 32) != seeds[:1]


def test_photos_have_noises_of_their_own_and_known_pixels_tell_nothing_of_others() -> None:
    photos = np.full((2, 64, 64, 3), 127, np.uint8)
    photos[1, 0, 0] = 200
    part = PhotoPart(photos[:1], np.ones((1, 64, 64), bool), "dog")
    first, second = (
        NoiseSanitizer(20).sanitize(part, seed=seed).values.astype(float) - 127 for seed in (1, 2)
    )
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.04
    rows = first[0].reshape(64, -1)
    across = np.corrcoef(rows) - np.eye(64)
    assert np.abs(across).max() < 0.35  # 192 values a row: no row repeats another
    kurtosis = np.mean(first**4) / np.mean(first**2) ** 2
    assert 2.85 < kurtosis < 3.15


@pytest.mark.parametrize("deviation", [0, -5, 0.5, 256, float("nan")])
def test_a_deviation_beside_the_walk_is_refused(deviation: float) -> None:
    with pytest.raises(ConfigError, match="whole number of 1 to 255"):
        NoiseSanitizer(deviation)


def test_the_secret_of_the_noise_is_the_owners_and_is_never_drawn_anew(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show({"dog": "noise"})
    key = paired.home.path("noise.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    paired.outbox.send(shown.parcel.digest, shown.code)
    assert key.read_bytes().hex() not in "".join(
        body.hex() for _, _, body in paired.exchange.messages
    )
    key.write_bytes(b"short")
    with pytest.raises(RunError, match="damaged"):
        paired.show({"dog": "noise"})
    key.unlink()
    with pytest.raises(RunError, match="could be averaged"):
        paired.show({"dog": "noise"})
    for level in ("edges", "text"):  # which have no noise, and were refused, too
        assert paired.show({"dog": level}).parcel.digest
    assert not key.exists()
    paired.home.path("sent.json").unlink()
    with pytest.raises(RunError, match="could be averaged"):  # the outbox and the ledger know
        paired.show({"dog": "noise"})
    shutil.rmtree(paired.home.path("outbox"))
    with pytest.raises(RunError, match="could be averaged"):  # the ledger does
        paired.show({"dog": "noise"})


def test_noise_can_be_chosen_after_levels_without_noise_were_sent(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show({"dog": "edges"})
    paired.outbox.send(shown.parcel.digest, shown.code)
    assert paired.show({"dog": "noise"}).parcel.digest  # no noise had left, and it was refused


def figures(text: str) -> dict[str, float]:
    """Of the dog in each block of the page: part of its pixels' content, in percent."""
    result, heading = {}, ""
    for line in text.splitlines():
        if line.startswith("What "):
            heading = line
        if line.startswith("  dog: ") and "%" in line:
            result[heading] = float(line.split("dog: ")[1].split("%")[0])
    return result


@pytest.mark.slow
def test_a_preview_measures_all_that_was_disclosed_so_far(site: DeviceSite, server: Server) -> None:
    """Boxes after segments: alone they tell little, and the server has the segments already."""
    rng = np.random.default_rng(1)
    photos, masks = rooms(4)
    photos[masks] = np.clip(
        np.array([190, 45, 45]) + rng.integers(-35, 36, (int(masks.sum()), 3)), 0, 255
    )
    for row, photo in enumerate(photos):
        save_photo(photo, site.folder / "textured" / f"{row}.png")
    add_photos(site.home, photo_files(site.folder / "textured"), side=SIDE, ledger=site.ledger)
    other = Server(site.folder / "other")
    with server.client() as client, other.client() as second:
        site.pair(server, client, "https://first.local")
        shown = site.show({"dog": "segment"}, 4)
        site.outbox.send(shown.parcel.digest, shown.code)
        # Photos that were sent and are left out now are measured still.
        again = site.show({"dog": "box"}, 2, measure=True, leave_out=[1, 2])
        ((heading, value),) = figures(again.text).items()
        assert "with what it has from before" in heading
        assert value > 60
        site.pair(other, second, "https://second.local")
        shown = site.show({"dog": "box"}, 2, server="second.local", measure=True)
        (_, value), (heading, together) = figures(shown.text).items()
        assert value < 15
        assert "all servers would learn together" in heading
        assert together > 60
        site.outbox.send(shown.parcel.digest, shown.code)
        details = site.rows("disclosure")[-1].data["details"]["parts"][1]["measured"]
        assert details["information"][0] < 0.15 < 0.6 < details["together"]["information"][0]
    other.store.close()
