"""What the documents tell a reader to type: command lines, Python, and names in inline code."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~)(\w*)\n(.*?)^\1", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_PROGRAMS = ("understudy", "make", "python", "pip")
_SHELLS = ("", "sh", "bash", "console", "shell")
_VARIABLE = re.compile(r"[A-Z_]+=\S*$")
_ENDS = {">", ">>", "|", "&&", ";"}


@dataclass(frozen=True)
class Command:
    """A command line of a document."""

    place: str  # file and line, ``docs/audit.md:9``
    text: str  # as it stands there, on one line
    words: tuple[str, ...]  # the program and its arguments
    # whether it stands in a block of its own, to be typed as it is; inline code may leave out what
    # the sentence does not speak of
    whole: bool


@dataclass(frozen=True)
class Snippet:
    """Python of a document."""

    place: str  # file and line
    text: str  # the code


def documents(repository: Path) -> list[Path]:
    """Every page but the changelog, which is about the past, and the generated command line."""
    pages = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    pages += [repository / "benchmarks" / "README.md", *(repository / "src").rglob("*.md")]
    left_out = {repository / "CHANGELOG.md", repository / "docs" / "cli.md"}
    templates = repository / "src" / "understudy" / "report" / "templates"
    return sorted(page for page in pages if page not in left_out and page.parent != templates)


def commands(page: Path, repository: Path) -> list[Command]:
    """The command lines of a page, those of its blocks first."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(repository)
    found = []
    for start, block in _shell_blocks(text):
        found += _of_block(block, f"{name}", _line(text, start))
    for match in _INLINE.finditer(_blanked(text)):
        code = " ".join(match[1].split())
        if (code.split()[0] in _PROGRAMS and " " in code) or code.startswith("--"):
            found += _of_line(code, f"{name}:{_line(text, match.start())}", whole=False)
    return found


def snippets(page: Path, repository: Path) -> list[Snippet]:
    """The Python blocks of a page, and inline code that names something of this package."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(repository)
    found = [
        Snippet(f"{name}:{_line(text, match.start(3))}", match[3])
        for match in _FENCE.finditer(text)
        if match[2] == "python"
    ]
    for match in _INLINE.finditer(_blanked(text)):
        code = " ".join(match[1].split())
        if re.match(r"understudy\.[a-z_]\w*(\.\w+)*(\(.*\))?$", code):
            found.append(Snippet(f"{name}:{_line(text, match.start())}", code))
    return found


def _shell_blocks(text: str) -> Iterator[tuple[int, str]]:
    for match in _FENCE.finditer(text):
        if match[2] in _SHELLS:
            yield match.start(3), match[3]
    without = _blanked(text, only_fences=True)
    for match in _INDENTED.finditer(without):
        yield match.start(), match[0]


def _blanked(text: str, *, only_fences: bool = False) -> str:
    """The text with its blocks as spaces, so that every place in it stays where it is."""

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = _FENCE.sub(spaces, text)
    return text if only_fences else _INDENTED.sub(spaces, text)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _of_block(block: str, name: str, first: int) -> Iterator[Command]:
    """The command lines of a block; a line that ends in a backslash goes on in the next."""
    parts: list[str] = []
    for number, line in enumerate(block.splitlines(), first):
        parts.append(line.strip().removeprefix("$ "))
        if parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            continue
        start = number - len(parts) + 1
        yield from _of_line(" ".join(parts), f"{name}:{start}", whole=True)
        parts = []


def _of_line(line: str, place: str, *, whole: bool) -> Iterator[Command]:
    """The command of a line, without variables before it, and comment or redirection behind."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return  # prose of a picture in letters, with an apostrophe
    while words and _VARIABLE.match(words[0]):
        words.pop(0)
    end = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
    words = words[:end]
    if words and (Path(words[0]).name in _PROGRAMS or (words[0][:2] == "--" and not whole)):
        yield Command(place, line, tuple(words), whole)
