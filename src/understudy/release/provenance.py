"""Where everything that enters a run beside private images comes from, and what it guarantees.

Candidates, references, base sets, public images, models and files that are fitted to images go
through here: a release that `verify` finds sound brings its guarantee with it, which composes with
that of the run; one that is not sound, or lies in a run that is not finished, is refused; and of
anything else, what its owner declares is stated.
"""

from __future__ import annotations

import os
import shlex
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.core.errors import ConfigError, RunError, count_words
from understudy.core.files import home_path
from understudy.core.types import Receipt
from understudy.data.open_source import paths_of
from understudy.data.procedural import PROCEDURAL_PREFIX
from understudy.data.webdataset import is_tar
from understudy.methods.base import PROCEDURAL
from understudy.privacy.budget_plan import composed, inherited
from understudy.release.checksums import CHECKSUMS
from understudy.release.outputs import RunPaths
from understudy.release.verify import fault_words, verify
from understudy.report import Premise, RunRecord
from understudy.report.meaning import NO_PRIVATE_DATA, Guarantee

PUBLIC_ROLES = ("candidates", "base", "public", "contrast")
"""The datasets besides the private one that a run takes."""

_STATEMENT = "privacy.json"
_HALVES = ("train", "test", "data")
_DEPTH = 3  # folders below a dataset's that are looked into for releases

_IMAGES_OF = {
    "candidates": "the candidates",
    "public": "the public images",
    "base": "the base images",
    "contrast": "the contrast images",
    "reference": "the reference",
    "niqe": "the images that NIQE's model is fitted to",
}
"""What an owner declares to be public by naming it, by its role."""

_SELECTED = ("candidates", "reference")


@dataclass(frozen=True)
class Provenance:
    """Where something that enters a run comes from, as far as it is stated.

    Attributes:
        name: What the user named.
        role: What it is to the run.
        place: The folder of the release; None where it is none.
        record: What the release says of itself; None without one, or where that is not sound.
        declared_public: Whether the owner says that no private image had a part in it.
        faults: What `verify` finds wrong with the release.
    """

    name: str
    role: str = "candidates"
    place: Path | None = None
    record: RunRecord | None = None
    declared_public: bool = False
    faults: tuple[str, ...] = ()

    @property
    def guarantee(self) -> Guarantee | Literal["unknown"]:
        """The kind of its guarantee; unknown where nothing says it that can be believed."""
        if self.record is not None:
            return self.record.guarantee
        return "no private data" if self.declared_public else "unknown"

    @property
    def unproven(self) -> bool:
        """Whether private images may have had a part in it without noise: it counts as private."""
        return self.guarantee in ("none", "unknown")

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What its guarantee takes for public, or what the owner declared of it."""
        if self.record is not None:
            return self.record.premises
        if not self.declared_public or self.role not in _IMAGES_OF:
            return ()
        words = f"no private image had a part in {_IMAGES_OF[self.role]}"
        return (Premise(words, True, "declared"),)

    def require_guarantee(self, role: str) -> None:
        """Refuse what no claim can be made of.

        Raises:
            ConfigError: It has no guarantee, or nothing sound says where it comes from.
        """
        if self.guarantee == "none":
            raise ConfigError(
                f"{self.name} ({role}) has no guarantee: private images had a part in it, without "
                "noise, and what is made of it can never carry a claim, whatever epsilon is spent "
                "on it. Take another one that is public or has a guarantee"
                + (", or give up the claim (--no-guarantee)" if role in _SELECTED else "")
            )
        if self.faults:
            raise ConfigError(
                f"{self.name} ({role}) is no sound release, so no guarantee is inherited from it: "
                f"`verify` finds {fault_words(self.faults)}. See `understudy verify "
                f"{shlex.quote(str(self.place))}`, and take the release as it was "
                "written. Nothing was charged"
            )
        if self.guarantee == "unknown":
            how = (
                "If you know that no private image of this dataset had a part in making them, say "
                "so: --candidates-public. If a generator was fitted to private images without "
                "differential privacy, they can never carry a claim"
                if role == "candidates"
                else "Name a release, or give up the claim (--no-guarantee)"
            )
            raise ConfigError(
                f"{self.name} ({role}) has no {_STATEMENT} that says how private images had a part "
                f"in it. {how}"
            )


def provenance_of(
    name: str, role: str = "candidates", *, declared_public: bool = False
) -> Provenance:
    """Where rows come from: a run's folder, a release, a folder or a file in one, or anything else.

    Args:
        name: As `understudy.data.open_source` takes it.
        role: What it is to the run.
        declared_public: Whether the owner declares, in an option of its own, that no private image
            had a part in it.

    Raises:
        ConfigError: The declaration contradicts what the release says; the name is that of an
            archive of a release, or of a folder with releases in it; or it lies in the owner's part
            of a run.
        RunError: It lies in a run that is not finished.
    """
    for path in _paths_of(name):
        _require_outside_of_runs(name, path)
        _require_no_archive(name, path)
        if (place := _release_of(name, path)) is not None:
            return _of_release(name, role, place, declared_public=declared_public)
    return Provenance(name, role, declared_public=declared_public)


def provenance_of_role(name: str, role: str) -> Provenance | None:
    """Where a dataset comes from that its owner declares to be public by naming it.

    Returns:
        None for drawings of this program's own.
    """
    if name.startswith(PROCEDURAL_PREFIX):
        return None
    origin = provenance_of(name, role)
    if origin.faults:
        origin.require_guarantee(role)
    if origin.record is not None:
        return origin
    return Provenance(name, role, declared_public=True)


def provenance_of_model(name: str, role: str) -> Provenance | None:
    """Where the files of a model come from; None where none lies in or beside a release."""
    scheme, _, rest = name.partition(":")
    plain, _, options = (rest or scheme).partition("?")
    values = [option.partition("=")[2] for option in options.split("&")]
    for path in filter(None, (name, plain, *values)):
        if os.path.sep in path or home_path(path).exists():
            origin = provenance_of_role(path, role)
            if origin is not None and origin.record is not None:
                return origin
    return None


def origins_of(
    names: Mapping[str, str | None],
    released_role: str | None,
    candidates_public: bool,
    quality: str | None,
) -> tuple[Provenance, ...]:
    """Where everything comes from that was named and that images may have had a part in.

    Args:
        names: The models and datasets by their roles.
        released_role: The role of images that may be the samples of the release; None: none may.
        candidates_public: Whether the owner declares the candidates to be public.
        quality: The measure by which images are chosen, with the file that it is fitted to.

    Raises:
        InputError: It lies in a run that is not finished, or in a release that is not sound; or
            images that would be the samples are of a release about private images.
    """
    origins: list[Provenance | None] = []
    for role, name in names.items():
        if name is None or name == PROCEDURAL:
            continue
        if role == "candidates":
            origins.append(provenance_of(name, declared_public=candidates_public))
        elif role in PUBLIC_ROLES:
            origins.append(provenance_of_role(name, role))
        else:
            origins.append(provenance_of_model(name, role))
    measure, _, file = (quality or "").partition(":")
    if measure == "niqe" and file:
        origins.append(provenance_of_role(file, measure))
    records = tuple(one for one in origins if one is not None)
    for one in records:
        if one.role == released_role and one.guarantee != "no private data":
            raise ConfigError(
                f"{one.name} is a release about private images ({one.guarantee}), and the samples "
                "would be its own: name images that are public"
            )
    return records


def _of_release(name: str, role: str, place: Path, *, declared_public: bool) -> Provenance:
    checked = verify(place)
    record = checked.record if checked.sound else None
    kind = count_words(len(checked.faults), "fault") if record is None else record.guarantee
    if declared_public and kind != "no private data":
        raise ConfigError(
            f"{name} says itself how private images had a part in it ({kind}): leave out "
            "--candidates-public"
            + (
                f". What is wrong with it: `verify` finds {fault_words(checked.faults)}"
                if record is None
                else ""
            )
        )
    return Provenance(name, role, place, record, False, checked.faults)


def _paths_of(name: str) -> Iterator[Path]:
    """Every path on this machine that a name of a dataset stands for, links followed."""
    for path in map(Path.absolute, paths_of(name)):
        yield path
        if (resolved := path.resolve()) != path:
            yield resolved


def _require_outside_of_runs(name: str, path: Path) -> None:
    """Refuse what lies in a run that is not finished, at any depth, or in its owner's part."""
    for folder in (path, *path.parents):
        paths = RunPaths(folder)
        if paths.start.is_file() and not paths.record.is_file():
            raise RunError(
                f"{name}: lies in a run that is not finished ({folder}): go on with it (--resume)"
            )
    for folder in (path, *path.parents):
        if folder.name == "owner" and RunPaths(folder.parent).start.is_file():
            raise ConfigError(
                f"{name}: lies in the owner's part of a run, which holds private images: name its "
                f"release, {folder.parent / 'release'}"
            )


def _require_no_archive(name: str, path: Path) -> None:
    """Refuse a release in an archive, which cannot be verified there."""
    members: list[str] = []
    try:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                members = archive.namelist()
        elif path.is_file() and is_tar(path.name):
            with tarfile.open(path) as tar:
                members = tar.getnames()
    except (OSError, tarfile.TarError, zipfile.BadZipFile):
        return  # it says so where it is opened
    if any(member.rpartition("/")[2] == _STATEMENT for member in members):
        raise ConfigError(
            f"{name}: is an archive of a release ({_STATEMENT} is in it): unpack it, so that it "
            "can be verified, and name the folder"
        )


def _release_of(name: str, path: Path) -> Path | None:
    """The release that a path is, holds as a run's folder, or lies in."""
    halves = [path / half for half in _HALVES]
    for place in (path / "release", path, path.parent, path.parent.parent):
        if (place / _STATEMENT).is_file():
            return place
    for place in path.parents[2:]:
        if (place / _STATEMENT).is_file() and (place / CHECKSUMS).is_file():
            return place
    below = list(_folders_below(path, _DEPTH)) if path.is_dir() else []
    for folder in below:
        _require_outside_of_runs(name, folder)
    inner = [folder for folder in below if (folder / _STATEMENT).is_file()]
    if not inner:
        return None
    if len(inner) == 1 and inner[0] in halves:
        return inner[0]
    folders = ", ".join(str(folder) for folder in inner[:3])
    raise ConfigError(
        f"{name}: holds {len(inner)} release(s) in folders of its own ({folders}): name one release"
    )


def _folders_below(folder: Path, depth: int) -> Iterator[Path]:
    """The folders of a folder, so deep; links are not followed."""
    with os.scandir(folder) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for one in folders:
        yield one
        if depth > 1 and os.access(one, os.R_OK | os.X_OK):
            yield from _folders_below(one, depth - 1)


def made_of(parts: Sequence[tuple[str, Provenance]], own: Receipt | None = None) -> Receipt:
    """The guarantee of what is made of other rows, and of answers that were paid for besides.

    Its delta is that of this run, else that of the first release.

    Args:
        parts: What they are, and where they come from; a release that is several counts once.
        own: What this run pays for; None: it asks nothing of private records.

    Raises:
        ConfigError: A part of no guarantee, or guarantees that do not compose.
    """
    receipts, places = [] if own is None else [own], set[Path]()
    for role, part in parts:
        part.require_guarantee(role)
        if part.record is None or part.place is None or part.place.resolve() in places:
            continue
        places.add(part.place.resolve())
        if part.guarantee == "differential privacy":
            receipts.append(inherited(part.record.receipt, role))
    if not receipts:
        return NO_PRIVATE_DATA
    return composed(receipts, receipts[0].delta)
