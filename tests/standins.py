"""Small folders, embeddings and models in the place of those that the documents name."""

import contextlib
import csv
import io
import os
import shutil
import zlib
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from tests.backends.tiny_onnx import block_fill, block_means
from tests.documents import Command
from tests.reading import NUMBERS, PROGRAM, refusal_of
from understudy.backends.embedded.shipped import PHOTO_WEIGHTS, STUDIO_WEIGHTS

CLASSES = ("cat", "dog", "eel")
EACH = 24
_FOLDERS = ("--test", "--base", "--public")
_SHIPPED = {"embedded:photo?folder": PHOTO_WEIGHTS, "embedded:studio?folder": STUDIO_WEIGHTS}
_GIVEN = ("procedural:", "playhouse:", "none")


class Standins:
    """Makes the plans of the commands of the documents, in a folder of its own."""

    def __init__(self, folder: Path, side: int = 64) -> None:
        self.folder, self.side = folder, side

    def problem_of_plan(self, command: Command) -> str | None:
        """Why ``--dry-run`` refuses a synthesis; None where it plans it."""
        words = ["1" if word in NUMBERS else word for word in command.words[1:]]
        if words[1].startswith("hf:"):
            return None  # a dataset of the hub
        place = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        place.mkdir()
        words = self._replaced(words, place)
        for option, value in (("--out", "out"), ("--ledger", str(place / "ledger.db"))):
            words += [] if option in words else [option, value]
        words += [] if "--dry-run" in words else ["--dry-run"]
        given = dict(pairwise(words))
        with _inside(place):
            if given.get("--epsilon", "").endswith(("%", "rest")):  # of a budget that it has
                budget = ["--epsilon", "3", "--ledger", given["--ledger"]]
                _run(["ledger", "set-budget", words[1], *budget])
            return refusal_of(lambda: _run(words))

    def _replaced(self, words: list[str], place: Path) -> list[str]:
        """The words with stand-ins for what is on no machine, made where they are needed."""
        given = dict(pairwise(words))
        classes = tuple(given.get("--classes", ",".join(CLASSES)).split(","))
        columns = given.get("--label"), given.get("--unit")
        found = []
        for before, word in zip(["", *words], words, strict=False):
            model = word.partition("?")[0]
            if (before == "synthesize" or before in _FOLDERS) and not word.startswith(_GIVEN):
                cases = bool({"--unit-from", "--unit-from-name"} & set(words))
                channels = given.get("--channels", "3")
                shape = (self.side, self.side, 3)[: 2 if channels == "1" else 3]
                _dataset(place / model, classes, columns, shape=shape, cases=cases)
            elif model.startswith("onnx:"):
                file = place / model.removeprefix("onnx:")
                (block_fill if "dec" in file.name else block_means)(file)
            elif word.startswith(tuple(_SHIPPED)):
                kind, _, folder = word.partition("=")
                shutil.copytree(_SHIPPED[kind], place / folder, dirs_exist_ok=True)
            elif model.startswith("niqe:"):
                _pristine_model(place, model.removeprefix("niqe:"))
            elif model.startswith("hf:"):
                word = f"hf:{self._hub_model(before, given)}"
            elif model.startswith("openai:"):
                word = _served(word, before, given)
            found.append(word)
        return found

    def _hub_model(self, option: str, given: dict[str, str]) -> str:
        """A tiny model of the kind that an option takes, in the place of one of the hub."""
        from tests.backends.tiny_models import diffusion

        if option in ("--generator", "--renderer"):
            return str(diffusion.saved("sdxl", self._models))
        if option == "--decoder":
            return str(diffusion.saved("sd21-unclip", self._models))
        if option == "--encoder" and given.get("--decoder", "").startswith("hf:"):
            folder = diffusion.saved("sd21-unclip", self._models)
            return f"{folder}?subfolder=image_encoder"
        if option == "--denoiser":
            return str(diffusion.saved("ddpm", self._models))
        if option == "--writer":
            return str(self._writer)
        return str(self._clip)

    @cached_property
    def _models(self) -> Path:
        folder = self.folder / "models"
        folder.mkdir()
        return folder

    @cached_property
    def _clip(self) -> Path:
        from tests.backends.tiny_models.clip import clip

        return clip(self._models / "clip")

    @cached_property
    def _writer(self) -> Path:
        from tests.backends.tiny_models.language import save_chat_model

        return save_chat_model(self._models / "writer", taught=False)


def _dataset(
    path: Path,
    classes: tuple[str, ...],
    columns: tuple[str | None, str | None],
    *,
    shape: tuple[int, ...],
    cases: bool,
) -> None:
    """A few embeddings in a file; else images in class folders, or with a manifest.

    Args:
        path: Where; an ``npz``, or a folder.
        classes: Class names.
        columns: The manifest's columns of labels and of units; None: no manifest is needed.
        shape: Of an image: (height, width), or with 3.
        cases: Whether a folder ``case_N`` lies about every two images.
    """
    if path.exists():
        return
    rng = np.random.default_rng(zlib.crc32(path.name.encode()))  # no two folders share images
    labels = np.repeat(np.arange(len(classes)), EACH)
    if path.suffix == ".npz":
        values = (labels[:, None] + rng.normal(size=(len(labels), 8))).astype(np.float32)
        np.savez(path, embeddings=values, labels=np.array(classes)[labels])
        return
    label_column, unit_column = columns
    rows = []
    for number, label in enumerate(labels.tolist()):
        folder = path if any(columns) else path / classes[label]
        folder = folder / f"case_{number // 2}" if cases else folder
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / f"{number}.png")
        row = {"path": f"{number}.png", label_column or "label": classes[label]}
        rows.append(row if unit_column is None else {**row, unit_column: f"unit {number // 2}"})
    if any(columns):
        with (path / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)


def _served(word: str, option: str, given: dict[str, str]) -> str:
    """The model at an address where nobody answers: a plan asks for nothing."""
    model, _, options = word.partition("?")
    host = "127.0.0.1"
    if option in ("--encoder", "--captioner"):
        host = given.get("--allow-remote-private", host)
    rest = [one for one in options.split("&") if one and not one.startswith(("base_url", "key"))]
    return f"{model}?" + "&".join([*rest, f"base_url=http://{host}:9/v1", "key=HOME"])


def _pristine_model(place: Path, name: str) -> None:
    """A model of NIQE, fitted by the program itself to drawn public images."""
    source = ["procedural:scenes?count=40&channels=3", "--out", name, "--block", "16"]
    with _inside(place):
        _run(["studio", "fit-niqe", *source])


def _run(words: list[str]) -> None:
    """The program, without what it prints; its errors are raised."""
    with contextlib.redirect_stdout(io.StringIO()):
        PROGRAM.main(args=words, prog_name="understudy", standalone_mode=False)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
