"""Files that the abuses of `test_abuses` name: datasets, ledgers and folders, most broken."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import numpy as np
from tests.run.samples import class_folders, embeddings

SIZES = {"cat": 12, "dog": 12}


def abused_world(folder: Path) -> dict[str, str]:
    """Everything that an abuse may name, by its name, as text."""
    places = {name: folder / name for name in ("empty", "notes", "full", "nowhere")}
    for name in ("empty", "notes", "full"):
        places[name].mkdir()
    (places["notes"] / "readme.txt").write_text("no image here")
    (places["full"] / "thesis.doc").write_text("years of work")
    places |= _datasets(folder) | _manifests(folder) | _archives(folder) | _tables(folder)
    places |= _files(folder)
    return {name: str(path) for name, path in places.items()}


def _datasets(folder: Path) -> dict[str, Path]:
    """Class folders: a good one, and some that are wrong in one way each."""
    good = class_folders(folder / "scans", SIZES, (6, 6, 1))
    mixed = class_folders(folder / "mixed", SIZES, (6, 6, 1))
    (mixed / "dog" / "x.png").write_bytes(
        (class_folders(folder / "large", {"dog": 1}, (9, 9, 1)) / "dog" / "scan-0.png").read_bytes()
    )
    truncated = class_folders(folder / "truncated", SIZES, (6, 6, 1))
    image = truncated / "cat" / "scan-0.png"
    image.write_bytes(image.read_bytes()[:40])
    spoiled = class_folders(folder / "spoiled", SIZES, (6, 6, 1))
    for path in spoiled.rglob("*.png"):
        path.write_bytes(b"not an image")
    dicom = folder / "dicom" / "cat"
    dicom.mkdir(parents=True)
    (dicom / "1.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\xff" * 200)
    other = class_folders(folder / "other", {"eel": 12, "fox": 12}, (6, 6, 1))
    colour = class_folders(folder / "colour", SIZES, (6, 6, 3))
    return {
        "scans": good,
        "mixed": mixed,
        "truncated": truncated,
        "spoiled": spoiled,
        "dicom": dicom.parent,
        "other": other,
        "colour": colour,
        "image": good / "cat",
    }


def _manifests(folder: Path) -> dict[str, Path]:
    """Flat folders with a manifest that is wrong in one way each, and one that is right."""
    rows = [["path", "label", "patient"], ["1.png", "cat", "p1"], ["2.png", "dog", "p2"]]
    tables = {
        "flat": rows,
        "lost": [*rows, ["3.png", "cat", "p3"]],
        "twice": [*rows, ["1.png", "dog", "p1"]],
        "headless": rows[1:],
        "ragged": [*rows, ["1.png"]],
        "bare": [["path", "label", "patient"]],
        "outside": [*rows, ["../scans/cat/scan-0.png", "cat", "p4"]],
        "unlabelled": [[path, patient] for path, _, patient in rows],
    }
    places = {}
    images = sorted((folder / "scans").rglob("*.png"))
    for name, table in tables.items():
        place = places[name] = folder / name
        place.mkdir()
        for number in (1, 2):
            (place / f"{number}.png").write_bytes(images[number].read_bytes())
        with (place / "manifest.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)
    latin = places["latin"] = folder / "latin"
    latin.mkdir()
    (latin / "1.png").write_bytes(images[0].read_bytes())
    (latin / "manifest.csv").write_bytes("path,label\n1.png,Bär\n".encode("latin-1"))
    return places


def _archives(folder: Path) -> dict[str, Path]:
    image = next((folder / "scans").rglob("*.png")).read_bytes()
    slip, broken, words = folder / "slip.zip", folder / "broken.zip", folder / "words.zip"
    with zipfile.ZipFile(slip, "w") as file:
        file.writestr("../../cat/1.png", image)
    with zipfile.ZipFile(broken, "w") as file:
        file.writestr("cat/1.png", image)
    broken.write_bytes(broken.read_bytes()[:-30])
    words.write_text("this is no archive")
    hollow = folder / "hollow.zip"
    with zipfile.ZipFile(hollow, "w"):
        pass
    tar = folder / "broken.tar"
    tar.write_bytes(b"\1" * 700)
    return {"slip": slip, "broken": broken, "words": words, "hollow": hollow, "tar": tar}


def _tables(folder: Path) -> dict[str, Path]:
    """Files of numbers: embeddings that are right, and arrays and tables that are wrong."""
    good = embeddings(folder / "numbers.npz", 20)
    labels = np.repeat(["cat", "dog"], 10)
    wrong = {
        "nan": {"embeddings": np.full((20, 4), np.nan, np.float32), "labels": labels},
        "short": {"embeddings": np.zeros((20, 4), np.float32), "labels": labels[:5]},
        "nameless": {"a": np.zeros(3)},
        "pickled": {"embeddings": np.array([{}, 1], dtype=object)},
        "void": {"embeddings": np.zeros((0, 4), np.float32), "labels": labels[:0]},
    }
    places = {"numbers": good}
    for name, arrays in wrong.items():
        places[name] = folder / f"{name}.npz"
        np.savez(places[name], **arrays)  # type: ignore[arg-type]
    for ending in ("parquet", "safetensors", "npy"):
        places[ending] = folder / f"broken.{ending}"
        places[ending].write_bytes(b"\x08\0\0\0\0\0\0\0 no such thing")
    return places


def _files(folder: Path) -> dict[str, Path]:
    texts = {
        "file": "a file",
        "list.yaml": "- a\n- b\n",
        "unknown.yaml": "epsilom: 1\n",
        "broken.yaml": "epsilon: [1\n",
        "text.yaml": "epsilon: much\n",
        "nested.yaml": "settings: 3\n",
        "recipe.yaml": "steps:\n  - fly: {}\n",
        "broken.db": "SQLite? No, only words, and more of them than a header has bytes. " * 40,
        "model.onnx": "no model",
        "studio": "no studio",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    short = {"list": "list.yaml", "unknown": "unknown.yaml", "yaml": "broken.yaml"}
    short |= {"texts": "text.yaml", "nested": "nested.yaml", "recipe": "recipe.yaml"}
    short |= {"ledger_of_words": "broken.db", "onnx": "model.onnx", "file": "file"}
    return {name: folder / path for name, path in short.items()}
