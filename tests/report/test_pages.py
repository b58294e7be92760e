"""All pages together: what was measured is on them, and everybody can read them."""

import re
from dataclasses import replace

import pytest
from tests.report.pages import Page, dead_links, pictures, without_text

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
        assert not re.search(r"url\(|@import|https?:|<(script|link|iframe|object|base)", text), name
        sources = [a["src"] or "" for _, a in Page(text).tags if "src" in a]
        assert all(address.startswith("data:image/png;base64,") for address in sources), name
    words = Page(pages["whole"]).words
    assert words.index("Owner only.") < words.index("synthetic images from")


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


def test_a_comparison_of_public_releases_is_no_secret(releases: tuple[Released, ...]) -> None:
    measured = comparison_report(compare_releases(releases))
    assert "Owner only." in Page(measured).words
    bare = comparison_report(compare_releases([replace(one, evaluation=None) for one in releases]))
    assert "Owner only." not in Page(bare).words


def test_a_report_on_embeddings_says_nothing_of_images_that_it_shows(
    record: RunRecord, owner: OwnerRecord
) -> None:
    record = replace(record, format="embeddings", image_shape=None)
    words = Page(owner_report(record, replace(owner, sheets=()))).words
    assert "This page shows exact figures." in words
    assert "Is a private record in them?" in words
