"""The command line, run and timed in processes of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time


def command_seconds(*words: str, **variables: str) -> tuple[float, float]:
    """Seconds on the wall, and of all processors, that ``understudy WORDS`` takes, start included.

    ``variables`` are added to its environment.
    """
    program = [sys.executable, "-c", "from understudy.cli.main import main; main()", *words]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **variables})
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
