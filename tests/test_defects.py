"""The twelve defects seen in the field's code, each looked for in ours.

Numbered as in the project's page on privacy. Each test fails when its defect is planted; where the
logic of a defect is tested closer to its source, the test here calls that one.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import gc
import json
import logging
import random
import re
import shutil
import types
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

import understudy
from tests.house import SOURCES, tree_of, trees, walked
from tests.privacy.test_sums import (
    test_votes_of_a_unit_have_a_norm_of_one_whatever_the_number_of_its_classes,
)
from tests.run.samples import (
    QUICK,
    class_folders,
    embeddings,
    noisy_values,
    release_pixels,
    with_manifest,
)
from understudy.backends.registry import load_encoder
from understudy.core.errors import BudgetRefused, RunError, RunStopped
from understudy.core.types import Release
from understudy.data import open_source
from understudy.methods.clustering.algorithm import ClusteringParams
from understudy.planning.dry import dry_run
from understudy.privacy import noise
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.run import session as session_module
from understudy.run import synthesize as run_module
from understudy.run.config import OPTION_GROUPS, make_config
from understudy.run.run_plan import RunPlan


def run(source: Path, out: Path, **options: Any) -> run_module.Result:
    options = {"epsilon": 1.0, "count": 30, "settings": QUICK, **options, "accept_epsilon": True}
    options.setdefault("ledger", str(out.parent / "ledger.db"))
    return understudy.synthesize(source, out=out, **options)


def plan(source: Path, out: Path, **options: Any) -> RunPlan:
    ledger = str(out.parent / "dry-ledger.db")
    return dry_run(
        make_config(
            {"source": str(source), "out": out, "ledger": ledger, "settings": QUICK}
            | {"epsilon": 1.0, **options}
        )
    )


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (6, 6, 1))


# 1. Resume forgets what was spent


def test_defect_01_a_resume_that_forgets_what_was_spent(scans: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        dataset = ledger.register(open_source(scans)).id
        ledger.set_budget(dataset, Budget(1.0))
    run(scans, tmp_path / "out")
    (tmp_path / "out" / "owner" / "run.json").unlink()
    run(scans, tmp_path / "out", resume=True)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(dataset).epsilon == pytest.approx(1.0, rel=1e-9)
    # What was paid and is gone has to be paid again, and here there is nothing left to pay with.
    (tmp_path / "out" / "owner" / "run.json").unlink()
    shutil.rmtree(tmp_path / "out" / "owner" / "stages")
    with pytest.raises(BudgetRefused):
        run(scans, tmp_path / "out", resume=True)


# 2 and 7. Private counts, and anything else private, in files that are shared or logged

ODD = {"37-cat": 137, "53-dog": 153, "91-eel": 191}
ROWS = sum(ODD.values())
WINDOW = 16


def blobs_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """The bytes of a file, and those of what is packed in it."""
    content = path.read_bytes()
    yield str(path), content
    if path.suffix == ".png":
        yield f"{path}: pixels", np.asarray(Image.open(BytesIO(content))).tobytes()
        yield f"{path}: notes", repr(Image.open(BytesIO(content)).info).encode()
    if path.suffix == ".parquet":
        table = pq.ParquetFile(path)
        yield f"{path}: notes", repr(table.schema_arrow.metadata).encode()
        for number, row in enumerate(table.read().column("image").to_pylist()):
            image = Image.open(BytesIO(row["bytes"]))
            yield f"{path}: pixels {number}", np.asarray(image).tobytes()
            yield f"{path}: name {number}", str(row["path"]).encode()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                yield f"{path}: {name}", np.ascontiguousarray(archive[name]).tobytes()


def shared_files(out: Path) -> list[Path]:
    places = [out / "release", out / "owner" / "stages"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return files + [path for path in out.iterdir() if path.is_file()]


def texts_of(blobs: Mapping[str, bytes], out: Path) -> dict[str, str]:
    """Everything as text, with the names of the files: what a search for a word looks through."""
    found = {name: content.decode("latin-1") for name, content in blobs.items()}
    found["names"] = "\n".join(str(path.relative_to(out)) for path in shared_files(out))
    return found


def windows(content: bytes) -> set[bytes]:
    if len(content) < WINDOW:
        return set()
    view = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), WINDOW)
    return set(np.ascontiguousarray(view).view(f"V{WINDOW}").ravel().tolist())


class Clinic:
    """A private dataset of noise with odd class sizes, where any 16 bytes tell an image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home-of-zq-owner"
        self.scans = self.home / "ward-7f3a"
        rng = np.random.default_rng(0)
        images = []
        for name, count in ODD.items():
            (self.scans / name).mkdir(parents=True)
            for number in range(count):
                image = rng.integers(0, 256, (6, 6), dtype=np.uint8)
                images.append(image)
                Image.fromarray(image).save(
                    self.scans / name / f"patient-{rng.integers(1 << 40):x}-{number}.png"
                )
        self.images = np.stack(images)[..., None]
        self.embeddings = load_encoder("embedded:dct", shape=(6, 6, 1)).encode(self.images)

    def words(self) -> frozenset[str]:
        names = {path.name for path in self.scans.rglob("*.png")}
        stems = {Path(name).stem for name in names}
        places = {str(self.folder), str(self.home), "ward-7f3a", "zq-owner", "home-of"}
        with Ledger(self.folder / "ledger.db") as ledger:
            keys = {
                ledger.key.hex(),
                base64.b64encode(ledger.key).decode(),
                ledger.datasets()[0].id,
            }
        return frozenset(names | stems | places | keys)

    def secrets(self) -> frozenset[bytes]:
        """Any 16 bytes of an image or its embedding, every keyed digest, the key itself."""
        found: set[bytes] = set()
        for row in (*self.images, *self.embeddings):
            found |= windows(np.ascontiguousarray(row).tobytes())
        with Ledger(self.folder / "ledger.db") as ledger:
            found |= windows(ledger.key) | set(open_source(self.scans).digests(ledger.key))
        return frozenset(found)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    return Clinic(tmp_path_factory.mktemp("clinic"))


def kinds_of_release(clinic: Clinic, epsilon: float, part: str) -> Iterator[Path]:
    options: list[tuple[Path, dict[str, Any]]] = [
        (clinic.scans, {}),
        (
            clinic.scans,
            {"format": "parquet", "settings": {**QUICK, "filter": "both", "clusters": 2}},
        ),
        (clinic.scans, {"decoder": "none", "settings": {"covariance": "diagonal"}}),
    ]
    for number, (source, more) in enumerate(options):
        out = clinic.folder / f"{part}-{number}"
        run(source, out, epsilon=epsilon, ledger=str(clinic.folder / "ledger.db"), **more)
        yield out


def test_defect_02_private_values_in_what_is_shared_stored_or_said(
    clinic: Clinic,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "zq-owner")
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, logger="understudy")
    outs = list(kinds_of_release(clinic, 1.0, "eps1"))
    words, secrets = clinic.words(), clinic.secrets()
    for out in outs:
        blobs = dict(entry for path in shared_files(out) for entry in blobs_of(path))
        assert len(blobs) > 10
        for name, text in texts_of(blobs, out).items():
            assert not [word for word in words if word in text], name
        for name, content in blobs.items():
            assert not windows(content) & secrets, name
    said = "".join(capfd.readouterr()) + caplog.text
    assert not [word for word in words if word in said]
    assert not numbers_in(said) & counts()


def test_the_search_of_defect_02_finds_what_is_hidden(clinic: Clinic, tmp_path: Path) -> None:
    """A search that finds nothing anywhere would pass too."""
    with Ledger(clinic.folder / "ledger.db") as ledger:
        ledger.register(open_source(clinic.scans))
    secrets = clinic.secrets()
    Image.fromarray(clinic.images[7, ..., 0]).save(tmp_path / "a.png")
    np.savez(tmp_path / "b.npz", noisy=clinic.embeddings[3:4])
    for name in ("a.png", "b.npz"):
        assert any(windows(blob) & secrets for _, blob in blobs_of(tmp_path / name))
    assert numbers_in('{"rows": 137, "x": [0.191, 153.0]}') & counts() == {"137", "153"}


def counts() -> set[str]:
    return {str(count) for count in (*ODD.values(), ROWS)}


def numbers_in(text: str) -> set[str]:
    """Whole numbers that stand by themselves, also as 137.0 or 1,081."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    return set(re.findall(r"(?<![\w.-])(\d+)(?:\.0+)?(?![\w%]|\.\d)", text))


@pytest.mark.slow
def test_defect_07_private_class_sizes_used_as_public_numbers(clinic: Clinic) -> None:
    """No exact count in any file. A noisy one may equal it by chance, but not in two runs."""
    found: list[set[str]] = []
    for part in ("first", "second"):
        numbers: set[str] = set()
        for out in kinds_of_release(clinic, 0.02, part):
            for path in shared_files(out):
                if path.suffix in (".json", ".md"):
                    numbers |= numbers_in(path.read_text())
                elif path.suffix == ".npz":
                    with np.load(path, allow_pickle=False) as archive:
                        numbers |= numbers_in(str(archive["note"]))
                else:
                    numbers |= numbers_in(path.read_bytes()[:4096].decode("latin-1"))
        found.append(numbers)
    assert not found[0] & found[1] & counts()
    # Nor is a stored answer a sum without its noise: of those many are 0, or whole counts.
    for out in clinic.folder.glob("first-*"):
        for stage, values in noisy_values(out).items():
            assert (values != 0).all(), stage


def test_defect_07_the_plan_does_not_know_how_many_there_are(tmp_path: Path) -> None:
    sizes = [{"cat": 3, "dog": 40}, {"cat": 70, "dog": 9}]
    folders = [class_folders(tmp_path / str(i), s, (6, 6, 1)) for i, s in enumerate(sizes)]
    one, two = (plan(folder, tmp_path / "out") for folder in folders)
    # What is said to the owner alone may: nothing that steers a run or is released goes by it.
    told = {*one.notes} ^ {*two.notes}
    assert all("(owner only)" in note for note in told)
    one, two = (dataclasses.replace(each, notes=(), expectations=()) for each in (one, two))
    assert one == two


# 3. Noise from a generator that something seeds


def test_defect_03_noise_that_a_seed_repeats(scans: Path, tmp_path: Path) -> None:
    answers = []
    for out in ("one", "two"):
        random.seed(0)
        np.random.seed(0)
        try:
            import torch

            torch.manual_seed(0)
        except ImportError:
            pass
        run(scans, tmp_path / out, seed=0)
        answers.append(noisy_values(tmp_path / out))
    for stage, values in answers[0].items():
        assert (values != answers[1][stage]).all(), stage


def test_defect_03_noise_comes_from_one_module_that_knows_no_seed() -> None:
    for path in SOURCES:
        if path.parent.name == "privacy":
            tree = tree_of(path)
            names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
            assert not names & {"random", "default_rng", "seed", "manual_seed", "RandomState"}, path


# 4. An except around the noise


@pytest.mark.parametrize("error", [OSError, MemoryError])
def test_defect_04_an_error_in_the_noise_that_gives_the_clean_value(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error("no entropy")

    monkeypatch.setattr(noise, "make_gaussian", broken)
    with pytest.raises((error, RunStopped)) as raised:
        run(scans, tmp_path / "out")
    assert "no entropy" in str(raised.value.__cause__ or raised.value)
    assert not (tmp_path / "out" / "release").exists()
    assert list((tmp_path / "out" / "owner" / "stages").iterdir()) == []


def test_defect_04_no_try_around_a_mechanism() -> None:
    callers = {"add_discrete_gaussian", "_add_noise", "release"}
    found = [
        f"{path.name}:{block.lineno}"
        for path, tree in trees()
        for block in walked(tree)
        if isinstance(block, ast.Try) and block.handlers
        for node in (child for line in block.body for child in ast.walk(line))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in callers
    ]
    assert not found


# 5. One vote a class, accounted as one


def test_defect_05_a_vote_in_every_class(tmp_path: Path) -> None:
    test_votes_of_a_unit_have_a_norm_of_one_whatever_the_number_of_its_classes()
    names = [f"class-{i:02}" for i in range(12)]
    settings = {**QUICK, "filter": "images"}
    found = []
    for count in (2, 12):
        folder = class_folders(tmp_path / str(count), dict.fromkeys(names[:count], 2), (6, 6, 1))
        found.append(plan(folder, tmp_path / "out", settings=settings).stages)
    assert found[0] == found[1]


# 6. Delta from the number of captions


def test_defect_06_delta_follows_from_no_count(tmp_path: Path) -> None:
    deltas = set()
    for rows in (4, 200):
        scans = class_folders(tmp_path / str(rows), {"cat": rows, "dog": rows}, (6, 6, 1))
        result = run(scans, tmp_path / f"out-{rows}", count=2 * rows)
        facts = json.loads((result.release / "privacy.json").read_text())
        with Ledger(tmp_path / "ledger.db") as ledger:
            deltas |= {ledger.spent(d.id).delta for d in ledger.datasets()}
        deltas |= {facts["guarantee"]["delta"], result.receipt.delta}
    assert deltas == {1e-5}


# 8. Numbers without their kind


class _Sections(HTMLParser):
    """The text of every section and figure, and the kinds that are marked in it."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.open, self.found = 0, [], []  # type: ignore[var-annotated]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "img", "br", "link"):
            return
        classes = (dict(attrs).get("class") or "").split()
        self.depth += 1
        if tag == "section" or "figure" in classes:
            self.open.append([self.depth, "", set()])
        if "kind" in classes:
            for part in self.open:
                part[2] |= set(classes) & {"dp", "public", "owner"}

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == self.depth:
            self.found.append(self.open.pop())
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        for part in self.open:
            part[1] += data


def test_defect_08_numbers_that_do_not_say_what_they_are(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'understudy[torch]'")
    real, test = embeddings(tmp_path / "real.npz"), embeddings(tmp_path / "test.npz", 20, seed=1)
    result = run(real, tmp_path / "out", settings={}, test=str(test))
    understudy.evaluate(result.release, real=real, test=test, networks=["two-layer"], epochs=2)
    page = _Sections()
    page.feed((result.owner / "report.html").read_text())
    assert len(page.found) > 6
    for _, text, kinds in page.found:
        assert kinds or not re.search(r"\d", text), text
        if "ccuracy" in text or "private records" in text or "Time" in text:
            assert "owner" in kinds, text
    content = json.loads((result.owner / "run.json").read_text())
    assert content["kind"] == "owner-only"
    assert content["accuracy"]
    for one in content["accuracy"]:
        assert one["kind"] == "owner-only"
        assert {each["kind"] for each in (*one["synthetic"], *one["real"])} == {"owner-only"}
    content = json.loads((result.owner / "evaluation.json").read_text())
    assert content["settings"]["kind"] == "owner-only"
    for part in ("figures", "curves", "verdicts"):
        assert {one["kind"] for one in content[part]} == {"owner-only"}
    for one in result.accuracy:
        assert one.as_dict()["kind"] == one.report.kind == "owner-only"
    figures = {f"{value:.4f}" for one in result.accuracy for value in (one.synthetic, one.real)}
    for path in result.release.rglob("*"):
        if path.suffix in (".md", ".json"):
            assert not figures & set(re.findall(r"0\.\d{4}", path.read_text())), path


# 9. A setting that no code reads


def attributes_read(owners: set[str], *, own: type | None = None) -> set[str]:
    """Names that some code reads of a variable called one of ``owners``, or in ``own`` of self."""
    found: set[str] = set()
    for _, tree in trees():
        for node in walked(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = node.value
                name = getattr(owner, "attr", getattr(owner, "id", ""))
                if name in owners:
                    found.add(node.attr)
            if own is not None and isinstance(node, ast.ClassDef) and node.name == own.__name__:
                for function in node.body:
                    if isinstance(function, ast.FunctionDef) and function.name != "__post_init__":
                        found |= {
                            part.attr
                            for part in ast.walk(function)
                            if isinstance(part, ast.Attribute)
                            and getattr(part.value, "id", "") == "self"
                        }
    return found


@pytest.mark.parametrize(
    ("kind", "owners"),
    [
        *((kind, {name}) for name, kind in OPTION_GROUPS.items()),
        (Unit, {"unit"}),
        (ClusteringParams, {"params"}),
    ],
)
def test_defect_09_a_setting_that_no_code_reads(kind: type, owners: set[str]) -> None:
    read = attributes_read(owners, own=kind if kind in OPTION_GROUPS.values() else None)
    assert {field.name for field in dataclasses.fields(kind)} <= read


RUN_CHANGES: dict[str, Any] = {
    "epsilon": 2.0,
    "delta": 1e-6,
    "decoder": "none",
    "settings": {"clusters": 2},
    "unit": "patient",
    "adjacency": "replace-one",
}


@pytest.mark.parametrize("name", RUN_CHANGES)
def test_defect_09_every_option_that_costs_changes_the_plan(tmp_path: Path, name: str) -> None:
    people = with_manifest(tmp_path / "people")
    before = plan(people, tmp_path / "out")
    assert plan(people, tmp_path / "out") == before
    assert plan(people, tmp_path / "out", **{name: RUN_CHANGES[name]}) != before


def test_defect_09_every_other_option_changes_what_is_made(tmp_path: Path) -> None:
    people = with_manifest(tmp_path / "people")
    first = run(people, tmp_path / "first")
    assert "license: unknown" in (first.release / "README.md").read_text()
    more = {"format": "parquet", "size": 7, "count": 9, "licence": "cc0-1.0", "seed": 4}
    second = run(people, tmp_path / "second", ledger=str(tmp_path / "other.db"), **more)
    card = (second.release / "README.md").read_text()
    assert "license: cc0-1.0" in card
    facts = json.loads((second.release / "privacy.json").read_text())["data"]
    assert (facts["count"], facts["format"], facts["image_shape"]) == (9, "parquet", [7, 7, 1])
    assert (tmp_path / "other.db").exists()


def test_defect_09_a_seed_and_a_cap_are_used(tmp_path: Path) -> None:
    people = with_manifest(tmp_path / "people", per_unit=12)
    settings = {"covariance": "spherical", "clusters": 1, "components": 4}
    common = {"unit": "patient", "epsilon": 1e4, "settings": settings, "count": None}
    sizes = {}
    for cap in (1, 30):
        result = run(people, tmp_path / str(cap), unit_rows=cap, **common)
        assert result.facts["noisy_rows"] == 6
        sizes[cap] = sorted(result.facts["class_sizes"].values())
    # Six patients count once each: by one row in one class, by all as 1 / sqrt(3) in each of three.
    # A class counts 1 at least, and all of them no more than they did together.
    assert sizes[1] == [1, 1, 4]
    assert set(sizes[30]) <= {3, 4}  # 3.46, and noise
    images = []
    for seed in (0, 0, 1):
        out = tmp_path / f"seed-{len(images)}"
        run(people, out, unit="patient", seed=seed, epsilon=1e7, settings=settings)
        images.append(np.stack(list(release_pixels(out).values())).astype(float))
    assert np.abs(images[0] - images[1]).mean() < 0.3 * np.abs(images[0] - images[2]).mean()


# 10. A crash on negative votes, an empty class, epsilon = 0.01


@pytest.mark.parametrize(
    "settings",
    [
        QUICK,
        {**QUICK, "filter": "both", "oversample": 3},
        {"components": 10, "clusters": 2, "covariance": "full", "conditional": False},
    ],
    ids=str,
)
def test_defect_10_a_crash_where_there_is_next_to_nothing(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    few = class_folders(tmp_path / "few", {"cat": 15, "dog": 4, "eel": 1}, (6, 6, 1))
    options = {"classes": "cat,dog,eel", "settings": settings}
    result = run(few, tmp_path / "out", epsilon=0.01, **options)
    pixels = release_pixels(tmp_path / "out")
    assert len(pixels) == result.facts["rows"] == 30


# 11. Private things on the object that carries the result


def reachable(start: Any) -> Iterator[Any]:
    """All that hangs on an object; of functions what they enclose, not the modules they are in."""
    seen: set[int] = set()
    stack = [start]
    while stack:
        here = stack.pop()
        if id(here) in seen or isinstance(here, types.ModuleType | type):
            continue
        seen.add(id(here))
        yield here
        if isinstance(here, types.FunctionType):
            stack += [*(here.__closure__ or ()), here.__defaults__, here.__kwdefaults__]
        else:
            stack += gc.get_referents(here)


@pytest.mark.parametrize(("decoder", "unit"), [(None, None), ("none", "patient")])
def test_defect_11_private_things_on_the_object_that_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str | None, unit: str | None
) -> None:
    people = with_manifest(tmp_path / "people")
    source = open_source(people)
    batch = next(source.batches(1000))
    caught: list[Release] = []
    write = session_module.write_release

    def watch(release: Release, *args: Any, **options: Any) -> Any:
        caught.append(release)
        return write(release, *args, **options)

    monkeypatch.setattr(session_module, "write_release", watch)
    settings = QUICK if decoder is None else {"covariance": "diagonal"}
    result = run(people, tmp_path / "out", decoder=decoder, unit=unit, settings=settings)
    with Ledger(tmp_path / "ledger.db") as ledger:
        key = ledger.key
    secret = windows(batch.values.tobytes())
    for found in (caught[0], result):
        things = list(reachable(found))
        assert len(things) > 50
        arrays = [thing for thing in things if isinstance(thing, np.ndarray)]
        assert not [a for a in arrays if len(batch.labels) in a.shape], "private records"
        assert not [a for a in arrays if windows(a.tobytes()) & secret]
        texts = [thing for thing in things if isinstance(thing, str | bytes)]
        assert key not in texts
        assert not [t for t in texts if isinstance(t, str) and re.fullmatch(r"p\d+|\d+\.png", t)]


def test_the_walk_of_defect_11_finds_what_hangs_there() -> None:
    rows = np.arange(5)

    def made(values: NDArray[Any] = rows) -> None:
        _ = values

    assert any(thing is rows for thing in reachable({"a": [(made,)]}))


# 12. pickle files loaded as checkpoints


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was executed",)


def test_defect_12_a_pickle_is_loaded(scans: Path, tmp_path: Path) -> None:
    run(scans, tmp_path / "out")
    (tmp_path / "out" / "owner" / "run.json").unlink()
    stored = tmp_path / "out" / "owner" / "stages" / "means.npz"
    array = np.empty(1, dtype=object)
    array[0] = _Bomb()
    np.savez(stored, noisy=array, note=np.array('{"query": "", "attempt": 1}'))
    with pytest.raises(RunError, match="not a stored release"):
        run(scans, tmp_path / "out", resume=True)


def test_defect_12_no_code_can_unpickle() -> None:
    for path, tree in trees():
        for node in walked(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
                modules = {"pickle", "joblib", "dill", "cloudpickle", "shelve"}
                # Between a run and workers of its own cluster; no file, and nothing of others.
                assert not names & modules or path.name == "ray_engine.py", path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in ("torch.load", "np.fromfile", "pd.read_pickle"), path
                if called in ("np.load", "numpy.load", "np.lib.format.read_array"):
                    keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
                    assert keywords.get("allow_pickle") == "False", path
