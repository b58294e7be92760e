"""The documents of a release folder, and its card: README.md in the form of the Hugging Face hub.

The front matter tells ``datasets.load_dataset(FOLDER)`` which files are rows.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from understudy.report import meaning
from understudy.report.record import RunRecord
from understudy.report.rendering import rendered
from understudy.report.statement import privacy_json, statement_text
from understudy.report.verdict_table import quality_sentence

SIZE_CATEGORIES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
)
_TAGS: dict[meaning.Guarantee, tuple[str, ...]] = {
    "differential privacy": ("differential-privacy",),
    "no private data": (),
    "none": ("no-privacy-guarantee",),
}
PATTERNS = {"png": "**/*.png", "parquet": "**/*.parquet"}


def front_matter(record: RunRecord) -> dict[str, Any]:
    """The card's YAML header as plain values."""
    images = record.image_shape is not None
    labelled = len(record.classes) > 1
    task = "image-classification" if labelled else "unconditional-image-generation"
    size = next((name for top, name in SIZE_CATEGORIES if record.count < top), "n>100M")
    matter: dict[str, Any] = {
        "pretty_name": record.title,
        "license": record.licence,
        "task_categories": [task if images else "feature-extraction"],
        "tags": ["synthetic", *_TAGS[record.guarantee], "understudy", record.method],
        "size_categories": [size],
    }
    if record.format in PATTERNS:
        files = [{"split": "train", "path": PATTERNS[record.format]}]
        matter["configs"] = [{"config_name": "default", "data_files": files}]
    return matter


def dataset_card(record: RunRecord) -> str:
    """The dataset card as Markdown with a YAML header."""
    receipt = record.receipt
    header = yaml.safe_dump(front_matter(record), sort_keys=False, allow_unicode=True)
    body = rendered(
        "card.md",
        record=record,
        receipt=receipt,
        unit=record.unit,
        people=meaning.people_in_words(receipt.unit),
        fitness=quality_sentence(record),
        bound=meaning.guess_bound(receipt),
    )
    return f"---\n{header}---\n\n{body}"


def public_documents(record: RunRecord) -> dict[str, str]:
    """The documents of a release folder: file name to text, UTF-8."""
    return {
        "README.md": dataset_card(record),
        "PRIVACY.md": statement_text(record),
        "privacy.json": json.dumps(privacy_json(record), indent=2, allow_nan=False) + "\n",
    }
