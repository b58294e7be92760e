"""The very function that sees private records is probed, in every role and whoever made it."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.backends.tiny_onnx import save as save_onnx
from tests.methods.shapes_world import file_of_stripes, folder_of_shapes
from tests.plugin_packages import install
from tests.run.samples import class_folders

from understudy import synthesize
from understudy.core.entry_points import METHODS
from understudy.core.errors import BackendError
from understudy.methods.base import Context
from understudy.methods.evolution.algorithm import METHOD
from understudy.planning.dry import dry_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.probe import probe_records, require_independent
from understudy.run.config import make_config
from understudy.run.prepare import require_independent_models

CENTRED = '''
from dataclasses import replace

import numpy as np

from understudy.methods.alignment.algorithm import METHOD as alignment
from understudy.methods.clustering.algorithm import METHOD as clustering
from understudy.methods.labelling.algorithm import METHOD as labelling
from understudy.methods.selection.algorithm import METHOD as selection


class Centred:
    """An encoder that was probed, with a part of the mean of its batch taken off."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def encode(self, images):
        rows = self.inner.encode(images)
        return rows - np.float32(0.02) * rows.mean(axis=0)


def hostile(method):
    def run(materials, params):
        context = materials.context
        wrapped = replace(context, encoder=Centred(context.encoder))
        return method.run(replace(materials, context=wrapped), params)

    return replace(method, name=f"hostile-{method.name}", run=run)


by_clustering, by_alignment = hostile(clustering), hostile(alignment)
by_labelling, by_selection = hostile(labelling), hostile(selection)

'''


@pytest.fixture
def world(tmp_path):
    """Folders of images and the options of each method."""
    class_folders(tmp_path / "scans", {"dog": 40, "person": 30}, (8, 8, 3), seed=1)
    class_folders(tmp_path / "base", {"dog": 50, "person": 50}, (8, 8, 3), seed=2)
    folder_of_shapes(tmp_path / "shapes", (70, 57), 1)
    folder_of_shapes(tmp_path / "public", (80, 80), 2)
    base = str(tmp_path / "base")
    shapes = {"source": str(tmp_path / "shapes"), "public": str(tmp_path / "public")}
    shapes["contrast"] = str(file_of_stripes(tmp_path / "contrast.npz"))
    return {
        "clustering": {"settings": {"clusters": 1}},
        "alignment": {"base": base, "settings": {"clusters": 2}},
        "labelling": {**shapes, "epsilon": 30.0},
        "selection": {"candidates": base, "candidates_public": True},
    }


def refused(options, tmp_path, match):
    """The run is refused, and the ledger has no charge."""
    ledger = tmp_path / "ledger.db"
    asked = {"source": str(tmp_path / "scans"), "epsilon": 4.0, "progress": "none", **options}
    with pytest.raises(BackendError, match=match):
        synthesize(out=tmp_path / "out", ledger=str(ledger), **asked)
    if ledger.exists():
        with Ledger(str(ledger)) as book:
            assert [row.kind for row in book.rows() if row.kind == "charge"] == []
    return not list(tmp_path.rglob("release/*")) and not list(tmp_path.rglob("stages/*"))


def mixing(folder):
    return save_onnx(
        folder / "mixing.onnx",
        [
            ("ReduceMean", ["images"], ["means"], {"axes": [2, 3], "keepdims": 0}),
            ("ReduceMean", ["means"], ["batch"], {"axes": [0], "keepdims": 1}),
            ("Sub", ["means", "batch"], ["centred"], {}),
        ],
        {"images": ["n", 3, "h", "w"]},
        {"centred": ["n", 3]},
    )


@pytest.mark.parametrize(
    ("method", "role"),
    [
        *((method, "encoder") for method in ("clustering", "alignment", "labelling", "selection")),
        ("alignment", "cluster_encoder"),
    ],
)
def test_a_file_that_centres_its_batch_is_refused_in_every_role(method, role, world, tmp_path):
    dct = {"encoder": "embedded:dct", "decoder": "embedded:dct"}
    models = dct if role != "encoder" else {"decoder": "none"}
    options = {"method": method, **world[method], **models, role: f"onnx:{mixing(tmp_path)}"}
    assert refused(options, tmp_path, r"mixing\.onnx is refused.*Nothing was spent")
    given = {"source": str(tmp_path / "scans"), "epsilon": 4.0, "out": tmp_path / "out", **options}
    with pytest.raises(BackendError, match=r"mixing\.onnx is refused"):
        dry_run(make_config(given))


@pytest.mark.parametrize("method", ["clustering", "alignment", "labelling", "selection"])
def test_an_encoder_that_is_wrapped_after_the_plan_is_refused_before_any_charge(
    method, world, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_module", raising=False)
    points = {METHODS: {f"hostile-{method}": f"hostile_module:by_{method}"}}
    install(tmp_path, "hostile-package", {"hostile_module": CENTRED}, points)
    models = {"encoder": "embedded:dct?coefficients=60", "decoder": "none"}
    if method == "alignment":
        models = {"encoder": "embedded:dct", "decoder": "embedded:dct"}
    assert refused(
        {**world[method], **models, "method": f"hostile-{method}"},
        tmp_path,
        r"what maps the private records is refused.*Nothing was released",
    )


class Texts:
    """An encoder of images and texts: the first letters."""

    name, licence, dim, norm_bound, ordered = "mine:texts", "none", 8, None, False

    def encode(self, images):
        return images.reshape(len(images), -1)[:, :8].astype(np.float32)

    def encode_text(self, texts):
        return np.array([[ord(letter) for letter in f"{text:<8.8}"] for text in texts], np.float32)


class Comparing:
    """A captioner that says how bright an image is beside the others."""

    name, licence = "mine:comparing", "none"

    def caption(self, images):
        return [f"{image.mean() - images.mean():.3f}" for image in images]


def test_a_captioner_that_compares_images_is_refused():
    context = Context((8, 8, 3), public=False, mu=1.0, encoder=Texts())
    require_independent_models(context)
    comparing = replace(context, captioner=Comparing())
    with pytest.raises(BackendError, match="mine:comparing is refused"):
        require_independent_models(comparing, METHOD.views(comparing))


def test_a_function_of_embeddings_is_probed_as_one_of_images_is():
    require_independent(lambda rows: np.tanh(rows[:, :3]), (5,), "mine")
    with pytest.raises(BackendError, match="mine is refused"):
        require_independent(lambda rows: rows - rows.mean(axis=0), (5,), "mine")
    rows = probe_records((5,), 64)
    assert np.isfinite(rows).all()
    assert len({row.tobytes() for row in rows}) == 64
