"""DPImageBench's layouts: ``gen/gen.npz`` written and read, its zips read, lying files refused."""

import json
import pickle
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import claiming, encode, picture, release_of

from understudy.core.errors import SourceError
from understudy.core.ports import IndexedSource
from understudy.data import open_source, write_release
from understudy.steps.niqe_model import NiqeModel
from understudy.testing.source_suite import KEY, read_all, sound_rows

CLASSES = ("shoe", "bag", "hat")
LABELS = np.array([2, 0, 1, 1, 0, 2, 2], np.int64)
IMAGES = np.stack([picture(seed, channels=3) for seed in range(7)])
UNIT = np.moveaxis(IMAGES, 3, 1).astype(np.float32) / np.float32(255)


def member(header: dict[str, Any], content: bytes) -> bytes:
    """An npy file with whatever header."""
    stream = BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def packed(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: Any) -> bytes:
    stream = BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def test_a_release_is_what_their_loader_reads(tmp_path: Path) -> None:
    write_release(release_of(LABELS, CLASSES, images=IMAGES), tmp_path / "r", format="npz")
    arrays = np.load(tmp_path / "r" / "gen" / "gen.npz", allow_pickle=False)
    assert (arrays["x"].dtype, arrays["x"].shape) == (np.float32, (7, 3, 6, 5))
    np.testing.assert_array_equal(arrays["x"], UNIT)
    np.testing.assert_array_equal(arrays["y"], LABELS)
    again = tmp_path / "again"
    write_release(release_of(LABELS, CLASSES, images=IMAGES), again, format="npz")
    both = [(folder / "gen" / "gen.npz").read_bytes() for folder in (tmp_path / "r", again)]
    assert both[0] == both[1]  # no date, no name of a machine


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8"])
def test_their_file_is_a_dataset_of_the_same_pixels(tmp_path: Path, dtype: str) -> None:
    np.savez(tmp_path / "gen.npz", x=UNIT.astype(dtype), y=LABELS.astype(np.int32))
    source = open_source(tmp_path / "gen.npz")
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values, IMAGES)
    assert (source.classes, labels.tolist()) == (("0", "1", "2"), LABELS.tolist())


@pytest.mark.parametrize("images", [UNIT, np.moveaxis(IMAGES, 3, 1), IMAGES / 255])
def test_images_at_a_position_are_those_of_the_batches(tmp_path: Path, images: np.ndarray) -> None:
    """Of images from 0 to 1 `read`, by which workers and held-out parts go, gave real numbers."""
    np.savez(tmp_path / "gen.npz", x=images, y=LABELS)
    source = open_source(tmp_path / "gen.npz")
    assert isinstance(source, IndexedSource)
    rows = np.array([1, 2, 5])
    values = source.read(rows).values
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, IMAGES[rows])
    # The ledger goes by digests of pixels, however a file stores them.
    np.savez(tmp_path / "bytes.npz", images=IMAGES, labels=LABELS)
    assert list(source.digests(KEY)) == list(open_source(tmp_path / "bytes.npz").digests(KEY))


HUGE = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 3, 32, 32)}
TWICE = np.array(["a", "a", "b"])
LIES: dict[str, tuple[dict[str, bytes], str]] = {
    "y longer than x": ({"x": npy(UNIT), "y": npy(np.arange(9))}, "beside 7 rows"),
    "y shorter than x": ({"x": npy(UNIT), "y": npy(LABELS[:3])}, "beside 7 rows"),
    "real labels": ({"x": npy(UNIT), "y": npy(LABELS * 1.0)}, "not whole numbers"),
    "negative labels": ({"x": npy(UNIT), "y": npy(LABELS - 1)}, "negative"),
    "0 to 255": ({"x": npy(UNIT * 255), "y": npy(LABELS)}, "not all from 0 to 1"),
    "-1 to 1": ({"x": npy(2 * UNIT - 1), "y": npy(LABELS)}, "not all from 0 to 1"),
    "NaN": ({"x": npy(np.where(UNIT > 0.9, np.nan, UNIT)), "y": npy(LABELS)}, "not all from 0"),
    "objects": ({"x": npy(UNIT.astype(object)), "y": npy(LABELS)}, "never loaded"),
    "huge": ({"x": member(HUGE, b"1234"), "y": npy(LABELS)}, "cut short, or its header"),
    "cut": ({"x": npy(UNIT)[:-40], "y": npy(LABELS)}, "cut short, or its header"),
    "longer": ({"x": npy(UNIT) + bytes(40), "y": npy(LABELS)}, "cut short, or its header"),
    "negative": ({"x": member({**HUGE, "shape": (-2, 3, 4, 4)}, b"")}, "cut short, or its"),
    "no such class": (
        {"x": npy(UNIT), "y": npy(LABELS), "classes": npy(np.array(["a", "b"]))},
        "label 2 is no index into 2",
    ),
    "a class twice": ({"x": npy(UNIT), "y": npy(LABELS), "classes": npy(TWICE)}, "name twice"),
    "classes of numbers": ({"x": npy(UNIT), "y": npy(LABELS), "classes": npy(LABELS)}, "are text"),
    "a path out": ({"x": npy(UNIT), "../y": npy(LABELS)}, "leads out of it"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_a_lying_file_gives_a_message(tmp_path: Path, case: str) -> None:
    members, reason = LIES[case]
    with pytest.raises(SourceError, match=reason):
        read_all(open_source(packed(tmp_path / "gen.npz", **members)))


@pytest.mark.parametrize(
    "header",
    ["(" * 5000, "-" * 9000 + "1", "{'descr': '<u1', 'shape': " + "-" * 5000 + "1}",
     "{'descr': ',', 'fortran_order': False, 'shape': (7,)}", "'a' 'b\\"],
)  # fmt: skip
def test_a_header_that_breaks_the_parser_gives_a_message(tmp_path: Path, header: str) -> None:
    """NumPy parses it as Python: what that raises came out as a traceback."""
    text = header.encode()
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    (tmp_path / "a.npy").write_bytes(content)
    for path in (tmp_path / "a.npy", packed(tmp_path / "a.npz", images=content)):
        with pytest.raises(SourceError, match=r"is no np[yz] file"):
            open_source(path)
    with pytest.raises(SourceError, match="is no npz file, or is damaged"):
        NiqeModel.load(packed(tmp_path / "niqe.npz", mu=content))


@pytest.mark.parametrize(
    "entry",
    [{"dtype": [], "shape": [1], "data_offsets": [0, 1]},
     {"dtype": "U8", "shape": [float("inf")], "data_offsets": [0, 1]}],
)  # fmt: skip
def test_a_lying_header_of_safetensors_gives_a_message(tmp_path: Path, entry: Any) -> None:
    text = json.dumps({"images": entry}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(SourceError, match=r"holds \[\]|damaged header"):
        open_source(path)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = packed(tmp_path / "gen.npz", x=npy(np.zeros((90, 1, 28, 28), np.float32)))
    path.write_bytes(claiming(path.read_bytes(), unpacked=1 << 30))
    with pytest.raises(SourceError, match="zip bomb"):
        open_source(path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    header = {"descr": "|O", "fortran_order": False, "shape": (7,)}
    content = member(header, pickle.dumps(Trap()))
    with pytest.raises(SourceError, match="never loaded"):
        open_source(packed(tmp_path / "gen.npz", x=npy(UNIT), y=content))
    assert not (tmp_path / "sprung").exists()


def test_rows_that_are_no_images_can_be_passed_over(tmp_path: Path) -> None:
    wrong = UNIT.copy()
    wrong[[1, 5], 0, 0, 0] = np.inf, 1.2
    np.savez(tmp_path / "gen.npz", x=wrong, y=LABELS)
    source = open_source(tmp_path / "gen.npz", skip_bad=True)
    values, labels, _ = sound_rows(source)
    assert (source.skipped, labels.tolist()) == (2, [2, 1, 1, 0, 2])
    np.testing.assert_array_equal(values, IMAGES[[0, 2, 3, 4, 6]])


# Their zips

NAMES = [f"0000{row % 2}/img{row:08d}.png" for row in range(6)]
ROWS = [[name, row % 3] for row, name in enumerate(NAMES)]


def listed(path: Path, labels: Any, *, images: list[str] = NAMES, text: str | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for row, name in enumerate(images):
            archive.writestr(name, encode(picture(row)))
        archive.writestr("dataset.json", text or json.dumps({"labels": labels}))
    return path


@pytest.mark.parametrize("unpacked", [False, True])
def test_classes_are_those_that_dataset_json_lists(tmp_path: Path, unpacked: bool) -> None:
    path = listed(tmp_path / "train.zip", list(reversed(ROWS)))
    if unpacked:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "train")
        path = tmp_path / "train"
    source = open_source(path)
    values, labels, _ = sound_rows(source)
    assert source.classes == ("0", "1", "2")  # and not the folders 00000 and 00001
    assert labels.tolist() == [2, 1, 0, 2, 1, 0]
    np.testing.assert_array_equal(values[5], picture(0))
    assert open_source(tmp_path / "train.zip", label="none").classes == ("all",)


def test_an_image_that_dataset_json_leaves_out_is_an_error_in_a_folder_too(tmp_path: Path) -> None:
    """In an archive it was one, and in a folder it was passed over in silence."""
    with zipfile.ZipFile(listed(tmp_path / "train.zip", ROWS[:-1])) as archive:
        archive.extractall(tmp_path / "train")
    with pytest.raises(SourceError, match=r"img00000005\.png: is not listed in dataset\.json"):
        open_source(tmp_path / "train")


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "an image that it leaves out": (lambda p: listed(p, ROWS[:-1]), "not listed in dataset.json"),
    "a file that is not there": (lambda p: listed(p, [*ROWS, ["00001/x.png", 1]]), "not in the"),
    "a path that leads out": (lambda p: listed(p, [*ROWS, ["../../x.png", 1]]), "not in the"),
    "an image twice": (lambda p: listed(p, [*ROWS, ROWS[0]]), "listed twice"),
    "a real label": (lambda p: listed(p, [*ROWS[:-1], [NAMES[-1], 0.5]]), "row 6 of \"labels\""),
    "half a row": (lambda p: listed(p, [*ROWS[:-1], NAMES[-1]]), "row 6 of \"labels\""),
    "no labels": (lambda p: listed(p, None), "--label none"),
    "half a list": (lambda p: listed(p, 0, text='{"labels": [["00000/'), "cannot be read as JSON"),
    "too deep": (lambda p: listed(p, 0, text="[" * 100_000), "cannot be read as JSON"),
    "a member that leads out": (lambda p: listed(p, ROWS, images=["../x.png"]), "leads out"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_zip_gives_a_message(tmp_path: Path, case: str) -> None:
    make, reason = BROKEN[case]
    with pytest.raises(SourceError, match=reason):
        read_all(open_source(make(tmp_path / "train.zip")))


def test_another_tools_dataset_json_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0.png").write_bytes(encode(picture(len(name))))
        (folder / name / "1.png").write_bytes(encode(picture(9)))
    (folder / "dataset.json").write_text('{"labels": {"0": "background"}, "training": []}')
    assert open_source(folder).classes == ("cat", "dog")
