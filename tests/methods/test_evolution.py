"""Evolution end to end on a world of coloured squares: populations move towards private records."""

import csv
import json
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from tests.methods.colour_world import (
    NAMES,
    Blind,
    Eye,
    Namer,
    Painter,
    Pen,
    Site,
    Squares,
    colour_of,
    nearest_colours,
    rows_of,
)

from understudy import synthesize
from understudy.backends.registry import load_model
from understudy.core.errors import BackendError, ConfigError
from understudy.core.ports import Writer
from understudy.core.types import Embeddings
from understudy.data import write_release
from understudy.methods.evolution.algorithm import METHOD, EvolutionParams
from understudy.methods.evolution.candidates import CAPTIONED_AT_ONCE
from understudy.privacy.accounting import delta_of, epsilon_of_mu
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit

MUCH = 60.0  # an epsilon at which noise hardly matters
QUICK = {"population": 32, "rounds": 3, "lookahead": 0}


@pytest.fixture
def squares():
    """Two classes: cats are red or blue, dogs are green."""
    return Squares({"cat": ["red"] * 60 + ["blue"] * 30, "dog": ["green"] * 90})


def shares(release):
    """Of each class, the share of each colour."""
    images, labels = rows_of(release)
    found = nearest_colours(images)
    return [
        {NAMES[c]: n / (labels == label).sum() for c, n in Counter(found[labels == label]).items()}
        for label in range(labels.max() + 1)
    ]


@pytest.mark.parametrize(("candidates", "variations"), [("captions", 1), ("images", 3)])
def test_a_population_becomes_like_the_private_rows_of_its_class(
    squares, tmp_path, candidates, variations
):
    site = Site(tmp_path, squares, epsilon=MUCH, count=120)
    # The top N are N, however few of them are voted for: few are asked for, and more often.
    settings = QUICK if variations == 1 else {**QUICK, "population": 16, "rounds": 6}
    release, _, _ = site.run(
        **settings, variations=variations, candidates=candidates, degree=0.4, last_degree=0.05
    )
    cat, dog = shares(release)
    # A quarter and an eighth would be chance.
    assert cat.get("red", 0) + cat.get("blue", 0) > (0.8 if variations == 1 else 0.35)
    assert dog.get("green", 0) > (0.8 if variations == 1 else 0.2)
    images, labels = rows_of(release)
    assert len(images) == release.count == 120
    assert abs((labels == 0).mean() - 0.5) < 0.1
    assert release.classes == ("cat", "dog")


def test_votes_are_shared_as_the_private_rows_are(squares, tmp_path):
    release, _, _ = Site(tmp_path, squares, epsilon=MUCH, count=300).run(**QUICK, last_degree=0.0)
    cat, _ = shares(release)
    assert cat["red"] == pytest.approx(2 / 3, abs=0.12)
    assert cat["blue"] == pytest.approx(1 / 3, abs=0.12)


def test_the_frechet_distance_falls_over_the_rounds_if_somebody_watches(squares, tmp_path):
    from understudy.metrics.fidelity import frechet_distance

    private = Eye().encode(squares.values)
    seen: dict[str, float] = {}

    def watch(words: str, embeddings: Embeddings) -> None:
        seen[words] = frechet_distance(private, embeddings)

    for vote in ("image", "text"):
        seen.clear()
        Site(tmp_path, squares, epsilon=20.0, watch=watch).run(
            vote, **QUICK, vote=vote, last_degree=0.0
        )
        assert list(seen) == ["round 0", "round 1", "round 2", "round 3"]
        assert seen["round 3"] < 0.5 * seen["round 0"]


def test_the_same_seed_gives_the_same_rows_each_time_they_are_read(squares, tmp_path):
    for candidates in ("captions", "images"):
        release, _, _ = Site(tmp_path, squares, count=70).run(
            candidates, **QUICK, candidates=candidates
        )
        assert np.array_equal(rows_of(release)[0], rows_of(release)[0])


# Whether its models know the domain


def test_the_first_population_says_whether_classes_are_drawn_apart(squares, tmp_path):
    for phrases, warns in ((("red cat", "green dog"), False), (("red fox", "red dog"), True)):
        site = Site(tmp_path, squares, count=20, models={"phrases": phrases})
        site.run(phrases[0], **QUICK, candidates="images", variations=1, sizes="90,90")
        fit = site.fits[0]
        assert fit.kind == "public"
        assert (fit.warning is not None) == warns
        assert fit.value < 0.75 if warns else fit.value > 0.9
        if warns:
            assert "--method clustering" in fit.warning
            assert "fox" in fit.warning


def test_the_first_votes_say_that_they_stand_out_of_the_noise(squares, tmp_path):
    site = Site(tmp_path, squares, epsilon=MUCH, count=20)
    site.run(**QUICK, sizes="90,90")
    assert site.fits[-1].kind == "DP"
    assert site.fits[-1].warning is None
    assert 1 < site.fits[-1].value < 16


def test_the_first_votes_say_that_they_do_not(squares, tmp_path):
    """Noise alone stands out in one run of twenty: not in four at once."""
    site = Site(tmp_path, squares, epsilon=0.05, count=20)
    for number in range(4):
        site.run(f"out{number}", **QUICK, sizes="90,90")
    warnings = [fit.warning for fit in site.fits if fit.kind == "DP" and fit.warning]
    assert warnings
    assert "cannot be told from votes that fall anywhere" in warnings[0]


# What it costs


def test_rounds_compose_as_equation_1_says(squares, tmp_path):
    rounds, delta = 7, 1e-5
    site = Site(tmp_path, squares, epsilon=1.0, count=10)
    _, receipt, spent = site.run(**{**QUICK, "rounds": rounds}, sizes="90,90")
    assert [s.stage for s in receipt.stages] == [f"round {g}" for g in range(1, rounds + 1)]
    sigma = {stage.sigma for stage in receipt.stages}
    assert len(sigma) == 1
    # Eq. 1: Phi(sqrt(G)/(2 sigma) - ...) is the curve at mu = sqrt(G)/sigma; sensitivity is 1.
    assert {stage.sensitivity for stage in receipt.stages} == {1.0}
    mu = math.sqrt(rounds) / sigma.pop()
    assert delta_of(1.0 - receipt.slack, mu) == pytest.approx(delta, rel=1e-4)
    assert spent == pytest.approx(1.0, rel=1e-6)
    assert epsilon_of_mu(mu, delta) == pytest.approx(1.0 - receipt.slack, rel=1e-4)


def test_counting_the_classes_is_a_stage_of_its_own_and_cheap(squares, tmp_path):
    release, receipt, spent = Site(tmp_path, squares, epsilon=30.0).run(**QUICK)
    assert receipt.stages[0].stage == "sizes"
    assert receipt.stages[0].share == pytest.approx(0.05)
    assert len({s.mu for s in receipt.stages[1:]}) == 1
    assert sum(s.mu**2 for s in receipt.stages) == pytest.approx(
        receipt.stages[0].mu ** 2 / 0.05, rel=1e-9
    )
    assert release.facts["noisy_rows"] == pytest.approx(180, abs=30)
    assert release.count == pytest.approx(180, abs=30)
    assert spent <= 30.0


def test_sizes_of_the_owner_are_public_and_cost_nothing(squares, tmp_path):
    site = Site(tmp_path, squares, epsilon=30.0)
    release, receipt, _ = site.run("given", **QUICK, sizes="10,30")
    assert "sizes" not in {s.stage for s in receipt.stages}
    assert np.bincount(rows_of(release)[1]).tolist() == [10, 30]
    assert "noisy_rows" not in release.facts
    site.count = 21
    release, _, _ = site.run("equal", **QUICK, sizes="1,1")
    assert sorted(np.bincount(rows_of(release)[1]).tolist()) == [10, 11]


@pytest.mark.parametrize(("adjacency", "column"), [("add-remove", "person"), ("replace-one", None)])
def test_people_with_several_images_and_both_adjacencies(tmp_path, adjacency, column):
    per_unit = None if column is None else 3
    source = Squares({"cat": ["red"] * 60, "dog": ["green"] * 60}, per_unit=per_unit)
    site = Site(tmp_path, source, MUCH, Unit(column, adjacency=adjacency), count=40)
    release, receipt, spent = site.run(**QUICK, last_degree=0.0)
    worst = 1.0 if adjacency == "add-remove" else math.sqrt(2)
    assert [s.sensitivity for s in receipt.stages] == pytest.approx([worst] * 4)
    assert spent == pytest.approx(MUCH, rel=1e-6)
    cat, dog = shares(release)
    assert cat["red"] > 0.6
    assert dog["green"] > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("candidates", ["captions", "images"])
def test_a_run_killed_again_and_again_ends_as_one_that_nobody_killed(squares, tmp_path, candidates):
    settings = {**QUICK, "candidates": candidates, "lookahead": 2, "release": "both"}
    painter, kills = Painter(), 0
    site = Site(tmp_path, squares, models={"generator": painter}, count=40, dies_after=1)
    while True:
        try:
            release, receipt, spent = site.run(**settings)
            break
        except KeyboardInterrupt:
            kills += 1
    assert kills >= 7
    assert len(receipt.stages) == 4
    assert spent == pytest.approx(1.0, rel=1e-6)
    painted = painter.painted
    again, _, twice = site.run(**settings)  # resumed after its last word: pays, paints nothing
    assert (twice, painter.painted) == (spent, painted)
    assert np.array_equal(rows_of(release)[0], rows_of(again)[0])
    alone, other = Painter(), tmp_path / "other"
    other.mkdir()
    whole = Site(other, squares, models={"generator": alone}, count=40)
    assert whole.run(**settings)[2] == spent
    assert painted == alone.painted  # nothing was painted twice


@pytest.mark.slow
def test_a_hundred_rounds_at_a_hundredth_of_epsilon(squares, tmp_path):
    # Defect 10 of the field: negative votes, an empty class and a small epsilon are no errors.
    source = Squares({"cat": ["red"] * 20, "dog": [], "eel": ["blue"] * 3})
    site = Site(tmp_path, source, epsilon=0.01, count=9)
    release, receipt, spent = site.run(
        population=6, rounds=100, lookahead=0, degree=0.1, last_degree=0.1
    )
    assert len(receipt.stages) == 101
    assert 0 < spent <= 0.01
    assert len(rows_of(release)[0]) == 9


def test_delta_is_the_budgets_whatever_the_number_of_captions(squares, tmp_path):
    # Defect 6 of the field: delta from the number of captions.
    receipts = [
        Site(tmp_path, squares, count=5).run(str(n), **{**QUICK, "population": n})[1]
        for n in (4, 64)
    ]
    assert {r.delta for r in receipts} == {1e-5}
    assert receipts[0].stages[1].sigma == receipts[1].stages[1].sigma


def test_the_number_of_classes_changes_no_noise(tmp_path):
    # Defect 5 of the field: one vote a class and image, accounted as one vote an image.
    sigmas = []
    for classes in (1, 4):
        source = Squares({f"c{i}": ["red"] * 12 for i in range(classes)})
        _, receipt, _ = Site(tmp_path, source, count=5).run(f"out{classes}", **QUICK)
        sigmas.append(receipt.stages[-1].sigma)
    assert sigmas[0] == sigmas[1]


# Algorithm 2


def test_image_votes_need_no_captions_and_text_votes_need_no_images(squares, tmp_path):
    namer, painter = Namer(), Painter()
    site = Site(tmp_path, squares, MUCH, models={"captioner": namer, "generator": painter})
    site.run("image", **QUICK)
    assert namer.seen == 0
    assert painter.painted == 32 * 3
    painter.painted = 0
    release, _, _ = site.run("text", **QUICK, vote="text", last_degree=0.0)
    # Each once, black images that fill up the last call, and the four calls of the probe.
    assert namer.seen == (-(-len(squares) // CAPTIONED_AT_ONCE) + 4) * CAPTIONED_AT_ONCE
    assert painter.painted == 0  # only the final ones are made, when they are read
    assert shares(release)[1]["green"] > 0.8


def test_look_ahead_paints_k_variations_of_every_candidate(squares, tmp_path):
    painter = Painter()
    site = Site(tmp_path, squares, models={"generator": painter})
    site.run(population=32, rounds=2, lookahead=3, variations=2, release="voted")
    assert painter.painted == 2 * (32 * 2) * 3


def test_without_classes_there_is_one_population_of_all_phrases(squares, tmp_path):
    pen = Pen()
    site = Site(tmp_path, squares, MUCH, models={"writer": pen}, count=60)
    release, _, _ = site.run(**QUICK, conditional=False, last_degree=0.0)
    assert sorted(pen.labels) == ["cat", "dog"]
    assert release.classes == ("all",)
    assert not rows_of(release)[1].any()
    found = shares(release)[0]
    assert found["green"] == pytest.approx(0.5, abs=0.2)


def test_a_dataset_without_labels_asks_the_writer_for_anything(tmp_path):
    pen = Pen()
    site = Site(tmp_path, Squares({"all": ["red"] * 40}), MUCH, models={"writer": pen}, count=20)
    release, _, _ = site.run(**QUICK, last_degree=0.0)
    assert pen.labels == [None]
    assert shares(release)[0]["red"] > 0.8


def test_another_renderer_makes_the_final_images(squares, tmp_path):
    renderer = Painter(shape=(4, 4, 3), noise=0.0)
    site = Site(tmp_path, squares, models={"renderer": renderer}, count=12)
    release, _, _ = site.run(**QUICK)
    images, _ = rows_of(release)
    assert renderer.painted == 12
    assert (images == images[:, :1, :1]).all()


@pytest.mark.parametrize(
    ("vote", "variations", "last"),
    [("image", 1, "voted"), ("image", 3, "both"), ("text", 1, "variants")],
)
def test_captions_are_released_beside_what_was_painted_from_them(
    squares, tmp_path, vote, variations, last
):
    site = Site(tmp_path, squares, epsilon=5.0, count=150)
    release, _, _ = site.run(**QUICK, vote=vote, variations=variations, release=last)
    assert release.captioned
    batches = list(release.batches())
    captions = [text for batch in batches for text in batch.captions]
    images, labels = rows_of(release)
    assert len(set(captions)) > 2
    assert [colour_of(text) for text in captions] == nearest_colours(images).tolist()
    # The pen writes the class that it is told.
    assert [text.split()[-1] for text in captions] == [release.classes[label] for label in labels]


@dataclass
class Scrawl(Pen):
    """Lines, tabs, half a character; and variations of which some say nothing."""

    begins: str = "a\n"

    def write(self, count, *, label=None, seed=0):
        wild = super().write(count, label=label, seed=seed)
        return [f"{self.begins}{text.replace(' ', chr(9))} \ud83d" for text in wild]

    def vary(self, texts, *, degree=0.5, seed=0):
        varied = super().vary(texts, degree=degree, seed=seed)
        return [" \n" if at % 2 else text for at, text in enumerate(varied)]


def test_whatever_a_writer_writes_is_one_line_when_votes_are_paid_for(squares, tmp_path):
    site = Site(tmp_path, squares, epsilon=5.0, count=40, models={"writer": Scrawl()})
    release, _, _ = site.run(**QUICK)
    write_release(release, tmp_path / "release")
    with (tmp_path / "release" / "captions.csv").open(encoding="utf-8", newline="") as file:
        lines = [line["caption"] for line in csv.DictReader(file)]
    assert len(lines) == 40
    words = {tuple(line.split(" ")) for line in lines}
    assert {(len(one), one[0], one[1], one[-1]) for one in words} == {(5, "a", "a", "?")}
    assert {one[2] for one in words} <= set(NAMES)


def test_a_writer_without_words_costs_nothing(squares, tmp_path):
    class Mute(Pen):
        def write(self, count, *, label=None, seed=0):
            return [""] * count

    with pytest.raises(BackendError, match="test:pen wrote a caption without a word"):
        Site(tmp_path, squares, models={"writer": Mute()}).run(**QUICK)
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        assert ledger.spent(ledger.register(squares).id).epsilon == 0


def test_images_stand_for_themselves_once(squares, tmp_path):
    """However few were voted for, no two rows are the same picture."""
    site = Site(tmp_path, squares, MUCH, count=90)
    degrees = {"degree": 0.1, "last_degree": 0.1}  # no colour leaves the range of a pixel
    made, _, _ = site.run(**QUICK, **degrees, candidates="images", release="both")
    images, _ = rows_of(made)
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == 90


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "settings", [{}, {"candidates": "images"}, {"vote": "text"}], ids=["captions", "images", "text"]
)
def test_the_whole_command_on_a_tiny_studio(tiny_studio, tmp_path, settings):
    """As a user types it, but for the studio's networks, which are tiny and know nothing."""
    made = synthesize(
        "playhouse:pet-status?homes=3&per_home=6&size=32",
        method="evolution",
        out=tmp_path / "out",
        ledger=str(tmp_path / "ledger.db"),
        epsilon=5.0,
        count=6,
        unit="home",
        watch=True,
        generator=f"embedded:studio?folder={tiny_studio}&steps=2",
        encoder=f"embedded:studio?folder={tiny_studio}",
        settings={"population": 8, "rounds": 2, "lookahead": 2, **settings},
    )
    assert [stage.stage for stage in made.receipt.stages] == ["sizes", "round 1", "round 2"]
    assert len(list(made.release.rglob("*.png"))) == 6
    captioned = settings.get("candidates") != "images"
    assert (made.release / "captions.csv").exists() == captioned
    assert ("`captions.csv`" in (made.release / "README.md").read_text()) == captioned
    assert made.contact_sheet is not None
    distances = (tmp_path / "out" / "owner" / "watch.jsonl").read_text().splitlines()
    assert [json.loads(line)["when"] for line in distances] == ["round 0", "round 1", "round 2"]


# What is refused before anything is spent


@pytest.mark.parametrize(
    ("settings", "models", "says"),
    [
        ({}, {"encoder": None}, "--encoder"),
        ({}, {"generator": None}, "--generator"),
        ({}, {"writer": None}, "--writer"),
        ({}, {"generator": Painter(tasks=frozenset({"variation"}))}, "from text"),
        ({}, {"renderer": Painter(tasks=frozenset())}, "from text"),
        ({"candidates": "images"}, {"generator": Painter(tasks=frozenset({"text"}))}, "varies"),
        ({"candidates": "images", "template": "a photo"}, {}, "{class}"),
        ({"template": "a photo of a nice {class}"}, {}, "take candidates=images"),
        ({"vote": "text"}, {"encoder": Blind()}, "test:blind encodes images only"),
        ({"vote": "text"}, {"captioner": None}, "--captioner"),
        ({"sizes": "100"}, {}, "1 numbers and the dataset 2 classes"),
        ({"sizes": "100,x"}, {}, "whole numbers"),
        ({"sizes": "0,0"}, {}, "not all 0"),
        ({"sizes": "-1,5"}, {}, "0 or more"),
        ({"population": 2}, {}, "one candidate a class, .*take 4 or more"),
    ],
)
def test_what_does_not_fit_together_is_refused(squares, tmp_path, settings, models, says):
    context = Site(tmp_path, squares).context(**models)
    with pytest.raises(ConfigError, match=says):
        METHOD.stages(EvolutionParams(**settings), context)


def test_a_class_that_the_writer_has_no_words_for_costs_nothing(tmp_path):
    writer = load_model(Writer, "embedded:writer")
    site = Site(
        tmp_path, Squares({"emu": ["red"] * 4, "dog": ["blue"] * 4}), models={"writer": writer}
    )
    with pytest.raises(BackendError, match=r"'emu'.*--writer.*grammar=FILE"):
        METHOD.stages(EvolutionParams(), site.context())  # which a dry run asks for, too
    with pytest.raises(BackendError, match="emu"):
        site.run(**QUICK)
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        assert ledger.spent(ledger.register(site.source).id).epsilon == 0


def test_a_writer_that_fails_at_the_first_population_says_that_nothing_was_charged(
    tiny_studio, tmp_path, monkeypatch
):
    """Of an error of a model it was said after the charge alone."""
    wordless = "understudy.backends.embedded.writer.GrammarWriter.write"
    monkeypatch.setattr(wordless, lambda _, count, **options: [""] * count)
    with pytest.raises(BackendError, match="wrote a caption without a word") as stop:
        synthesize(
            "playhouse:pet-status?homes=3&per_home=6&size=32",
            method="evolution",
            out=tmp_path / "out",
            ledger=str(tmp_path / "ledger.db"),
            epsilon=5.0,
            generator=f"embedded:studio?folder={tiny_studio}&steps=2",
            encoder=f"embedded:studio?folder={tiny_studio}",
            settings={"population": 8, "rounds": 2},
        )
    assert stop.value.__notes__ == ["Nothing was charged, and no folder was begun"]
