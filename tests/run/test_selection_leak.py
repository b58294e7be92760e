"""What a selection says of its leak, attacked: by strangers, by who holds the pool, by copies."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter
from tests.first_warning import FirstWarning, Warned
from tests.run.samples import killed_at, quick_run, save

from understudy.core.errors import ConfigError, RunStopped
from understudy.metrics.attacks import by_distance_ratio
from understudy.metrics.fingerprints import record_digests
from understudy.metrics.roc import roc
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.outputs import read_json
from understudy.release.verify import verify
from understudy.run.run_result import Result
from understudy.run.select import select
from understudy.run.select_leak import Fingerprints, copies_of

CLASSES = np.array(["a", "b", "c"])
MIDDLES = 1.5 * np.random.default_rng(5).normal(size=(3, 12))
QUICKLY = {"steps": 30, "rounds": 3}
CHEAPLY = {**QUICKLY, "reconstruction": 0}  # loads no second encoder


def people(seed: int, count: int = 240) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Records of one population."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    values = MIDDLES[labels] + rng.normal(size=(count, 12))
    return values.astype(np.float32), CLASSES[labels]


def store(path: Path, values: NDArray[Any], labels: NDArray[np.str_], name: str) -> Path:
    arrays: dict[str, Any] = {name: values, "labels": labels}
    np.savez(path, **arrays)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Private records, others, and candidates that a generator made which had seen all of them.

    Half of the candidates are private records with a little noise, as of a generator that
    memorises; the others are of other people.
    """
    rng = np.random.default_rng(0)
    private, labels = people(1)
    others, other_labels = people(2, 150)
    rows = rng.permutation(240)[:150]
    leaked = private[rows] + 0.4 * rng.normal(size=(150, 12)).astype(np.float32)
    store(tmp_path / "private.npz", private, labels, "embeddings")
    store(tmp_path / "reference.npz", *people(3), "embeddings")
    candidates = np.concatenate([leaked, others]).astype(np.float32)
    names = np.concatenate([labels[rows], other_labels])
    store(tmp_path / "candidates.npz", candidates, names, "embeddings")
    return tmp_path


def choose(site: Path, out: str = "out", **options: Any) -> Result:
    usual = {"private": site / "private.npz", "keep": "50%", "no_guarantee": True}
    usual |= {"ledger": str(site / "ledger.db"), "progress": "none", "settings": QUICKLY}
    given = {**usual, **options}
    return select(given.pop("candidates", site / "candidates.npz"), out=site / out, **given)


def rows_of(site: Path) -> dict[str, NDArray[np.float32]]:
    return {
        name: np.load(site / f"{name}.npz")["embeddings"]
        for name in ("private", "reference", "candidates")
    }


def named(members: NDArray[Any], strangers: NDArray[Any], *attack: NDArray[Any]) -> float:
    """Members that an attack of our own names at 1 % false alarms, by the better sign."""
    scores = [by_distance_ratio(side, *attack) for side in (members, strangers)]
    return max(roc(sign * scores[0], sign * scores[1]).tpr_at[0.01].value for sign in (1, -1))


# What is stated


def test_no_percentage_is_stated_without_held_out_records(site: Path) -> None:
    result = choose(site)
    rows, strangers = rows_of(site), people(9, 400)[0]
    assert named(rows["private"], strangers[:200], rows["candidates"], strangers[200:]) > 0.15
    assert result.attacks == ()
    statement = (result.release / "PRIVACY.md").read_text()
    assert "not measured" in statement
    assert "--reference" in statement
    assert "at 1 % false alarms" not in statement
    assert "at 1 % false alarms" not in (result.release / "README.md").read_text()
    assert any("--reference SOURCE" in warning for warning in result.warnings)


def test_what_is_stated_is_what_strangers_gain(site: Path) -> None:
    result = choose(site, reference=site / "reference.npz")
    rows, strangers = rows_of(site), people(9, 400)[0]
    gained = named(rows["private"], strangers[:200], rows["candidates"], strangers[200:])
    before, _, _ = result.attacks
    assert gained > 0.15
    assert before.tpr[0] > 0.8 * gained


def test_who_holds_the_candidates_has_a_row_and_either_sign_counts(site: Path) -> None:
    settings = {**QUICKLY, "reconstruction": 4.0}
    result = choose(site, reference=site / "reference.npz", settings=settings)
    rows, strangers = rows_of(site), people(9)[0]
    lines = (site / "out" / "owner" / "selection.csv").read_text().splitlines()[1:]
    released = np.array([line.split(",")[2] != "" for line in lines])
    pool = rows["candidates"][released], rows["candidates"][~released]
    scores = [by_distance_ratio(side, *pool) for side in (rows["private"], strangers)]
    forwards = roc(*scores)
    assert forwards.auc.value < 0.4  # by one sign there is nothing to be seen
    holder = result.attacks[2]
    assert "holds all candidates" in holder.subject
    assert holder.auc[0] > 0.6
    assert holder.tpr[2] >= named(rows["private"], strangers, *pool)
    assert all(attack.auc[0] >= 0.5 for attack in result.attacks)
    assert holder.subject in (result.release / "PRIVACY.md").read_text()


def test_with_nothing_rejected_there_is_no_row_of_the_rejected(site: Path) -> None:
    result = choose(site, reference=site / "reference.npz", keep="100%")
    assert len(result.attacks) == 2


# Whom it is measured on


def shuffled(site: Path, part: slice) -> Path:
    """Private records under another name and in another order, beside others."""
    private, labels = (np.load(site / "private.npz")[name] for name in ("embeddings", "labels"))
    values, names = people(3)
    order = np.random.default_rng(2).permutation(240)[part]
    both = np.concatenate([private[order], values]), np.concatenate([labels[order], names])
    return store(site / "mixed.npz", *both, "embeddings")


def test_a_reference_with_a_private_record_is_refused(site: Path) -> None:
    match = r"mixed.npz \(--reference\): \d+ of its \d+ records are those of .*private.npz"
    with pytest.raises(ConfigError, match=match):
        choose(site, reference=shuffled(site, slice(0, 1)))
    assert not (site / "out").exists()
    with Ledger(str(site / "ledger.db")) as ledger:
        assert not ledger.datasets()


def test_a_reference_of_candidates_is_refused(site: Path) -> None:
    with pytest.raises(ConfigError, match="are candidates too"):
        choose(site, reference=site / "candidates.npz")
    assert not (site / "ledger.db").exists()


def drawings(seed: int, count: int) -> NDArray[np.uint8]:
    """Smooth images."""
    waves = np.random.default_rng(seed).normal(size=(count, 24, 24, 1))
    smooth = gaussian_filter(waves, (0, 2.5, 2.5, 0))
    return np.asarray(np.clip(128 + 500 * smooth, 0, 255), dtype=np.uint8)


def as_jpeg(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "JPEG", quality=75)
    return np.asarray(Image.open(file))[..., None]


def by_half(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(image[..., 0]).resize((12, 12)))[..., None]


STORED = {
    "again": lambda image: image,
    "by JPEG": as_jpeg,
    "at half the size": by_half,
    "mirrored": lambda image: image[:, ::-1],
}


def seldom(*often: str) -> list[Any]:
    """The ways of `STORED`, all but some of them among the slow tests."""
    return [how if how in often else pytest.param(how, marks=pytest.mark.slow) for how in STORED]


@pytest.mark.parametrize("how", seldom("by JPEG", "mirrored"))
def test_private_images_in_other_files_are_no_reference(tmp_path: Path, how: str) -> None:
    images = drawings(0, 60)
    labels = CLASSES[np.arange(60) % 3]
    store(tmp_path / "private.npz", images, labels, "images")
    store(tmp_path / "candidates.npz", drawings(1, 60), labels, "images")
    for number, (image, name) in enumerate(zip(images, labels, strict=True)):
        (tmp_path / "same" / name).mkdir(parents=True, exist_ok=True)
        save(STORED[how](image), tmp_path / "same" / name / f"{number}.png")
    with pytest.raises(ConfigError, match=r"\(--reference\): 60 of its 60 records are those of"):
        choose(tmp_path, reference=tmp_path / "same", settings=CHEAPLY)
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        assert not ledger.datasets()


@pytest.mark.slow
def test_other_images_of_the_same_kind_are_a_reference(tmp_path: Path) -> None:
    labels = CLASSES[np.arange(300) % 3]
    for seed, name in enumerate(("private", "candidates", "reference")):
        store(tmp_path / f"{name}.npz", drawings(seed, 300), labels, "images")
    result = choose(tmp_path, reference=tmp_path / "reference.npz", settings=CHEAPLY)
    assert len(result.attacks) == 3


# Copies


def test_copies_are_counted_always(tmp_path: Path) -> None:
    images = drawings(0, 60)
    labels = CLASSES[np.arange(60) % 3]
    candidates = drawings(1, 60)
    candidates[:15] = images[:15]  # exact
    noise = np.random.default_rng(3).integers(-4, 5, (30, 24, 24, 1))
    near = np.clip(images[15:45].astype(int) + noise, 0, 255)
    near[15:] = near[15:, :, ::-1]  # and in a mirror
    candidates[15:45] = near
    store(tmp_path / "private.npz", images, labels, "images")
    store(tmp_path / "candidates.npz", candidates, labels, "images")
    result = choose(tmp_path, keep="100%", hold_out=0, settings=CHEAPLY)
    copies = result.copies
    assert copies is not None
    assert (copies.samples, copies.exact) == (60, 15)
    assert 30 <= copies.near <= 32
    assert copies.usual < 0.05
    assert result.warnings[0].startswith("of 60 released rows 15 are exact copies")
    for name in ("PRIVACY.md", "README.md"):
        text = " ".join((result.release / name).read_text().split())
        words = f"15 are exact copies of private records, and {copies.near} more are near-copies"
        assert words in text
    assert read_json(result.release / "privacy.json")["copies"]["exact"] == 15
    assert verify(result.release).sound


def test_changed_copies_are_near_copies_in_a_space_too(site: Path) -> None:
    result = choose(site, keep="100%", settings=CHEAPLY)
    assert result.copies is not None
    assert result.copies.exact == 0
    assert 100 < result.copies.near < 180  # of 150 changed copies, and 150 others
    assert result.copies.usual < 0.05


def test_of_two_private_records_not_every_sample_is_a_near_copy() -> None:
    """Beside one other record no distance is small, and all samples were called near-copies."""
    rng = np.random.default_rng(0)
    samples, records = rng.normal(size=(9, 8)), rng.normal(size=(2, 8))
    prints = [
        Fingerprints(record_digests(rows), np.zeros((len(rows), 0), np.uint64))
        for rows in (samples, records)
    ]
    copies = copies_of(prints[0], samples, prints[1], records, "any")
    assert (copies.exact, copies.near) == (0, 0)


def test_copies_of_what_was_held_out_count(site: Path) -> None:
    (private, labels), (others, names) = people(1), people(2, 60)
    values = np.concatenate([private, others])
    store(site / "candidates.npz", values, np.concatenate([labels, names]), "embeddings")
    result = choose(site, keep="100%", hold_out="40%")
    assert result.copies is not None
    assert result.copies.exact == 240


def test_the_private_records_themselves_are_no_candidates(site: Path) -> None:
    with pytest.raises(ConfigError, match=r"240 of its 240 records"):
        choose(site, candidates=site / "private.npz")
    assert not (site / "out").exists()


# The ledger


def disclosures(site: Path) -> list[Any]:
    with Ledger(str(site / "ledger.db")) as ledger:
        assert ledger.verify() == []
        return [one for page in ledger.datasets() for one in ledger.spent(page.id).disclosures]


def test_the_ledger_holds_digests_settings_the_leak_and_the_copies(site: Path) -> None:
    result = choose(site, reference=site / "reference.npz")
    for one in disclosures(site):  # of the private records, the candidates and the reference
        details = json.loads(json.dumps(one.details))
        assert details["candidates"]["count"] == 300
        assert len(details["candidates"]["digest"]) == 32
        assert details["settings"]["rounds"] == 3
        assert details["keep"] == 0.5
        assert details["attacks"][2]["tpr"] == list(result.attacks[2].tpr)
        assert result.copies is not None
        assert details["copies"]["near"] == result.copies.near
    with Ledger(str(site / "ledger.db")) as ledger:
        kinds = [row.kind for row in ledger.rows()]
        assert all("sketch" not in row.data for row in ledger.rows())
    assert kinds.count("disclosure") == kinds.count("measured") == 3


def reordered(site: Path) -> Path:
    """A part of the candidates in another order, beside new ones."""
    arrays = dict(np.load(site / "candidates.npz"))
    values, names = people(4, 30)
    order = np.random.default_rng(8).permutation(300)[:240]
    both = np.concatenate([arrays["embeddings"][order], values])
    labels = np.concatenate([arrays["labels"][order], names])
    return store(site / "again.npz", both, labels, "embeddings")


def test_a_second_selection_of_a_pool_warns_before_it_runs(site: Path) -> None:
    choose(site, "first", progress=FirstWarning())
    before = disclosures(site)
    for candidates in (site / "candidates.npz", reordered(site)):
        out = f"second by {candidates.stem}"
        with pytest.raises(Warned, match=r"selected once before.*near-copies"):
            choose(site, out, candidates=candidates, keep="20%", progress=FirstWarning())
        assert disclosures(site) == before  # nothing is disclosed yet
    result = choose(site, "third", keep="20%")
    assert any("selected once before" in warning for warning in result.warnings)


@pytest.mark.parametrize("how", seldom("at half the size"))
def test_candidates_that_were_stored_anew_are_the_same_pool(tmp_path: Path, how: str) -> None:
    labels = CLASSES[np.arange(90) % 3]
    for seed, name in enumerate(("private", "candidates")):
        store(tmp_path / f"{name}.npz", drawings(seed, 90), labels, "images")
    choose(tmp_path, "first", settings=CHEAPLY)
    images = np.stack([STORED[how](image) for image in drawings(1, 90)])
    store(tmp_path / "again.npz", images[::-1], labels[::-1], "images")
    given: dict[str, Any] = {"settings": CHEAPLY, "progress": FirstWarning()}
    with pytest.raises(Warned, match="selected once before"):
        choose(tmp_path, "second", candidates=tmp_path / "again.npz", **given)
    store(tmp_path / "others.npz", drawings(2, 90), labels, "images")
    choose(tmp_path, "third", candidates=tmp_path / "others.npz", **given)


def test_a_resumed_selection_and_other_candidates_do_not_warn(site: Path) -> None:
    stopped = pytest.raises(RunStopped, match="--resume")
    with killed_at("understudy.run.select.steering_of"), stopped:
        choose(site)
    choose(site, resume=True, progress=FirstWarning())
    store(site / "new.npz", *people(7), "embeddings")
    choose(site, "other", candidates=site / "new.npz", progress=FirstWarning())


# Words of a selection that has a guarantee


def documents(release: Path) -> str:
    """What a reader reads, without line breaks."""
    texts = [(release / name).read_text() for name in ("README.md", "PRIVACY.md", "privacy.json")]
    return " ".join(" ".join(texts).split())


def test_a_private_selection_does_not_say_that_none_is_a_copy(site: Path) -> None:
    result = choose(
        site, epsilon=1.0, no_guarantee=False, candidates_public=True, settings={"rounds": 2}
    )
    text = documents(result.release)
    for words in ("none is a copy", "none was copied", "were sampled from those numbers"):
        assert words not in text
    assert "of 300 candidates, as those are" in text
    assert "takes the candidates for public" in text
    assert "The candidates themselves, which are here unchanged" in text
    assert "Every file of this folder: samples" not in text


def test_a_selection_of_a_private_release_covers_its_candidates(site: Path) -> None:
    quick_run(site / "private.npz", site, out=site / "dp")
    result = select(site / "dp", keep="50%", out=site / "half", progress="none")
    text = documents(result.release)
    assert "none is a copy" not in text
    assert "none was copied" not in text
    assert "What the candidates tell of them is part of the same guarantee" in text
    assert "takes the candidates for public" not in text
    assert "The candidates themselves, by the guarantee of their own release" in text
