"""Processes that begin anew."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import SpawnContext


def spawning() -> SpawnContext:
    """For processes that share nothing with this one: torch's threads survive no fork.

    Nor do they run a file of the folder that one is in, which may be a stranger's, in place of a
    library's. That holds from here on for every Python that this process starts.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    return multiprocessing.get_context("spawn")
