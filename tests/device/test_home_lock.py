"""One folder, several processes: nobody's photos are lost, and a kill leaves what works."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.device.device_site import DeviceSite, child, save_photo

from understudy.core.errors import RunError
from understudy.device.home_folder import DeviceHome
from understudy.device.photo_store import add_photos, photo_files, references, stored_photos

SIDE, PROCESSES, PHOTOS = 16, 4, 25


def photo_folders(site: DeviceSite, count: int = PHOTOS) -> list[Path]:
    """A folder of photos for each process."""
    rng = np.random.default_rng(2)
    folders = [site.folder / f"photos-{number}" for number in range(PROCESSES)]
    for folder in folders:
        for row in range(count):
            image = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            save_photo(image, folder / f"{row}.png")
    return folders


def add(site: DeviceSite, folder: Path) -> None:
    add_photos(DeviceHome(site.home.folder), photo_files(folder), side=SIDE, ledger=site.ledger)


def test_photos_that_several_processes_add_at_once_are_all_there(site: DeviceSite) -> None:
    folders = photo_folders(site)
    processes = [child(lambda folder=folder: add(site, folder)) for folder in folders]
    assert [os.waitpid(process, 0)[1] for process in processes] == [0] * PROCESSES
    photos = references(site.home)
    assert len(photos.ids) == len(set(photos.ids)) == PROCESSES * PHOTOS
    assert len(list(site.home.path("photos").iterdir())) == PROCESSES * PHOTOS
    with site.home.settings.open_ledger() as ledger:
        assert ledger.verify() == []


def add_and_die(site: DeviceSite, folder: Path, renames: int) -> None:
    """Add photos, and be killed in place of a rename: no file is written in any other way."""
    rename, count = Path.replace, iter(range(renames))

    def counted(path: Path, target: Path) -> Path:
        if next(count, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", counted)
        add(site, folder)


@pytest.mark.slow
@pytest.mark.parametrize("settled", [False, True])
def test_a_process_that_is_killed_leaves_a_home_that_works(site: DeviceSite, settled: bool) -> None:
    """Killed before each of its writes, when the folder is new and when it is not."""
    first, second, *_ = photo_folders(site, 3)
    count = 0
    if settled:
        add(site, first)
        count = 3
    for renames in range(100):
        process = child(lambda renames=renames: add_and_die(site, second, renames))
        died = os.waitpid(process, 0)[1] == signal.SIGKILL
        photos = stored_photos(site.home)
        assert len(photos) == (count if died else count + 3)
        if photos:
            # Pixels a side too are settled, and no later photo has others.
            assert references(site.home).images.shape == (len(photos), SIDE, SIDE, 3)
        if not died:
            break
    assert renames == 3 + 2
    names = {path.name for path in site.home.path("photos").iterdir()}
    assert names == {photo.id for photo in photos}  # what was left half-way is gone


def test_a_side_that_was_given_once_is_not_forgotten_by_a_kill(site: DeviceSite) -> None:
    """Photos of 16 and of 64 pixels a side in one folder: no command worked any more."""
    first, second, *_ = photo_folders(site, 3)
    for renames in range(3, 5):
        os.waitpid(child(lambda renames=renames: add_and_die(site, first, renames)), 0)
    add_photos(site.home, photo_files(second), ledger=site.ledger)
    assert references(site.home).images.shape[1:] == (SIDE, SIDE, 3)


def test_a_folder_of_an_earlier_version_is_refused(site: DeviceSite) -> None:
    site.home.write("settings.json", {"side": SIDE, "ledger": None, "dataset": "1"})
    with pytest.raises(RunError, match="earlier version: begin another folder"):
        assert site.home.settings.side
