"""Every command line and every Python snippet of the documents, read by the real program.

A command is parsed by the program that it calls; a synthesis also makes its plan (``--dry-run``),
on small stand-ins for the folders and models that the documents name. A failure says where it
stands, what it is and why it fails.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import Command, Snippet, commands, documents, snippets
from tests.plugin_packages import install_page
from tests.reading import problem_of_command, problem_of_snippet
from tests.standins import Standins


@pytest.fixture(autouse=True, scope="module")
def plugins(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package of docs/plugins.md, which its commands speak of."""
    site = tmp_path_factory.mktemp("site")
    install_page(repository / "docs" / "plugins.md", site)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(site)
        yield


def lines(problems: list[tuple[str, str, str]]) -> str:
    """One problem a paragraph: place, text, reason."""
    return "\n".join(f"{place}\n    {text}\n    {reason}" for place, text, reason in problems)


def all_commands(repository: Path) -> list[Command]:
    return [one for page in documents(repository) for one in commands(page, repository)]


def test_every_command_line_is_one_that_the_program_takes(repository: Path) -> None:
    found = all_commands(repository)
    assert len(found) > 80
    problems = [
        (one.place, one.text, reason) for one in found if (reason := problem_of_command(one))
    ]
    assert not problems, lines(problems)


def test_every_python_snippet_fits_the_functions_it_calls(repository: Path) -> None:
    found = [one for page in documents(repository) for one in snippets(page, repository)]
    assert len(found) > 15
    problems = [
        (one.place, one.text.splitlines()[0], reason)
        for one in found
        if (reason := problem_of_snippet(one))
    ]
    assert not problems, lines(problems)


def syntheses(repository: Path, *, slow: bool) -> list[Command]:
    """Every synthesis once; slow are those that load networks, and those without a new option."""
    found = {
        one.words: one
        for one in reversed(all_commands(repository))
        if one.words[:2] == ("understudy", "synthesize")
    }
    heavy = re.compile(r"hf:|embedded:photo|playhouse:|scattering|alignment|evolution|--test")
    options: set[str] = set()
    quick = []
    for one in found.values():
        new = {word for word in one.words if word.startswith("--")} - options
        if new and not heavy.search(" ".join(one.words)):
            options |= new
            quick.append(one)
    return [one for one in found.values() if one not in quick] if slow else quick


@pytest.mark.slow
@pytest.mark.parametrize("slow", [False, True])
def test_every_synthesis_has_a_plan(repository: Path, tmp_path: Path, slow: bool) -> None:
    """With the stand-ins: options that parse may still contradict each other, or the method."""
    standins = Standins(tmp_path, side=64 if slow else 40)  # smaller ones need no autoencoder
    found = syntheses(repository, slow=slow)
    assert len(found) > 5
    problems = [
        (one.place, one.text, reason) for one in found if (reason := standins.problem_of_plan(one))
    ]
    assert not problems, lines(problems)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("understudy synthesize photos/ --epsilon 1 --outt out/", "No such option"),
        ("understudy synthesise photos/", "no command synthesise"),
        ("understudy ledger set-budget photos/", "Missing option '--epsilon'"),
        ("understudy evaluate OUT --real SOURCE --test SOURCE MORE", "unexpected extra argument"),
        ("understudy synthesize photos/ --epsilon one --out out/", "or a share such as 10%"),
        (
            "understudy synthesize photos/ --epsilon 1 --writer acme:gpt --out out/",
            "no backend 'acme'",
        ),
        ("understudy synthesize photos/ --epsilon 1 --method cluster --out out/", "cluster"),
        ("understudy synthesize photos/ --epsilon 1 --set cluster=4 --out out/", "cluster"),
        ("python -m benchmarks alignment gab", "no benchmark gab"),
        ("python -m benchmarks noise --tiny", "takes no such option"),
        ("python -m benchmarks strangers --list", "--list: strangers takes no such option"),
        ("python -m benchmarks.nosuch", "no module benchmarks.nosuch"),
        ("python -m benchmarks.alignment gap", "does nothing by itself"),
        ("python scripts/nosuch.py", "no file scripts/nosuch.py"),
        ("make tests", "no target tests"),
    ],
)
def test_what_is_wrong_in_a_block_is_found(tmp_path: Path, line: str, reason: str) -> None:
    page = tmp_path / "page.md"
    for block in (f"Do this:\n\n```\n{line}   # so\n```\n", f"Do this:\n\n    {line}\n"):
        page.write_text(block)
        (found,) = commands(page, tmp_path)
        assert found.whole
        problem = problem_of_command(found)
        assert problem
        assert reason in problem


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("understudy evaluate --ful", "No such option"),
        ("understudy synthesize FOLDER --epsilon E", None),
        ("understudy report --public", None),
        ("understudy evaluate --full", None),
        ("--full", None),
        ("--fulll", "no command has the option --fulll"),
        ("--writer acme:gpt", "no backend 'acme'"),
    ],
)
def test_inline_code_may_leave_out_but_not_invent(
    tmp_path: Path, code: str, reason: str | None
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"So says `{code}`, and no more.\n")
    (found,) = commands(page, tmp_path)
    problem = problem_of_command(found)
    assert (reason in problem) if reason and problem else problem is reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            'import understudy\nunderstudy.synthesize("a", epsilon=1, epsilom=1.0, out="b")',
            "epsilom",
        ),
        ("import understudy\nunderstudy.sythesize('a')", "sythesize"),
        ("from understudy.playhouse import Home\nHome(3, gab=1.0)", "gab"),
        ("from understudy.playhouse import World\nWorld(64).draw()", "missing"),
        ("for x in y\n    pass", "expected ':'"),
        ('import understudy\nunderstudy.synthesize("a", epsilon=1.0, out="b")', None),
    ],
)
def test_what_is_wrong_in_a_snippet_is_found(code: str, reason: str | None) -> None:
    problem = problem_of_snippet(Snippet("page.md:1", code))
    assert (reason in problem) if reason and problem else problem is reason


def test_a_plan_that_cannot_be_made_is_found(tmp_path: Path) -> None:
    line = "understudy synthesize photos/ --epsilon 1 --out out/ --decoder onnx:dec.onnx"
    words = tuple(line.split())
    problem = Standins(tmp_path).problem_of_plan(Command("page.md:1", line, words, whole=True))
    assert problem
    good = words[:-2]
    assert Standins(tmp_path).problem_of_plan(Command("page.md:1", line, good, True)) is None
