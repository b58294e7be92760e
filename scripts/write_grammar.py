"""Write the playhouse's grammar of captions where the embedded writer finds it.

    python scripts/write_grammar.py

A test fails where that file is not what this script writes.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.playhouse import attributes, grammar

FILE = Path(__file__).parents[1] / "src/understudy/backends/embedded/studio/grammar.json"


def data() -> dict[str, Any]:
    phrases = replace(
        grammar.PHRASES,
        possible={target: attributes.values_of(target) for target in attributes.TARGETS},
        places={key: list(places) for key, places in attributes.PLACES.items()},
    )
    return phrases.as_json()


def text() -> str:
    return json.dumps(data(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {FILE}")
