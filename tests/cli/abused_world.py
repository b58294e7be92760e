"""Files that the abuses of `test_abuses` name: datasets, ledgers and folders, most broken."""

from pathlib import Path

import numpy as np
from tests.run.samples import class_folders, embeddings

from understudy.privacy.ledger.ledger import Ledger

SIZES = {"cat": 12, "dog": 12}
TEXTS = {
    "unknown": "epsilom: 1\n",
    "yaml": "epsilon: [1\n",
    "texts": "epsilon: much\n",
    "recipe": "steps:\n  - fly: {}\n",
    "ledger_of_words": "SQLite? No, only words, and more of them than a header has bytes. " * 40,
    "onnx": "no model",
    "file": "a file",
    "words.zip": "this is no archive",
}


def abused_world(folder: Path) -> dict[str, str]:
    """Everything that an abuse may name, by its name, as text."""
    for name in ("empty", "full", "dicom/cat"):
        (folder / name).mkdir(parents=True)
    (folder / "full" / "thesis.doc").write_text("years of work")
    (folder / "dicom" / "cat" / "1.dcm").write_bytes(b"\0" * 128 + b"DICM" + b"\xff" * 200)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    class_folders(folder / "scans", SIZES, (6, 6, 1))
    class_folders(folder / "other", {"eel": 12, "fox": 12}, (6, 6, 1))
    class_folders(folder / "colour", SIZES, (6, 6, 3))
    image = class_folders(folder / "truncated", SIZES, (6, 6, 1)) / "cat" / "scan-0.png"
    image.write_bytes(image.read_bytes()[:40])
    embeddings(folder / "numbers.npz", 20)
    np.savez(folder / "pickled.npz", embeddings=np.array([{}, 1], dtype=object))
    Ledger(folder / "books.db").close()
    places = {path.stem: str(path) for path in folder.iterdir()}
    return places | {"nowhere": str(folder / "nowhere")}
