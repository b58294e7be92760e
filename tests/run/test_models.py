"""Which models a method works with, and what each is where the user left it open."""

from dataclasses import replace

import pytest
from tests.plugin_packages import install
from tests.run.samples import QUICK, class_folders, embeddings

from understudy.core.entry_points import METHODS
from understudy.core.errors import SourceError
from understudy.methods.clustering.algorithm import METHOD, ClusteringParams
from understudy.run.config import make_config
from understudy.run.models import names_of_roles
from understudy.run.prepare import prepare


def named(method=METHOD, **options):
    config = make_config({"source": "scans", "out": "out", "epsilon": 1.0, **options})
    return names_of_roles(config.models, method, ClusteringParams())


def imagining(**roles):
    """A method that can use these roles."""
    return replace(METHOD, roles=lambda params, named: roles)


def test_a_role_left_open_gets_the_methods_default():
    assert named() == {"encoder": "embedded:dct", "decoder": "embedded:dct", "public": "procedural"}
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
