"""A run that is killed, anywhere, and resumed: paid once, complete, and never less than it says.

Acceptance, among the slow tests: 50 kills at random moments of a run, each resumed.
"""

import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli.processes import Commands
from tests.methods.shapes_world import file_of_stripes, folder_of_frames, folder_of_shapes
from tests.run.samples import class_folders, noisy_values, release_pixels, tree
from understudy.core.files import write_whole
from understudy.data import open_source
from understudy.methods.base import stages_of
from understudy.methods.clustering.samplers.tied_gaussian import TiedGaussianStages
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger

KILLS_A_RUN = 5
EPSILON = 2.0
SETTINGS = ["--set", "clusters=2", "--set", "components=10", "--count", "40"]


Moment = tuple[str, int, str]
"""Where a process kills itself: a function, which of its calls, and before or after it."""


class Site:
    """A dataset with a budget for exactly one run, and that run's words."""

    settings: Sequence[object] = SETTINGS
    samples = 40
    steps = 0  # answers that a stage of samples has beyond the first
    kept: frozenset[str] = frozenset()  # what the owner's folder holds besides the usual

    def __init__(self, folder: Path, epsilon: float = EPSILON) -> None:
        self.folder, self.out, self.url = folder, folder / "out", str(folder / "ledger.db")
        self.scans = folder / "scans"
        if not self.scans.exists():
            class_folders(self.scans, {"cat": 30, "dog": 30}, (6, 6, 1))
        with Ledger(self.url) as ledger:
            self.dataset = ledger.register(open_source(self.scans)).id
            ledger.set_budget(self.dataset, Budget(epsilon))

    def words(self, out: Path | None = None, *more: str) -> list[object]:
        place = ["--out", out or self.out, "--ledger", self.url, "--epsilon", EPSILON]
        return ["synthesize", self.scans, *place, *self.settings, *more]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def answer_of(release: Mapping[str, Any]) -> str:
    """The name of the file that a release is stored in: a stage's, or a step's."""
    return f"{release['stage']}.{release['step']}" if "step" in release else release["stage"]


def check_never_less_than_released(site: Site) -> None:
    """At any moment: what is stored was charged before, and nothing was charged twice."""
    stored = noisy_values(site.out) if site.out.exists() else {}
    with Ledger(site.url) as ledger:
        rows = list(ledger.rows())
        assert ledger.verify() == []
    charged, released = (
        [(r.data["run"], r.data["stage"], r.data["attempt"]) for r in rows if r.kind == kind]
        for kind in ("charge", "release")
    )
    answers = [answer_of(row.data) for row in rows if row.kind == "release"]
    assert max(Counter(charged).values(), default=1) == 1
    assert max(Counter(answers).values(), default=1) == 1
    assert set(released) <= set(charged)
    assert set(stored) <= set(answers)
    assert {attempt for *_, attempt in charged} <= {1}
    assert len({run for run, *_ in charged}) <= 1


def check_complete(site: Site) -> None:
    """The run is whole, and cost what a run costs that nobody killed."""
    check_never_less_than_released(site)
    record = json.loads((site.out / "owner" / "run.json").read_text())
    stages = [stage["stage"] for stage in record["receipt"]["stages"]]
    with Ledger(site.url) as ledger:
        spent = ledger.spent(site.dataset)
        releases = [row.data for row in ledger.rows() if row.kind == "release"]
    assert sorted(noisy_values(site.out)) == sorted(map(answer_of, releases))
    assert {release["stage"] for release in releases} == set(stages)
    assert spent.events == len(stages) == len(releases) - site.steps
    assert spent.epsilon == pytest.approx(EPSILON, rel=1e-3 if site.steps else 1e-9)
    assert spent.epsilon <= EPSILON
    assert spent.runs == (record["run"],)
    assert len(release_pixels(site.out)) == site.samples
    assert {p.name for p in site.out.iterdir()} == {"owner", "release", "synthetic.png"}
    left = {p.name for p in (site.out / "owner").iterdir()}
    assert (
        left
        == {"gallery.npz", "lock", "report.html", "run.json", "stages", "start.json"} | site.kept
    )
    assert not [path for path in tree(site.out) if path.endswith(".part")]


def test_a_run_that_nobody_kills(understudy: Commands, site: Site) -> None:
    done = understudy.run(*site.words())
    assert done.code == 0, done.err
    check_complete(site)
    refused = understudy.run(*site.words(site.folder / "more"))
    assert refused.code == 3
    assert "does not cover this run" in refused.err
    assert not (site.folder / "more").exists()


def check_killed_at(understudy: Commands, site: Site, moment: Moment) -> None:
    assert understudy.run(*site.words(), die=moment).code == -9
    check_never_less_than_released(site)
    done = understudy.run(*site.words(None, "--resume"))
    assert done.code == 0, done.err
    check_complete(site)


def test_no_half_written_report_is_left_by_the_run_that_goes_on(
    understudy: Commands, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = ("understudy.release.documents:write_whole", 1, "before")
    assert understudy.run(*site.words(), die=moment).code == -9
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", end_of_the_process)
        killed.setattr(Path, "unlink", end_of_the_process)
        with pytest.raises(KeyboardInterrupt):
            write_whole(site.out / "owner" / "report.html", b"half of it")
    assert len(list((site.out / "owner").glob(".report.html-*"))) == 1
    assert understudy.run(*site.words(None, "--resume")).code == 0
    check_complete(site)


def end_of_the_process(*_: object, **__: object) -> None:
    """What a file is asked for that is never renamed and never removed."""
    raise KeyboardInterrupt


def check_killed_at_random(
    understudy: Commands, folder: Path, place: Callable[[Path], Site], kills: int
) -> None:
    """Runs killed at random moments, resumed, killed again, and completed."""
    chance = random.Random(20)
    (folder / "timed").mkdir()
    whole = understudy.run(*place(folder / "timed").words())
    assert whole.code == 0, whole.err
    killed, runs = 0, 0
    while killed < kills:
        runs += 1
        assert runs <= 4 * kills, "runs end before they are killed"
        (folder / str(runs)).mkdir()
        site, resume = place(folder / str(runs)), []
        for _ in range(KILLS_A_RUN):
            moment = chance.uniform(0, whole.seconds)
            ended = understudy.run(*site.words(None, *resume), kill_after=moment).code
            assert ended in (0, -signal.SIGPROF)
            check_never_less_than_released(site)
            if ended == 0:
                break
            killed, resume = killed + 1, ["--resume"]
            if (site.out / "owner" / "run.json").exists():  # there is nothing to resume
                for part in site.out.rglob("*.part"):  # of the report, which is no part of the run
                    part.unlink()
                break
        else:
            done = understudy.run(*site.words(None, "--resume"))
            assert done.code == 0, done.err
        check_complete(site)


class Aligned(Site):
    """Alignment of a public base set, with clusters: more than one release."""

    kept = frozenset({"kept"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        base = class_folders(folder / "base", {"cat": 25, "dog": 25}, (6, 6, 1), seed=1)
        models = ["--encoder", "embedded:dct", "--decoder", "embedded:dct", "--base", base]
        self.settings = ["--method", "alignment", *models, "--set", "clusters=2", "--count", "40"]


class Selected(Site):
    """Selection by gradients: a release a round, each at weights that follow from the last."""

    kept = frozenset({"kept"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        candidates = folder / "candidates"
        if not candidates.exists():
            class_folders(candidates, {"cat": 60, "dog": 60}, (6, 6, 1), seed=1)
        options = ["--method", "selection", "--encoder", "embedded:dct", "--candidates-public"]
        options += ["--candidates", candidates]
        self.settings = [*options, "--set", "rounds=4", "--set", "steps=20"]
        self.settings += ["--count", "40"]


def check_sampled_again(understudy: Commands, site: Site) -> None:
    """From the answers alone, with nothing else that was stored: the same samples."""
    before = release_pixels(site.out)
    shutil.rmtree(site.out / "release")
    shutil.rmtree(site.out / "owner" / "kept", ignore_errors=True)
    (site.out / "owner" / "run.json").unlink()
    done = understudy.run(*site.words(None, "--resume"))
    assert done.code == 0, done.err
    check_complete(site)
    check_same_images(before, release_pixels(site.out))


def check_same_images(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    assert before.keys() == after.keys()
    assert all(np.array_equal(pixels, after[name]) for name, pixels in before.items())


class Finetuned(Site):
    """DP-SGD: four steps after those stages that clustering has."""

    samples, steps = 20, 3
    kept = frozenset({"kept"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settings = ["--method", "finetuning", "--count", "20"]
        self.settings += ["--denoiser", "embedded:denoiser?width=8&depth=1&patch=2"]
        for setting in ("steps=4", "rate=0.4", "images=16", "pretraining=2", "solver_steps=2"):
            self.settings += ["--set", setting]


@pytest.mark.slow
def test_training_killed_between_steps_draws_no_step_again(
    understudy: Commands, tmp_path: Path
) -> None:
    """Once with a step's noise drawn and not stored, once with its answer stored."""
    site, resume, stored = Finetuned(tmp_path), [], {}
    for moment in (
        ("understudy.privacy.noise:add_discrete_gaussian", 16, "after"),
        ("understudy.privacy.account:Account._store", 2, "after"),
    ):
        ended = understudy.run(*site.words(None, *resume), die=moment)
        assert ended.code == -9, ended.err
        resume[:] = ["--resume"]
        check_never_less_than_released(site)
        after = noisy_values(site.out)
        assert all(np.array_equal(values, after[stage]) for stage, values in stored.items())
        stored.update(after)
    assert {"training.1", "training.2", "training.3"} < set(stored)
    done = understudy.run(*site.words(None, "--resume"))
    assert done.code == 0, done.err
    check_complete(site)
    check_same_images(stored, {name: noisy_values(site.out)[name] for name in stored})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "kills"),
    [
        *((Site, 2), (Site, 50), (Aligned, 30)),
        pytest.param(Finetuned, 15, marks=pytest.mark.minutes),
    ],
)
def test_killed_at_random_moments(
    understudy: Commands, tmp_path: Path, place: type[Site], kills: int
) -> None:
    check_killed_at_random(understudy, tmp_path, place, kills)


class Tied(Site):
    """The default of clustering: one Gaussian a class, and images matched to draws of it."""

    settings = ("--count", "6")
    samples = 6

    def __init__(self, folder: Path) -> None:
        if not (folder / "scans").exists():
            class_folders(folder / "scans", {"cat": 30, "dog": 30}, (18, 18, 3))
        super().__init__(folder)


TIED = [stage.name for stage in stages_of(TiedGaussianStages())]
TIED_MOMENTS = [
    (place, number, when)
    for number in range(1, len(TIED) + 1)
    for place, when in (
        ("understudy.privacy.account:Account._pay", "before"),
        ("understudy.privacy.noise:add_discrete_gaussian", "before"),
        ("understudy.privacy.noise:add_discrete_gaussian", "after"),
        ("understudy.privacy.account:Account._store", "before"),
        ("understudy.privacy.ledger.ledger:Ledger.record_release", "after"),
        ("understudy.privacy.account:Account._store", "after"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", TIED_MOMENTS, ids=lambda m: f"{m[2]} {m[0].split(':')[1]} {TIED[m[1] - 1]}"
)
def test_the_tied_gaussian_killed_at_a_chosen_moment(
    with_energies: Commands, tmp_path: Path, moment: tuple[str, int, str]
) -> None:
    check_killed_at(with_energies, Tied(tmp_path), moment)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "commands"),
    [(Selected, "understudy"), pytest.param(Tied, "with_energies", marks=pytest.mark.minutes)],
)
def test_killed_at_random_moments_and_sampled_again(
    request: pytest.FixtureRequest, tmp_path: Path, place: type[Site], commands: str
) -> None:
    started = request.getfixturevalue(commands)
    check_killed_at_random(started, tmp_path, place, 30)
    for folder in sorted(path for path in tmp_path.iterdir() if path.name.isdecimal()):
        check_sampled_again(started, place(folder))


@pytest.mark.slow
def test_the_tied_gaussian_killed_after_a_stage_and_while_it_samples(
    with_energies: Commands, tmp_path: Path
) -> None:
    """One run, killed with an answer stored, with noise drawn, and with half of the images."""
    site, resume, stored = Tied(tmp_path), [], {}

    def killed(moment: Moment) -> None:
        ended = with_energies.run(*site.words(None, *resume), die=moment)
        assert ended.code == -9, ended.err
        resume[:] = ["--resume"]
        check_never_less_than_released(site)
        after = noisy_values(site.out)
        assert set(after) >= set(stored)
        assert all(np.array_equal(values, after[stage]) for stage, values in stored.items())
        stored.update(after)

    killed(("understudy.privacy.account:Account._store", 1, "after"))
    assert list(stored) == TIED[:1]
    killed(("understudy.privacy.noise:add_discrete_gaussian", 1, "after"))
    assert list(stored) == TIED[:1]
    killed(("understudy.data.release:_PngWriter._name", 4, "after"))
    assert set(stored) == set(TIED)
    draft = site.out / "owner" / ".draft.partial"
    begun = {
        str(path.relative_to(draft)): np.asarray(Image.open(path)) for path in draft.rglob("*.png")
    }
    done = with_energies.run(*site.words(None, "--resume"))
    assert done.code == 0, done.err
    check_complete(site)
    check_same_images(stored, noisy_values(site.out))
    release = release_pixels(site.out)
    assert 2 <= len(begun) < len(release)
    check_same_images(begun, {name: release[name] for name in begun})


class Relabelled(Site):
    """Labelling, which stops for images of another kind; the rest goes to clustering."""

    kept = frozenset({"kept", "stopped.json"})

    def __init__(self, folder: Path) -> None:
        if not (folder / "scans").exists():
            folder_of_shapes(folder / "scans", (170, 130), 1)
            folder_of_frames(folder / "frames", 300, 2)
            file_of_stripes(folder / "contrast.npz")
        super().__init__(folder)
        self.settings = ["--method", "labelling", "--public", folder / "frames"]
        self.settings += ["--contrast", folder / "contrast.npz"]
        self.settings += ["--encoder", "embedded:dct?coefficients=80"]
        self.settings += ["--otherwise", "clustering", "--count", "40"]


def check_never_more_than_the_budget(site: Site) -> None:
    with Ledger(site.url) as ledger:
        assert ledger.verify() == []
        assert ledger.spent(site.dataset).epsilon <= EPSILON * (1 + 1e-9)


RETURNS = [("understudy.privacy.ledger.ledger:Ledger._append", 12, "after")]
MORE_RETURNS = [
    ("understudy.run.session:write_stop", 1, "after"),
    ("understudy.privacy.account:Account.settle", 1, "after"),
    ("understudy.run.session:write_stop", 1, "before"),
    ("understudy.privacy.account:Account.settle", 1, "before"),
    ("understudy.privacy.account:Account._store", 5, "after"),
    ("understudy.run.session:write_release", 1, "after"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", [*RETURNS, *MORE_RETURNS], ids=lambda m: f"{m[2]} {m[0].split(':')[1]} {m[1]}"
)
def test_a_run_that_stops_killed_at_a_chosen_moment(
    understudy: Commands, tmp_path: Path, moment: tuple[str, int, str]
) -> None:
    site = Relabelled(tmp_path)
    ended = understudy.run(*site.words(), die=moment)
    assert ended.code == -9, ended.err
    check_never_more_than_the_budget(site)
    done = understudy.run(*site.words(None, "--resume"))
    assert done.code == 0, done.err
    check_never_more_than_the_budget(site)
    with Ledger(site.url) as ledger:
        assert ledger.spent(site.dataset).epsilon == pytest.approx(EPSILON, rel=1e-4)
        kinds = Counter(row.kind for row in ledger.rows())
    record = json.loads((site.out / "owner" / "run.json").read_text())
    assert kinds["release"] == len(record["receipt"]["stages"])
    assert kinds["charge"] - kinds["return"] == kinds["release"]


class Evolved(Site):
    """Evolution with a small studio; whoever makes one says where that is."""

    kept = frozenset({"kept"})
    studio: Path
    candidates = "images"

    def __init__(self, folder: Path) -> None:
        class_folders(folder / "scans", {"dog": 12, "person": 12}, (32, 32, 3))
        super().__init__(folder)
        studio = f"embedded:studio?folder={self.studio}"
        self.settings = ["--method", "evolution", "--encoder", studio]
        self.settings += ["--generator", f"{studio}&steps=1", "--count", "40"]
        for one in ("rounds=3", "population=8", "lookahead=1", "template=a {class}"):
            self.settings += ["--set", one]
        self.settings += ["--set", f"candidates={self.candidates}"]


@pytest.mark.minutes
@pytest.mark.slow
@pytest.mark.parametrize("candidates", ["captions", "images"])
def test_evolution_killed_at_random_moments(
    with_studio: Commands,
    tmp_path: Path,
    tiny_studio: Path,
    monkeypatch: pytest.MonkeyPatch,
    candidates: str,
) -> None:
    monkeypatch.setattr(Evolved, "studio", tiny_studio, raising=False)
    monkeypatch.setattr(Evolved, "candidates", candidates)
    check_killed_at_random(with_studio, tmp_path, Evolved, 15)


# Kills at chosen moments: between any two of these something is written or paid.

MOMENTS = [
    ("understudy.privacy.ledger.ledger:Ledger.charge", 1, "after"),  # paid, no noise drawn
    ("understudy.privacy.noise:add_discrete_gaussian", 1, "after"),  # drawn, not stored
    ("understudy.privacy.ledger.ledger:Ledger.record_release", 3, "after"),  # recorded, not renamed
    ("understudy.data.release:_PngWriter._name", 7, "after"),  # half of the images
    ("understudy.release.documents:write_json", 1, "before"),  # run.json, the last file
]

BETWEEN = [
    ("understudy.privacy.ledger.ledger:Ledger.charge", 1, "before"),
    ("understudy.privacy.account:np.savez", 2, "before"),  # an empty .part
    ("understudy.privacy.account:np.savez", 2, "after"),  # a whole one that nobody knows of
    ("understudy.release.outputs:write_json", 1, "before"),  # start.json
    ("understudy.release.outputs:write_json", 1, "after"),
    ("understudy.privacy.ledger.ledger:Ledger.register", 1, "after"),
    ("understudy.privacy.rows:CachedRecords", 1, "before"),
    ("understudy.privacy.noise:add_discrete_gaussian", 4, "before"),
    ("understudy.privacy.ledger.ledger:Ledger.record_release", 3, "before"),
    ("understudy.privacy.account:Account._store", 3, "after"),
    ("understudy.privacy.vault:PrivateVault.close", 1, "after"),
    ("understudy.run.session:write_release", 1, "after"),
    ("understudy.release.documents:write_release_documents", 1, "after"),
    ("understudy.run.session:publish", 1, "after"),
]
"""Moments at which nothing is paid or drawn that is not at one of the others."""


@pytest.mark.parametrize(
    "moment",
    [*MOMENTS, *(pytest.param(moment, marks=pytest.mark.slow) for moment in BETWEEN)],
    ids=lambda m: f"{m[2]} {m[0].split(':')[1]} {m[1]}",
)
def test_killed_at_a_chosen_moment(understudy: Commands, site: Site, moment: Moment) -> None:
    check_killed_at(understudy, site, moment)


@pytest.mark.slow
def test_killed_at_the_same_moment_of_the_resumed_run(understudy: Commands, site: Site) -> None:
    """A stage a time: every run pays for nothing, draws nothing anew and adds one release."""
    moment = ("understudy.privacy.account:Account._store", 1, "after")
    before: Mapping[str, Any] = {}
    resume: list[str] = []
    while understudy.run(*site.words(None, *resume), die=moment).code == -9:
        resume = ["--resume"]
        check_never_less_than_released(site)
        after = noisy_values(site.out)
        assert len(after) == len(before) + 1
        assert all(np.array_equal(values, after[stage]) for stage, values in before.items())
        before = after
    assert len(before) > 3
    check_complete(site)


def test_of_two_runs_racing_for_the_last_of_a_budget_one_wins(
    understudy: Commands, tmp_path: Path
) -> None:
    """Both have looked and found enough; they pay at the same moment."""
    site = Site(tmp_path)
    started, gates = [], [site.folder / name for name in ("left", "right")]
    for gate in gates:
        os.mkfifo(gate)
        words = site.words(site.folder / f"out-{gate.name}")
        hook = ("understudy.privacy.account:Account.reserve", str(gate))
        started.append(understudy.start(*words, wait_at=hook))
    opened = [gate.open("wb") for gate in gates]  # waits until both are there
    for gate in opened:
        gate.close()
    ended = [understudy.wait(one) for one in started]
    assert sorted(one.code for one in ended) == [0, 3]
    loser = next(one for one in ended if one.code == 3)
    assert "does not cover this run" in loser.err
    kept = [name for name in ("left", "right") if (site.folder / f"out-{name}").exists()]
    assert len(kept) == 1
    site.out = site.folder / f"out-{kept[0]}"
    check_complete(site)
