"""Images as they come, of any size, ratio and colour: what is proposed, declared, lost and run."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import QUICK, release_pixels, tree
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.errors import InputError, SourceError
from understudy.data import open_source
from understudy.planning.check import SourceCheck, check_source
from understudy.planning.dry import dry_run
from understudy.planning.image_geometry import PROPOSED_SIDES, ImageGeometry
from understudy.planning.recommendation import Recommendation, recommended_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.codec_rules import ENERGIES_SIDE
from understudy.run.config import make_config

TALL = (1307, 1100)


def in_colour(grey: np.ndarray) -> Image.Image:
    """A grey plane stored in colour: three equal channels."""
    return Image.fromarray(grey).convert("RGB")


def folders(
    root: Path, sizes: list[tuple[int, int]], *, coloured: bool = False, seed: int = 0
) -> Path:
    """Two classes of an image for each (height, width), stored in colour."""
    rng = np.random.default_rng(seed)
    for place, name in enumerate(("clear", "ill")):
        (root / name).mkdir(parents=True)
        for number, size in enumerate(sizes):
            grey = rng.integers(40 + 90 * place, 130 + 90 * place, (8, 8)).astype(np.uint8)
            image = in_colour(grey).resize(size[::-1])
            if coloured:
                image.putpixel((0, 0), (250, 10, 10))
            image.save(root / name / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As chest X-rays often come: large, no squares, grey, and stored in colour."""
    return folders(tmp_path_factory.mktemp("scans") / "scans", [TALL] * 3)


def checked(source: Path, **options: Any) -> SourceCheck:
    return check_source(
        make_config({"source": str(source), "out": "out", "epsilon": 8.0, **options})
    )


def planned(source: Path, ledger: Path, **options: Any) -> Recommendation:
    return recommended_run(source, epsilon=8.0, ledger=str(ledger), progress="none", **options)


def command(*words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--progress", "none"])


# What is proposed, and what it loses


def test_the_rule_knows_what_the_encoder_looks_at() -> None:
    pytest.importorskip("torch")
    from understudy.backends.embedded.energies.transform import COSINES

    assert ENERGIES_SIDE == COSINES


def lost_by_size(sides: tuple[int, int], side: int, energies: bool) -> str:
    return dict(ImageGeometry({sides: 9}).losses(side, "stretch", None, energies))["size"]


def test_no_size_keeps_details_that_the_encoder_does_not_look_at() -> None:
    lost = "details finer than 7 pixels of the original are lost, as embedded:energies looks at "
    lost += "32 x 32 pixels of any image"
    for side in (48, 64, 128):
        assert lost_by_size((220, 220), side, True) == lost
    assert lost_by_size((220, 220), 64, False).startswith("details finer than 3 pixels")
    assert lost_by_size((72, 72), 64, False).startswith("details finer than 1.1 pixels")
    assert lost_by_size((28, 28), 28, True) == "no detail is lost"


@pytest.mark.parametrize(
    ("sizes", "side", "fit"),
    [
        ({TALL: 100}, 64, "stretch"),  # of one ratio, as scans of a machine are
        ({TALL: 60, TALL[::-1]: 40}, 64, "pad"),
        ({(100, 100): 100}, 64, "stretch"),
        ({(64, 70): 10}, 64, "stretch"),
        ({(480, 640): 50, (640, 480): 50}, 64, "pad"),
        ({(60, 90): 50, (90, 60): 50}, 64, "pad"),  # padded, none is smaller than that
        ({(1080, 1920): 60, (600, 800): 40}, 64, "crop"),
        ({(50, 60): 100}, 48, "stretch"),
        ({(50, 60): 60, (60, 50): 40}, 48, "pad"),
        ({(8, 8): 3, (300, 300): 97}, 64, "stretch"),
        ({(8, 8): 6, (300, 300): 94}, 16, "stretch"),
        ({(40, 40): 50, (300, 300): 50}, 32, "stretch"),
        ({(4, 5): 10}, 16, "stretch"),
    ],
)
def test_a_side_and_a_fit_are_proposed(
    sizes: dict[tuple[int, int], int], side: int, fit: str
) -> None:
    geometry = ImageGeometry(sizes)
    assert (geometry.side, geometry.fit) == (side, fit)
    assert geometry.side in PROPOSED_SIDES


def test_a_sliver_is_distorted_so_many_times_in_plain_figures() -> None:
    """It said 3e+02 times."""
    losses = dict(ImageGeometry({(3, 900): 2, (9, 9): 2}).losses(32, "stretch", None))
    assert losses["fit"] == "images are distorted, one side by up to 300 times"


def test_a_check_proposes_grey_where_all_images_are(scans: Path, tmp_path: Path) -> None:
    result = checked(scans)
    found = {problem.kind: problem for problem in result.problems}
    assert found["large images"].blocking
    assert "1307 x 1100" in found["large images"].message
    assert "all 6 images are grey" in found["grey stored in colour"].message
    assert dict(result.options) == {
        "classes": ("clear", "ill"), "channels": 1, "size": 64, "fit": "stretch",
    }  # fmt: skip
    assert result.shape == (64, 64, 1)
    assert "--channels 1 --size 64 --epsilon" in str(result.command)
    assert list(result.losses) == ["--size 64", "--fit stretch", "--channels 1"]
    coloured = folders(tmp_path / "one", [(9, 9)] * 2)
    Image.new("RGB", (9, 9), (90, 80, 90)).save(coloured / "ill" / "pink.png")
    assert checked(coloured).options["channels"] == 3
    assert "grey stored in colour" not in {one.kind for one in checked(coloured).problems}


def test_arrays_in_colour_whose_channels_are_equal_are_grey(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).integers(0, 255, (40, 12, 12, 1), dtype=np.uint8)
    labels = np.arange(40) % 2
    np.savez(tmp_path / "grey.npz", images=np.repeat(planes, 3, axis=3), labels=labels)
    assert checked(tmp_path / "grey.npz").options["channels"] == 1
    planes = np.repeat(planes, 3, axis=3)
    planes[7, 0, 0] = (9, 99, 9)
    np.savez(tmp_path / "colour.npz", images=planes, labels=labels)
    assert checked(tmp_path / "colour.npz").options["channels"] == 3


@pytest.mark.slow
def test_a_plan_says_what_is_lost_and_prints_the_flags(scans: Path, tmp_path: Path) -> None:
    result = planned(scans, tmp_path / "l.db")
    reasons = {choice.option: choice.reason for choice in result.choices}
    assert "details finer than 41 pixels of the original are lost" in reasons["--size 64"]
    assert "distorted, one side by 1.2 times, all alike" in reasons["--fit stretch"]
    assert not any("are stretched" in note for note in result.notes)  # it is said as a reason
    assert "nothing is lost: all images are grey" in reasons["--channels 1"]
    assert all(reasons[one].endswith("(owner only)") for one in ("--size 64", "--fit stretch"))
    assert "--encoder embedded:energies" in reasons
    facts = {fact.name: fact for fact in result.facts}
    assert facts["stored as"].private
    assert facts["stored as"].value == "1307 x 1100 (6); 6 grey stored in colour"
    assert facts["read as"].value == "64 x 64 x 1"
    words = shlex.split(str(result.command))
    assert {"--size", "--channels"} <= set(words)
    ended = CliRunner().invoke(app, [*words[1:-1], str(tmp_path / "out"), "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert "image size 64 x 64, colour channels 1" in " ".join(ended.output.split()).replace(
        ";", ","
    )


# What runs


def test_without_a_size_a_run_is_refused_with_what_to_add_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    mixed = folders(tmp_path / "mixed", [(40, 60), (60, 40), (50, 50)])
    large = folders(tmp_path / "large", [(150, 130)] * 2)  # which a run would survive, too
    for source, words in ((large, "the images are 150 x 130"), (mixed, "have different sizes")):
        ledger = tmp_path / f"{source.name}.db"
        given = ("--epsilon", "8", "--out", str(tmp_path / "out"), "--set", "clusters=1")
        given += ("--ledger", str(ledger), "--method", "clustering")
        ended = command("synthesize", str(source), *given)
        assert isinstance(ended.exception, InputError)
        message = str(ended.exception)
        assert words in message
        assert "Nothing was spent" in message
        assert f"understudy plan {source} --epsilon 8" in message
        added = message.split("Add ")[1].split(" (which")[0]
        assert added == "--size 64 --fit pad"
        assert not (tmp_path / "out").exists()
        assert not ledger.exists()
        more = shlex.split(added)
        assert command("synthesize", str(source), *given, *more, "--dry-run").exit_code == 0
        assert added in str(command("audit", str(source), "--epsilon", "8").exception)


def test_a_password_is_not_in_a_refusal(tmp_path: Path) -> None:
    mixed = folders(tmp_path / "mixed", [(40, 60), (60, 40)])
    given = {"source": str(mixed), "out": "out", "epsilon": 1.0}
    with pytest.raises(SourceError) as caught:
        dry_run(make_config({**given, "ledger": "postgresql://owner:hunter2@127.0.0.1:1/l"}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("channels", [None, 1])
def test_scans_stored_in_colour_make_the_release_that_was_declared(
    tmp_path: Path, channels: Any
) -> None:
    source = folders(tmp_path / "scans", [(45, 38), (38, 45)] * 8)
    result = understudy.synthesize(
        source, out=tmp_path / "out", epsilon=8.0, ledger=str(tmp_path / "l.db"), size=32,
        fit="pad", channels=channels, count=6, encoder="embedded:dct", settings=QUICK,
    )  # fmt: skip
    images = release_pixels(tmp_path / "out")
    assert len(images) == 6
    expected = (32, 32) if channels == 1 else (32, 32, 3)
    assert {image.shape for image in images.values()} == {expected}
    facts = json.loads((result.release / "privacy.json").read_text())
    origins = {one["name"]: (one["value"], one["origin"]) for one in facts["premises"]}
    assert origins["image size"] == ([32, 32], "declared")
    assert origins["image fit"] == ("pad", "declared")
    assert origins["colour channels"] == ((1, "declared") if channels else (3, "inferred"))


@pytest.mark.slow
def test_a_plan_and_a_check_change_nothing_that_a_run_does(scans: Path, tmp_path: Path) -> None:
    given = {"source": str(scans), "out": tmp_path / "out", "epsilon": 8.0, "size": 48}
    given |= {"ledger": str(tmp_path / "l.db")}
    before, pixels = (
        dry_run(make_config(given)),
        [batch.values for batch in open_source(scans, size=48).batches(4)],
    )
    files = tree(scans)
    proposed = planned(scans, tmp_path / "l.db", size=48)
    assert checked(scans, size=48).options["channels"] == 1
    assert "--channels 1" in [choice.option for choice in proposed.choices]
    assert dry_run(make_config(given)) == before
    assert {one.name: one.value for one in before.premises}["colour channels"] == 3
    for batch, same in zip(open_source(scans, size=48).batches(4), pixels, strict=True):
        np.testing.assert_array_equal(batch.values, same)
    assert tree(scans) == files
    with Ledger(tmp_path / "l.db") as ledger:
        assert list(ledger.rows()) == []


# --fit wherever a size is given


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_an_image_is_fitted_by_itself(tmp_path: Path, fit: Any) -> None:
    """The bits of a record are the same whatever lies beside it and however batches are cut."""
    sizes = [(30, 90), (90, 30), (7, 5), (64, 64), (1, 200), (31, 33)]
    source = folders(tmp_path / "x", sizes, coloured=True)
    together = np.concatenate([b.values for b in open_source(source, size=24, fit=fit).batches(64)])
    single = np.concatenate([b.values for b in open_source(source, size=24, fit=fit).batches(1)])
    np.testing.assert_array_equal(together, single)
    for number in range(1, len(sizes)):
        for name in ("clear", "ill"):
            (source / name / f"{number}.png").unlink()
        left = open_source(source, size=24, fit=fit, channels=3)
        rows = np.concatenate([batch.values for batch in left.batches(64)])
        assert len(rows) == 2 * (len(sizes) - number)
        names = sorted(str(n) for n in (0, *range(number + 1, len(sizes))))
        np.testing.assert_array_equal(rows[: len(names)], together[[int(n) for n in names]])


def test_a_planted_border_is_cropped_padded_or_squeezed(tmp_path: Path) -> None:
    lying = np.full((40, 80, 3), 120, np.uint8)
    lying[:, :16], lying[:, -16:] = (250, 0, 0), (0, 0, 250)  # a crop about the middle cuts 20
    for name in ("a", "b"):
        (tmp_path / "x" / name).mkdir(parents=True)
        Image.fromarray(lying).save(tmp_path / "x" / name / "lying.png")
        Image.fromarray(lying.swapaxes(0, 1).copy()).save(tmp_path / "x" / name / "upright.png")

    def read(fit: Any) -> np.ndarray:
        values = next(open_source(tmp_path / "x", size=20, fit=fit).batches(4)).values
        np.testing.assert_array_equal(values[0].swapaxes(0, 1), values[1])
        return values[0]

    assert (read("crop") == 120).all()
    padded, stretched = read("pad"), read("stretch")
    assert (padded[:5] == 0).all()
    assert (padded[-5:] == 0).all()
    assert (padded[8:-8, :1] == (250, 0, 0)).all()
    assert (padded[8:-8, -1:] == (0, 0, 250)).all()
    assert (stretched[:, :1] == (250, 0, 0)).all()
    assert (stretched[:, 9:11] == 120).all()


def test_a_fit_reaches_a_selection_and_an_audit(tmp_path: Path) -> None:
    mixed = folders(tmp_path / "mixed", [(40, 60), (60, 40)] * 4)
    kept = understudy.select(
        mixed, out=tmp_path / "kept", keep="50%", size=16, fit="crop", candidates_public=True
    )
    cropped = np.concatenate([b.values for b in open_source(mixed, size=16, fit="crop").batches(9)])
    originals = {image.tobytes() for image in cropped}
    released = release_pixels(kept.release.parent).values()
    assert len(list(released)) == 8
    assert {image.tobytes() for image in released} <= originals
    with pytest.raises(InputError, match="runs"):  # which is looked at after the options
        understudy.audit(mixed, size=16, fit="crop", runs=1)
