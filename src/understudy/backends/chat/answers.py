"""What a chat model answered, read as one caption, or refused with the reason.

Models say more than they are asked: "Sure, here is a caption:", numbers, quotes, lists, notes,
a fence of code or JSON around it all. What wraps a caption is taken off; what is no caption is
called malformed and why.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from understudy.backends.chat.prompt_templates import BLANK
from understudy.core.damaged_files import from_json
from understudy.core.errors import escaped

_THOUGHT = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```(?:json|text|plaintext|markdown)?\s(.*?)```", re.DOTALL)
_JSON = re.compile(
    r"\A[\[{]\s*(?:\"(?:caption|text|description|prompt|sentence|answer|output)s?\"\s*:\s*)?"
    r"(\"(?:[^\"\\]|\\.)*\")\s*[\]}]\Z",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"<\|[^|>]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>")

_WHAT = r"(?:image |photo |picture |new |final |random |rephrased )*"
_NOUN = (
    r"(?:captions?|descriptions?|prompts?|sentences?|texts?|versions?|variations?|rephras\w+"
    r"|examples?|answers?|outputs?|results?|filled[\w -]*)"
)
_OPENING = re.compile(
    r"^(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|no problem|yes)[,!.:]\s+",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"^(?:(?:sure|certainly|of course)\b[^:\n.!]{0,80}:|here(?:'s| is| are| you)\b[^:\n]{0,100}:"
    rf"|(?:the|a|my|your) {_WHAT}{_NOUN}[^:\n]{{0,40}}:)\s*",
    re.IGNORECASE,
)
_LABEL = re.compile(
    rf"^\W{{0,2}}(?:{_WHAT}{_NOUN}|image|photo|picture)(?: (?:\d+|[a-z]))?\W{{0,2}}:\W{{0,2}}\s+",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^(?:\(?\d{1,3}[.):]\s+|#\d{1,3}[:.]?\s+|[-*•\u2013]\s+|#{1,4}\s+)")
_NOTE = re.compile(
    r"^\W{0,2}(?:note(?::| that)|explanation:|let me know|i hope|please note)", re.IGNORECASE
)
_REFUSAL = re.compile(
    r"^(?:i'?m (?:very |really )?(?:sorry|afraid|unable|not able|just an? )"
    r"|i am (?:sorry|unable|not)|sorry\b|i apologi[sz]e"
    r"|i (?:can't|cannot|can not|won't|will not|could not|couldn't|do not|don't)"
    r"|as an? (?:ai|artificial|(?:large )?language model)|unfortunately\b"
    r"|(?:could|can|would) you (?:please )?(?:provide|clarify|share|tell)"
    r"|please (?:provide|share|clarify)|it (?:seems|looks like|appears) (?:that )?(?:you|there))",
    re.IGNORECASE,
)
_APOSTROPHES = str.maketrans("\u2018\u2019", "''")
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`", "„": "“"}
_WORD = 40  # characters of a word at most, on average
_BLANKS = re.compile(rf"(?:^|[\s(\"']){BLANK}+(?=$|[\s.,;:!?)\"'])")


class MalformedAnswer(ValueError):
    """An answer that is no caption. Its text is the reason, in a word or two."""


def read_answer(
    answer: str, words: tuple[int, int], *, prompt: str = "", original: str | None = None
) -> str:
    """The caption in an answer: one line, no quotes, of ``words[0]`` to ``words[1]`` words.

    ``prompt`` is what the model was asked and ``original`` the text it was to vary: an answer that
    repeats either is malformed.

    Raises:
        MalformedAnswer: It is no caption; the message is the reason.
    """
    text = _unwrapped(_without_thoughts(answer))
    line = _first_line(unicodedata.normalize("NFC", text).translate(_APOSTROPHES))
    _check(line, words)
    plain = _plain(line)
    if original is not None:
        prompt = prompt.replace(original, "")
        if plain == _plain(original):
            raise MalformedAnswer("unchanged")
    if any(_plain(piece) == plain for piece in prompt.splitlines()):
        raise MalformedAnswer("repeats the question")
    if len(plain.split()) >= 8 and plain in _plain(prompt):
        raise MalformedAnswer("repeats the question")
    return line


def _without_thoughts(text: str) -> str:
    text = _THOUGHT.sub("", text).strip()
    if _OPEN_THOUGHT.search(text):
        raise MalformedAnswer("unfinished thought")
    return text


def _unwrapped(text: str) -> str:
    """Without a fence of code, and without JSON around one text."""
    fenced = _FENCE.search(text)
    text = fenced[1].strip() if fenced else text
    wrapped = _JSON.match(text)
    try:
        return str(from_json(wrapped[1])) if wrapped else text
    except ValueError:
        return text


def _first_line(text: str) -> str:
    """The first line that says something, without what introduces, numbers or quotes it."""
    fault = "empty"
    for line in text.splitlines():
        if _NOTE.match(line.strip()):
            break
        bare = _bare(line.strip())
        if bare.endswith(":") or (not bare and any(map(str.isalpha, line))):
            fault = "introduction only"
        elif bare:
            return bare
    raise MalformedAnswer(fault)


def _bare(line: str) -> str:
    before = None
    while line != before:  # an answer may be wrapped more than once: 1. Caption: "**...**"
        before = line
        for pattern in (_OPENING, _PREAMBLE, _LABEL, _NUMBER):
            line = pattern.sub("", line, count=1).strip()
        for mark in ("**", "__", "*"):
            if len(line) > 2 * len(mark) and line.startswith(mark) and line.endswith(mark):
                line = line[len(mark) : -len(mark)].strip()
        line = _unquoted(line)
    return " ".join(line.split())


def _unquoted(line: str) -> str:
    inside = line[1:].rstrip(".,;")
    close = _QUOTES.get(line[:1])
    if close and inside.endswith(close) and line[0] not in inside[:-1]:
        return inside.removesuffix(close).strip()
    return line


def _check(line: str, limits: tuple[int, int]) -> None:
    words = line.split()
    if not any(letter.isalpha() for letter in line):
        raise MalformedAnswer("no words")
    if _CONTROL.search(line) or "\ufffd" in line or escaped(line) != line:
        raise MalformedAnswer("control characters")
    if any(mark in line for mark in "[]{}`"):
        raise MalformedAnswer("JSON or code")
    if _REFUSAL.match(line):
        raise MalformedAnswer("refusal")
    if _BLANKS.search(line):
        raise MalformedAnswer("blanks left")
    if len(words) > limits[1] or len(line) > limits[1] * _WORD:
        raise MalformedAnswer("too long")
    if len(words) < limits[0]:
        raise MalformedAnswer("too short")
    if len(words) >= 8 and max(Counter(word.lower() for word in words).values()) > len(words) / 2:
        raise MalformedAnswer("one word again and again")


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
