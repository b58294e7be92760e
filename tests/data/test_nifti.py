import gzip
from pathlib import Path

import numpy as np
import pytest

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.image_decoding import BadImage
from understudy.data.nifti import nifti_image
from understudy.data.reading_options import Reading, Window
from understudy.testing.source_suite import KEY, sound_rows

nibabel = pytest.importorskip("nibabel")

SHAPE = (5, 6, 7)  # right, front and up, in anatomical order
VOLUME = np.arange(np.prod(SHAPE), dtype=np.int16).reshape(SHAPE)
WINDOW = Window(105, 211)  # of 210 values


def saved(
    path: Path, values: np.ndarray = VOLUME, affine: np.ndarray | None = None, **header: float
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    volume = nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine)
    for name, value in header.items():
        volume.header[name] = value
    nibabel.save(volume, path)
    return path


def test_slices_are_asked_for(tmp_path: Path) -> None:
    for name in ("a", "b"):
        saved(tmp_path / name / "x.nii.gz")
    with pytest.raises(SourceError, match=r"is a volume.*\?axis=2&slices=middle"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match=r"from 0 to 209, are .*&window=CENTRE,WIDTH"):
        open_source(f"{tmp_path}?axis=2")
    middle = open_source(f"{tmp_path}?axis=2&window=105,211")
    assert (len(middle), middle.shape) == (2, (6, 5, 1))
    assert middle.grouping is None  # the middle slices alone: a file is one image
    assert open_source(f"{tmp_path}?axis=2&slices=2:4&window=105,211").grouping is not None
    every = open_source(f"{tmp_path}?axis=0&slices=all&window=105,211")
    sound_rows(every)
    assert (len(every), every.shape) == (10, (7, 6, 1))
    assert len(set(every.digests(KEY))) == 5
    some = open_source(f"{tmp_path}?axis=1&slices=2:4&window=105,211")
    assert (len(some), some.shape) == (4, (7, 5, 1))
    with pytest.raises(SourceError, match="has 6 slices along axis 1, found slices up to 9"):
        open_source(f"{tmp_path}?axis=1&slices=2:9&window=105,211")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_slices_are_upright_however_the_volume_is_stored(
    tmp_path: Path, axis: int, packed: bool
) -> None:
    """A volume stored in every order and direction of its axes gives the slices of one in order."""
    reading = Reading(WINDOW, axis=axis, slices=(0, None))
    plane = np.take(VOLUME, 2, axis)
    expected = WINDOW.eight_bits(plane.T[::-1])
    for number, order in enumerate([(0, 1, 2), (2, 0, 1), (1, 2, 0), (1, 0, 2)]):
        for flips in ((1, 1, 1), (-1, 1, -1), (1, -1, 1)):
            stored = VOLUME.transpose(order)[tuple(slice(None, None, flip) for flip in flips)]
            affine = np.zeros((4, 4))
            affine[3, 3] = 1
            for at, (axis_of, flip) in enumerate(zip(order, flips, strict=True)):
                affine[axis_of, at] = flip
            name = f"{number}.nii" + ".gz" * packed
            path = saved(tmp_path / name, stored, affine)
            data = path if packed else path.read_bytes()
            np.testing.assert_array_equal(np.asarray(nifti_image(data, reading, 2)), expected)


def test_slopes_apply_and_the_file_s_own_range_is_inferred(tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = saved(tmp_path / name / "x.nii", cal_min=0.0, cal_max=209.0)
    source = open_source(f"{tmp_path}?axis=2&slices=3")
    assert source.window_premise == ("that of each file", False)  # type: ignore[attr-defined]
    values, _, _ = sound_rows(source)
    scaled = np.rint(VOLUME[:, :, 3].T[::-1] / 209 * 255)
    np.testing.assert_array_equal(values[0, :, :, 0], scaled)
    doubled = nibabel.Nifti1Image(VOLUME, np.eye(4))
    doubled.header.set_slope_inter(2, 10)
    nibabel.save(doubled, path)
    stored = np.asarray(nibabel.load(path).dataobj)[:, :, 3]
    reading = Reading(Window(200, 400), axis=2)
    image = np.asarray(nifti_image(path, reading, 3))
    np.testing.assert_array_equal(image, Window(200, 400).eight_bits(stored.T[::-1]))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros((4, 4, 4, 2), np.int16), "only volumes of three axes"),
        (np.full((4, 4, 4), np.nan, np.float32), "no numbers"),
    ],
)
def test_what_is_no_volume(tmp_path: Path, values: np.ndarray, reason: str) -> None:
    path = saved(tmp_path / "x.nii", values)
    with pytest.raises(BadImage, match=reason):
        nifti_image(path, Reading(WINDOW, axis=2), 1)


@pytest.mark.parametrize("keep", [10, 200, 360, 500])
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_volume_gives_a_reason(tmp_path: Path, keep: int, packed: bool) -> None:
    whole = saved(tmp_path / "x.nii").read_bytes()[:keep]
    path = tmp_path / ("y.nii.gz" if packed else "y.nii")
    path.write_bytes(gzip.compress(whole)[: keep if keep < 200 else None] if packed else whole)
    with pytest.raises(BadImage):
        nifti_image(path, Reading(WINDOW, axis=2), 3)
