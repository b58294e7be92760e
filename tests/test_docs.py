"""The documents: links, and the checker that `make docs` and `make lint` run."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def checker(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_docs", repository / "scripts" / "check_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_leads_somewhere(checker: ModuleType) -> None:
    pages = checker.documents()
    assert pages
    assert [problem for page in pages for problem in checker.broken_links(page)] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](missing.md)", "leads to no file"),
        ("[a](page.md#no-such)", "names no heading"),
        ("# Top\n[a](#top) [b](#bottom)", "names no heading"),
        ("[a](../../etc)", "leads"),
    ],
)
def test_the_checker_finds_what_is_broken(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setattr(checker, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    (wrong,) = checker.broken_links(tmp_path / "page.md")
    assert problem in wrong


def test_the_checker_accepts_what_is_right(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[a](#a-b-c) [web](https://x.org)\n```\n[code](nowhere)\n```\n")
    assert checker.broken_links(page) == []


def test_no_line_of_a_document_is_longer_than_the_limit(checker: ModuleType) -> None:
    assert [problem for page in checker.documents() for problem in checker.long_lines(page)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab cd ef gh\n", "ab cd ef\ngh\n"),
        ("- ab cd ef gh\n  ij\n", "- ab cd ef\n  gh ij\n"),
        ("1. ab cd ef gh\n2. ij\n", "1. ab cd\n   ef gh\n2. ij\n"),
        ("ab cd efg - gh\n", "ab cd\nefg - gh\n"),
        ("ab `cd ef` gh\n", "ab `cd ef`\ngh\n"),
        ("ab [c d](e) f\n", "ab\n[c d](e) f\n"),
        ("short\nlines\n", "short\nlines\n"),
        ("```\nab cd ef gh\n```\n| ab cd ef gh |\n# ab cd ef gh\n", None),
        ("    ab cd ef gh\n", None),
    ],
)
def test_wrapping_changes_long_paragraphs_only(
    checker: ModuleType, monkeypatch: pytest.MonkeyPatch, text: str, expected: str | None
) -> None:
    monkeypatch.setattr(checker, "COLUMNS", 10)
    assert checker.wrapped(text) == (expected or text)
    assert checker.wrapped(checker.wrapped(text)) == (expected or text)


def test_the_page_of_the_command_line_is_what_it_prints(checker: ModuleType) -> None:
    assert checker.CLI_PAGE.read_text(encoding="utf-8") == checker.cli_help()


def test_every_schema_is_that_of_its_model(checker: ModuleType) -> None:
    schemas = checker.schemas()
    assert {path.name for path in schemas} >= {"run.schema.json", "run-config.schema.json"}
    for path, text in schemas.items():
        assert path.read_text(encoding="utf-8") == text
        assert json.loads(text)["properties"]
