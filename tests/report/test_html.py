"""The owner's report."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
from PIL import Image
from tests.report.pages import Page

from understudy.report import OwnerRecord, RunRecord, owner_report


def test_the_numbers_are_the_receipts_and_the_ledgers(
    record: RunRecord, owner: OwnerRecord
) -> None:
    words = Page(owner_report(record, owner)).words
    for stage in record.receipt.stages:
        assert stage.stage in words
        assert f"{stage.sigma:.6g}" in words
        assert f"{100 * stage.share:.1f} %" in words
    for number in ("48,613", "17 bad files", "1.6234", "3.25", "1.4711", "71.2 %", "91.9 %"):
        assert number in words
    assert "-20.6" in words
    assert "15 min 54 s" in words


def test_notes_of_a_run_are_of_the_day_that_it_ran(record: RunRecord, owner: OwnerRecord) -> None:
    words = Page(owner_report(record, replace(owner, notes=("it has no total budget",)))).words
    assert re.search(
        "it has no total budget +As things stood when it ran: a budget may have been", words
    )


def test_every_private_figure_is_marked(record: RunRecord, owner: OwnerRecord) -> None:
    text = owner_report(record, owner)
    for heading in ("Real beside synthetic", "budget", "Balanced accuracy on the real", "Time"):
        section = next(part for part in text.split("<section") if f"{heading}" in part)
        assert "owner only</span>" in section
    assert text.count('<div class="figure">') == 6
    for figure in re.findall(r'<div class="figure">.*?</div>', text, re.DOTALL):
        assert 'class="kind ' in figure


def test_pictures_show_what_they_were_given(record: RunRecord, owner: OwnerRecord) -> None:
    page = Page(owner_report(record, owner))
    images = [a for tag, a in page.tags if tag == "img"]
    assert [a["alt"] for a in images] == [
        "5 images of Trouser: real",
        "5 images of Trouser: synthetic",
        "2 images of Ankle boot: synthetic",
    ]
    assert "real: no images" in page.words
    data = base64.b64decode((images[0]["src"] or "").partition(",")[2])
    sheet = np.asarray(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(sheet[:4, :6, 0], owner.sheets[0].real[0, :, :, 0])
    assert (sheet[4:6, :, 3] == 0).all()  # the margin is transparent
