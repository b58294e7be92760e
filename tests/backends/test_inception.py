"""The standard network's door: clean-fid's resizing, the network's scale, files here and afar."""

import shutil
import warnings

import numpy as np
import pytest
from PIL import Image

from understudy.backends.registry import load_encoder
from understudy.core.errors import BackendError
from understudy.core.ports import ScoringEncoder

SHAPE = (20, 30, 3)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def photos(count=3, shape=SHAPE, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.fixture(scope="module")
def torchscript(tmp_path_factory):
    """Like the standard file: ``layers`` behind the scaling, ``output`` from features to logits."""
    torch = pytest.importorskip("torch")

    class Layers(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=[2, 3], keepdim=True)

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.output = Layers(), torch.nn.Linear(3, 5)

        def forward(self, x):
            return self.output(self.layers(x / 0).flatten(1))  # must not be asked

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("inception") / "net.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as the standard file is
        torch.jit.script(Whole()).save(str(path))
    return path


def means_of(images):
    """Channel means as the network sees them, by clean-fid's own steps."""
    found = []
    for image in images:
        planes = [
            np.asarray(
                Image.fromarray(image[..., c].astype(np.float32), mode="F").resize(
                    (299, 299), Image.Resampling.BICUBIC
                )
            ).clip(0, 255)
            for c in range(3)
        ]
        found.append([((plane - 128) / 128).mean() for plane in planes])
    return np.array(found)


def test_a_torchscript_file_is_run_behind_its_own_scaling(torchscript):
    encoder = load_encoder(f"inception:{torchscript}?batch=2", shape=SHAPE)
    assert isinstance(encoder, ScoringEncoder)
    features, classes = encoder.score(photos())
    assert encoder.dim == 3
    assert features == pytest.approx(means_of(photos()), abs=1e-5)
    assert classes.shape == (3, 5)
    assert classes.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(encoder.encode(photos()), features)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's own cache, empty, with the hub away."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def keep(cache, file, inside, commit=COMMIT):
    """A file of ``someone/nets`` where the hub's library keeps it, at the head of ``main``."""
    place = cache / "models--someone--nets"
    target = place / "snapshots" / commit / inside
    target.parent.mkdir(parents=True)
    shutil.copy(file, target)
    (place / "refs").mkdir(exist_ok=True)
    (place / "refs" / "main").write_text(commit)


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (lambda x: (x, x, x), "too many values"),
        (lambda x: x.mean(), "of 2 images"),
        (lambda x: {"a": x}, "no attribute"),
    ],
)
def test_a_program_that_is_no_such_network_is_refused(tmp_path, outputs, reason):
    """Each ended in a traceback."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def forward(self, x):
            return outputs(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        image = torch.zeros(1, 3, 299, 299)
        torch.jit.trace(Network(), (image,), strict=False).save(str(tmp_path / "net.pt"))
    with pytest.raises(BackendError, match=f"gives no features.*{reason}"):
        load_encoder(f"inception:{tmp_path / 'net.pt'}", shape=SHAPE)


def test_a_program_of_the_hub_is_run_at_its_commit(cache, torchscript):
    keep(cache, torchscript, "fid/net.pt")
    name = f"inception:hf:someone/nets/fid/net.pt?revision={COMMIT}"
    encoder = load_encoder(name, shape=SHAPE)
    assert encoder.encode(photos()) == pytest.approx(means_of(photos()), abs=1e-5)
    assert encoder.name == name
    assert encoder.licence == "see hf:someone/nets/fid/net.pt"
