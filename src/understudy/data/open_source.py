"""Which reader a name belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from understudy.core.entry_points import SOURCES, registration_of
from understudy.core.errors import ConfigError, InputError, SourceError, UnderstudyError
from understudy.core.files import folder_name, home_path
from understudy.core.ports import Source
from understudy.core.types import is_shape
from understudy.data.adapted import as_declared
from understudy.data.captions import CAPTION, CAPTIONS_FILE, LICENCE, PATH
from understudy.data.encoded_images import Observer, Options
from understudy.data.folder import (
    CLASSES_FILE,
    image_names_below,
    inside,
    is_image,
    open_class_folders,
    open_flat_folder,
    open_manifest,
    visible,
)
from understudy.data.hub_datasets import is_saved, open_hub, open_saved
from understudy.data.idx import is_idx, open_idx_folder, open_idx_pair
from understudy.data.image_files import is_other_image, name_fault
from understudy.data.manifest import Manifest, path_column, read_manifest
from understudy.data.names import SPLITS, folder_of_half, further_parts, names_of_classes
from understudy.data.npz import GENERATED, open_npy, open_npz
from understudy.data.parquet import has_values, open_parquet
from understudy.data.procedural import PROCEDURAL_PREFIX, open_procedural
from understudy.data.reading_options import AS_STORED, ImageFit, Reading, split_name, window_of
from understudy.data.table_files import LABELS_FILE, TABLE_SUFFIXES, Table
from understudy.data.tensors import open_safetensors
from understudy.data.webdataset import brace_expand, is_tar, open_tars
from understudy.data.zipped import open_zip

Split = Literal["train", "test"]

SOURCE_KINDS = (
    "class folders of images, a folder of images with or without manifest.csv, a .zip of either, a "
    "folder of idx files, .npz, .npy, .safetensors, .parquet, .tar, a folder that "
    "datasets.save_to_disk made, hf:NAME, procedural:leaves or procedural:scenes, or playhouse:NAME"
)

CONTACT_SHEET = "synthetic.png"
"""What a run leaves beside its release: a few images of it on a sheet."""

_MANIFESTS = tuple(f"manifest{suffix}" for suffix in TABLE_SUFFIXES)
_ARRAYS = {".npz": open_npz, ".npy": open_npy, ".safetensors": open_safetensors}


def open_source(
    name: str | Path,
    *,
    split: Split = "train",
    size: int | tuple[int, int] | None = None,
    unit: str | None = None,
    skip_bad: bool = False,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    channels: int | None = None,
    fit: ImageFit = "stretch",
    window: tuple[float, float] | None = None,
    nested: bool = False,
    observer: Observer | None = None,
) -> Source:
    """Open a dataset of images or embeddings, to be read in a stream.

    Args:
        name: A folder or a file, ``hf:NAME`` or ``hf:NAME:CONFIG``, tars with ``{000..009}``,
            ``procedural:leaves``, or the name of a plug-in such as ``playhouse:pet-status``. What a
            run wrote is a dataset too: its folder, or the ``release`` in it. Of files, it may say
            how they are read: ``scans/?window=40,400`` (docs/sources.md).
        split: Which half to read, where the dataset has halves; ignored where it has none.
        size: Resize images to this (height, width); one number means a square. Needed where they
            differ; see ``fit``.
        unit: The column, field or array that names the unit of a record; a DICOM field, such as
            ``"PatientID"``; or a rule (`units.unit_column`).
        skip_bad: Pass over bad files and count them in ``skipped``, instead of stopping at the
            first. Every image is then decoded once to open the dataset.
        label: The column, field or array that holds the class; ``"none"`` for images without
            labels; None: the only one that can be meant.
        classes: The class names, in label order, as the owner declares them: a class may have no
            image, and an image of another class is refused. None: those of the dataset.
        channels: Convert images to 1 (grey) or 3 (RGB) channels, whatever they are.
        fit: How an image of another ratio is brought to ``size``: ``"stretch"``, ``"crop"`` about
            its middle, or ``"pad"`` with black.
        window: (centre, width) of black to white in images of more than 8 bits, where the name
            does not say it; None: as each file says.
        nested: Whether what lies in folders inside a class folder is of that class, as with a
            ``unit``.
        observer: Is shown every record while the dataset is opened: for checks.

    Raises:
        ConfigError: An option makes no sense, or the name has one that is not known.
        SourceError: The dataset, or a file of it, cannot be read; no column of that name, or
            several that could hold the class; an image of a class that is not declared.
        MissingExtra: It needs a package that is not installed.
    """
    declared = None if classes is None else names_of_classes(classes)
    reading = Reading(None if window is None else window_of(window), nested=nested)
    fields = (split, _size(size), unit, skip_bad, label, declared, channels, fit, reading, observer)
    return _opened(Options(folder_name(str(name)), *fields))


def _opened(options: Options) -> Source:
    if options.name.startswith("hf:"):
        return open_hub(options.name.removeprefix("hf:"), options)
    if options.name.startswith(PROCEDURAL_PREFIX):
        return as_declared(open_procedural(options), options)
    plugin = _open_plugin(options)
    if plugin is not None:
        return as_declared(plugin, options)
    name, reading = split_name(options.name)
    window, nested = options.reading.window, options.reading.nested or reading.nested
    reading = replace(reading, window=reading.window or window, nested=nested)
    options = replace(options, reading=reading)
    path = home_path(name)
    if path.is_dir():
        return _open_folder(path, options)
    if path.is_file():
        return _open_file(path, options)
    tars = [Path(part) for part in brace_expand(str(path))]
    if absent := [tar for tar in tars if not tar.is_file()]:
        problem = f"there is no such file or folder. A dataset is {SOURCE_KINDS}"
        raise SourceError(problem, absent[0])
    return open_tars(tars, options)


def paths_of(name: str) -> list[Path]:
    """Every path on this machine that the name of a dataset stands for, without its options."""
    plain = name if home_path(name).exists() else name.partition("?")[0]
    return [path for one in brace_expand(plain) if (path := home_path(one)).exists()]


def reading_of(name: str) -> Reading:
    """How a dataset's name says that its files are read; as stored where it names no files.

    Raises:
        ConfigError: It has an option that is not known (`reading_options.split_name`).
    """
    return AS_STORED if has_prefix(name) else split_name(name)[1]


def has_prefix(name: str) -> bool:
    """Whether a dataset's name names no files: one of the hub, of drawings or of a plug-in."""
    prefix, colon, _ = name.partition(":")
    others = {"hf", PROCEDURAL_PREFIX.removesuffix(":")}
    if not colon:
        return False
    return prefix in others or registration_of(SOURCES, prefix, "prefix", SourceError) is not None


def _open_plugin(options: Options) -> Source | None:
    """The dataset of another package, by a prefix; None where the name begins with none.

    A prefix is an entry point of the group ``understudy.sources``, for the built-in one too. It
    names a function ``(name, size, *, split, unit) -> Source`` that gets the whole name.
    """
    prefix, colon, _ = options.name.partition(":")

    def error(message: str) -> SourceError:
        return SourceError(message, options.name)

    registration = registration_of(SOURCES, prefix, "prefix", error) if colon else None
    if registration is None:
        return None
    opener: Any = registration.load("prefix", error)
    try:
        source = opener(options.name, options.size, split=options.split, unit=options.unit)
        if isinstance(source, Source):
            len(source)
    except UnderstudyError:
        raise
    except Exception as failure:  # whatever a plug-in raises while it opens
        name = type(failure).__name__
        raise error(f"{registration.value} failed: {name}: {failure}") from failure
    if not isinstance(source, Source):
        raise error(f"{registration.value} gave a {type(source).__name__}, no dataset")
    if wrong := _misstated(source):
        raise error(
            f"{registration.value} gave a dataset with {getattr(source, wrong)!r} as its {wrong}, "
            "which no dataset has (understudy.core.ports.Source)"
        )
    return source


def _misstated(source: Any) -> str:
    """The first of a source's attributes that no dataset can have; empty: none."""
    classes = source.classes
    right = {
        "kind": source.kind in ("images", "embeddings"),
        "shape": is_shape(source.shape, 3 if source.kind == "images" else 1),
        "classes": isinstance(classes, (tuple, list))
        and all(isinstance(name, str) for name in classes)
        and len(set(classes)) == len(classes) > 0,
        "has_units": isinstance(source.has_units, bool),
        "skipped": isinstance(source.skipped, int),
    }
    return next((key for key, is_right in right.items() if not is_right), "")


def _size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    if not (1 <= height <= 8192 and 1 <= width <= 8192):
        raise ConfigError(f"size is a height and a width from 1 to 8192 pixels, not {size}")
    return height, width


def _open_file(path: Path, options: Options) -> Source:
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        return _ARRAYS[suffix](path, options)
    if suffix == ".parquet" and has_values(path):
        return open_parquet([path], options)
    if suffix in TABLE_SUFFIXES:
        return open_manifest(_read(path, options), options, path.parent)
    if suffix == ".zip":
        return open_zip(path, options)
    if is_tar(path.name):
        return open_tars([path], options)
    if is_idx(path.name):
        return open_idx_pair(path, options)
    raise SourceError(f"is of no known kind. A dataset is {SOURCE_KINDS}", path)


def _read(manifest: Path, options: Options) -> Manifest:
    table = Table(manifest, options.reading.encoding)
    return read_manifest(table, image_names_below(manifest.parent), options.unit, options.label)


def _open_folder(folder: Path, options: Options) -> Source:
    if _is_run(folder):
        folder = folder / "release"
    if is_saved(folder):
        return open_saved(folder, options)
    files = [Path(entry.path) for entry in visible(folder) if is_idx(entry.name)]
    if files:
        _require_inside(files, folder)
        return open_idx_folder(folder, options)
    folders = {entry.name for entry in visible(folder) if entry.is_dir()}
    half = folder_of_half(folders, options.split, folder)
    if half is None:
        return _open_images(folder, options, root=folder)
    _require_inside([folder / half], folder)
    options = replace(options, unread=further_parts(folders))
    return _open_images(folder / half, options, root=folder)


def _is_run(folder: Path) -> bool:
    """Whether a folder is what a run wrote: a ``release``, and nothing that could be a dataset."""
    entries = visible(folder)
    folders = {entry.name for entry in entries if entry.is_dir()}
    images = {entry.name for entry in entries if is_image(entry)}
    if "release" not in folders or images - {CONTACT_SHEET}:
        return False
    marks = (CLASSES_FILE, "privacy.json", "embeddings.safetensors", "train", "data", GENERATED)
    return folders <= {"release", "owner"} or any(
        (folder / "release" / mark).exists() for mark in marks
    )


def _open_images(folder: Path, options: Options, *, root: Path) -> Source:
    """A folder without halves: a manifest, tars, Parquet, class folders, images, or one array."""
    entries = visible(folder)
    files = [Path(entry.path) for entry in entries if entry.is_file()]
    folders = [entry.name for entry in entries if entry.is_dir()]
    images = sum(is_image(entry) for entry in entries)
    manifest = _manifest(files, options, flat=images > 0, one_folder=len(folders) == 1)
    if manifest is not None:
        _require_inside([manifest], root)
        return open_manifest(_read(manifest, options), options, root)
    if images and not folders:
        return open_flat_folder(folder, options, root)
    tars = [path for path in files if is_tar(path.name)]
    if tars and not images:
        _require_inside(tars, root)
        return open_tars(*_of_split(tars, options))
    tables = [path for path in files if path.suffix == ".parquet"]
    if tables and not images:
        _require_inside(tables, root)
        return open_parquet(*_of_split(tables, options))
    if folders == [Path(GENERATED).parent.name] and (folder / GENERATED).is_file() and not images:
        _require_inside([folder / GENERATED], root)
        return open_npz(folder / GENERATED, options)
    if folders == ["data"] and any((folder / "data").glob("*.parquet")):
        return _open_images(folder / "data", options, root=root)
    if folders and not images:
        return open_class_folders(folder, options, root)
    arrays = [path for path in files if path.suffix.lower() in (*_ARRAYS, ".zip")]
    if len(arrays) == 1 and not folders and not images:
        _require_inside(arrays, root)
        return _open_file(arrays[0], options)
    if others := [path.name for path in files if is_other_image(path.name)]:
        raise SourceError(
            f"holds no image that is read, and {others[0]} {name_fault(others[0])}", folder
        )
    hidden = sorted({one.name for one in folder.iterdir()} - {entry.name for entry in entries})
    passed = f" (hidden ones such as {hidden[0]} are passed over)" if hidden else ""
    raise SourceError(
        f"holds {images} images, {len(folders)} folders and {len(files) - images} other files"
        f"{passed}, which is no known layout. A dataset is {SOURCE_KINDS}",
        folder,
    )


def _require_inside(paths: list[Path], root: Path) -> None:
    for path in paths:
        if not inside(path, root):
            raise SourceError("is a link that leads out of the folder", path)


def _manifest(files: list[Path], options: Options, *, flat: bool, one_folder: bool) -> Path | None:
    """``manifest.csv``, ``.xlsx`` or ``.parquet``, or the only table that could be one."""
    lists = [path for path in files if path.name == LABELS_FILE and options.labelled]
    if lists and Table(lists[0]).lists_images:
        return lists[0]
    manifests = [path for path in files if path.name in _MANIFESTS]
    if len(manifests) > 1:
        names = " and ".join(path.name for path in manifests)
        raise SourceError(f"has {names}: keep one of them", manifests[0].parent)
    if manifests:
        return manifests[0]
    tables = [
        path
        for path in files
        if path.suffix.lower() in TABLE_SUFFIXES and not _of_captions(path, options)
    ]
    if len(tables) > 1 and flat:
        raise SourceError(
            f"has {len(tables)} tables beside its images: name the manifest manifest.csv",
            tables[0].parent,
        )
    if len(tables) != 1:
        return None
    # A table beside bare images must be meant as their manifest; elsewhere it must look like one.
    if flat or "path" in _columns(tables[0], options):
        return tables[0]
    # One folder is no class, as there would be two: a table beside it may name its images.
    return tables[0] if one_folder and _names_images(tables[0], options) else None


def _names_images(path: Path, options: Options) -> bool:
    """Whether a column of a table names the images below its folder."""
    try:
        table = Table(path, options.reading.encoding)
        return path_column(table, image_names_below(path.parent)) is not None
    except InputError:
        return False


def _columns(path: Path, options: Options) -> set[str]:
    """The columns of a table; none where it cannot be read: it is then no manifest."""
    try:
        return {column.name for column in Table(path, options.reading.encoding).columns()}
    except InputError:
        return set()


def _of_captions(path: Path, options: Options) -> bool:
    """Whether a table is a release's captions: it names images as a manifest does, no classes."""
    columns = _columns(path, options) if path.name == CAPTIONS_FILE else set()
    return columns - {LICENCE} == {PATH, CAPTION}


def _of_split(paths: list[Path], options: Options) -> tuple[list[Path], Options]:
    """The files whose names begin with the split, where names say so; else all of them."""
    files, split = [path for path in paths if _begins(path, *SPLITS)], options.split
    if not files:
        return paths, options
    members = [path for path in files if _begins(path, split)]
    if not members:
        raise SourceError(
            f"no file begins with {split!r}; there are: {', '.join(p.name for p in files[:5])}",
            files[0].parent,
        )
    unread = tuple(path.name for path in files if _begins(path, "val"))
    return members, replace(options, unread=unread)


def _begins(path: Path, *words: str) -> bool:
    return path.name.lower().startswith(words)
