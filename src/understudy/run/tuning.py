"""``--tune``: settings chosen by a DP score on the private records, all within one charge.

One run after the other draws its settings from a public space, is made in full, and counts by
noisy queries how many private records a classifier finds that is trained on its samples
(`fitness`). The best is released, and nothing else leaves (`understudy.privacy.accounting.Selected`
has the proof). How many runs there are is drawn anew and secret.

A tuning that ends before it has chosen is spent: it is not gone on with, for who may end it and
have it drawn again chooses among more runs than were charged. What was chosen is stored at once,
and is gone on with as any run is.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.backends.yaml_files import read_yaml
from understudy.core.errors import ConfigError, MethodStopped, RunError
from understudy.core.types import Release
from understudy.methods.base import Method
from understudy.privacy.account import CandidateAccount, best_of
from understudy.privacy.budget_plan import TUNING
from understudy.privacy.ledger.ledger import Dataset
from understudy.release.outputs import RunFolder, read_json, write_json
from understudy.run.config import make_params
from understudy.run.models import names_of_roles
from understudy.run.prepare import Prepared, planned_stages
from understudy.run.progress import SilentEvents
from understudy.run.session import Session

QUICK = "quick"
"""As ``--tune``: the method's own small space."""

_MOST_SETTINGS = 256  # each of which is checked before the run


def alternatives_of(prepared: Prepared) -> list[Prepared]:
    """The run with each of the settings that it may be given; [] where none are chosen.

    Raises:
        ConfigError: No space, settings of which a run could be refused, or other models.
    """
    config, method = prepared.config, prepared.method
    if config.privacy.tune is None:
        return []
    if method.stops:
        raise ConfigError(f"{method.name} may stop halfway, so no score is sure: leave out --tune")
    space = _space(config.privacy.tune, prepared)
    count = 1
    for values in space.values():
        count *= len(values)
    if not 2 <= count <= _MOST_SETTINGS:
        raise ConfigError(
            f"a space for --tune has 2 to {_MOST_SETTINGS} combinations of settings, found {count}"
        )
    combinations = itertools.product(*space.values())
    return [_alternative(prepared, dict(zip(space, each, strict=True))) for each in combinations]


def _space(name: str, prepared: Prepared) -> dict[str, Sequence[Any]]:
    """The values to choose from, by the names of settings."""
    method: Method = prepared.method
    settled = prepared.config.models.settings
    if name == QUICK:
        quick = {} if method.tuning is None else method.tuning(prepared.params, prepared.context)
        space = {key: values for key, values in quick.items() if key not in settled}
        if not space:
            raise ConfigError(
                f"{method.name} with these models has no quick space, or --set settles all of it: "
                "docs/tuning.md says which encoders have one. Name another (--encoder), or a YAML "
                "file of settings and their values"
            )
        return space
    content = read_yaml(Path(name), "space of settings")
    if not isinstance(content, dict) or not all(
        isinstance(values, list) and values and len({*map(str, values)}) == len(values)
        for values in content.values()
    ):
        raise ConfigError(f"{name}: expected lines such as 'clusters: [1, 4, 16]', no value twice")
    if both := sorted(settled.keys() & content.keys()):
        raise ConfigError(
            f"{name}: {', '.join(both)} is among what to choose from, and all runs share what is "
            "in the settings (--set): leave it out of one of them"
        )
    return {str(key): values for key, values in content.items()}


def _alternative(prepared: Prepared, choice: Mapping[str, Any]) -> Prepared:
    config = prepared.config.changed(settings={**prepared.config.models.settings, **choice})
    method = prepared.method
    raw = make_params(method.params, config.models.settings)
    if names_of_roles(config.models, method, raw) != names_of_roles(
        prepared.config.models, method, make_params(method.params, prepared.config.models.settings)
    ):
        words = ", ".join(f"{name}={value}" for name, value in choice.items())
        raise ConfigError(f"{words} takes other models than the run: name the encoder and decoder")
    params = method.settle(raw, prepared.context)
    plan = planned_stages(config, method.stages(params, prepared.context))
    return replace(prepared, config=config, params=params, plan=plan)


class TunedSession(Session):
    """One run whose settings are chosen by a score."""

    def _fitted(self, stop: MethodStopped | None, dataset: Dataset) -> Release:
        tuning, record = self.account, self.folder.tuned
        self._clear()  # what a killed process left, after the choice too
        if not record.exists():
            if self.ledger.attempts(self.folder.run, TUNING):
                raise RunError(
                    f"{self.folder.out}: this run ended before it had chosen settings, and is not "
                    "gone on with: drawn again, it would choose among more runs than were charged. "
                    "What was charged stays spent. Start a new run in another folder"
                )
            try:
                self._choose(dataset)
            finally:
                self._clear()
        settings = read_json(record)["settings"]
        self.prepared = _alternative(self.prepared, settings)
        self.account = CandidateAccount(tuning, self.prepared.plan, self.folder.stages, final=True)
        return super()._fitted(None, dataset)

    def _clear(self) -> None:
        """Leave nothing of the runs; from charge to choice an empty folder, which tells of it."""
        scratch = self.folder.owner / TUNING
        shutil.rmtree(scratch, ignore_errors=True)
        if self.charged and not self.folder.tuned.exists():
            scratch.mkdir(mode=0o700)

    def _choose(self, dataset: Dataset) -> None:
        """Make the runs, and store the answers and the settings of the best."""
        alternatives, scratch = alternatives_of(self.prepared), self.folder.owner / TUNING
        numbers, best = itertools.count(), ""
        step = self.events.step("choosing settings by a secret number of runs", owner_only=True)

        def run() -> tuple[float, RunFolder, Prepared]:
            prepared = secrets.choice(alternatives)
            folder = RunFolder(scratch / str(next(numbers)), self.folder.run)
            folder.owner.mkdir(mode=0o700, parents=True)
            one = Session(prepared, folder, self.ledger, SilentEvents(), self.charged, self.engine)
            one.account = CandidateAccount(self.account, prepared.plan, folder.stages)
            quality = one._written(one._fitted(None, dataset)).quality
            if quality is None:
                raise ConfigError("--tune chooses by a measured quality: leave out --quality-share")
            shutil.rmtree(folder.draft)
            return quality.balanced_accuracy[0], folder, prepared

        runs = self.prepared.plan.runs
        if runs is None:
            raise ConfigError("the plan expects one run, and settings are chosen among several")
        _, folder, prepared = best_of(runs, run, lambda outcome: outcome[0])
        step.finish()
        for mine, other in (
            (self.folder.stages, folder.stages),
            (self.folder.stored(best).parent, folder.stored(best).parent),
        ):
            shutil.rmtree(mine, ignore_errors=True)
            if other.exists():
                other.rename(mine)
        tuned = prepared.config.models.settings
        write_json(self.folder.tuned, {"settings": dict(tuned), "kind": "public"})
