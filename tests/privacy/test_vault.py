"""The vault: one way out, paid before it is answered, stored on arrival, and nothing else."""

import copy
import json
import logging
import math
import pickle
import shutil

import numpy as np
import pytest

from understudy.core.errors import (
    BackendError,
    BudgetRefused,
    ConfigError,
    InputError,
    LedgerError,
    PrivateValueError,
    RunError,
)
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.privacy.account import Account, StoredReleases
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import Cells, ClippedSums, Counts, FullMoments, Votes
from understudy.privacy.rows import DistantRecords
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault, StoredVault
from understudy.run.config import make_config
from understudy.run.prepare import prepare

N, DIM, CLASSES = 200, 4, 2
CELLS = Cells(np.zeros((CLASSES, 1, DIM)))


class World:
    """A dataset, a ledger and a run folder on disk."""

    def __init__(self, folder, unit=None, budget=None, per_unit=4):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(N, DIM)).astype(np.float32)
        self.y = np.arange(N) % CLASSES
        self.owner = np.array([f"p{i // per_unit}" for i in rng.permutation(N)])
        np.savez(folder / "d.npz", embeddings=self.x, labels=self.y, unit=self.owner)
        self.unit = unit or Unit()
        self.source = open_source(folder / "d.npz", unit=self.unit.column)
        self.ledger = Ledger(folder / "ledger.db")
        self.dataset = self.ledger.register(self.source).id
        if budget:
            self.ledger.set_budget(self.dataset, budget)

    def vault(self, weights, epsilon=1.0, run="run", stages="stages", delta=1e-5):
        plan = Plan.of(Budget(epsilon, delta), weights)
        account = Account(self.ledger, self.dataset, self.unit, plan, self.folder / stages, run)
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        return PrivateVault(self.source, account, LocalEngine(2), cache).embedded()

    def charges(self):
        return [row for row in self.ledger.rows() if row.kind == "charge"]


@pytest.fixture
def world(tmp_path):
    with World(tmp_path).ledger:
        yield World(tmp_path)


def test_a_release_is_the_sum_plus_noise_of_the_planned_scale(world):
    answer = world.vault({"sums": 1.0}, epsilon=1e5).release(ClippedSums(CELLS, 10.0), stage="sums")
    truth = np.stack([world.x[world.y == c].astype(float).sum(0) for c in range(CLASSES)])
    receipt = Plan.of(Budget(1e5), {"sums": 1.0})
    assert np.abs(answer - truth).max() < 8 * 10.0 / receipt.mu


def test_two_releases_differ_even_with_every_seed_fixed(world):
    np.random.seed(0)
    one = world.vault({"c": 1.0}, run="a", stages="a").release(Counts(CELLS), stage="c")
    np.random.seed(0)
    two = world.vault({"c": 1.0}, run="b", stages="b").release(Counts(CELLS), stage="c")
    assert (one != two).all()


def test_the_whole_plan_is_charged_before_the_first_answer(world):
    vault = world.vault({"a": 1.0, "b": 3.0})
    assert world.charges() == []
    vault.release(Counts(CELLS), stage="a")
    assert {row.data["stage"] for row in world.charges()} == {"a", "b"}
    assert world.ledger.spent(world.dataset).epsilon == pytest.approx(1.0, rel=1e-6)


def test_over_budget_nothing_is_charged_and_nothing_released(tmp_path):
    world = World(tmp_path, budget=Budget(0.5))
    with pytest.raises(BudgetRefused, match="does not cover"):
        world.vault({"a": 1.0}, epsilon=0.6).release(Counts(CELLS), stage="a")
    assert world.charges() == []
    assert not list((tmp_path / "stages").iterdir())


class Claiming:
    """A source that says how many records it has, however few it reads."""

    def __init__(self, source, count):
        self._source, self._count = source, count

    def __getattr__(self, name):
        return getattr(self._source, name)

    def __len__(self):
        return self._count


def test_a_sum_that_int64_does_not_hold_is_refused_before_anything_is_charged(world):
    world.source = Claiming(world.source, 2**40)
    vault = world.vault({"a": 1.0, "b": 3.0}, epsilon=10.0)
    with pytest.raises(ConfigError, match=r"1,099,511,627,776 records may come to [\d,]{25,} grid"):
        vault.release(Counts(CELLS), stage="a")
    assert world.charges() == []


def test_a_run_of_so_many_records_is_refused_before_its_first_release(world, tmp_path):
    config = {"source": str(tmp_path / "d.npz"), "out": tmp_path / "out", "epsilon": 1.0}
    prepare(make_config(config), Claiming(world.source, 2**27 - 1), probe=False)
    with pytest.raises(ConfigError, match="this run: a sum over 1,099,511,627,776 records"):
        prepare(make_config(config), Claiming(world.source, 2**40), probe=False)


def test_a_resumed_run_reads_what_it_paid_for(world):
    before = world.vault({"a": 1.0, "b": 1.0}).release(Counts(CELLS), stage="a")
    spent = world.ledger.spent(world.dataset).epsilon
    again = world.vault({"a": 1.0, "b": 1.0})
    assert np.array_equal(again.release(Counts(CELLS), stage="a"), before)
    again.release(Votes(np.ones((CLASSES, 3, DIM))), stage="b")
    assert world.ledger.spent(world.dataset).epsilon == spent


def test_a_lost_release_is_paid_again(world):
    # Defect 1 of the field: a resume that forgets what was spent.
    first = world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    shutil.rmtree(world.folder / "stages")
    second = world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    assert (first != second).any()
    assert len(world.charges()) == 2
    assert world.ledger.spent(world.dataset).epsilon > 1.4


def test_a_copied_run_folder_cannot_draw_a_second_answer_for_one_charge(world):
    world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    world.vault({"a": 1.0}, stages="copy").release(Counts(CELLS), stage="a")
    assert len(world.charges()) == 2


def test_of_two_copies_that_draw_at_once_one_answer_is_kept(world):
    first, copy = world.vault({"a": 1.0}), world.vault({"a": 1.0}, stages="copy")
    account = first._inside.account
    pay = account._pay

    def paid(*stage):
        attempt = pay(*stage)
        copy.release(Counts(CELLS), stage="a")  # between the charge of the other and its noise
        return attempt

    account._pay = paid
    with pytest.raises(LedgerError, match="another value"):
        first.release(Counts(CELLS), stage="a")
    assert len(world.charges()) == 1
    assert not list((world.folder / "stages").iterdir())  # of the answer that nothing pays for
    world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    assert len(world.charges()) == 2


def test_a_charge_whose_noise_was_never_drawn_is_used_not_repeated(world):
    world.vault({"a": 1.0})._inside.account.reserve()
    world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    assert len(world.charges()) == 1


def test_a_stored_release_is_not_taken_for_another_query(world):
    world.vault({"a": 1.0}).release(ClippedSums(CELLS, 1.0), stage="a")
    others = Cells(np.ones((CLASSES, 1, DIM)))
    for query in (Counts(CELLS), ClippedSums(others, 1.0), ClippedSums(CELLS, 2.0)):
        with pytest.raises(RunError, match="another query"):
            world.vault({"a": 1.0}).release(query, stage="a")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": 2.0}, "sigma"),
        ({"delta": 1e-6}, "delta"),
        ({"weights": {"a": 1.0, "b": 2.0}}, "shares"),
        ({"weights": {"a": 1.0, "c": 1.0}}, "shares"),
        ({"unit": Unit(adjacency="replace-one")}, "adjacency"),
        ({"unit": Unit("unit")}, "unit"),
    ],
)
def test_a_stored_release_is_given_back_for_its_own_plan_alone(world, change, word):
    """A run folder that is asked again with more noise to claim, or less, gives nothing back."""
    plan = {"weights": {"a": 1.0, "b": 1.0}, "epsilon": 1.0}
    before = world.vault(**plan).release(Counts(CELLS), stage="a")
    world.unit = change.pop("unit", world.unit)
    world.source = open_source(world.folder / "d.npz", unit=world.unit.column)
    with pytest.raises(RunError, match=f"stored for another .*{word}"):
        world.vault(**{**plan, **change}).release(Counts(CELLS), stage="a")
    world.unit, world.source = Unit(), open_source(world.folder / "d.npz")
    assert np.array_equal(world.vault(**plan).release(Counts(CELLS), stage="a"), before)


def test_a_stored_release_that_says_nothing_of_its_noise_is_not_taken(world):
    world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")
    path = world.folder / "stages" / "a.npz"
    with np.load(path) as archive:
        noisy, note = archive["noisy"], json.loads(str(archive["note"]))
    old = {"query": note["drawn"]["query"], "attempt": 1, "receipt": note["receipt"]}
    np.savez(path, noisy=noisy, note=np.array(json.dumps(old)))
    with pytest.raises(RunError, match="not a stored release"):
        world.vault({"a": 1.0}).release(Counts(CELLS), stage="a")


@pytest.mark.parametrize(
    "shares",
    [
        {"a": 0.7, "b": 0.4},
        {"a": 1.0 + 1e-9},
        {"a": -0.5, "b": 0.5},
        {"a": 0.0, "b": 1.0},
        {"a": math.nan},
        {"a": math.inf},
        {},
    ],
)
def test_a_plan_that_would_overspend_cannot_be_built(shares):
    with pytest.raises(ConfigError, match="share"):
        Plan(Budget(1.0), shares)


@pytest.mark.parametrize("name", ["means/variances", "../means", "x" * 300, "a\0b", ""])
def test_a_stage_whose_answer_could_not_be_stored_cannot_be_planned(name):
    """It was charged, and its noise drawn, before the file was missed."""
    with pytest.raises(ConfigError, match="names of their stages"):
        Plan.of(Budget(1.0), {"counts": 1.0, name: 1.0})


def test_a_plan_cannot_be_changed_after_it_was_checked():
    shares = {"a": 0.5, "b": 0.5}
    plan = Plan(Budget(1.0), shares)
    shares["a"] = 5.0
    assert plan.shares["a"] == 0.5
    with pytest.raises(TypeError):
        plan.shares["a"] = 5.0
    # Weights over their sum add up to 1 but for rounding, and are always a plan.
    for count in (3, 7, 49, 1000):
        Plan.of(Budget(1.0), {str(i): 0.1 + 1 / (i + 3) for i in range(count)})


@pytest.mark.parametrize("radius", [0.0, math.inf, math.nan, 1e-308])
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(world, radius):
    with pytest.raises(ConfigError, match="standard deviation"):
        world.vault({"a": 1.0}).release(ClippedSums(CELLS, radius), stage="a")
    assert world.charges() == []


def test_too_little_noise_for_the_proof_is_refused_before_the_charge(world):
    """The grid of full moments goes by the radius, so at a huge epsilon the noise is too fine."""
    with pytest.raises(ConfigError, match="noise scale"):
        world.vault({"a": 1.0}, epsilon=1e7).release(FullMoments(CELLS, 1.0), stage="a")
    assert world.charges() == []


@pytest.mark.parametrize("delta", [9.9e-12, 1e-15, 5e-324])
def test_a_delta_that_the_proof_does_not_cover_is_refused(delta):
    with pytest.raises(ConfigError, match=r"discrete Gaussian.*promise\.md"):
        Budget(1.0, delta)
    assert Budget(1.0, 1e-11).delta == 1e-11


def test_each_stage_is_released_once_and_only_if_planned(world):
    vault = world.vault({"a": 1.0})
    vault.release(Counts(CELLS), stage="a")
    with pytest.raises(RunError, match="released already"):
        vault.release(Counts(CELLS), stage="a")
    with pytest.raises(ConfigError, match="no stage 'b'"):
        vault.release(Counts(CELLS), stage="b")


def test_values_that_are_not_finite_are_refused_before_anything_is_charged(world):
    def broken(values):
        return np.full_like(values, np.nan)

    for wrong in (np.nan, 1e30):  # which float32 holds, and not what a later stage makes of it
        with pytest.raises(InputError, match="NaN"):
            world.vault({"a": 1.0}).map(lambda values, wrong=wrong: np.full_like(values, wrong))
    with pytest.raises(InputError, match="NaN"):
        world.vault({"a": 1.0}).view(broken).release(ClippedSums(CELLS, 1.0), stage="a")
    assert world.charges() == []


def test_a_map_that_mixes_records_is_refused_and_nothing_is_charged(world):
    vault = world.vault({"a": 1.0})
    with pytest.raises(BackendError, match="depends on its position or its neighbours"):
        vault.map(lambda rows: rows - rows.mean(axis=0))
    assert world.charges() == []


def test_embeddings_whose_length_changes_are_refused_and_nothing_is_charged(world):
    """Rows would be read of parts of others: one record more would move all that follow."""
    calls = iter(range(-4, 1000))  # those of the probe come first

    def shortened(values):
        return values[:, : 4 if next(calls) < 2 else 2]

    with pytest.raises(InputError, match=r"gave shape .*, all of one length"):
        world.vault({"sums": 1.0}).map(shortened)
    assert world.charges() == []
    calls = iter(range(1000))
    records = DistantRecords(world.source, shortened, 64)
    with pytest.raises(InputError, match=r"gave shape .*, all of one length"):
        records.block((0, np.arange(N), None))
    records._file.close()


def test_a_closed_vault_and_its_views_answer_nothing(world):
    vault = world.vault({"a": 1.0})
    views = [vault, vault.view(lambda rows: 2 * rows), vault.unconditional()]
    vault.close()
    for view in views:
        with pytest.raises(RunError, match="vault is closed"):
            view.release(Counts(CELLS), stage="a")
    assert world.charges() == []


@pytest.mark.parametrize(
    "attempt",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        list,
        len,
        np.asarray,
        lambda v: v[0],
        lambda v: 1 in v,
        lambda v: json.dumps(v),
    ],
)
def test_a_vault_cannot_be_copied_iterated_counted_or_pickled(world, attempt):
    with pytest.raises((PrivateValueError, TypeError)):
        attempt(world.vault({"a": 1.0}))


def test_a_vault_says_nothing_when_printed_or_logged(world, caplog):
    vault = world.vault({"a": 1.0})
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("%s %r", vault, vault)
    text = f"{vault} {vault!r} {caplog.text}"
    assert "private" in text
    assert not any(f"{value:.3f}" in text for value in world.x.ravel())
    assert str(N) not in text
    assert not any(name.startswith("_") for name in dir(vault))


def test_a_vault_of_units_bounds_each_person(tmp_path):
    world = World(tmp_path, unit=Unit("unit"), per_unit=50)
    answer = world.vault({"c": 1.0}, epsilon=1e6).release(Counts(CELLS), stage="c")
    # 4 people of 50 images in two classes each: a contribution of norm 1 a person, not 50.
    assert np.abs(answer).max() < 4 + 1


def test_rows_beyond_a_units_cap_are_not_used(tmp_path):
    world = World(tmp_path, unit=Unit("unit", max_rows=1), per_unit=4)
    answer = world.vault({"c": 1.0}, epsilon=1e6).release(Counts(CELLS), stage="c")
    assert answer.sum() == pytest.approx(N / 4, abs=0.5)
    first = np.unique(world.owner, return_index=True)[1]  # the one record of each
    assert answer.ravel() == pytest.approx(np.bincount(world.y[first]), abs=0.4)


def test_the_rows_that_are_used_are_of_all_classes_of_a_unit(tmp_path):
    """Though records come class after class, as those of class folders do."""
    world = World(tmp_path, unit=Unit("unit", max_rows=10), per_unit=50)
    rows = {"embeddings": world.x, "labels": np.sort(world.y), "unit": world.owner}
    np.savez(tmp_path / "sorted.npz", **rows)
    world.source = open_source(tmp_path / "sorted.npz", unit="unit")
    answer = world.vault({"c": 1.0}, epsilon=1e6).release(Counts(CELLS), stage="c")
    # of 4 people of 50 images, about half of them in each class
    assert answer.ravel() == pytest.approx([4 / 2**0.5] * 2, abs=0.8)


def test_the_sum_over_units_does_not_depend_on_threads_or_blocks(tmp_path, monkeypatch):
    from understudy.privacy import rows

    world = World(tmp_path, unit=Unit("unit"), per_unit=7)
    query = ClippedSums(CELLS, 1.0)
    grid = query.grid(1.0)
    whole = world.vault({"a": 1.0})._exact(query, grid)
    monkeypatch.setattr(rows, "BLOCK", 11)
    assert np.array_equal(world.vault({"a": 1.0})._exact(query, grid), whole)


def test_the_cache_is_the_owners_alone(world):
    vault = world.vault({"a": 1.0}).map(lambda x: x * 2)
    files = list((world.folder / "cache").iterdir())
    assert len(files) == 1
    assert files[0].stat().st_mode & 0o777 == 0o600
    vault.release(Counts(CELLS), stage="a")


def test_unconditional_rows_have_one_class(world):
    vault = world.vault({"a": 1.0}, epsilon=1e6).unconditional()
    answer = vault.release(Counts(Cells(np.zeros((1, 1, DIM)))), stage="a")
    assert answer[0, 0] == pytest.approx(N, abs=0.5)


def test_what_a_run_paid_for_is_read_back(world):
    query, shares = Counts(CELLS), {"a": 1.0, "b": 3.0}
    vault = world.vault(shares)
    answer, sd = vault.release(query, stage="a"), vault.noise_sd(query, stage="a")
    plan = Plan.of(Budget(1.0), shares)
    paid = StoredVault(StoredReleases(Unit(), plan, world.folder / "stages"))
    again = paid.map(np.square).unconditional()
    assert again.noise_sd(query, stage="a") == sd
    assert np.array_equal(again.release(query, stage="a"), answer)
    assert [stage.stage for stage in again.receipt().stages] == ["a"]
    with pytest.raises(RunError, match="is missing"):
        again.release(query, stage="b")


def test_the_receipt_adds_up(world):
    vault = world.vault({"a": 1.0, "b": 3.0})
    vault.release(Counts(CELLS), stage="a")
    vault.release(ClippedSums(CELLS, 2.0), stage="b")
    receipt = vault.receipt()
    assert [s.stage for s in receipt.stages] == ["a", "b"]
    assert sum(s.share for s in receipt.stages) == pytest.approx(1.0)
    for stage in receipt.stages:
        assert stage.mu == pytest.approx(stage.sensitivity / stage.sigma)
    plan = Plan.of(Budget(1.0), {"a": 1.0, "b": 3.0})
    assert sum(s.mu**2 for s in receipt.stages) == pytest.approx(plan.mu**2)
    assert (receipt.epsilon, receipt.delta, receipt.unit) == (1.0, 1e-5, "image")
