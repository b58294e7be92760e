"""The device's pages without a browser: what they show of names that want to be markup."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import Commands
from tests.web.web_site import HOSTILE_CLASS, HOSTILE_FILE, Site

pytest.importorskip("cryptography")

from tests.device.device_site import save_photo


def test_hostile_names_are_text_on_every_page_of_the_device(
    tmp_path: Path, with_pages: Commands
) -> None:
    """Of a label's folder, of a file that is no photo, of an object, and of an address."""
    site = Site(tmp_path, with_pages, device=True)
    with site.client:
        token = site.enter()
        save_photo(
            np.full((32, 32, 3), 90, np.uint8), site.root / "photos" / HOSTILE_CLASS / "0.png"
        )
        (site.root / "photos" / HOSTILE_CLASS / HOSTILE_FILE).write_bytes(b"no photo")
        request = {"targets": HOSTILE_CLASS, "background": "<script>alert(3)</script>"}
        pages = []
        for path, form in (
            ("/", {"action": "add", "folder": "data/photos", "labelled": "on"}),
            ("/request", {"action": "request", **request}),
            ("/preview", {"action": "pair", "code": HOSTILE_CLASS}),
            ("/preview", {"action": "preview", "server": HOSTILE_CLASS}),
            ("/history", {"action": "send", "code": HOSTILE_CLASS}),
            ("/model", {"action": "train"}),
        ):
            assert site.post("/do", token, **form).status_code == 303, form
            pages.append(site.get(path))  # while it waits
            site.work()
            pages += [site.get(path), site.get("/request", part=HOSTILE_CLASS), site.get("/")]
    for answer in pages:
        assert answer.status_code == 200, answer.url
        assert "<img src=x" not in answer.text
        assert "<script>" not in answer.text
    assert sum("&lt;img src=x" in answer.text for answer in pages) >= 4
    assert any("&lt;script&gt;alert(2)" in answer.text for answer in pages)
