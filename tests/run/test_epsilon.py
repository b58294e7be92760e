"""Epsilon is asked for, or taken of the dataset's budget; the plan comes before the charge."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.run.samples import QUICK, class_folders
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.cli.show_run import RunPrinter
from understudy.core.errors import BudgetRefused, ConfigError, Declined
from understudy.data import open_source
from understudy.planning.dry import dry_run
from understudy.privacy.budget import Budget, part_of_budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config
from understudy.run.run_plan import RunPlan
from understudy.run.synthesize import run


class Site:
    """A dataset and a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger = folder, str(folder / "ledger.db")
        self.scans = class_folders(folder / "scans", {"cat": 30, "dog": 30}, (6, 6, 1))

    def set_budget(self, epsilon: float) -> None:
        with Ledger(self.ledger) as ledger:
            ledger.set_budget(ledger.register(open_source(self.scans)).id, Budget(epsilon))

    def options(self, epsilon: float | str, out: str = "out", **more: Any) -> dict[str, Any]:
        given = {"source": str(self.scans), "out": self.folder / out, "epsilon": epsilon}
        return {**given, "ledger": self.ledger, "count": 20, "settings": QUICK, **more}

    def synthesize(self, epsilon: float | str, out: str = "out", **more: Any) -> understudy.Result:
        return understudy.synthesize(**self.options(epsilon, out, **more), progress="none")

    def plan(self, epsilon: float | str, **more: Any) -> RunPlan:
        return dry_run(make_config(self.options(epsilon, **more)), out=False)

    @property
    def rows(self) -> list[str]:
        with Ledger(self.ledger) as ledger:
            return [row.kind for row in ledger.rows()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    ("words", "share"),
    [("rest", None), (" REST ", None), ("10%", 0.1), ("100%", 1.0), ("0.5%", 0.005)],
)
def test_words_for_a_part_of_a_budget(words: str, share: float | None) -> None:
    assert part_of_budget(words) == share


def test_the_rest_and_shares_of_a_budget(site: Site) -> None:
    site.set_budget(3.0)
    assert site.plan("rest").epsilon == 3.0
    tenth = site.plan("10%").epsilon
    assert site.synthesize("10%").receipt.epsilon == tenth
    assert 0.3 < tenth < 1.0  # of the squared mu, by which runs compose: no tenth of epsilon
    plan = site.plan("rest")
    assert 2.7 < plan.epsilon < 3.0
    assert plan.after == pytest.approx(3.0, rel=1e-5)
    assert site.synthesize("rest", "second").receipt.epsilon == plan.epsilon
    with pytest.raises(ConfigError, match=r"the budget of .* is used up"):
        site.synthesize("rest", "third")
    with pytest.raises(BudgetRefused):
        site.synthesize("10%", "third")
    assert not (site.folder / "third").exists()


def test_a_part_of_no_budget_says_what_to_write(site: Site) -> None:
    for known in (False, True):
        with pytest.raises(ConfigError, match=r"set-budget \S*scans --epsilon 3.*--epsilon 1"):
            site.synthesize("rest")
        if not known:
            site.synthesize(1.0, "first")


def test_a_resumed_run_has_the_epsilon_that_it_began_with(site: Site) -> None:
    site.set_budget(3.0)
    first = site.synthesize("rest")
    (first.owner / "run.json").unlink()
    resumed = site.synthesize("rest", resume=True)
    assert resumed.receipt.epsilon == first.receipt.epsilon == 3.0
    assert site.rows.count("charge") == len(first.receipt.stages)


def test_the_plan_says_before_the_charge_what_used_to_come_after_it(site: Site) -> None:
    notes = "\n".join(site.plan(20.0, delta=1e-2, accept_epsilon=True).notes)
    assert "no total budget" in notes
    assert "set-budget" in notes
    assert "epsilon 20 is large" in notes
    assert "delta 0.01 is above 1/(10 n)" in notes
    assert "--delta 0.001" in notes
    site.set_budget(30.0)
    few, undeclared = site.plan(2.0).notes
    assert undeclared.startswith("not covered unless it is declared: --classes")
    assert few.startswith("images of these classes serve little")


def test_the_plan_comes_before_the_charge_and_a_no_leaves_no_folder(site: Site) -> None:
    plans: list[RunPlan] = []

    def decline(plan: RunPlan) -> None:
        plans.append(plan)
        raise Declined

    with pytest.raises(Declined, match="nothing was charged, and no folder"):
        run(make_config(site.options(1.0)), decline, progress="none")
    assert (plans[0].epsilon, plans[0].refused) == (1.0, None)
    assert site.rows == ["dataset"]
    assert not (site.folder / "out").exists()
    run(make_config(site.options(1.0)), plans.append, progress="none")
    assert len(plans) == 2
    (site.folder / "out" / "owner" / "run.json").unlink()
    run(make_config(site.options(1.0, resume=True)), decline, progress="none")  # paid for: no plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "yes"), [("y\n", False), ("n\n", False), ("", True)])
def test_a_terminal_is_asked_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, answer: str, yes: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", Terminal())
    plan = site.plan(1.0)
    if answer == "n\n":
        with pytest.raises(Declined):
            RunPrinter(yes=yes).confirm(plan)
    else:
        RunPrinter(yes=yes).confirm(plan)
    question = "Charge epsilon 1 to this dataset for good?"
    assert (question in sys.stderr.getvalue()) == (not yes)  # type: ignore[attr-defined]


def test_the_ledger_says_the_largest_next_run(site: Site) -> None:
    site.set_budget(3.0)
    site.synthesize(1.0)

    def shown(*words: str) -> str:
        return CliRunner().invoke(app, ["ledger", *words, "--ledger", site.ledger]).output

    with Ledger(site.ledger) as ledger:
        (dataset,) = ledger.datasets()
        largest = ledger.next_run(dataset.id)
    assert f"epsilon {largest:g} more, as one run" in shown("show", str(site.scans))
    assert f"{largest:g}" in shown("list")
    owner = json.loads((site.folder / "out" / "owner" / "run.json").read_text())
    assert owner["spending"]["remaining"] == largest
