"""A run whose method stops early: the rest of its budget is returned, or goes to another method.

A method stops where its own noisy answers say that it does not suit the private images. What it has
not asked for by then is given back to the dataset's budget in one transaction of the ledger, in
which the other method, where one is named, is charged. Why it stopped is written first, so a run
that is killed anywhere in between goes on from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from understudy.core.errors import MethodStopped
from understudy.core.roles import MODEL_ROLES, RoleNames
from understudy.core.types import Receipt
from understudy.privacy.account import Account
from understudy.privacy.budget_plan import composed
from understudy.release.outputs import RunPaths, read_json, write_json
from understudy.run.config import RunConfig
from understudy.run.methods import method
from understudy.run.models import named_roles
from understudy.run.prepare import Prepared, prepare


def read_stop(paths: RunPaths) -> MethodStopped | None:
    """Why the method of a run has stopped; None: it has not."""
    if not paths.stop.is_file():
        return None
    content = read_json(paths.stop)
    return MethodStopped(str(content.get("reason")), str(content.get("remedy")))


def write_stop(paths: RunPaths, stop: MethodStopped) -> None:
    """Write why a method has stopped, for the owner and for a run that is resumed."""
    write_json(paths.stop, {"reason": stop.reason, "remedy": stop.remedy})


def require_otherwise(prepared: Prepared) -> None:
    """Refuse a run whose other method could not run, before anything is charged."""
    config = _following(prepared.config, prepared.config.privacy.epsilon)
    if config is not None:
        prepare(config, prepared.source)


def rest_of(prepared: Prepared, account: Account) -> Prepared | None:
    """The other method's run with what is left of the budget; None: nothing is left or named."""
    config = _following(prepared.config, account.rest)
    return None if config is None else prepare(config, prepared.source, probe=False)


def _following(config: RunConfig, epsilon: float | str) -> RunConfig | None:
    """The configuration of the other method: its own settings and models, the datasets it takes."""
    if config.models.otherwise is None or epsilon == 0.0:
        return None
    other = method(config.models.otherwise)
    role_names = other.roles(other.params(), frozenset())
    datasets = role_names.keys() - set(MODEL_ROLES)
    roles = {role: name for role, name in named_roles(config.models).items() if role in datasets}
    return config.changed(
        method=other.name,
        settings={},
        otherwise=None,
        epsilon=epsilon,
        roles=cast(RoleNames, roles),
    )


def whole_receipt(receipt: Receipt, stopped: Receipt | None) -> Receipt:
    """The guarantee of a release, with what another method had released before it stopped."""
    if stopped is None:
        return receipt
    tests = tuple(replace(one, stage=f"before: {one.stage}") for one in stopped.stages)
    return composed([replace(stopped, stages=tests), receipt], receipt.delta)


def stop_explained(stop: MethodStopped, account: Account) -> MethodStopped:
    """The same stop, and what it has cost; what is left is returned to the budget."""
    left = account.rest
    receipt = account.settle()
    returned = "and the rest is the dataset's again" if left else "which is all that the run had"
    spent = f"Epsilon {receipt.epsilon:.2g} (delta {receipt.delta:g}) was spent on finding out"
    remedy = f"{stop.remedy}. In a new run --otherwise METHOD gives such a rest to another at once"
    return MethodStopped(stop.reason, f"{spent}, {returned}. {remedy if left else stop.remedy}")
