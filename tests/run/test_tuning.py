"""``--tune``: one charge, one outcome, no second draw."""

import json
import shutil
import sqlite3

import numpy as np
import pytest
from tests.run.samples import embeddings

from understudy import synthesize
from understudy.core.errors import ConfigError, RunError, RunStopped, UnderstudyError
from understudy.planning.dry import dry_run
from understudy.privacy.account import CandidateAccount
from understudy.privacy.accounting import Selected, epsilon_of
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.runs import list_runs
from understudy.release.verify import verify
from understudy.run import prepare, tuning
from understudy.run.config import make_config
from understudy.run.tuning import TunedSession, alternatives_of


@pytest.fixture
def few_runs(monkeypatch):
    """Two runs are expected: as many as ten in what is tested here, and sooner."""
    monkeypatch.setattr(prepare, "EXPECTED_RUNS", 2.0)


def options(folder, **more):
    (folder / "space.yaml").write_text("clusters: [1, 2]\ncovariance: [spherical, diagonal]\n")
    source = embeddings(folder / "e.npz") if not (folder / "e.npz").exists() else folder / "e.npz"
    mine = {"source": str(source), "out": folder / "out", "epsilon": 4.0, "progress": "none"}
    mine |= {"ledger": str(folder / "l.db"), "tune": str(folder / "space.yaml")}
    return mine | more


def charges(folder):
    with Ledger(str(folder / "l.db")) as ledger:
        return [row.data for row in ledger.rows() if row.kind == "charge"]


@pytest.mark.slow
def test_one_charge_one_outcome_and_no_second_draw(tmp_path, few_runs):
    result = synthesize(**options(tmp_path))
    (charge,) = charges(tmp_path)
    assert charge["event"]["kind"] == "selected"
    event = Selected(charge["event"]["mu"], charge["event"]["runs"])
    assert result.receipt.epsilon == 4.0
    assert epsilon_of([event], 1e-5) == pytest.approx(4.0, rel=1e-5)
    stated = json.loads((tmp_path / "out" / "release" / "privacy.json").read_text())
    assert (stated["guarantee"]["runs"], stated["guarantee"]["mu"]) == (2.0, None)
    assert stated["data"]["params"]["clusters"] in (1, 2)
    assert verify(tmp_path / "out").faults == ()
    path = tmp_path / "out" / "release" / "privacy.json"
    for change in ({"runs": 50.0}, {"runs": None}, {"epsilon": 2.0}, {"mu": 0.5}):
        path.write_text(json.dumps({**stated, "guarantee": {**stated["guarantee"], **change}}))
        assert any("privacy.json:" in fault for fault in verify(tmp_path / "out").faults), change
    owner = tmp_path / "out" / "owner"
    # Of the others nothing is left: as many answers as the plan of one run has.
    names = {path.stem for path in owner.rglob("*.npz")} - {"quality-classifier"}
    assert names == {stage["stage"] for stage in stated["stages"]}
    assert not (owner / "tuning").exists()

    # Killed after the choice, it is gone on with as it was: the same answers, no charge.
    (owner / "run.json").unlink()
    shutil.rmtree(tmp_path / "out" / "release")
    again = synthesize(**options(tmp_path, resume=True))
    assert again.receipt == result.receipt
    assert again.quality == result.quality
    assert len(charges(tmp_path)) == 1

    # An answer of the chosen run is never drawn again, and settings are never chosen again.
    (owner / "run.json").unlink()
    shutil.rmtree(tmp_path / "out" / "release")
    (owner / "stages" / "quality.npz").rename(tmp_path / "quality.npz")
    with pytest.raises(RunError, match="another draw would be another choice"):
        synthesize(**options(tmp_path, resume=True))
    (tmp_path / "quality.npz").rename(owner / "stages" / "quality.npz")
    (owner / "tuned.json").unlink()
    with pytest.raises(RunError, match="choose among more runs than were charged"):
        synthesize(**options(tmp_path, resume=True))
    assert len(charges(tmp_path)) == 1


def test_a_choice_that_was_interrupted_is_not_said_to_go_on(tmp_path, monkeypatch):
    def interrupted(runs, run, score):
        run()
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "best_of", interrupted)
    with pytest.raises(KeyboardInterrupt) as stop:
        synthesize(**options(tmp_path))
    with pytest.raises(RunError, match="choose among more runs") as again:
        synthesize(**options(tmp_path, resume=True))
    for error in (stop.value, again.value):
        (note,) = error.__notes__
        assert "was charged" in note
        assert "is not gone on with" in note
        assert "--resume" not in note
    (run,) = list_runs(tmp_path)
    assert (run.state, "not gone on with" in str(run.problem)) == ("stopped", True)


def test_a_choice_that_was_interrupted_before_its_charge_goes_on(tmp_path, monkeypatch):
    def interrupted(account):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CandidateAccount, "reserve", interrupted)
        with pytest.raises(KeyboardInterrupt) as stop:
            synthesize(**options(tmp_path))
    assert "Nothing was charged. --resume goes on" in stop.value.__notes__[0]
    assert [run.state for run in list_runs(tmp_path)] == ["unfinished"]
    monkeypatch.setattr(prepare, "EXPECTED_RUNS", 1.01)
    synthesize(**options(tmp_path, resume=True))
    assert len(charges(tmp_path)) == 1


def test_a_ledger_that_is_lost_as_it_charges_a_tuning_promises_no_resume(tmp_path, monkeypatch):
    """It was said that it goes on; where the charge stands, it is refused."""

    kinds, append = [], Ledger._append

    def note_kinds(ledger, connection, entries):
        kinds.extend(entry["kind"] for entry in entries)
        append(ledger, connection, entries)

    def lose(connection):
        connection.execute("COMMIT")
        if "charge" in kinds:
            raise sqlite3.OperationalError("the server went away")

    with monkeypatch.context() as lost:
        lost.setattr(Ledger, "_append", note_kinds)
        lost.setattr("understudy.privacy.ledger.database.commit", lose)
        with pytest.raises(RunStopped, match=r"if not, --resume goes on .*; if so, .* spent"):
            synthesize(**options(tmp_path))
    assert len(charges(tmp_path)) == 1
    with pytest.raises(RunError, match="choose among more runs than were charged"):
        synthesize(**options(tmp_path, resume=True))


def test_of_the_runs_not_chosen_nothing_is_left_wherever_a_tuning_ends(tmp_path, monkeypatch):
    """After an error, and once a run is resumed whose process was killed after the choice."""
    owner, choose = tmp_path / "out" / "owner", TunedSession._choose

    def full(runs, run, score):
        run(), run()
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "best_of", full)
        with pytest.raises(UnderstudyError, match="no space left"):
            synthesize(**options(tmp_path))
    assert list(owner.rglob("*.npz")) == []
    (owner / "tuning" / "0").mkdir()  # as a process leaves it that is killed at once
    with pytest.raises(RunError, match="choose among more runs"):
        synthesize(**options(tmp_path, resume=True))
    assert list((owner / "tuning").iterdir()) == []
    assert [run.state for run in list_runs(tmp_path)] == ["stopped"]

    def killed(session, dataset):
        choose(session, dataset)
        (session.folder.owner / "tuning" / "0").mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "EXPECTED_RUNS", 1.01)
    with monkeypatch.context() as patch:
        patch.setattr(TunedSession, "_choose", killed)
        patch.setattr(TunedSession, "_clear", lambda session: None)
        with pytest.raises(KeyboardInterrupt):
            synthesize(**options(tmp_path, out=tmp_path / "killed"))
    assert (tmp_path / "killed" / "owner" / "tuning" / "0").exists()
    synthesize(**options(tmp_path, out=tmp_path / "killed", resume=True))
    assert not (tmp_path / "killed" / "owner" / "tuning").exists()


def test_of_two_copies_of_an_uncharged_run_one_is_charged_and_chooses(tmp_path, monkeypatch):
    """Both are resumed before either is charged: the second choice would be free."""
    given = options(tmp_path)
    other, choose, copied = tmp_path / "copy", TunedSession._choose, []

    def choosing(session, dataset):
        if not copied:
            copied.append(shutil.copytree(tmp_path / "out", other))
            # It comes as far as its first answer, and the other one overtakes it.
            monkeypatch.setattr(CandidateAccount, "reserve", overtaken)
        choose(session, dataset)

    def overtaken(account):
        monkeypatch.undo()
        monkeypatch.setattr(prepare, "EXPECTED_RUNS", 1.01)
        synthesize(**{**given, "out": other, "resume": True})
        account.reserve()

    monkeypatch.setattr(prepare, "EXPECTED_RUNS", 1.01)
    monkeypatch.setattr(TunedSession, "_choose", choosing)
    with pytest.raises(RunError, match="among more runs than were charged"):
        synthesize(**given)
    assert (other / "release" / "privacy.json").exists()
    assert not (tmp_path / "out" / "release").exists()
    assert len(charges(tmp_path)) == 1


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("clusters: [3]", "2 to 256 combinations.*found 1"),
        ("clusters: 3", "expected lines such as"),
        ("clusters: [2, 2]", "no value twice"),  # half of the budget would choose nothing
        ("lumps: [1, 2]", "unknown setting 'lumps'"),
        ("clusters: [0, 2]", "clusters must be 1 or more"),
    ],
)
def test_a_bad_space_is_refused_before_anything_is_charged(space, message, tmp_path):
    given = options(tmp_path)
    (tmp_path / "space.yaml").write_text(space)
    with pytest.raises(ConfigError, match=message):
        synthesize(**given)
    assert not (tmp_path / "l.db").exists()


def test_what_all_runs_share_is_not_chosen(tmp_path):
    shared = {"settings": {"clusters": 2}}
    with pytest.raises(ConfigError, match=r"clusters is among .*--set\): leave it out of one"):
        synthesize(**options(tmp_path, **shared))
    assert not (tmp_path / "l.db").exists()
    quick = {name: value for name, value in options(tmp_path).items() if name != "progress"}
    prepared = prepare.prepare(make_config({**quick, "tune": "quick", **shared}))
    assert {one.params.clusters for one in alternatives_of(prepared)} == {2}


def test_settings_are_not_chosen_without_classes_or_without_a_space(tmp_path):
    labelled = options(tmp_path)["source"]
    with pytest.raises(ConfigError, match=r"no quick space.* which encoders have one"):
        synthesize(**options(tmp_path, method="alignment", base=labelled, tune="quick"))
    np.savez(tmp_path / "e.npz", embeddings=np.random.default_rng(0).normal(size=(90, 4)))
    with pytest.raises(ConfigError, match="by which --tune chooses"):
        synthesize(**options(tmp_path))


def test_the_plan_says_what_a_choice_costs_beside_none(tmp_path):
    mine = {
        name: value for name, value in options(tmp_path, tune="quick").items() if name != "progress"
    }
    plan = dry_run(make_config(mine))
    assert plan.mu < dry_run(make_config(mine | {"tune": None})).mu
    (note,) = [note for note in plan.notes if "chosen by a DP score" in note]
    assert "10 expected, epsilon 2.21 each" in note
    assert "To choose nothing (without --tune) would leave the one run epsilon 4" in note
