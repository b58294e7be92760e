"""All pages together: what was measured is on them, and everybody can read them."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Missing
from tests.report.pages import (
    Page,
    browse,
    chromium,
    dead_links,
    pictures,
    pixels,
    without_text,
)

from understudy.core.results import Evaluation, Pairs
from understudy.report import (
    OwnerRecord,
    Released,
    RunRecord,
    Sample,
    compare_releases,
    comparison_report,
    owner_report,
    public_report,
)
from understudy.report.images import sample_strips
from understudy.run.accuracy import utility_of_scores


@pytest.fixture
def releases(record: RunRecord, evaluation: Evaluation) -> tuple[Released, ...]:
    """Three releases of one dataset; the last was not measured."""
    return tuple(
        Released(
            f"run-{epsilon}",
            replace(record, receipt=replace(record.receipt, epsilon=epsilon)),
            evaluation if epsilon < 8 else None,
        )
        for epsilon in (0.5, 2.0, 8.0)
    )


@pytest.fixture
def whole(
    owner: OwnerRecord, evaluation: Evaluation, pairs: Pairs, releases: tuple[Released, ...]
) -> OwnerRecord:
    return replace(owner, evaluation=evaluation, pairs=pairs, releases=releases)


@pytest.fixture
def pages(
    record: RunRecord, owner: OwnerRecord, whole: OwnerRecord, releases: tuple[Released, ...]
) -> dict[str, str]:
    """Every kind of page."""
    samples = [Sample(sheet.name, sheet.synthetic) for sheet in owner.sheets]
    long = replace(record, classes=tuple(f"a-class-with-a-long-name-{k}" for k in range(30)))
    return {
        "whole": owner_report(record, whole),
        "bare": owner_report(long, replace(owner, dataset="/a/long/path" * 9, sheets=())),
        "public": public_report(record, samples),
        "compared": comparison_report(compare_releases(releases), samples),
    }


def test_every_page_is_whole_and_says_in_words_what_it_shows(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert Page(text).open == [], name
        assert without_text(text) == [], name
        assert dead_links(text) == [], name
        assert not re.search(r"url\(|@import|https?:|<script", text), name


def test_no_page_scrolls_sideways_or_complains(
    pages: dict[str, str], tmp_path: Path, missing: Missing
) -> None:
    browser = chromium()
    if browser is None:
        missing("browser", "needs Chromium: apt-get install chromium")
    planted = "<!doctype html><p style='width:700px;height:200px'><script>console.error('seen')"
    found = browse(browser, tmp_path, {**pages, "planted": planted + "</script>"}, (390, 1280))
    console, *wide = found[1:]  # it complains once a frame
    assert "seen" in console
    assert [text.split(":")[0] for text in wide] == ["planted"]


def test_every_number_that_was_measured_is_on_the_page_with_its_kind(
    record: RunRecord, whole: OwnerRecord
) -> None:
    text = owner_report(record, whole)
    words = Page(text).words
    for number in ("12.35", "11.9 to 12.8", "0.41", "40.3 %", "0.503", "0.12 %"):
        assert number in words, number
    assert "not defined" in words  # the audit's bound
    rows = re.findall(r"<tr>.*?</tr>", text.split('id="audit"')[1].split("</section>")[0], re.S)
    assert [row.count('class="kind dp"') for row in rows] == [0, 1]
    for key in ("leakage", "fidelity", "utility", "attack"):
        section = text.split(f'id="{key}"')[1].split("</section>")[0]
        rows = re.findall(r"<tr>.*?</tr>", section.split("</table>")[0], re.S)[1:]
        assert rows
        assert all("owner only</span>" in row for row in rows), key


def test_the_worst_class_is_marked_and_mistakes_are_told(
    record: RunRecord, whole: OwnerRecord
) -> None:
    text = owner_report(record, whole)
    assert re.search(r"<strong>22\.2\s%</strong>", text)
    assert not re.search(r"<strong>61\.0\s%</strong>", text)
    assert "Ankle boot taken for Trouser (25.0%), Trouser taken for Ankle boot (10.0%)" in (
        Page(text).words
    )


def test_pairs_show_both_sides_and_say_which_are_equal(
    record: RunRecord, whole: OwnerRecord, pairs: Pairs
) -> None:
    text = owner_report(record, replace(whole, sheets=()))
    shown = pictures(text)
    assert len(shown) == 14
    for index in (0, 13):
        both = pixels(shown[index])
        np.testing.assert_array_equal(both[:, :6, 0], pairs.synthetic[index, :, :, 0])
        np.testing.assert_array_equal(both[:, 8:, 0], pairs.real[index, :, :, 0])
    alts = [a["alt"] or "" for tag, a in Page(text).tags if tag == "img"]
    assert alts[0] == "Pair 1: synthetic row 0 and private row 0, distance 0, identical"
    assert alts[13] == "Pair 14: synthetic row 91 and private row 143, distance 1"
    assert text.count('<figure class="same">') == 1


def test_verdicts_stand_at_the_head_and_what_is_missing_says_what_to_run(
    record: RunRecord, owner: OwnerRecord, whole: OwnerRecord
) -> None:
    words = Page(owner_report(record, whole)).words
    head = words[: words.index("On this page")]
    for told in ("Guarantee: strong", "Fidelity: fair", "Leakage: found", "right at most 55.4 %"):
        assert told in head, told
    assert "Utility: not measured yet" in head
    judged = replace(whole, utility=utility_of_scores(owner.scores))
    words = Page(owner_report(record, judged)).words
    assert "Utility: of little use" in words
    assert "small CNN reaches a balanced accuracy of 71.2%" in words
    assert "Close: below 5." in head
    nothing = Page(owner_report(record, replace(owner, scores=()))).words
    assert nothing.count("Not measured yet: run understudy evaluate") == 3
    assert nothing.count("--test SOURCE --full") == 1


def test_the_curve_over_releases_is_on_the_page(record: RunRecord, whole: OwnerRecord) -> None:
    text = owner_report(record, whole)
    section = text.split('id="trade"')[1].split("</section>")[0]
    assert "accuracy over epsilon, small CNN" in section
    assert re.search(r"clustering: 0\.5: 0\.748, 2: 0\.748", section)  # the description
    assert '<td class="n">run-0.5</td>' in section  # the table
    assert 'id="trade"' not in owner_report(record, replace(whole, releases=()))


def test_the_budget_says_of_when_it_is(record: RunRecord, whole: OwnerRecord) -> None:
    assert "Read from the ledger when" in owner_report(record, whole)
    old = owner_report(record, replace(whole, budget_from="run"))
    assert "As it stood when the run ended" in old


def test_the_public_page_shows_the_guarantee_and_the_release(
    record: RunRecord, owner: OwnerRecord
) -> None:
    samples = [Sample(sheet.name, sheet.synthetic) for sheet in owner.sheets]
    text = public_report(record, samples)
    words = Page(text).words
    for told in ("right at most 55.4 %", "moments", "query of votes", "6 x 4"):
        assert told in words, told
    assert len(pictures(text)) == 2
    assert "owner only" not in text
    assert "Owner only" not in text


def test_large_images_are_made_smaller(record: RunRecord, owner: OwnerRecord) -> None:
    large = np.random.default_rng(0).integers(0, 256, (3, 300, 200, 3), dtype=np.uint8)
    text = public_report(record, [Sample("Trouser", large)])
    height, width, _ = pixels(pictures(text)[0]).shape
    assert (height, width) == (2 * 256 + 2, 2 * 171 + 2)


def test_images_are_shown_as_large_as_they_are_or_a_whole_number_of_times() -> None:
    rng = np.random.default_rng(0)
    for side, count, times in ((28, 16, 2), (8, 16, 8), (64, 16, 1), (224, 4, 1)):
        images = rng.integers(0, 256, (20, side, side, 3), dtype=np.uint8)
        eight = (Sample("cat", images, images), *[Sample("dog", images[:0])] * 7)
        ((_, first), (_, worst)) = sample_strips(eight)[0].sheets
        assert first.count == 2 * worst.count == count
        _, width, _ = pixels(base64.b64decode(first.uri.partition(",")[2])).shape
        assert first.width == times * width
        assert first.sharp == (times > 1)


def test_the_worst_stand_beside_the_first(record: RunRecord, owner: OwnerRecord) -> None:
    first, worst = owner.sheets[0].synthetic, owner.sheets[0].synthetic[::-1]
    text = public_report(record, [Sample("Trouser", first, worst)])
    assert len(pictures(text)) == 2
    assert "least like the others" in Page(text).words
    text = owner_report(record, replace(owner, sheets=(replace(owner.sheets[0], worst=worst),)))
    assert "synthetic, least like any real one" in Page(text).words


def test_a_comparison_of_public_releases_is_no_secret(releases: tuple[Released, ...]) -> None:
    measured = comparison_report(compare_releases(releases))
    assert "Owner only." in Page(measured).words
    bare = comparison_report(compare_releases([replace(one, evaluation=None) for one in releases]))
    assert "Owner only." not in Page(bare).words


def test_a_figure_that_is_no_number_breaks_nothing(
    record: RunRecord, owner: OwnerRecord, evaluation: Evaluation
) -> None:
    broken = replace(
        evaluation,
        curves=tuple(replace(one, y=(math.nan,) * len(one.y)) for one in evaluation.curves),
        values=tuple(replace(one, value=math.inf) for one in evaluation.values),
    )
    page = Page(owner_report(record, replace(owner, evaluation=broken)))
    assert page.open == []
    assert "infinite" in page.words
