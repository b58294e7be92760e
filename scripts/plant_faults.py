"""Plants faults in the private boundary, one at a time; each must turn a test red.

    python scripts/plant_faults.py             all of them
    python scripts/plant_faults.py noise       those whose file or name says so

A fault replaces one piece of a file under ``src/understudy/privacy`` in a copy of the tree, and the
few tests that should see it run against that copy. First the same tests run without any fault, and
must pass. Exit code 1: a fault that no test saw, a test that is red without one, or a piece of code
that is not there any more, whose fault has to be written anew.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "understudy"
AT_ONCE = 2
RED, GREEN = 1, 0  # exit codes of pytest; any other says that it ran no test


@dataclass(frozen=True)
class Fault:
    """A mistake that somebody could make, and what should see it.

    Attributes:
        name: What is wrong, in a few words.
        file: Below ``privacy``.
        right: The code as it is; it occurs once.
        wrong: What stands there instead.
        test: Below ``tests``, as pytest names it.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: str


SAMPLED = "privacy/test_sampled.py::"
SELECTIONS = "privacy/test_private_selection.py::"
SUMS = "privacy/test_sums.py::"
QUERIES = "conformance/test_queries.py::TestQueries::"
NOISE = "statistical/test_noise.py::"
RELEASES = "statistical/test_releases.py::"
VAULT = "privacy/test_vault.py::"
ACCOUNTING = "privacy/test_accounting.py::"
LEDGER = "privacy/test_ledger.py::"
OVERLAPS = "privacy/test_ledger_overlaps.py::"

FAULTS = (
    # queries
    Fault(
        "replacing a unit is taken for adding one",
        "queries.py",
        "(math.sqrt(2) if self.alike else 2.0)",
        "1.0",
        QUERIES + "test_adjacent_datasets_differ_by_no_more_than_the_sensitivity",
    ),
    Fault(
        "sums are taken for non-negative, as counts are",
        "queries.py",
        'description = "sums per cluster of the difference to its centre"\n',
        'description = "sums per cluster of the difference to its centre"\n    alike = True\n',
        QUERIES + "test_adjacent_datasets_differ_by_no_more_than_the_sensitivity",
    ),
    Fault(
        "gradients are taken for non-negative",
        "queries.py",
        'description = "sums of clipped gradients of a softmax regression at public weights"\n',
        'description = "sums of clipped gradients"\n    alike = True\n',
        QUERIES + "test_adjacent_datasets_differ_by_no_more_than_the_sensitivity",
    ),
    Fault(
        "a stored answer is taken for one about other clusters",
        "queries.py",
        "for part in value.parameters if isinstance(value, Cells) else (value,):",
        "for part in (0,) if isinstance(value, Cells) else (value,):",
        VAULT + "test_a_stored_release_is_not_taken_for_another_query",
    ),
    Fault(
        "a stored answer is taken for one in other widths",
        "cells.py",
        "        return self.centres, self.widths\n",
        "        return (self.centres,)\n",
        "privacy/test_partitioned.py::"
        "test_residuals_in_widths_are_clipped_all_the_same_and_reused_for_the_same_widths_only",
    ),
    Fault(
        "noise off the diagonal is smaller by 2, not by sqrt(2)",
        "queries.py",
        "np.where(first == second, 1.0, math.sqrt(2))",
        "np.where(first == second, 1.0, 2.0)",
        QUERIES + "test_no_unit_adds_more_than_the_bound",
    ),
    Fault(
        "a histogram counts values that are not finite",
        "queries.py",
        "        require_finite(norms)\n        return np.searchsorted(self.edges, norms)",
        "        return np.searchsorted(self.edges, norms)",
        QUERIES + "test_numbers_that_are_not_finite_are_refused",
    ),
    Fault(
        "the nearest centre is the one that float32 takes for it",
        "nearest.py",
        "least = (best.astype(np.float64) - 2 * tolerance).astype(np.float32)",
        "least = best",
        "privacy/test_votes.py::test_float32_only_chooses_who_is_compared",
    ),
    # sums
    Fault(
        "contributions are rounded to the nearest step, and lengthened",
        "sums.py",
        "    steps = scaled_rows(rows, factor / grid)\n    np.trunc(steps, out=steps)",
        "    steps = scaled_rows(rows, factor / grid)\n    np.rint(steps, out=steps)",
        SUMS + "test_truncation_is_toward_zero_and_never_lengthens",
    ),
    Fault(
        "each record of a unit is clipped by itself",
        "sums.py",
        "    squares = row_squares(rows if weights is None else rows * weights)\n",
        "    groups = None\n    squares = row_squares(rows)\n",
        SUMS + "test_a_unit_in_several_slots_is_clipped_as_a_whole",
    ),
    Fault(
        "a unit's records are added up",
        "sums.py",
        "rows = rows * unit_weights(groups, labels)[:, None]",
        "pass",
        SUMS + "test_copies_of_a_record_count_as_that_record_in_a_unit",
    ),
    Fault(
        "a unit has one vote in each of its classes",
        "sums.py",
        "pairs // classes, numbers.astype(np.float64) ** 2",
        "pairs // classes, numbers > 0",
        SUMS + "test_weights_of_units_keep_the_bound_of_a_record_without_clipping",
    ),
    Fault(
        "the integers of a unit are not held against the bound",
        "sums.py",
        "if squared_norms.size and not squared_norms.max() <= bound * bound * (1 - 1e-10):",
        "if False:",
        SUMS + "test_without_the_clipping_the_integers_are_refused",
    ),
    Fault(
        "outer products are held against the fourth power of the bound",
        "sums.py",
        "    _check_bound(traces, radius / step)",
        "    _check_bound(traces, (radius / step) ** 2)",
        SUMS + "test_full_moments_just_beyond_the_bound_are_refused",
    ),
    Fault(
        "the grid goes by a rounded logarithm",
        "sums.py",
        "math.frexp(sigma)[1] - MIN_SCALE.bit_length()",
        "math.floor(math.log2(sigma)) + 1 - MIN_SCALE.bit_length()",
        NOISE + "test_the_grid_is_exact_at_powers_of_two",
    ),
    Fault(
        "large sums are added up in float64",
        "sums.py",
        "if len(steps) * (bound / grid) >= 2**53:",
        "if False:",
        SUMS + "test_sums_too_large_for_float64_are_exact_too",
    ),
    Fault(
        "pieces of a block part a unit",
        "rows.py",
        'stop = int(np.searchsorted(units, units[stop - 1], side="right"))',
        "pass",
        SUMS + "test_pieces_of_a_block_part_no_unit",
    ),
    Fault(
        "all records of a unit are used, whatever its cap",
        "rows.py",
        "return order[used], grouped[used]",
        "return order, grouped",
        VAULT + "test_rows_beyond_a_units_cap_are_not_used",
    ),
    # steps on samples, and selections
    Fault(
        "every unit is in every sample",
        "rows.py",
        "    if rate >= 1:\n        return block\n",
        "    if rate > 0:\n        return block\n",
        SAMPLED + "test_units_are_sampled_with_their_rate_independently_of_one_another",
    ),
    Fault(
        "steps on samples are left out beside a selection",
        "accounting.py",
        "            accountant.compose(SelfComposedDpEvent(step, event.steps))\n",
        "            del step\n",
        SELECTIONS + "test_selections_steps_on_samples_and_whole_sums_compose_in_any_order",
    ),
    Fault(
        "the best of several runs is charged as one run",
        "accounting.py",
        "            best = RepeatAndSelectDpEvent("
        "GaussianDpEvent(1 / event.mu), event.runs, _LOGARITHMIC)\n",
        "            best = GaussianDpEvent(1 / event.mu)\n",
        SELECTIONS + "test_the_cost_is_that_of_the_theorem_from_the_safe_side",
    ),
    # noise
    Fault(
        "the noise is 30 % less",
        "noise.py",
        'l2_distance(T="f64"), scale=scale',
        'l2_distance(T="f64"), scale=0.7 * scale',
        NOISE + "test_the_right_scale_is_accepted",
    ),
    Fault(
        "the noise of the first numbers is used for all",
        "noise.py",
        "        noisy = list(pool.map(lambda chunk: mechanism(chunk.tolist()), chunks))",
        "        first = np.array(mechanism([0] * _CHUNK))\n"
        "        noisy = [chunk + first[: len(chunk)] for chunk in chunks]",
        NOISE + "test_noise_over_more_than_three_chunks_and_over_stages_is_independent",
    ),
    Fault(
        "too little noise for the proof is drawn",
        "noise.py",
        "    require_scale(scale)\n    mechanism",
        "    mechanism",
        NOISE + "test_a_scale_for_which_the_accounting_would_not_hold_is_refused",
    ),
    Fault(
        "a release without noise",
        "account.py",
        "noisy = _add_noise(exact, query, terms.receipt.sigma / terms.grid)",
        "noisy = exact",
        VAULT + "test_two_releases_differ_even_with_every_seed_fixed",
    ),
    Fault(
        "noise for the whole run's mu in every stage",
        "account.py",
        "return query.sensitivity(self.unit.adjacency) / self.plan.stage_mu(stage)",
        "return query.sensitivity(self.unit.adjacency) / self.plan.mu",
        RELEASES + "test_the_noise_has_the_scale_that_the_budget_asks_for",
    ),
    Fault(
        "noise off the diagonal is smaller twice",
        "account.py",
        "            part.ravel(), scale / float(weight)\n",
        "            part.ravel(), scale / float(weight) ** 2\n",
        RELEASES + "test_the_noise_has_the_scale_that_the_budget_asks_for",
    ),
    # accounting
    Fault(
        "runs compose by the largest mu",
        "accounting.py",
        "mu = math.sqrt(math.fsum(e.mu * e.mu for e in events if isinstance(e, Gaussian)))",
        "mu = max([e.mu for e in events if isinstance(e, Gaussian)], default=0.0)",
        ACCOUNTING + "test_a_run_as_one_event_is_what_its_stages_add",
    ),
    Fault(
        "an inverse errs on the other side",
        "accounting.py",
        "return mu * (1 - 1e-12)",
        "return mu * (1 + 1e-9)",
        ACCOUNTING + "test_an_inverse_errs_on_the_safe_side",
    ),
    Fault(
        "what arithmetic rounds is for free",
        "accounting.py",
        "    rounded = rounding * (1 + centre + half) ** 2\n",
        "    rounded = 0.0\n",
        ACCOUNTING + "test_no_inverse_exceeds_delta_by_what_arithmetic_rounds",
    ),
    Fault(
        "discrete noise costs nothing more than a continuous one",
        "accounting.py",
        "        return epsilon_of_mu(mu, delta) + slack",
        "        return epsilon_of_mu(mu, delta)",
        ACCOUNTING + "test_the_slack_of_a_run_is_far_below_1e_4_and_is_paid_from_its_epsilon",
    ),
    Fault(
        "an event that is not known costs nothing",
        "accounting.py",
        "            return Selected(mu, runs)\n",
        "            return Selected(mu, runs)\n        return Gaussian(1e-9)\n",
        ACCOUNTING + "test_an_unknown_or_malformed_event_is_refused_not_skipped",
    ),
    Fault(
        "a plan may spend more than its budget",
        "budget_plan.py",
        "if not 0 < total <= 1 + _SHARES_ROUNDING:",
        "if not 0 < total:",
        VAULT + "test_a_plan_that_would_overspend_cannot_be_built",
    ),
    # account and vault
    Fault(
        "an answer before it is paid",
        "account.py",
        "            self.reserve()\n            attempt = self._pay(stage, step)\n",
        "            attempt = 1\n",
        VAULT + "test_the_whole_plan_is_charged_before_the_first_answer",
    ),
    Fault(
        "a lost answer is drawn again for the same charge",
        "account.py",
        "            attempt += 1  # released before, and the result is gone: spent is spent\n",
        "            return attempt\n",
        VAULT + "test_a_lost_release_is_paid_again",
    ),
    Fault(
        "a stored answer is taken for one at another budget",
        "account.py",
        "if stored.get(name) != value]",
        'if name == "query" and stored.get(name) != value]',
        VAULT + "test_a_stored_release_is_given_back_for_its_own_plan_alone",
    ),
    Fault(
        "what mixes records may map them",
        "vault.py",
        "if inside.probe and encode is not _identity:",
        "if False:",
        VAULT + "test_a_map_that_mixes_records_is_refused_and_nothing_is_charged",
    ),
    Fault(
        "a closed vault still answers",
        "vault.py",
        "        self._shared.clear()\n",
        "        pass\n",
        VAULT + "test_a_closed_vault_and_its_views_answer_nothing",
    ),
    # ledger
    Fault(
        "a budget is held against the new charges alone",
        "ledger/rules.py",
        "    requested = epsilon_of([*page.events, *new], budget.delta)",
        "    requested = epsilon_of(new, budget.delta)",
        LEDGER + "test_the_budget_may_be_spent_to_the_last",
    ),
    Fault(
        "a charge under a recorded name is taken for the recorded one",
        "ledger/rules.py",
        "        elif recorded != (page.id, text):",
        "        elif False:",
        LEDGER + "test_a_repeated_charge_must_be_the_same",
    ),
    Fault(
        "guarantees of different units are added up",
        "ledger/rules.py",
        "    if page.events and fixed != (unit, adjacency):",
        "    if False:",
        LEDGER + "test_a_unit_or_adjacency_other_than_the_first_is_refused",
    ),
    Fault(
        "a union is charged to itself alone",
        "ledger/rules.py",
        "    pages = book.answerable(page)\n",
        "    pages = [page]\n",
        OVERLAPS + "test_a_union_is_refused_where_one_of_its_parts_is_spent",
    ),
    Fault(
        "what was released is returned as well",
        "ledger/book.py",
        "if key[0] == run and key not in self.releases]",
        "if key[0] == run]",
        "privacy/test_returns.py::test_what_was_released_stays_charged_and_again_returns_nothing",
    ),
    Fault(
        "a second value is released for one charge",
        "ledger/ledger.py",
        "            elif recorded != digest:",
        "            elif False:",
        LEDGER + "test_one_charge_cannot_stand_for_two_releases",
    ),
    Fault(
        "a changed row is believed",
        "ledger/chain.py",
        "link.previous != last.hash or not is_intact(key, link):",
        "link.previous != last.hash:",
        LEDGER + "test_damage_is_found_and_nothing_is_charged_any_more",
    ),
    Fault(
        "rows cut off the end leave no trace",
        "ledger/chain.py",
        "    if (last.count, last.hash) != (head.count, head.hash):",
        "    if False:",
        LEDGER + "test_damage_is_found_and_nothing_is_charged_any_more",
    ),
    Fault(
        "a copy with a few files fewer is another dataset",
        "ledger/fingerprint.py",
        "SAME = 0.5",
        "SAME = 0.95",
        LEDGER + "test_a_few_rows_more_or_fewer_open_no_fresh_budget",
    ),
    Fault(
        "a charge is not committed",
        "ledger/database.py",
        '    connection.execute("COMMIT")',
        '    connection.execute("ROLLBACK")',
        LEDGER + "test_every_run_draws_on_one_budget",
    ),
)


def copied_tree(folder: Path) -> Path:
    """The package in ``folder``, of which ``privacy`` is a copy, and the rest is linked."""
    package = folder / "understudy"
    package.mkdir()
    for part in PACKAGE.iterdir():
        if part.name == "privacy":
            shutil.copytree(part, package / "privacy", ignore=shutil.ignore_patterns("__pycache__"))
        elif part.name != "__pycache__":
            (package / part.name).symlink_to(part)
    return package / "privacy"


def tested(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests against the package in a folder, until the first that is red."""
    words = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    # SQLite says what PostgreSQL would, and starts no server.
    words += ["-k", "not postgres", *(f"tests/{test}" for test in tests)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def red_without_a_fault(faults: Sequence[Fault]) -> str:
    """What pytest says where a test of these faults is red already; an empty string where none."""
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        folder = Path(name)
        copied_tree(folder)
        ended = tested(folder, sorted({fault.test for fault in faults}))
        return "" if ended.returncode == GREEN else ended.stdout + ended.stderr


def survival(fault: Fault) -> str:
    """What pytest says where its test does not see a fault; an empty string where it does."""
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        folder = Path(name)
        path = copied_tree(folder) / fault.file
        code = path.read_text(encoding="utf-8")
        if code.count(fault.right) != 1:
            return f"{fault.file} holds {fault.right!r} {code.count(fault.right)} times, not once"
        path.write_text(code.replace(fault.right, fault.wrong), encoding="utf-8")
        ended = tested(folder, [fault.test])
        if ended.returncode == RED:
            return ""
        return f"pytest ended with {ended.returncode}\n{ended.stdout}{ended.stderr}"


def main(words: Sequence[str]) -> int:
    """Plant the faults that the words name, or all of them; print a line for each."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("word", nargs="*", help="part of a file's or a fault's name")
    named = parser.parse_args(words).word or [""]
    faults = [
        fault for fault in FAULTS if any(word in f"{fault.file} {fault.name}" for word in named)
    ]
    if not faults:
        parser.error(f"no fault is named by {' '.join(named)}")
    start, failures = time.monotonic(), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        unchanged = pool.submit(red_without_a_fault, faults)
        for fault, problem in zip(faults, pool.map(survival, faults), strict=True):
            failures += bool(problem)
            print(f"{'SURVIVED' if problem else 'caught':10}{fault.file}: {fault.name}")
            print(f"{'':10}{problem or 'by ' + fault.test}", flush=True)
    if problem := unchanged.result():
        failures += 1
        print(f"red without a fault:\n{problem}")
    print(f"{len(faults)} faults, {failures} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
