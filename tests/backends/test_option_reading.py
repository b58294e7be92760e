"""Values of declared options: what text stands for, and what is said of a wrong value."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from understudy.backends.option_reading import read_value
from understudy.backends.plugin import read_options
from understudy.core.errors import BackendError, ConfigError
from understudy.core.option import Option
from understudy.run.config import json_schema, make_config, run_options

Count = Annotated[int | None, Option("How many.", least=1, most=9)]
Size = Literal["small", "none"]


@dataclass(frozen=True)
class Options:
    count: Count = None
    share: float = 0.5
    fast: bool = False
    name: str | None = None


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("3", Count, 3),
        ("none", Count, None),
        ("None", int | None, None),
        (None, Count, None),
        (3.0, int, 3),
        (np.int64(3), int, 3),
        ("none", str | None, "none"),
        ("none", Size | None, "none"),
        ("none", Literal["a"] | None, None),
        ("0.05", float | str | None, 0.05),
        ("5%", float | str | None, "5%"),
        (np.float32(0.5), float, 0.5),
        (2, float, 2.0),
        ("TRUE", bool, True),
        (False, bool, False),
        ("a,b", tuple[str, ...] | None, ("a", "b")),
        ([1, "b"], tuple[str, ...], ("1", "b")),
        ("place", Path, Path("place")),
        (Path("place"), str, "place"),
        ({"a": 1}, Mapping[str, Any], {"a": 1}),
    ],
)
def test_a_value_is_read_as_its_field_is_declared(value: Any, hint: Any, expected: Any) -> None:
    found = read_value("option", value, hint)
    assert found == expected
    assert type(found) is type(expected)


def test_a_models_options_come_as_text_or_from_python() -> None:
    text = {"count": "3", "share": "1e-3", "fast": "true", "name": "none"}
    assert read_options(text, Options, name="toy:x") == Options(3, 1e-3, True, "none")
    values = {"count": 3, "share": 1e-3, "fast": True, "name": 12}
    assert read_options(values, Options, name="toy:x") == Options(3, 1e-3, True, "12")
    told = "toy:x: option count must be 1 to 9, found '0'. Its options are count (default: None)"
    with pytest.raises(BackendError) as caught:
        read_options({"count": 0}, Options, name="toy:x")
    assert str(caught.value).startswith(told)


def test_the_schema_says_of_every_option_what_is_read() -> None:
    schema = json_schema()
    assert list(schema["properties"]) == list(run_options())
    assert not schema["additionalProperties"]
    assert "required" not in schema  # the command line may say the rest
    for name, one in schema["properties"].items():
        assert one["description"], name
        for kind in one.get("anyOf", [one]):
            if "minimum" in kind:
                below = {"source": "a", "out": "b", "epsilon": 1.0, name: kind["minimum"] - 1}
                with pytest.raises(ConfigError, match=f"{name} must be {kind['minimum']} or more"):
                    make_config(below)
