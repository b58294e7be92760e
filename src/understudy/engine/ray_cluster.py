"""A cluster of Ray that is joined, or begun on this machine and ended with the run."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.core.errors import ConfigError, RunError, packages_for

AUTHENTICATION = "RAY_AUTH_MODE"
_IMPORTED_BEFORE = "ray" in sys.modules and os.environ.get(AUTHENTICATION) != "token"
if AUTHENTICATION not in os.environ and not _IMPORTED_BEFORE:  # Ray reads it when it is imported
    os.environ |= {AUTHENTICATION: "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # of 15 by default: they do the work here

with packages_for("--engine ray", "ray"):
    import ray as ray  # who imports it from here has the token made before

_ANSWER_SECONDS = 10.0  # for a cluster to answer at its address
_STORE_BYTES = 80 << 20  # of the object store, which stays empty; Ray takes no less


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """A connection to a cluster, or to one of this machine that ends with the context."""
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    # Workers would import from the folder one is in, which may be a stranger's.
    here = {"", os.getcwd()}.isdisjoint(sys.path)
    quiet["job_config"] = ray.job_config.JobConfig(_client_job=here)
    if ray.is_initialized():  # a notebook's own
        yield
        return
    # Ray would tell the cluster this command, in which a ledger's password may stand.
    ray._private.utils.get_entrypoint_name = lambda: "understudy"
    if address not in (None, "local"):  # as Ray calls what is started below
        try:
            if place := re.fullmatch(r"\[?([^/\[\]]+)\]?:(\d+)", address):  # Ray asks for minutes
                socket.create_connection((place[1], int(place[2])), _ANSWER_SECONDS).close()
            ray.init(address, **quiet)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            raise RunError(
                f"no Ray cluster answers at {address} ({type(error).__name__}): see `ray status`"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()
        return
    if os.environ.get(AUTHENTICATION) != "token" or _IMPORTED_BEFORE:
        raise ConfigError(
            "Ray was imported, or set up, without a token, so that others on this machine could "
            f"run code in its workers: set {AUTHENTICATION}=token before, or name a cluster with "
            "--ray-address. Nothing was spent"
        )
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="understudy-", dir=parent)  # of mode 0700
    try:
        ray.init(
            "local",
            num_cpus=os.cpu_count() or 1,
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            object_spilling_directory=f"{folder}/spill",
            _temp_dir=f"{folder}/r",  # which Ray opens to everybody
            **quiet,
        )
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def require_this_machine(addresses: Iterable[str]) -> None:
    """Refuse a cluster of which a node is another machine: no socket can be bound there."""
    for address in addresses:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family) as probe:
                probe.bind((address, 0))
        except OSError as error:
            raise ConfigError(
                f"the Ray cluster has a node on another machine ({address}), where private records "
                "would be read, and what passes between them could be read on the way. Give it a "
                "token and TLS (docs/scale.md), and say --ray-trusted. Nothing was spent"
            ) from error
