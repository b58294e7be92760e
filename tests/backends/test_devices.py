"""Where models run: a GPU's rules, as far as a machine without one can show them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.tiny_models.folders import built

import understudy
from understudy.backends.registry import load_model, named_on
from understudy.core.errors import BackendError
from understudy.core.ports import Generator

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_a_device_is_given_to_models_that_take_one_and_name_none() -> None:
    assert named_on("hf:openai/clip", "cuda") == "hf:openai/clip?device=cuda"
    assert named_on("embedded:studio?steps=2", "cuda:1") == "embedded:studio?steps=2&device=cuda:1"
    assert named_on("embedded:photo", "cpu") == "embedded:photo?device=cpu"
    for name in ("hf:a?device=cpu", "embedded:dct", "embedded:writer", "openai:gpt"):
        assert named_on(name, "cuda") == name


def test_a_gpu_has_half_precision_but_where_images_may_be_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from understudy.backends.diffusion.options import GeneratorOptions, LatentOptions
    from understudy.backends.embedded.photo.photo_models import PhotoOptions
    from understudy.backends.hub.image_text import HubEncoderOptions
    from understudy.backends.vision.captioners import CaptionerOptions

    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)  # there is no such device here
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert GeneratorOptions(device="cuda").placement() == (torch.device("cuda"), torch.bfloat16)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    for options in (HubEncoderOptions, LatentOptions, PhotoOptions, CaptionerOptions):
        assert options(device="cuda").placement() == (torch.device("cuda"), torch.float32)
        assert options(device="cuda", dtype="bfloat16").placement()[1] is torch.bfloat16
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_network_of_private_images_runs_by_exact_kernels_off_the_processor(models: Path) -> None:
    """On the meta device, which holds no numbers but refuses what lies elsewhere."""
    from understudy.backends.hub.hub_models import HubOptions
    from understudy.backends.hub.image_text import HubEncoderOptions, _features, _load, config_of
    from understudy.backends.hub.preprocessing import read_preparation
    from understudy.backends.hub.pretrained import running

    folder, before = str(built("clip", models)), torch.backends.cuda.matmul.allow_tf32
    options = HubEncoderOptions(device="meta")
    network = _load(folder, options, config_of(folder))
    images = torch.zeros((2, 32, 32, 3), dtype=torch.uint8).numpy()
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with running(network, options):
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.backends.cuda.matmul.allow_tf32
            assert not torch.backends.cudnn.allow_tf32
            assert torch.backends.cudnn.deterministic
            pixels = read_preparation(folder)(images, *options.placement())
            values = _features(network)(network, pixels)
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert not torch.are_deterministic_algorithms_enabled()
    assert values.device.type == "meta"
    assert values.shape == (2, 24)
    with running(network, HubOptions(device="meta")):  # a generator's, which sees none
        assert not torch.are_deterministic_algorithms_enabled()


def test_a_generator_draws_in_bfloat16(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    from tests.backends.tiny_models.diffusion import saved

    name = f"hf:{saved('sd15', tmp_path)}?steps=1&guidance=1&dtype=bfloat16&device=cpu"
    drawn = load_model(Generator, name).generate(["a dog", "a cat"])
    assert drawn.shape[0] == 2
    assert drawn.std() > 0


def test_a_device_that_is_not_there_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from tests.run.samples import class_folders

    data = class_folders(tmp_path / "data", {"cat": 3, "dog": 3}, (16, 16, 3))
    with pytest.raises(BackendError, match="device 'cuda' cannot be used here"):
        understudy.synthesize(
            data,
            out=tmp_path / "out",
            epsilon=1.0,
            encoder="embedded:photo",
            device="cuda",
            ledger=str(tmp_path / "ledger.db"),
            progress="none",
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_check_of_a_gpu_runs_on_a_processor(repository: Path) -> None:
    command = [repository / "scripts" / "gpu_check.sh", "--device", "cpu", "--tiny"]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=repository
    )
    assert done.returncode == 0, done.stderr
    for words in ("embedding", "decoding", "sampling", "training a judge", "independent"):
        assert words in done.stdout
