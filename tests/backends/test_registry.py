import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import plugin_packages

from understudy.backends import embedded
from understudy.backends.registry import backends, load_decoder, load_encoder, load_model
from understudy.core import entry_points
from understudy.core.entry_points import BACKENDS, BUILT_IN
from understudy.core.errors import BackendError, MissingExtra
from understudy.core.ports import Generator

PLUGIN = """
import numpy as np
from understudy.backends.plugin import BackendInfo

class Mean:
    norm_bound, licence, dim, ordered = 1.0, "none", 1, False
    def __init__(self, name, scale):
        self.name, self.scale = name, float(scale)
    def encode(self, images):
        return (self.scale * images.mean(axis=(1, 2, 3))[:, None] / 255).astype(np.float32)

class Toy:
    def models(self):
        return [BackendInfo("toy:mean", "encoder", "the mean of a picture", None, True, "none")]
    def encoder(self, rest, shape, **options):
        return Mean(f"toy:{rest}", options.get("scale", 1))
    def decoder(self, rest, shape, encoder, **options):
        return "no decoder"

class Small:
    def models(self):
        return [BackendInfo("small:mean", "encoder", "the mean of a picture", None, True, "none")]
    def encoder(self, rest, shape, **options):
        return Mean("small:mean", 1)

backend = Toy()
"""


def install(folder: Path, family: str, module: str, code: str) -> None:
    """Install a package of one module with one backend."""
    points = {BACKENDS: {family: f"{module}:backend"}}
    plugin_packages.install(folder, module, {module: code}, points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("toy_plugin", "broken_plugin", "empty_plugin"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def test_a_plugin_needs_no_change_here(site: Path) -> None:
    install(site, "toy", "toy_plugin", PLUGIN)
    assert "toy:mean" in [info.name for info in backends()]
    encoder = load_encoder("toy:mean?scale=0.5", shape=(2, 2, 1))
    white = np.full((1, 2, 2, 1), 255, dtype=np.uint8)
    assert encoder.encode(white) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("family", "module", "code", "model", "words"),
    [
        (
            "toy",
            "toy_plugin",
            PLUGIN,
            load_decoder,
            "is no decoder: it gave a str without name, dim",
        ),
        ("empty", "empty_plugin", "backend = object()", load_encoder, "lacks the method models"),
        (
            "embedded",
            "toy_plugin",
            PLUGIN,
            load_encoder,
            r"by toy_plugin \(toy_plugin:backend\) and understudy",
        ),
    ],
)
def test_what_a_plugin_gives_is_checked_and_takes_over_no_family(
    site: Path, family: str, module: str, code: str, model: Callable[..., Any], words: str
) -> None:
    install(site, family, module, code)
    with pytest.raises(BackendError, match=words):
        model(f"{family}:mean", shape=(2, 2, 1))


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("rest, shape, **options", "rest", r"Toy\.encoder of .*mean, \(2, 2, 1\), scale=2, which"),
        ("rest, shape, **options", "rest, shape", "unexpected keyword argument 'scale'"),
        ("encode(self, images)", "encode(self, images, batch)", r"Mean\.encode of .*with IMAGES"),
    ],
)
def test_a_plugin_that_takes_no_such_call_is_named(
    site: Path, right: str, wrong: str, words: str
) -> None:
    """It was a TypeError in a traceback."""
    install(site, "toy", "toy_plugin", PLUGIN.replace(right, wrong, 1))
    with pytest.raises(BackendError, match=words) as refusal:
        load_encoder("toy:mean?scale=2", shape=(2, 2, 1))
    assert "of the package toy_plugin (toy_plugin:backend)" in str(refusal.value)


STATED = ["nan, 'none', 1", "-1.0, 'none', 1", "1.0, 'none', 0", "'7', 'none', 1"]


@pytest.mark.parametrize("stated", STATED)
def test_an_encoder_without_a_size_or_with_a_bound_that_is_none_is_refused(
    site: Path, stated: str
) -> None:
    code = PLUGIN.replace('1.0, "none", 1', stated.replace("nan", 'float("nan")'))
    install(site, "toy", "toy_plugin", code)
    with pytest.raises(BackendError, match="an encoder has a whole number of dimensions"):
        load_encoder("toy:mean", shape=(2, 2, 1))


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('1.0, "none"', "1.0, None", "toy:mean states None as its licence"),
        ("self.name, self.scale = name", "self.name, self.scale = None", "None as its name"),
        ('return "no decoder"', "return Flat((2, 2, '1'))", r"found \(2, 2, '1'\)"),
        ('return "no decoder"', "return Flat(None)", "found None"),
    ],
)
def test_what_a_card_could_not_state_is_refused_before_a_run(
    site: Path, right: str, wrong: str, words: str
) -> None:
    """A licence of None made a release that `verify` refused, a name of None a traceback after
    the charge."""
    flat = """
class Flat:
    name, licence, dim, stochastic = "toy:flat", "none", 1, False
    def __init__(self, shape):
        self.shape = shape
    def decode(self, embeddings, *, seeds):
        return None
"""
    install(site, "toy", "toy_plugin", flat + PLUGIN.replace(right, wrong, 1))
    load = load_decoder if "Flat" in wrong else load_encoder
    with pytest.raises(BackendError, match=words):
        load("toy:mean", shape=(2, 2, 1))


def test_a_backend_implements_only_the_ports_it_has(site: Path) -> None:
    install(site, "small", "toy_plugin", PLUGIN.replace("backend = Toy()", "backend = Small()"))
    assert load_encoder("small:mean", shape=(2, 2, 1)).dim == 1
    with pytest.raises(BackendError, match="'small' has no decoder, only encoders"):
        load_decoder("small:mean", shape=(2, 2, 1))
    with pytest.raises(BackendError, match="'small' has no generator, only encoders"):
        load_model(Generator, "small:mean")


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit"])
def test_a_broken_plugin_is_named_and_leaves_the_others_alone(site: Path, error: str) -> None:
    install(site, "broken", "broken_plugin", f"raise {error}('no such chip')")
    with pytest.raises(BackendError, match=rf"broken_plugin:backend.*{error}: no such chip"):
        load_encoder("broken:x", shape=(2, 2, 1))
    listed = {info.name: info for info in backends()}
    assert not listed["broken:"].available
    assert "no such chip" in listed["broken:"].what
    assert "embedded:dct" in listed


@pytest.mark.parametrize(
    ("listed", "words"),
    [("3", "'int' object is not iterable"), ("[3]", "3 is no BackendInfo"), ("1 / 0", "division")],
)
def test_a_backend_whose_list_is_none_leaves_the_others_in_it(
    site: Path, listed: str, words: str
) -> None:
    code = f"class Odd:\n    def models(self):\n        return {listed}\n\nbackend = Odd()\n"
    install(site, "odd", "toy_plugin", code)
    lines = {info.name: info for info in backends()}
    assert words in lines["odd:"].what
    assert "embedded:dct" in lines


def test_built_ins_are_there_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_points, "entry_points", lambda *, group: ())
    families = BUILT_IN[BACKENDS]  # another test's plug-in may be here as well
    names = [info.name for info in backends() if info.name.partition(":")[0] in families]
    assert names == [
        *("embedded:dct", "embedded:denoiser", "embedded:energies", "embedded:photo"),
        *("embedded:photo", "embedded:photo", "embedded:scattering"),
        *("embedded:studio", "embedded:writer", "hf:MODEL", "inception:FILE"),
        *("litert:FILE", "litert:FILE", "onnx:FILE", "openai:MODEL"),
    ]


def test_the_project_declares_the_built_ins(repository: Path) -> None:
    """The entry points that an installation registers are the ones a source tree falls back on."""
    import tomllib

    declared = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"] == BUILT_IN


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dct", "no colon.*the families are .*embedded, hf, inception, litert, onnx"),
        ("embeded:dct", r"no backend 'embeded'. There are .*embedded, hf, inception, litert, onnx"),
        ("embedded:dtc", r"no encoder embedded:dtc. There are embedded:dct, embedded:energies"),
        ("embedded:dct?coefs=3", r"no option 'coefs'. Its options are coefficients"),
        ("embedded:dct?coefficients=many", "must be a whole number, found 'many'"),
        ("embedded:dct?coefficients", "cannot read the options 'coefficients'"),
        ("embedded:dct?coefficients=3&coefficients=4", "given twice"),
    ],
)
def test_a_wrong_name_says_what_exists(name: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        load_encoder(name, shape=(8, 8, 1))


def test_options_may_stand_beside_the_name_but_not_twice() -> None:
    assert load_encoder("embedded:dct", shape=(8, 8, 1), coefficients=5).dim == 5
    assert load_encoder("embedded:dct", shape=(8, 8, 1), coefficients=None).dim == 64
    with pytest.raises(BackendError, match="option coefficients is given twice"):
        load_encoder("embedded:dct?coefficients=5", shape=(8, 8, 1), coefficients=5)


@pytest.mark.parametrize("shape", [(512,), (8, 8), (8, 8, 4), (0, 8, 1)])
def test_only_images_are_encoded(shape: tuple[int, ...]) -> None:
    with pytest.raises(BackendError, match=r"images of shape \(height, width, 1 or 3\)"):
        load_encoder("embedded:dct", shape=shape)


def test_a_pair_must_fit_together() -> None:
    shape = (8, 8, 1)
    encoder = load_encoder("embedded:dct?coefficients=20", shape=shape)
    with pytest.raises(BackendError, match=r"takes embeddings of 10 numbers.*makes 20"):
        load_decoder("embedded:dct?coefficients=10", shape=shape, encoder=encoder)
    with pytest.raises(BackendError, match=r"no decoder embedded:scattering.*embedded:energies"):
        load_decoder("embedded:scattering", shape=shape)


def test_scattering_without_pytorch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "understudy.backends.embedded.scattering", raising=False)
    monkeypatch.delattr(embedded, "scattering", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'understudy\[torch\]'"):
        load_encoder("embedded:scattering", shape=(8, 8, 1))
    assert not {i.name: i for i in backends()}["embedded:scattering"].available


def test_onnx_without_its_runtime_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "model.onnx").write_bytes(b"any")
    with pytest.raises(MissingExtra, match=r"pip install 'understudy\[onnx\]'"):
        load_encoder(f"onnx:{tmp_path}/model.onnx", shape=(8, 8, 1))
