"""Class names: their order, and folder names that hold them on every file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from understudy.core.errors import ConfigError, SourceError, escaped, listed

UNLABELLED_NAME = ("all",)  # the classes of a dataset without labels

MAX_CLASSES = 10_000

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Folders that are parts of a dataset and no classes, in small letters, each with its part."""

# Names that ``datasets`` takes for a split, between separators: a class folder called "test" would
# be read as a test split. A "~" after the word ends that.
_SPLIT_WORD = re.compile(
    r"(?<![^-._ 0-9])(train|training|validation|valid|dev|val|test|testing|eval|evaluation)"
    r"(?![^-._ 0-9])",
    re.IGNORECASE,
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names in label order: by value if all are whole numbers, else by letter."""
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=int))
    return tuple(sorted(distinct))


def folder_of_half(folders: Collection[str], split: str, location: object) -> str | None:
    """The folder of a half, such as ``train`` or ``Training``; None: folders are no parts.

    Raises:
        SourceError: They are, and not one of them is this half.
    """
    parts = [SPLITS.get(name.lower()) for name in folders]
    if None in parts or not {"train", "test"} & {*parts}:
        return None
    matching = [name for name, part in zip(folders, parts, strict=True) if part == split]
    if len(matching) != 1:
        count = "several folders" if matching else "no folder"
        names = ", ".join(sorted(folders))
        raise SourceError(f"has {count} {split!r}; its folders are: {names}", str(location))
    return matching[0]


def further_parts(folders: Collection[str]) -> tuple[str, ...]:
    """Of the parts of a dataset those that are neither of its halves, such as ``val``."""
    return tuple(sorted(name for name in folders if SPLITS.get(name.lower()) == "validation"))


def class_name(text: str) -> str:
    """The name of a class, however it is stored: no space around it, nothing that is not seen."""
    return escaped(text.strip())


def names_of_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Class names that an owner declares, in label order.

    Raises:
        ConfigError: Fewer than two, one that is empty, one that comes twice, or far too many.
    """
    declared = tuple(map(class_name, names))
    twice = sorted({name for name in declared if declared.count(name) > 1})
    if twice or not all(declared):
        problem = f"{', '.join(twice)} comes twice" if twice else "a name is empty"
        raise ConfigError(f"classes are names that differ from each other; {problem}")
    if not 2 <= len(declared) <= MAX_CLASSES:
        raise ConfigError(
            f"classes are 2 to {MAX_CLASSES:,} names, found {len(declared)}: "
            f"{', '.join(declared[:5]) or 'none'}. For images without labels: --label none"
        )
    return declared


_TITLES = frozenset({"mr", "mrs", "ms", "miss", "dr", "prof", "frau", "herr", "mme"})

_COMMON_NAMES = """
aaron adam ahmed ahmet aisha alan albert alejandro alex alexander alice alicia ali amanda amy ana
andrea andrew angela ann anna anne antonio barbara benjamin beth brian carlos caroline catherine
christine christopher claire daniel david deborah diana diego donald edward elena elizabeth emily
emma eric erik eva fatima felix fernando francisco friedrich gary george giulia giovanni hannah
hans helen henry hiroshi ian ibrahim igor isabel ivan jacob james jan jane janet jason jennifer
jens jessica joan johan johannes john jonathan jose joseph joshua juan judith julia julie karen
karin karl katharina kathleen keith kenneth kevin klaus larry laura lena leon linda lisa lucas
luis luke maria marie mario marta martin martha matthew mehmet michael michelle miguel mohamed
mohammed monica nancy natasha nicholas nicole nina noah nora olga oliver olivia omar pablo
patricia patrick paul paula pedro peter pierre priya rachel rafael rahul raj ralph rebecca richard
robert roberto ronald ruth ryan samuel sandra sara sarah sebastian sergei sharon simon sofia
sophia sophie stefan stephanie stephen steven susan suzanne sven svetlana thomas timothy tobias
ursula vladimir walter wilhelm william yuki yusuf zoe
"""

_GIVEN_NAMES = frozenset(_COMMON_NAMES.split())
"""Common given names that are no other English words, nor the usual names of things."""

_NUMBERED = re.compile(r"(patient|subject|person|participant|case)s?[\s_.#-]*\d+", re.IGNORECASE)
"""How people and cases are numbered."""


def like_persons(names: Sequence[str]) -> tuple[str, ...]:
    """The class names that look like persons': a given name and another word, a title, an address.

    Such as ``ann-smith``, ``Smith, John``, ``Dr Weber``, ``ann@example.org``, ``patient_007``; and
    given names alone where most classes have one. A sign, for a warning: a person may be called
    otherwise.
    """
    alone = [name for name in names if name.lower() in _GIVEN_NAMES]
    alone = alone if len(alone) > 1 and 2 * len(alone) > len(names) else []
    return tuple(name for name in names if name in alone or _like_person(name))


def person_words(names: Sequence[str]) -> str:
    """What is said of class names that look like persons'."""
    like = "looks like the name of a person" if len(names) == 1 else "look like names of persons"
    return (
        f"class names are published, and {listed(names, 3)} {like}. If folders are people, say "
        "--label none --unit-from folder; else rename the class, or declare it (--classes)"
    )


def lone_class_words(names: Sequence[str], *, has_units: bool) -> str:
    """What is said of classes of one image, or of one unit's, that nobody declared."""
    examples = listed(names)
    images = "images of one unit, which" if has_units else "one image, which"
    return (
        f"the class {examples} has {images} alone would put its name into the release. "
        "Nothing was spent. Remove what it has or join classes; or declare the classes that there "
        "are whatever the images show (--classes)"
    )


def too_many(label: str | None) -> str:
    """The message for labels that are no classes."""
    return (
        f"over {MAX_CLASSES:,} different labels, such as {label!r}. Class names are public: "
        "a label must be a class, not a caption or an identifier"
    )


def _like_person(name: str) -> bool:
    if re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]+", name, re.IGNORECASE) or _NUMBERED.fullmatch(name):
        return True
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = [word.lower() for word in re.split(r"[\s_,.\-^+]+", spaced) if word]
    if not 2 <= len(words) <= 4 or not all(word.replace("'", "").isalpha() for word in words):
        return False
    return words[0] in _TITLES or words[0] in _GIVEN_NAMES or words[-1] in _GIVEN_NAMES


def safe_names(names: Sequence[str]) -> list[str]:
    """A folder name for each class name: distinct in any case, and allowed on any file system.

    Letters and digits of every alphabet, ``-``, ``_``, ``.``, ``+`` and inner spaces stay; anything
    else becomes ``_``. At most 80 bytes each before a suffix that keeps two alike apart.
    """
    folded: set[str] = set()
    folders = []
    for name in names:
        stem = _safe(name)
        folder, copy = stem, 1
        while folder.casefold() in folded:
            copy += 1
            folder = f"{stem}-{copy}"
        folded.add(folder.casefold())
        folders.append(folder)
    return folders


def _safe(name: str) -> str:
    text = re.sub(r"[^\w\-.+ ]", "_", unicodedata.normalize("NFC", name))
    text = text.encode("utf-8")[:80].decode("utf-8", "ignore")
    text = text.lstrip("._ ").rstrip(". ")  # hidden here, or cut off by Windows
    if not text.strip("_"):
        text = "class"
    if _RESERVED.fullmatch(text):
        text += "_"
    return _SPLIT_WORD.sub(r"\1~", text)


def require_declared(names: Iterable[str], declared: Sequence[str], location: str) -> None:
    """Refuse images of classes that the owner did not declare. The message is the owner's."""
    undeclared = [name for name in names if name not in set(declared)]
    if undeclared:
        examples = ", ".join(undeclared[:10]) + (", ..." if len(undeclared) > 10 else "")
        raise SourceError(
            f"has images of classes that --classes does not declare: {examples} "
            f"(declared: {', '.join(declared[:20])}). Declare them too, or take these images out. "
            "Nothing was spent",
            location,
        )
