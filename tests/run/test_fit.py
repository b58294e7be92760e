"""What a run says of its models before it spends: in time, in the record, and stopping nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.run.samples import class_folders, quick_run, save

from understudy.backends.phrase_grammar import read_phrases
from understudy.cli.show_run import whole_plan
from understudy.core.errors import ConfigError
from understudy.core.types import Vocabulary
from understudy.data import open_source
from understudy.planning.dry import dry_run
from understudy.playhouse.homes import TASKS
from understudy.run.config import make_config
from understudy.run.model_fit import words_fit
from understudy.run.prepare import prepare
from understudy.run.synthesize import run

SHAPE = (8, 8, 1)
DCT = {"encoder": "embedded:dct", "decoder": "embedded:dct"}


class Taught:
    """Draws greys for the animals it was taught, and the same grey for all others."""

    name, licence, shape, tasks = "test:taught", "none", (8, 8, 3), frozenset({"text"})
    vocabulary = Vocabulary(frozenset({"a", "cat", "dog"}), "cats and dogs")

    def generate(self, prompts, *, seed=0):
        middles = [60 if "cat" in p else 190 if "dog" in p else 120 for p in prompts]
        noise = np.random.default_rng(seed).normal(0, 20, (len(prompts), *self.shape))
        return np.clip(np.array(middles)[:, None, None, None] + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def base(tmp_path):
    """Public images of two classes that look alike."""
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "base" / name).mkdir(parents=True)
        for number, image in enumerate(rng.integers(90, 160, (40, *SHAPE))):
            save(image.astype(np.uint8), tmp_path / "base" / name / f"{number}.png")
    return tmp_path / "base"


def prepared(tmp_path, names, base, **changes):
    """A run of alignment on classes of these names, with a model that was taught two of them."""
    source = class_folders(tmp_path / "scans", dict.fromkeys(names, 4), SHAPE)
    for name in set(names) - {"cat", "dog"}:
        (base / "cat").rename(base / name)
    options = {"source": str(source), "out": tmp_path / "out", "epsilon": 1.0, **DCT}
    options["method"] = "alignment"
    ready = prepare(make_config({**options, "base": str(base)}))
    return replace(ready, context=replace(ready.context, generator=Taught(), **changes))


@pytest.mark.parametrize(
    ("phrases", "known", "named"),
    [
        (("cat", "dog"), 1.0, None),
        (("cats", "a dog"), 1.0, None),
        (("cat", "dog running"), 0.5, "dog running"),
        (("herbaceous vegetation", "3"), 0.0, "herbaceous vegetation, 3"),
    ],
)
def test_a_model_of_few_words_says_which_classes_it_does_not_know(
    tmp_path, base, phrases, known, named
):
    fit = words_fit(prepared(tmp_path, ("cat", "dog"), base, phrases=phrases))
    assert fit.value == known
    assert fit.kind == "public"
    if named is None:
        assert fit.warning is None
        return
    assert named in fit.warning
    for words in ("cats and dogs", "test:taught (generator)", "--method clustering", "--base"):
        assert words in fit.warning


def test_models_of_any_words_are_not_asked(tmp_path, base):
    ready = prepared(tmp_path, ("cat", "dog"), base, phrases=("fox", "owl"))
    assert words_fit(replace(ready, context=replace(ready.context, generator=None))) is None


def test_without_a_generator_another_encoder_is_what_helps(tmp_path, base):
    ready = prepared(tmp_path, ("cat", "dog"), base, phrases=("fox", "owl"))
    encoder = ready.context.encoder
    encoder.vocabulary = Vocabulary(frozenset({"cat"}), "cats")
    context = replace(ready.context, generator=None, encoder=encoder)
    warning = words_fit(replace(ready, context=context)).warning
    assert "embedded:dct (encoder) was taught cats only" in warning
    assert "--encoder" in warning
    assert "--generator" not in warning


def test_the_playhouse_is_what_the_studio_was_taught():
    words = read_phrases().vocabulary
    for task in (*TASKS, "world"):
        for phrase in open_source(f"playhouse:{task}").phrases:
            assert set(phrase.split()) <= words
    assert not {"forest", "highway", "river", "dress", "mitosis"} & words


def test_what_was_found_is_said_at_once_and_stands_in_the_record(tmp_path, base, capsys):
    source = class_folders(tmp_path / "scans", {"cat": 60, "dog": 60}, SHAPE)
    options = {"method": "alignment", "base": str(base), "settings": {}, "progress": "plain"}
    made = quick_run(source, tmp_path, epsilon=1.0, **options, **DCT)
    (warning,) = (words for words in made.warnings if "nearest to that class" in words)
    assert f"note: {warning}" in capsys.readouterr().err
    (fit,) = json.loads((made.owner / "run.json").read_text())["fit"]
    assert fit["warning"] == warning
    assert fit["value"] < 0.65
    assert fit["chance"] == pytest.approx(0.5, abs=0.1)
    assert len(list(made.release.rglob("*.png"))) > 0


def test_it_is_said_before_the_owner_is_asked(tmp_path):
    """The question came first, and after the yes that what the models make is chance."""
    source = class_folders(tmp_path / "tiles", {"forest": 12, "river": 12}, (64, 64, 3))
    names = dict.fromkeys(("encoder", "decoder", "generator"), "embedded:studio")
    options = {"source": str(source), "out": str(tmp_path / "out"), "epsilon": 1.0, **names}
    config = make_config({**options, "ledger": str(tmp_path / "l.db"), "method": "alignment"})

    def decline(plan):
        raise ConfigError(f"no: {' '.join(plan.notes)}")

    with pytest.raises(ConfigError, match="was taught drawn scenes"):
        run(config, decline, progress="none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "warns"), [(None, False), (("AnnualCrop", "Forest", "Highway", "SeaLake"), True)]
)
def test_the_mini_studio_says_what_it_draws(tmp_path, classes, warns, capsys):
    source = "playhouse:pet-status?homes=2&per_home=4"
    if classes is not None:
        source = class_folders(tmp_path / "tiles", dict.fromkeys(classes, 2), (64, 64, 3))
    plan = dry_run(
        make_config(
            {
                "source": str(source),
                "out": tmp_path / "out",
                "epsilon": 1.0,
                "method": "alignment",
                "ledger": str(tmp_path / "ledger.db"),
            }
        )
    )
    whole_plan(plan)
    printed = capsys.readouterr().out
    assert printed.count("was taught drawn scenes") == warns
    (words,) = plan.fits
    assert (words.warning is not None) == warns
    assert words.value == (0.0 if warns else 1.0)
    if warns:
        assert "--method clustering" in words.warning
        assert "--base" in words.warning
        assert "hf:MODEL" in words.warning
