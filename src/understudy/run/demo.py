"""``understudy demo``: the main job on real images, with nothing to prepare."""

from __future__ import annotations

import shutil
from pathlib import Path

from understudy.core.errors import InputError, RunError
from understudy.core.ports import Events
from understudy.run.progress import ProgressMode
from understudy.run.synthesize import Result, synthesize

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts the four idx files."""


def demo(out: Path, epsilon: float = 1.0, *, progress: ProgressMode | Events = "auto") -> Result:
    """Make a release of Fashion-MNIST with the default settings.

    The demo keeps a ledger of its own inside ``out``, so that it can be repeated; a real dataset's
    spending belongs in the owner's ledger, which is what ``synthesize`` uses.

    Raises:
        InputError: Fashion-MNIST is neither installed nor to be had from the hub.
    """
    source = str(DEBIAN_FOLDER) if DEBIAN_FOLDER.is_dir() else "hf:fashion_mnist"
    if out.exists():
        if not (out / "demo-ledger.db").exists() and any(out.iterdir()):
            raise RunError(f"{out}: exists and is not an earlier demo; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    try:
        return synthesize(
            source,
            out=out / "fashion-mnist",
            epsilon=epsilon,
            test=source,
            test_rows=20_000,
            ledger=str(out / "demo-ledger.db"),
            progress=progress,
        )
    except InputError as error:
        if source.startswith("hf:"):
            raise InputError(
                f"{error}\nThe demo needs Fashion-MNIST: apt-get install dataset-fashion-mnist, or "
                "a connection to the hub"
            ) from error
        raise
