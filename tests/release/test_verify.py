"""``understudy verify``: one flipped bit, a changed number, and what a forger cannot make fit."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run.samples import class_folders, embeddings, quick_run
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError, RunError
from understudy.core.files import files_below
from understudy.evidence.pack import evidence
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checksums import (
    CHECKSUMS,
    SIGNATURE,
    sign_release,
    signature_faults,
    write_checksums,
)
from understudy.release.documents import write_release_documents
from understudy.release.outputs import read_json
from understudy.release.verify import verify
from understudy.report import read_record
from understudy.report.verdict_table import guarantee_card
from understudy.run.report import compare_folders, load
from understudy.run.resample import resample
from understudy.run.select import select

SILENT: dict[str, Any] = {"progress": "none"}
Content = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small release of images, one of embeddings, and what is made of them."""
    site = tmp_path_factory.mktemp("site")
    source = class_folders(site / "scans", {"cat": 30, "dog": 30})
    stated = {"licence": "cc-by-4.0", "contact": "Data office <data@hospital.example>"}
    stated |= {"publish_total": True, "epsilon": 1.0, "count": 6}
    quick_run(source, site, out=site / "images", **stated)
    # So many that no class is lost in the noise of its size, of a deviation of 19.
    private = embeddings(site / "private.npz", per_class=240)
    quick_run(private, site, out=site / "embeddings", epsilon=1.0, count=None)
    resample(site / "embeddings", count=50, out=site / "more", **SILENT)
    both = {"reference": site / "embeddings", "keep": 20, **SILENT}
    select(site / "embeddings", out=site / "chosen", keep="50%", **SILENT)
    select(site / "more", out=site / "composed", **both)
    disclosed = {"no_guarantee": True, "ledger": str(site / "ledger.db"), **SILENT}
    select(
        embeddings(site / "candidates.npz", seed=1),
        private=site / "private.npz",
        out=site / "unprotected",
        keep=20,
        **disclosed,
    )
    return site


@pytest.fixture
def site(finished: Path, tmp_path: Path) -> Path:
    private = shutil.ignore_patterns("scans")
    return Path(shutil.copytree(finished, tmp_path / "site", ignore=private))


def faults(release: Path, **options: Any) -> tuple[str, ...]:
    return verify(release, **options).faults


def forge(release: Path, change: Callable[[Content], None]) -> None:
    """Change the statement, and make the checksums fit again."""
    path = release / "privacy.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")
    write_checksums(release)


RELEASES = ["images", "embeddings", "more", "chosen", "composed", "unprotected"]


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_sound_as_it_was_written(finished: Path, name: str) -> None:
    checked = understudy.verify(finished / name)
    assert checked.faults == ()
    files = [path for path in (finished / name / "release").rglob("*") if path.is_file()]
    assert checked.files == len(files) - 1
    assert "who made this folder: it is not signed" in checked.unverified
    assert any("noise was drawn" in line for line in checked.unverified) == (name != "unprotected")


def test_sha256sum_reads_the_list(finished: Path) -> None:
    release = finished / "images" / "release"
    ended = subprocess.run(
        ["sha256sum", "--check", "--strict", CHECKSUMS], cwd=release, capture_output=True
    )
    assert ended.returncode == 0


def test_one_flipped_bit_in_any_file_is_noticed(site: Path) -> None:
    release = site / "images" / "release"
    paths = [path for path in sorted(release.rglob("*")) if path.is_file()]
    assert len(paths) == 6 + 5  # images; card, statement, privacy.json, classes.json, the list
    for path in paths:
        whole = path.read_bytes()
        for bit in range(0, 8 * len(whole), max(1, 8 * len(whole) // 8)):
            part = bytearray(whole)
            part[bit // 8] ^= 1 << bit % 8
            path.write_bytes(part)
            assert faults(release), f"bit {bit} of {path.name}"
        path.write_bytes(whole)
    assert not faults(release)


def test_files_that_were_removed_added_or_linked_are_named(site: Path) -> None:
    release = site / "images" / "release"
    (release / "classes.json").rename(site / "classes.json")
    (release / "train" / "cat").mkdir(exist_ok=True)  # noise may have left no cat
    (release / "train" / "cat" / "more.png").write_bytes(b"")
    assert faults(release) == ("classes.json: was removed", "train/cat/more.png: was added")
    (release / "train" / "cat" / "more.png").unlink()
    (release / "classes.json").symlink_to(site / "classes.json")
    assert "is a link" in faults(release)[0]
    (release / "classes.json").unlink()
    os.mkfifo(release / "pipe")
    with pytest.raises(RunError, match="is no file"):
        files_below(release)
    (release / "pipe").unlink()
    (release / CHECKSUMS).unlink()
    assert f"{CHECKSUMS} is missing" in faults(release)[0]
    assert "removed" not in faults(release)[0][:20]


def _epsilon(content: Content, factor: float) -> None:
    content["guarantee"]["epsilon"] *= factor


def _stage(content: Content, name: str, factor: float) -> None:
    content["stages"][1][name] *= factor


def _mu_too(content: Content) -> None:
    _stage(content, "sensitivity", 0.5)
    _stage(content, "mu", 0.5)


def _whole_stage(content: Content) -> None:
    """A smaller sensitivity, with the mu of its stage and of the run to match."""
    _mu_too(content)
    squares = sum(stage["mu"] ** 2 for stage in content["stages"])
    content["guarantee"]["mu"] = squares**0.5
    for stage in content["stages"]:
        stage["share"] = stage["mu"] ** 2 / squares


FORGERIES: dict[str, Callable[[Content], None]] = {
    "a smaller epsilon": lambda c: _epsilon(c, 0.9),
    "a slightly smaller epsilon": lambda c: _epsilon(c, 0.9999),
    "a larger epsilon": lambda c: _epsilon(c, 1.001),
    "another delta": lambda c: c["guarantee"].update(delta=1e-6),
    "no slack": lambda c: c["guarantee"].update(slack=0.0),
    "a smaller sensitivity": lambda c: _stage(c, "sensitivity", 0.9),
    "a larger sensitivity": lambda c: _stage(c, "sensitivity", 1.1),
    "a larger sigma": lambda c: _stage(c, "sigma", 1.1),
    "a smaller mu": lambda c: _stage(c, "mu", 0.9),
    "a smaller mu of all": lambda c: c["guarantee"].update(mu=0.1),
    "sensitivity and mu of a stage": _mu_too,
    "a stage and all that follows but epsilon": _whole_stage,
    "a stage left out": lambda c: c["stages"].pop(),
    "a share": lambda c: _stage(c, "share", 0.5),
    "the chances of an attacker": lambda c: c["guarantee"]["attacker_right_at_most"].update(
        {"1": 0.5}
    ),
    "no number": lambda c: c["guarantee"].update(slack=float("nan")),
    "a kind": lambda c: c["guarantee"].update(kind="no private data"),
    "no epsilon": lambda c: c["guarantee"].update(epsilon=None),
    "negative": lambda c: _stage(c, "sigma", -1.0),
    "not whole": lambda c: c.pop("stages"),
    "a mu that has no square": lambda c: _stage(c, "mu", 1e200),
    "more numbers than there are": lambda c: _stage(c, "size", 10**400),
    "a sample of nobody": lambda c: c["stages"][0].update(rate=0.0),
    "a condition less": lambda c: c["guarantee"].update(conditional_on=["the weather"]),
    "a group past counting": lambda c: c["guarantee"]["attacker_right_at_most"].update(
        {"9" * 5000: 1.0}
    ),
    "no day": lambda c: c.update(date="yesterday"),
    "a quality of no class": lambda c: c.update(
        quality={"classifier": "x", "balanced_accuracy": [1, 1, 1], "recalls": {}}
    ),
}


@pytest.mark.parametrize("name", ["images", "composed"])
def test_a_forger_who_renews_the_list_is_noticed_by_the_numbers(site: Path, name: str) -> None:
    release = site / name / "release"
    statement = (release / "privacy.json").read_text()
    write_checksums(release)
    assert not faults(release)
    for forgery, change in FORGERIES.items():
        forge(release, change)
        checked = verify(release)
        assert checked.faults, forgery
        assert checked.record is None or guarantee_card(checked.record.receipt)
        (release / "privacy.json").write_text(statement)
    (release / "privacy.json").write_text("[" * 100_000)
    assert any("cannot be read as JSON" in fault for fault in faults(release))


def test_stages_without_a_share_of_the_budget_are_refused(site: Path) -> None:
    """With shares of 0, stages of any mu would come to an epsilon of next to nothing."""
    release = site / "embeddings" / "release"
    record = read_record(read_json(release / "privacy.json"))
    stages = tuple(replace(one, share=0.0) for one in record.receipt.stages)
    receipt = replace(record.receipt, stages=stages, epsilon=record.receipt.slack)
    write_release_documents(release, replace(record, receipt=receipt))
    assert "a share that no stage has" in faults(release)[0]


@pytest.mark.parametrize("name", ["privacy.json", CHECKSUMS, SIGNATURE])
@pytest.mark.parametrize("kind", ["sparse", "pipe"])
def test_a_file_that_would_fill_the_memory_or_never_ends_is_a_fault(
    site: Path, name: str, kind: str
) -> None:
    """Gigabytes of nothing take no room in an archive."""
    place = site / "images" / "release" / name
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.touch()
        os.truncate(place, 1 << 28)
    if (name, kind) == ("privacy.json", "pipe"):
        with pytest.raises(RunError, match="holds no release"):
            verify(site / "images")
    else:
        assert faults(site / "images")
    for other in ("owner/run.json", "owner/evaluation.json"):
        neighbour = site / "pipes" / other
        neighbour.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(neighbour)
    assert "pipes" not in [one.name for one in load(site / "embeddings").owner.releases]


@pytest.mark.parametrize("base", ["images", "images/release"])
def test_a_zip_of_a_release_or_of_a_folder_with_one_is_checked_as_its_files_are(
    site: Path, tmp_path: Path, base: str
) -> None:
    """The page Verify shows this command for what was dropped on it."""
    root = (site / base).parent
    archive = shutil.make_archive(str(tmp_path / "mail"), "zip", root, (site / base).name)
    checked = verify(archive)
    assert checked.sound
    assert checked.release == Path(archive)
    assert checked.files == verify(site / base).files
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("images/release/more.txt" if base == "images" else "release/more.txt", "x")
    assert not verify(archive).sound
    (tmp_path / "no.zip").write_bytes(b"PK")
    with pytest.raises(RunError, match="nor a zip that can be read"):
        verify(tmp_path / "no.zip")


def sampled_stages(**numbers: float) -> Callable[[Content], None]:
    """A first stage of samples of units with these numbers."""

    def change(content: Content) -> None:
        content["stages"][0].update(numbers)
        content["guarantee"]["mu"] = None

    return change


@pytest.mark.parametrize(
    "change",
    [
        sampled_stages(rate=1e-6, steps=10**12),  # composed for hours
        sampled_stages(rate=0.5, steps=1000, mu=1000.0),  # composed in gigabytes
        lambda content: content["stages"][0].update(mu=1e300),
        lambda content: content["guarantee"].update(runs=float("nan"), mu=None),
        lambda content: content["guarantee"].update(epsilon=float("nan")),
        lambda content: content["data"].update(image_shape=[16]),
        lambda content: content["data"].update(image_shape=None),
        lambda content: content["data"].update(count=-5),
        lambda content: content["data"].update(title="\ud800"),
        lambda content: content.update(date="9999-12-31"),
    ],
)
def test_a_statement_that_cannot_be_true_is_refused_wherever_it_is_read(
    site: Path, change: Callable[[Content], None]
) -> None:
    """At once, and by a message: by `verify`, and by what reads a release without it."""
    release = site / "images" / "release"
    forge(release, change)
    checked = verify(release)
    assert checked.record is None
    assert len(checked.faults) == 1
    for use in (
        lambda: compare_folders([site / "images", site / "embeddings"]),
        lambda: evidence(release, to=site / "pack", progress="none"),
    ):
        with pytest.raises(RunError, match=r"privacy\.json"):
            use()


def test_another_guarantee_in_the_documents_is_noticed(site: Path) -> None:
    release = site / "images" / "release"
    for name in ("README.md", "PRIVACY.md"):
        path = release / name
        text = path.read_text()
        path.write_text(text.replace("epsilon 1", "epsilon 0.1"))
        write_checksums(release)
        assert faults(release) == (f"{name}: does not state what privacy.json does: epsilon 1",)
        for true, false in (
            ("epsilon 1", "epsilon 0.1 (epsilon 1"),  # the true one is there as well
            ("delta 1e-5", "delta 1e-9"),
            ("right at most 55", "right at most 50"),
        ):
            path.write_text(" ".join(text.split()).replace(true, false))
            write_checksums(release)
            assert f"{name}: states what privacy.json does not: {false[:9]}" in faults(release)[0]
        path.write_text(text)


@pytest.mark.parametrize("name", ["README.md", "PRIVACY.md"])
def test_a_second_number_of_samples_in_the_documents_is_noticed(site: Path, name: str) -> None:
    release = site / "images" / "release"
    text = (release / name).read_text()
    for words in ("77,777 synthetic images", "| Rows | 12 |"):
        (release / name).write_text(f"{text}\n{words}\n")
        write_checksums(release)
        assert "states what privacy.json does not" in faults(release)[0]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("images", {"count": 500}),
        ("images", {"classes": ("cat", "cow")}),
        ("images", {"classes": ("cat",)}),
        ("images", {"classes": ()}),
        ("images", {"image_shape": (9, 9, 1)}),
        ("embeddings", {"dim": 3}),
        ("chosen", {"count": 1}),
    ],
)
def test_other_samples_than_are_there_are_noticed(site: Path, name: str, change: Content) -> None:
    release = site / name / "release"
    record = replace(read_record(read_json(release / "privacy.json")), **change)
    forge(release, lambda content: content["data"].update(change))
    assert faults(release)
    write_release_documents(release, record)  # a forger who writes all documents anew
    assert "in its files" in faults(release)[0]


@pytest.mark.parametrize("content", ["{}", '{"classes":' + "[" * 50_000])
def test_samples_that_cannot_be_read_are_a_fault(site: Path, content: str) -> None:
    release = site / "images" / "release"
    (release / "classes.json").write_text(content)
    write_checksums(release)
    assert "its samples cannot be read" in faults(release)[0]


@pytest.mark.parametrize("change", [{"unit": "person"}, {"adjacency": "replace-one"}])
def test_another_unit_than_in_the_documents_is_noticed(site: Path, change: Content) -> None:
    release = site / "images" / "release"
    forge(release, lambda content: content["guarantee"].update(change))
    assert "does not state what privacy.json does" in faults(release)[0]


def test_other_numbers_of_a_stage_than_in_the_documents_are_noticed(site: Path) -> None:
    release = site / "images" / "release"
    forge(release, lambda content: _stage(content, "size", 3))
    assert "does not state what privacy.json does" in faults(release)[0]


def test_a_statement_that_readers_could_read_in_two_ways_is_no_statement(site: Path) -> None:
    release = site / "images" / "release"
    path = release / "privacy.json"
    text = path.read_text()
    path.write_text(text.replace('"epsilon": 1.0,', '"epsilon": 0.1, "epsilon": 1.0,'))
    write_checksums(release)
    assert "a name stands twice" in faults(release)[0]


def test_a_class_may_be_called_as_a_claim_is(site: Path) -> None:
    release = site / "images" / "release"
    record = read_record(read_json(release / "privacy.json"))
    write_release_documents(release, replace(record, title="Variants at epsilon 4", contact=""))
    assert not faults(release)


# What a release names


def test_licence_contact_and_the_total_stand_in_the_documents(finished: Path) -> None:
    release = finished / "images" / "release"
    content = json.loads((release / "privacy.json").read_text())
    with Ledger(str(finished / "ledger.db")) as ledger:
        (dataset,) = [one for one in ledger.datasets() if one.name.endswith("scans")]
        spent = ledger.spent(dataset.id)
    assert content["total"] == {
        "epsilon": spent.epsilon, "delta": spent.delta, "releases": 1, "unprotected": 0,
    }  # fmt: skip
    assert content["data"]["licence"] == "cc-by-4.0"
    assert content["data"]["contact"] == "Data office <data@hospital.example>"
    statement = (release / "PRIVACY.md").read_text()
    assert "All releases together" in statement
    assert "Questions about this folder: Data office &lt;data@hospital.example&gt;." in statement
    assert "as the owner states" in (release / "README.md").read_text()
    lines = verify(release).unverified
    assert "the total of all releases: it stands in the owner's ledger" in lines
    silent = json.loads((finished / "embeddings" / "release" / "privacy.json").read_text())
    assert (silent["total"], silent["data"]["contact"]) == (None, "")


def test_the_total_counts_earlier_releases(site: Path) -> None:
    options = {"publish_total": True, "epsilon": 0.5, "count": None}
    for name in ("two", "three"):
        made = quick_run(site / "private.npz", site, out=site / name, **options)
    total = json.loads((made.release / "privacy.json").read_text())["total"]
    assert total["releases"] == 3
    assert total["epsilon"] > 1.2
    assert total["unprotected"] == 1


# Signatures


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``mine.pem``, ``mine-public.pem`` and those of another."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    place = tmp_path_factory.mktemp("keys")
    pem = serialization.Encoding.PEM
    for name in ("mine", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        (place / f"{name}.pem").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        (place / f"{name}-public.pem").write_bytes(
            key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
    return place


def test_a_signature_says_who_made_it(site: Path, keys: Path) -> None:
    release = site / "images" / "release"
    public = sign_release(release, keys / "mine.pem")
    checked = verify(release, key=keys / "mine-public.pem")
    assert (checked.faults, checked.signed_by) == ((), public)
    assert not any("sign" in line for line in checked.unverified)
    assert not faults(release, key=public)
    assert "another key signed" in faults(release, key=keys / "other-public.pem")[0]
    assert any("whose key signed it" in line for line in verify(release).unverified)
    (release / "README.md").write_text("epsilon 1")
    write_checksums(release)
    assert any("nobody signed" in fault for fault in faults(release, key=public))


def test_without_the_package_of_signatures_the_files_are_checked_and_the_signature_is_not(
    site: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = site / "images" / "release"
    public = sign_release(release, keys / "mine.pem")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "understudy.methods.sanitize.ed25519")
    checked = verify(release)
    assert (checked.faults, checked.signed_by) == ((), None)
    assert "signature was not checked" in checked.unverified[-1]
    assert "pip install 'understudy[sign]'" in checked.unverified[-1]
    ended = CliRunner().invoke(app, ["verify", str(release)])
    assert (ended.exit_code, "signed by:  not checked" in ended.output) == (0, True)
    for key in (public, str(keys / "mine-public.pem")):  # who names a key asks for the signature
        assert "was not checked by the key" in faults(release, key=key)[0]
    (release / "README.md").write_text("epsilon 1")
    assert "README.md: was changed" in faults(release)


def test_a_bit_anywhere_in_a_signature_counts_and_a_new_list_does_not_fit_it(
    site: Path, keys: Path
) -> None:
    release = site / "embeddings" / "release"
    sign_release(release, keys / "mine.pem")
    path = release / SIGNATURE
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 9):
        part = bytearray(whole)
        part[bit // 8] ^= 1 << bit % 8
        path.write_bytes(part)
        assert signature_faults(release, None)[1], bit
    (release / "more.txt").write_text("x")
    write_checksums(release)
    path.write_bytes(whole)
    assert "was changed after signing" in faults(release)[0]


def test_what_is_no_key_is_refused_with_the_command_that_makes_one(site: Path, keys: Path) -> None:
    release = site / "images" / "release"
    for wrong in (keys / "mine-public.pem", release / "README.md", keys / "missing.pem"):
        with pytest.raises(ConfigError, match=r"openssl genpkey|cannot read the key"):
            sign_release(release, wrong)
    for wrong in (keys / "mine.pem", "abc"):
        with pytest.raises(ConfigError, match=r"openssl pkey|cannot read the key"):
            verify(release, key=wrong)
    (release / "classes.json").write_text("{}")
    with pytest.raises(RunError, match=r"cannot be signed: classes\.json: was changed"):
        sign_release(release, keys / "mine.pem")
