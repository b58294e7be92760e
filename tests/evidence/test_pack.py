"""Packs of a DP release and of a selection without a guarantee; nothing private is shared."""

import json
import math
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.report.pages import chromium
from tests.run.samples import QUICK, embeddings

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError, RunError
from understudy.evidence.claims import pyramid
from understudy.evidence.owner_facts import OwnerFacts
from understudy.evidence.pack import private_in
from understudy.evidence.registry_entry import entry_faults, registry_entry
from understudy.evidence.subject import open_subject, replay_command
from understudy.privacy.ledger.ledger import Disclosure, Ledger
from understudy.report import Premise
from understudy.report.meaning import EARLIER_RUN

REPOSITORY = Path(__file__).resolve().parents[2]
FACTS = {
    "curator": "University hospital",
    "curator_type": "Nonprofit",
    "sector": "Healthcare",
    "region": "European Union",
    "intended_use": "Teaching",
    "justification": "Agreed with the officer",
    "recipients": "Students",
    "retention": "A year",
    "author": "A. Author",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release at epsilon 1, a selection without a guarantee, and a pack of each with attacks."""
    place = tmp_path_factory.mktemp("evidence") / "Ann's ward & 7"
    place.mkdir()
    for seed, name in enumerate(("private", "candidates", "test")):
        embeddings(place / f"{name}.npz", seed=seed, per_class=61)
    common: dict[str, Any] = {"ledger": str(place / "ledger.db"), "progress": "none"}
    private = place / "private.npz"
    understudy.synthesize(private, out=place / "dp", epsilon=1.0, settings=QUICK, **common)
    understudy.select(
        place / "candidates.npz",
        private=private,
        keep="50%",
        no_guarantee=True,
        out=place / "selection",
        **common,
    )
    (place / "facts.yaml").write_text(yaml.safe_dump(FACTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")  # without a browser
        for name in ("dp", "selection"):
            understudy.evidence(
                place / name,
                to=place / f"{name}-pack",
                real=private,
                test=place / "test.npz",
                facts=place / "facts.yaml",
                progress="none",
            )
    return place


@pytest.fixture(autouse=True)
def without_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def shared_texts(pack: Path) -> Iterator[str]:
    for path in sorted((pack / "shared").rglob("*")):
        if path.is_file():
            besides = r"<style>.*?</style>|\b[0-9a-f]{32,}\b"  # digests hold any number by chance
            yield re.sub(besides, "", path.read_text(), flags=re.DOTALL)


def owners_numbers(site: Path, name: str) -> set[str]:
    """Exact numbers of the owner's, as they may be typed; by other code than the product's."""
    evaluation = json.loads((site / name / "owner" / "evaluation.json").read_text())
    numbers = [
        row[end] for row in evaluation["figures"] if row["kind"] == "owner-only"
        for end in ("value", "low", "high", "baseline") if isinstance(row[end], float)
    ]  # fmt: skip
    page = (site / f"{name}-pack" / "owner" / "index.html").read_text()
    numbers += [float(one) for one in re.findall(r"\d\d\.\d\d(?=%)", page)]
    texts = {f"{one:.{digits}g}" for one in numbers for digits in (5, 6, 16)}
    return {text for text in texts if len(text.replace(".", "").lstrip("0")) >= 5} | {"183"}


def test_a_pack_has_two_parts_and_the_owners_is_closed(site: Path) -> None:
    pack = site / "dp-pack"
    assert sorted(path.name for path in pack.iterdir()) == ["owner", "shared"]
    for path in (pack / "owner", *(pack / "owner").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    names = {path.name for path in (pack / "shared").rglob("*")}
    assert names == {"index.html", "registry.yaml", "claims.json", "hipaa", "determination.md",
                     "SHA256SUMS"}  # fmt: skip
    shared, owner = ((pack / part / "index.html").read_text() for part in ("shared", "owner"))
    for words in ("epsilon", "Next review: ", "SHA-256 of SHA256SUMS", "No host was sent private"):
        assert words in shared
    assert "understudy synthesize SOURCE --method clustering --" in shared
    assert " --epsilon 1 --delta 1e-05 " in shared
    assert "singling out" in owner
    assert "Owner only" in owner
    results = (pack / "owner" / "hipaa" / "results.md").read_text()
    assert all(test in results for test in ("singling out", "linkability", "inference"))


@pytest.mark.parametrize("name", ["dp", "selection"])
def test_no_exact_private_number_is_shared(site: Path, name: str) -> None:
    numbers = owners_numbers(site, name)
    assert len(numbers) > 40
    public = " ".join(path.read_text() for path in (site / name / "release").glob("*[nd]"))
    for text in shared_texts(site / f"{name}-pack"):
        typed = set(re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))
        assert not {one for one in typed & numbers if one not in public}
        assert str(site) not in text


@pytest.mark.parametrize("form", ["{:.4g}", "{:.16g}", "{:.2%}", "risk is {:.5f}."])
def test_a_private_number_that_is_planted_is_found(site: Path, tmp_path: Path, form: str) -> None:
    value = 0.812345678
    (tmp_path / "page.html").write_text("epsilon 1, delta 1e-5, 183 rows of 2026-11-24")
    assert private_in(tmp_path, {"AUC": value, "PSNR": math.inf}, []) == []
    (tmp_path / "page.html").write_text(f"<td>{form.format(value)}</td>")
    (leak,) = private_in(tmp_path, {"AUC": value}, [])
    assert "which is AUC" in leak
    assert private_in(tmp_path, {"AUC": value}, [], public=form.format(value)) == []
    (tmp_path / "page.html").write_text("of 12,345 records in clinic/ann/scans")
    leaks = private_in(tmp_path, {"records": 12345.0}, ["clinic/ann/scans"])
    assert len(leaks) == 2


@pytest.mark.parametrize("planted", ["183 patients", "from {site}/private.npz", "risk {value:.4%}"])
def test_what_the_owner_pastes_into_the_facts_is_refused(
    site: Path, tmp_path: Path, planted: str
) -> None:
    if planted[:3] in re.findall(
        r"\b\d+\b", (site / "dp" / "release" / "privacy.json").read_text()
    ):
        pytest.skip("the noise came to 0: the exact count is that of the release")
    figures = json.loads((site / "dp" / "owner" / "evaluation.json").read_text())["figures"]
    value = next(one["value"] for one in figures if one["metric"] == "distance_auc")
    facts = {**FACTS, "intended_use": planted.format(site=site, value=value)}
    (tmp_path / "facts.yaml").write_text(yaml.safe_dump(facts))
    more = {"real": site / "private.npz", "test": site / "test.npz"} if "value" in planted else {}
    with pytest.raises(RunError, match=r"owner only.*Nothing was written"):
        understudy.evidence(
            site / "dp",
            to=tmp_path / "pack",
            facts=tmp_path / "facts.yaml",
            progress="none",
            **more,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["facts.yaml"]


def test_the_registry_entry_has_the_schemas_fields(site: Path) -> None:
    entry = yaml.safe_load((site / "dp-pack" / "shared" / "registry.yaml").read_text())
    assert list(entry_faults(entry)) == []
    stated = json.loads((site / "dp" / "release" / "privacy.json").read_text())["guarantee"]
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": stated["epsilon"], "delta": stated["delta"]}
    assert "number_of_privacy_units" not in entry["deployment"]["privacy_loss"]
    basic, administrative = (entry["deployment"][name] for name in ("basic", "administrative"))
    for fault, change in (
        ("/surprise: is not in the schema", lambda: entry.update(surprise=1)),
        ("publication_date", lambda: basic.update(publication_date="1/1/2026")),
        ("status: is required", lambda: administrative.pop("status")),
        ("tier: 0", lambda: administrative.update(tier=0)),
        ("data_curator_type", lambda: basic["data_curators"][0].update(data_curator_type="Me")),
    ):
        change()
        assert any(fault in one for one in entry_faults(entry)), fault


def test_without_facts_the_slots_are_named_and_nothing_is_made_up(
    site: Path, tmp_path: Path
) -> None:
    pack = understudy.evidence(site / "dp" / "release", to=tmp_path / "pack", progress="none")
    assert pack.open_slots == tuple(
        name for name in ("curator", "curator_type", "sector", "region", "intended_use",
                          "justification", "recipients", "retention", "author")
    )  # fmt: skip
    entry = yaml.safe_load((pack.shared / "registry.yaml").read_text())
    faults = list(entry_faults(entry))
    assert faults
    assert all("to be filled in" in fault for fault in faults)
    again = understudy.evidence(  # the file that the pack left is the one to fill in
        site / "dp", to=tmp_path / "pack", facts=pack.owner / "facts.yaml", progress="none"
    )
    assert again.open_slots == pack.open_slots


def test_a_selection_without_a_guarantee_claims_nothing(site: Path) -> None:
    shared = site / "selection-pack" / "shared"
    assert not (shared / "registry.yaml").exists()
    claims = json.loads((shared / "claims.json").read_text())["claims"]
    top = [one for one in claims if one["layer"] == "top"]
    assert {one["status"] for one in top} == {"not claimed"}
    page = (shared / "index.html").read_text()
    assert "no bound holds" in page.lower()
    assert "--no-guarantee" in page
    owner = (site / "selection-pack" / "owner" / "index.html").read_text()
    assert "Disclosures" in owner


def test_the_owners_page_has_what_the_ledger_says_today(site: Path, tmp_path: Path) -> None:
    page = (site / "dp-pack" / "owner" / "index.html").read_text()
    assert re.search(r"disclosures without noise, today</td>\s*<td>1<", page)  # the selection's
    assert "no total is set" in page
    for part in ("release", "owner"):
        shutil.copytree(site / "dp" / part, tmp_path / "dp" / part)
    run_file = tmp_path / "dp" / "owner" / "run.json"
    run = {**json.loads(run_file.read_text()), "ledger": str(tmp_path / "gone.db")}
    run_file.write_text(json.dumps(run))
    facts = dict(open_subject(tmp_path / "dp")[1].facts)
    assert facts["disclosures without noise, when this was made"] == "0"


def test_what_the_owner_wrote_outlives_the_next_pack(site: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    understudy.evidence(site / "dp", to=pack, progress="none")
    filled = pack / "owner" / "facts.yaml"
    filled.write_text(yaml.safe_dump(FACTS))
    again = understudy.evidence(site / "dp", to=pack, progress="none")
    assert again.open_slots == ()
    written = yaml.safe_load(filled.read_text())
    assert {name: written[name] for name in FACTS} == FACTS
    assert "[to be filled in]" not in (pack / "shared" / "index.html").read_text()


def test_a_control_that_differs_by_itself_is_no_proof_of_a_leak(site: Path, tmp_path: Path) -> None:
    alike = embeddings(tmp_path / "alike.npz", seed=4, per_class=61)
    with np.load(alike) as held_out:
        shifted = {**held_out, "embeddings": held_out["embeddings"] + 1.5}
    np.savez(tmp_path / "another year.npz", **shifted)
    tests = {}
    for test in (alike, tmp_path / "another year.npz"):
        pack = understudy.evidence(
            site / "dp", to=tmp_path / test.stem, real=site / "private.npz", test=test,
            progress="none",
        )  # fmt: skip
        tests[test.stem] = "The control differs" in (pack.owner / "index.html").read_text()
    assert tests == {"alike": False, "another year": True}


def test_hosts_are_those_of_the_ledger_and_unknown_without_it(site: Path, tmp_path: Path) -> None:
    for part in ("release", "owner"):
        (tmp_path / "dp" / part).mkdir(parents=True)
        for path in (site / "dp" / part).glob("*"):
            if path.is_file():
                (tmp_path / "dp" / part / path.name).write_bytes(path.read_bytes())
    run_file = tmp_path / "dp" / "owner" / "run.json"
    run = json.loads(run_file.read_text())
    with Ledger(str(site / "ledger.db")) as ledger:
        details = {"remote models": {"encoder": "models.example.org"}}
        ledger.disclose(run["dataset_id"], Disclosure(run["run"], "private images", details))
    subject, owner = open_subject(tmp_path / "dp")
    assert [host.name for host in subject.hosts or ()] == ["models.example.org"]
    assert len(owner.disclosures) == 1
    run_file.write_text(json.dumps({**run, "ledger": str(tmp_path / "gone.db")}))
    assert open_subject(tmp_path / "dp")[0].hosts is None
    assert open_subject(tmp_path / "dp" / "release")[0].hosts is None
    (tmp_path / "dp" / "owner" / "run.json").unlink()
    assert open_subject(tmp_path / "dp")[0].hosts is None


@pytest.mark.slow
def test_pages_are_printed_where_there_is_a_browser(site: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
        if chromium() is None:
            pytest.skip("needs Chromium")
        pack = understudy.evidence(site / "dp", to=tmp_path / "pack", progress="none")
    for part in (pack.shared, pack.owner):
        assert (part / "index.pdf").read_bytes().startswith(b"%PDF")
    assert stat.S_IMODE((pack.owner / "index.pdf").stat().st_mode) == 0o600


def test_every_proof_is_there(site: Path) -> None:
    for name in ("dp", "selection"):
        for claim in pyramid(open_subject(site / name)[0]):
            assert (claim.status == "claimed") == bool(claim.proof)
            for proof in claim.proof:
                kind, _, path = proof.partition(": ")
                if kind == "source":
                    assert (REPOSITORY / path).is_file(), proof
                elif kind == "release":
                    assert (site / name / "release" / path).is_file(), proof


def test_a_release_that_was_changed_claims_no_epsilon(site: Path, tmp_path: Path) -> None:
    place = tmp_path / "release"
    place.mkdir()
    for path in (site / "dp" / "release").iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    (place / "PRIVACY.md").write_text("all is well")
    pack = understudy.evidence(place, to=tmp_path / "pack", progress="none")
    claims = json.loads((pack.shared / "claims.json").read_text())["claims"]
    assert {one["block"] for one in claims if one["status"] == "claimed"} == {
        "data security and access control"
    }
    assert not (pack.shared / "registry.yaml").exists()
    assert "registry.yaml: not written, as `understudy verify` finds faults" in pack.notes[0]
    for name in ("index.html", "hipaa/determination.md"):
        text = (pack.shared / name).read_text()
        assert "No guarantee is claimed" in text
        assert "An attacker who" not in text


def test_a_replay_has_what_the_guarantee_depends_on(site: Path) -> None:
    """What a release does not state is a slot: its own epsilon, where it was made of another."""
    record = open_subject(site / "dp")[0].record
    assert record is not None
    receipt = replace(record.receipt, unit="rows sharing 'patient'", adjacency="replace-one")
    command = replay_command(replace(record, receipt=receipt))
    assert "--epsilon 1 --delta 1e-05 --unit COLUMN --adjacency replace-one" in command
    declared = {"class names": ["cat, tabby", "dog"], "image size": [64, 64], "image fit": "pad"}
    declared["intensity window"] = [40.0, 400.0]
    premises = [Premise.of(name, value, declared=True) for name, value in declared.items()]
    words = shlex.split(replay_command(replace(record, premises=tuple(premises))))
    flags = {name: words[words.index(name) + 1] for name in ("--classes", "--size", "--fit")}
    assert words[2] == "SOURCE?window=40,400"
    assert flags == {"--classes": '"cat, tabby",dog', "--size": "64", "--fit": "pad"}
    first, *rest = record.receipt.stages
    mixed = replace(receipt, stages=(replace(first, origin="base"), *rest))
    assert "--epsilon EPSILON" in replay_command(replace(record, receipt=mixed))
    earlier = tuple(replace(one, origin=EARLIER_RUN) for one in receipt.stages)
    again = replay_command(replace(record, receipt=replace(receipt, stages=earlier)))
    assert again.startswith("understudy resample RUN --count")


def test_what_makes_no_sense_is_refused(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "pack"
    for options, reason in (
        ({"test": site / "test.npz"}, "name the private dataset"),
        ({"facts": site / "nothing.yaml"}, "cannot read the facts: No such file"),
    ):
        with pytest.raises(ConfigError, match=reason):
            understudy.evidence(site / "dp", to=to, progress="none", **options)
    for text, reason in (
        ("curator: A\nepsilon: 1", "unknown: epsilon"),
        ("- 1", "no mapping"),
        ("sector: Fishing", "sector is one of"),
        ("review: soon", "review is a day"),
        (f"author: {'[' * 200}{']' * 200}", "author is a text, not a list"),
    ):
        (tmp_path / "facts.yaml").write_text(text)
        with pytest.raises(ConfigError, match=reason):
            understudy.evidence(site / "dp", to=to, facts=tmp_path / "facts.yaml", progress="none")
    with pytest.raises(RunError, match="no name for a folder"):
        understudy.evidence(site / "dp", to=".", progress="none")
    with pytest.raises(RunError, match="is taken"):
        understudy.evidence(site / "dp", to=site, progress="none")
    with pytest.raises(RunError, match=r"privacy\.json.*photos\.json.*server\.db"):
        understudy.evidence(tmp_path, to=to, progress="none")
    assert not to.exists()
    app(["evidence", str(site / "dp"), "--to", str(to), "--json"], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    assert "owner/facts.yaml" in printed["files"]
    assert any("no Chromium" in note for note in printed["notes"])


def test_a_release_alone_names_the_hosts_that_were_sent_its_images(
    site: Path, tmp_path: Path
) -> None:
    shutil.copytree(site / "dp" / "release", tmp_path / "alone")
    file = tmp_path / "alone" / "privacy.json"
    content = json.loads(file.read_text())
    model = {"role": "captioner", "name": "openai:some", "licence": "unknown"}
    content["models"].append({**model, "sha256": None, "host": "models.example.org"})
    file.write_text(json.dumps(content))
    subject = open_subject(tmp_path / "alone")[0]
    assert [host.name for host in subject.hosts or ()] == ["models.example.org"]
    (trust,) = [claim for claim in pyramid(subject) if claim.block == "trust model"]
    assert "No guarantee holds towards models.example.org" in trust.claim
    assert subject.record is not None
    entry = registry_entry(subject.record, OwnerFacts())
    assert "models.example.org" in entry["deployment"]["deployment_model"]["actors"]
