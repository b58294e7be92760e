"""``understudy compare``: releases side by side, measured on the same real data if it is named."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from understudy.core.errors import ConfigError
from understudy.core.ports import Events
from understudy.evaluation.evaluate import evaluate
from understudy.release.outputs import release_folder
from understudy.report import Comparison
from understudy.run.progress import ProgressMode, reporting
from understudy.run.report import compare_folders, different_folders


def compare(
    folders: Sequence[str | PathLike[str]],
    *,
    real: str | Path | None = None,
    test: str | Path | None = None,
    full: bool = False,
    progress: ProgressMode | Events = "auto",
) -> Comparison:
    """Put several releases side by side.

    Args:
        folders: Two or more releases, or folders of runs.
        real: The private dataset: every release is evaluated with it first; owner-only. None: what
            earlier evaluations left is compared.
        test: The real test set; None: what the runs held out.
        full: Train models, too.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        ConfigError: Fewer than two, or a test set without the private dataset.
        RunError: A folder without a release.
        InputError: A release does not fit the data.
    """
    if real is None:
        if test is not None or full:
            raise ConfigError(
                "--test and --full measure all releases anew, beside the private dataset: say "
                "--real, too"
            )
        return compare_folders(folders)
    places = different_folders(folders)
    for place in places:
        release_folder(place)  # all of them, before the first one is measured
    with reporting(progress) as events:
        if len(places) < 2:
            return compare_folders(folders)
        evaluations = []
        for number, place in enumerate(places, start=1):
            events.notice(f"evaluating {place.name} ({number} of {len(places)})")
            evaluations.append(evaluate(place, real=real, test=test, full=full, progress=events))
    return compare_folders(places, evaluations)
