"""The remote models of a run: what it asks of them, who is sent private images, and the record."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.core.errors import ConfigError
from understudy.core.remote_models import PlannedCalls, RemoteCalls, RemoteModel
from understudy.core.roles import ROLES, flag_of
from understudy.methods.base import Context
from understudy.privacy.ledger.ledger import Dataset, Disclosure, Ledger
from understudy.release.outputs import RunFolder
from understudy.run.config import RunConfig

_PROBE_CALLS = 4  # of a model that private images are sent to, with public ones, at most
ANSWERS = "remote-answers.db"
"""The owner's file of what servers answered, while the run lasts."""


def remote_models(context: Context) -> dict[str, RemoteModel]:
    """The models of a run that servers run, by their roles."""
    models = context.models.items()
    return {role: model for role, model in models if isinstance(model, RemoteModel)}


def reads_private(role: str) -> bool:
    """Whether the model of a role is given private images, or what was said of them."""
    return ROLES[role].port in ("Encoder", "Captioner")


def connect_remote(context: Context, config: RunConfig, *, captioned: bool) -> RemoteCalls:
    """Count the requests of all remote models together, and see who may be sent private images.

    Args:
        context: The models.
        config: Caps, and the host that is permitted.
        captioned: Whether private images are embedded by their captions only.

    Raises:
        ConfigError: A model would send private images to another machine that is not permitted, or
            from the workers of a cluster; a host is permitted that no model is at; or a server does
            not embed images.
        BackendError: A cap does not cover what the server was asked while it was opened.
    """
    calls = RemoteCalls(config.models.max_calls, config.models.max_cost)
    permitted = config.privacy.allow_remote_private
    remote = remote_models(context)
    for role, model in remote.items():
        if reads_private(role):
            if not model.loopback and model.host != permitted:
                raise ConfigError(
                    f"{flag_of(role)} {model.name} would send the private images, or what is said "
                    f"of them, to {model.host}, which is not this machine. None was sent and "
                    "nothing was spent. Take a server on this machine (http://127.0.0.1:PORT/v1); "
                    "or, knowing that no guarantee holds towards that host, give synthesize (not "
                    f"select) --allow-remote-private {model.host}"
                )
            if config.output.engine != "local":
                raise ConfigError(
                    f"with --engine {config.output.engine} every worker would ask the server of "
                    f"{flag_of(role)} {model.name} by itself: by the address that this name has on "
                    "its own machine, and past --max-calls and --max-cost. Nothing was sent and "
                    "nothing was spent. Take --engine local"
                )
            if not (model.takes_images or captioned):
                raise ConfigError(
                    f"{model.name} embeds texts only, and {flag_of(role)} embeds private images "
                    "here: take a server that embeds images, or another encoder"
                )
            if permitted is not None:
                model.permit(permitted)
        model.connect(calls)
    if permitted is not None and permitted not in disclosed_to(context).values():
        raise ConfigError(
            f"--allow-remote-private {permitted}: no model of this run sends private images to "
            "that host: leave it out"
        )
    return calls


def disclosed_to(context: Context) -> dict[str, str]:
    """The hosts, other than this machine, that are sent private images, by the models' roles."""
    return {
        role: model.host
        for role, model in remote_models(context).items()
        if reads_private(role) and not model.loopback
    }


def planned_calls(
    context: Context, counts: Mapping[str, int], records: int, batch: int
) -> tuple[PlannedCalls, ...]:
    """What a run is to ask of its remote models.

    Args:
        context: The models.
        counts: Requests of each role, as far as the method knows them.
        records: Private records, which every encoder and captioner is given; owner-only.
        batch: Records in a call that maps private records, which is probed with public ones.
    """
    plans, hosts = [], disclosed_to(context)
    for role, model in remote_models(context).items():
        private = reads_private(role)
        usual = records if private else context.count or records
        calls = counts.get(role, usual) + (_PROBE_CALLS * batch if private else 0)
        tokens_in, tokens_out = (calls * each for each in model.usual_tokens)
        cost = model.prices.cost(calls, tokens_in, tokens_out) if model.prices.stated else None
        plans.append(
            PlannedCalls(
                *(role, model.name, model.host, calls, tokens_in, tokens_out, cost, role in hosts)
            )
        )
    return tuple(plans)


def start_remote(
    context: Context, calls: RemoteCalls, folder: RunFolder, ledger: Ledger, dataset: Dataset
) -> None:
    """Before the first private image is sent: keep answers, and record who is sent which.

    That private images are sent to a host is recorded in the ledger as a disclosure.
    """
    remote = remote_models(context)
    if not remote:
        return
    folder.begun = True
    calls.open(folder.owner / ANSWERS)
    for model in remote.values():
        model.connect(calls)
    if hosts := disclosed_to(context):
        what = f"private images, to {', '.join(sorted(set(hosts.values())))}"
        ledger.disclose(dataset.id, Disclosure(folder.run, what, {"remote models": hosts}))


def end_remote(calls: RemoteCalls, folder: RunFolder) -> None:
    """Forget the answers of a run that is complete: some are of private images."""
    calls.close()
    (folder.owner / ANSWERS).unlink(missing_ok=True)
