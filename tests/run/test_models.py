"""Which models a method works with, and what each is where the user left it open."""

from dataclasses import replace

import pytest
from tests.plugin_packages import install
from tests.run.samples import QUICK, class_folders, embeddings

from understudy.core.entry_points import METHODS
from understudy.core.errors import BackendError, ConfigError, SourceError
from understudy.data import open_source
from understudy.methods.clustering.algorithm import METHOD, ClusteringParams
from understudy.run.config import make_config
from understudy.run.dry import dry_run
from understudy.run.models import names_of_roles, phrases_of
from understudy.run.prepare import prepare


def named(method=METHOD, **options):
    config = make_config({"source": "scans", "out": "out", "epsilon": 1.0, **options})
    return names_of_roles(config, method, ClusteringParams())


def imagining(**roles):
    """A method that can use these roles."""
    return replace(METHOD, roles=lambda params, named: roles)


def test_a_role_left_open_gets_the_methods_default():
    assert named() == {
        "encoder": "embedded:dct",
        "decoder": "embedded:dct",
        "public": "procedural",
        "examples": "auto",
    }
    assert named(public="none")["public"] is None


def test_a_decoder_goes_with_its_own_encoder_only():
    assert named(encoder="onnx:model.onnx")["decoder"] is None
    assert named(encoder="onnx:model.onnx", decoder="onnx:back.onnx")["decoder"] == "onnx:back.onnx"
    assert named(decoder="none")["decoder"] is None


def test_a_model_in_a_folder_stands_for_the_same_model_in_other_roles():
    studio = imagining(
        encoder="embedded:studio", decoder="embedded:studio", generator="embedded:studio"
    )
    mine = "embedded:studio?folder=mine"
    assert named(studio, encoder=mine) == dict.fromkeys(("encoder", "decoder", "generator"), mine)
    other = named(studio, generator=mine, encoder="embedded:studio")
    assert other["encoder"] == "embedded:studio"
    assert named(studio, generator=f"{mine}&steps=4")["encoder"] == mine
    assert named(studio, generator="embedded:studio?steps=4")["encoder"] == "embedded:studio"


def test_what_a_method_has_no_use_for_is_refused():
    with pytest.raises(ConfigError, match=r"clustering.*no use for --writer.*--encoder"):
        named(writer="embedded:writer")
    assert named(writer="none")["encoder"] == "embedded:dct"
    with pytest.raises(ConfigError, match="--cluster-encoder"):
        named(cluster_encoder="embedded:dct")


def test_a_base_set_must_have_the_classes_of_the_private_one(tmp_path, monkeypatch):
    points = {METHODS: {"based": "based_plugin:based"}}
    install(tmp_path / "site", "based-plugin", {"based_plugin": BASED}, points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    private = str(class_folders(tmp_path / "scans", {"cat": 4, "dog": 4}))
    same = str(class_folders(tmp_path / "same", {"cat": 2, "dog": 2}, shape=(30, 20, 1)))
    other = str(class_folders(tmp_path / "other", {"dog": 2, "emu": 2}))
    options = {"source": private, "out": tmp_path / "out", "method": "based", "settings": QUICK}
    options["epsilon"] = 1.0
    ready = prepare(make_config({**options, "base": same}))
    assert ready.context.base
    assert ready.base.shape == ready.source.shape
    with pytest.raises(SourceError, match="lacks cat and has emu besides"):
        prepare(make_config({**options, "base": other}))
    vectors = str(embeddings(tmp_path / "vectors.npz"))
    with pytest.raises(SourceError, match="embeddings"):
        prepare(make_config({**options, "base": vectors}))


BASED = """
from dataclasses import replace
from understudy.methods.clustering.algorithm import METHOD

ROLES = {"encoder": "embedded:dct", "decoder": "embedded:dct", "base": None}
based = replace(METHOD, name="based", roles=lambda params, named: ROLES)
"""


def test_a_source_may_know_how_to_speak_of_its_classes(tmp_path):
    folder = class_folders(tmp_path / "scans", {"ice_cream": 2, "hot-dog": 2})
    assert phrases_of(open_source(str(folder))) == ("hot dog", "ice cream")


def ready_for(folder, shape=(28, 28, 1), classes=("cat", "dog"), **options):
    """A run of images of this shape, prepared."""
    pytest.importorskip("torch")
    pytest.importorskip("diffusers")
    source = class_folders(folder / "scans", dict.fromkeys(classes, 3), shape)
    given = {"source": str(source), "out": folder / "out", "epsilon": 1.0, **options}
    return prepare(make_config(given), probe=False)


def test_small_grey_images_have_the_examples_of_the_package(tmp_path):
    ready = ready_for(tmp_path)
    assert ready.config.roles["examples"] == ready.context.examples.name == "embedded:photo"
    assert "nearness" in ready.plan.shares


@pytest.mark.parametrize(
    "options",
    [
        {"examples": "none"},
        {"settings": {"clusters": 2}},
        {"epsilon": 10.0, "settings": {"residual": False}},
        {"decoder": "none"},
        {"shape": (28, 28, 3)},
    ],
)
def test_other_runs_have_no_examples(tmp_path, options):
    ready = ready_for(tmp_path, **options)
    assert ready.context.examples is None
    assert "nearness" not in ready.plan.shares


BESIDE = {"nearness", "example votes", "fit 1", "class sizes", "means", "cluster covariances"}
"""Stages of a run whose samples are of both kinds."""

MIXTURE = {"means", "cluster covariances"}


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"epsilon": 10.0}, 0.5),
        ({"epsilon": 10.0, "settings": {"examples_part": 0.7}}, 0.7),
        ({"settings": {"examples_part": 0.5}}, 0.5),
        ({}, 1.0),
        ({"epsilon": 10.0, "examples": "embedded:photo"}, 1.0),  # as it was asked for
        ({"epsilon": 10.0, "settings": {"examples_part": 1}}, 1.0),
    ],
)
def test_a_budget_that_pays_for_a_mixture_makes_samples_of_both_kinds(tmp_path, options, part):
    ready = ready_for(tmp_path, **options)
    assert ready.context.examples.name == "embedded:photo"
    assert ready.params.examples_part == part
    planned = ready.plan.shares
    assert BESIDE & set(planned) == (BESIDE if part < 1 else BESIDE - MIXTURE)
    assert sum(planned.values()) == pytest.approx(1)
    # A run that goes on, or is sampled anew, has the names and the settings of the first.
    again = prepare(make_config({**ready.config.identity(), "out": tmp_path / "b"}), probe=False)
    assert again.params == ready.params
    assert again.plan.shares == planned
    assert again.config.identity() == ready.config.identity()


@pytest.mark.parametrize("options", [{"examples": "none"}, {"shape": (28, 28, 3)}])
def test_a_part_of_no_examples_is_refused(tmp_path, options):
    with pytest.raises(ConfigError, match=r"examples_part.*name it \(--examples\)"):
        ready_for(tmp_path, **options, settings={"examples_part": 0.5})


def test_the_plan_says_that_samples_are_of_both_kinds(tmp_path):
    config = ready_for(tmp_path, epsilon=10.0).config
    notes = " ".join(dry_run(replace(config, ledger=str(tmp_path / "ledger.db"))).notes)
    assert "50% of the samples are drawn like those, labelled by a DP classifier, and" in notes
    assert "elsewhere all from a mixture" in notes
    notes = " ".join(dry_run(replace(config, settings={}, epsilon=1.0)).notes)
    assert "), samples are drawn like those, labelled by a DP classifier; elsewhere from" in notes


def test_public_images_are_examples_where_the_package_has_none(tmp_path):
    few = str(class_folders(tmp_path / "few", {"any": 3}, (28, 28, 3)))
    public = str(class_folders(tmp_path / "public", {"any": 20}, (28, 28, 3)))
    options = {"shape": (28, 28, 3), "encoder": "embedded:photo"}
    for number, given in enumerate(({}, {"public": few}, {"public": "procedural:leaves"})):
        (tmp_path / str(number)).mkdir()
        assert ready_for(tmp_path / str(number), **options, **given).context.examples is None
    ready = ready_for(tmp_path, **options, public=public)
    assert ready.context.examples.name == "embedded:photo"


def test_public_images_may_be_taken_as_they_are(tmp_path):
    public = str(class_folders(tmp_path / "public", {"any": 20}, (12, 10, 1)))
    few = str(class_folders(tmp_path / "few", {"any": 19}, (12, 10, 1)))
    options = {"shape": (12, 10, 1), "examples": "embedded:unchanged"}
    ready = ready_for(tmp_path, **options, public=public, epsilon=10.0)
    assert ready.context.examples.name == "embedded:unchanged"
    for number, (given, count) in enumerate((("none", 0), ("procedural:leaves", 0), (few, 19))):
        (tmp_path / str(number)).mkdir()
        words = rf"no public images of 12 x 10.*20 or more \(--public\), found {count}"
        with pytest.raises(ConfigError, match=words):
            ready_for(tmp_path / str(number), **options, public=given)


def test_examples_of_a_size_that_cannot_be_drawn_are_refused(tmp_path):
    public = str(class_folders(tmp_path / "public", {"any": 20}, (300, 300, 3)))
    with pytest.raises(BackendError, match=r"300 x 300.*no prior for these"):
        ready_for(tmp_path, shape=(300, 300, 3), examples="embedded:photo", public=public)
    with pytest.raises(ConfigError, match="no use for --examples"):
        named(method=imagining(encoder=None), examples="embedded:photo")
