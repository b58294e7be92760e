"""The examples of docs/python.md, run one after the other; every public function is among them."""

import inspect
from pathlib import Path

import pytest

import understudy
from tests.documents import snippets


def test_every_public_name_is_on_the_page(repository: Path) -> None:
    text = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    functions = [
        name for name in understudy.__all__ if inspect.isfunction(getattr(understudy, name))
    ]
    assert "synthesize" in functions
    assert not [name for name in functions if f"understudy.{name}(" not in text]


@pytest.mark.slow
def test_the_examples_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = repository / "docs" / "python.md"
    blocks = [one.text for one in snippets(page, repository) if "\n" in one.text]
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)  # the reader's own session
    assert len(blocks) == 15
    assert Path("one/release/privacy.json").is_file()
    assert not Path("two").exists() or not list(Path("two").rglob("release/*"))
    assert not Path("four").exists()
