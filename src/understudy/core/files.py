"""Files of a folder."""

from __future__ import annotations

import os
from pathlib import Path

from understudy.core.errors import RunError


def files_below(folder: Path) -> list[str]:
    """The path in a folder of every file of it, in order.

    Raises:
        RunError: One is a link, which leads out of the folder.
    """
    names, folders = [], [""]
    while folders:
        inner = folders.pop()
        with os.scandir(folder / inner) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise RunError(
                        f"{entry.path}: is a link, and a release holds files: put it there"
                    )
                if entry.is_dir():
                    folders.append(f"{inner}{entry.name}/")
                else:
                    names.append(inner + entry.name)
    return sorted(names)
