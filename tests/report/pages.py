"""Pages as tests read them."""

import base64
import io
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

VOID = {"meta", "img", "br", "rect", "link", "input", "hr"}
NAMED = {"title", "desc"}


class Page(HTMLParser):
    """The tags of a page, the text of it, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.open.pop() != tag:
            pytest.fail(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        self.words += " ".join(data.split()) + " "


def pictures(text: str) -> list[bytes]:
    """The files of all ``data:`` addresses of a page."""
    found = [a["src"] or "" for tag, a in Page(text).tags if tag == "img"]
    return [base64.b64decode(address.partition(",")[2]) for address in found]


def pixels(file: bytes) -> NDArray[np.uint8]:
    """(height, width, 3) of a picture, whatever it is stored as."""
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def without_text(text: str) -> list[str]:
    """The pictures and drawings of a page that say nothing to who cannot see them."""
    silent, drawing = [], []
    for tag, attributes in Page(text).tags:
        if tag == "img" and not (attributes.get("alt") or "").strip():
            silent.append(str(attributes)[:80])
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            named = attributes.get("aria-label") or attributes.get("aria-labelledby")
            if attributes.get("role") != "img" or not named:
                silent.append(str(attributes)[:80])
            drawing += (attributes.get("aria-labelledby") or "").split()
    ids = {a.get("id") for tag, a in Page(text).tags if tag in NAMED}
    return silent + [name for name in drawing if name not in ids]


def dead_links(text: str) -> list[str]:
    """The links within a page that lead nowhere."""
    page = Page(text)
    ids = {a.get("id") for _, a in page.tags}
    links = [a["href"] or "" for tag, a in page.tags if tag == "a"]
    return [link for link in links if link.removeprefix("#") not in ids]


def chromium() -> str | None:
    """The browser, where there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)
