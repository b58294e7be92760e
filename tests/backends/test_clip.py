import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny_models.folders import built, network

from understudy.backends.registry import load_encoder
from understudy.core.errors import BackendError
from understudy.core.ports import TextEncoder
from understudy.core.types import Images, Shape

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["a brown dog", "A person reading near the window", "wall", "a photo of a dog " * 9]


def noise(shape: Shape, rows: int = 5) -> Images:
    return np.random.default_rng(2).integers(80, 176, (rows, *shape), dtype=np.uint8)


def unit(rows: Any) -> Any:
    values = rows.float().numpy()
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def copy(folder: Path, to: Path, without: str = "") -> Path:
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns(without) if without else None)
    return to


@pytest.mark.parametrize(
    ("name", "processor", "shape"),
    [
        ("clip", "CLIP", (40, 56, 3)),
        ("siglip", "Siglip", (40, 56, 3)),
    ],
)
def test_images_as_the_library_embeds_them(
    name: str, processor: str, shape: Shape, models: Path
) -> None:
    folder = built(name, models)
    images = noise(shape)
    prepare = getattr(transformers, f"{processor}ImageProcessorPil").from_pretrained(folder)
    with torch.no_grad():
        inputs = prepare(list(images), return_tensors="pt")
        expected = unit(network(folder).get_image_features(**inputs).pooler_output)
    found = load_encoder(f"hf:{folder}", shape=shape).encode(images)
    # Pixels that are rounded otherwise; a random network makes much of them.
    assert (found * expected).sum(axis=1).min() > 0.998


def test_texts_as_the_library_embeds_them(models: Path) -> None:
    for name, padding in (("clip", True), ("siglip", "max_length")):
        folder = built(name, models)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        tokens = tokenizer(
            TEXTS, padding=padding, truncation=True, max_length=16, return_tensors="pt"
        )
        if name != "clip":
            del tokens["attention_mask"]
        with torch.no_grad():
            used = {key: tokens[key] for key in tokens if key != "token_type_ids"}
            expected = unit(network(folder).get_text_features(**used).pooler_output)
        encoder = load_encoder(f"hf:{folder}", shape=(32, 32, 3))
        assert isinstance(encoder, TextEncoder)
        np.testing.assert_allclose(encoder.encode_text(TEXTS), expected, atol=1e-5)


def test_texts_without_tokenizer_files_are_refused_and_not_all_alike(
    models: Path, tmp_path: Path
) -> None:
    folder = copy(built("clip", models), tmp_path / "clip", without="tokenizer*")
    with pytest.raises(BackendError, match=r"no tokenizer files.*tokenizer\.json"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_a_network_always_sees_as_many_images(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: Any = load_encoder(f"hf:{built('clip', models)}?batch=4", shape=(32, 32, 3))
    sizes, raw = [], encoder._raw
    monkeypatch.setattr(encoder, "_raw", lambda part: (sizes.append(len(part)), raw(part))[1])
    images = noise((32, 32, 3), rows=10)
    whole = encoder.encode(images)
    assert sizes == [4, 4, 4]
    np.testing.assert_allclose(encoder.encode(images[:1])[0], whole[0], atol=1e-5)


def test_kernels_are_exact_while_a_network_runs_and_as_before_afterwards() -> None:
    from understudy.backends.hub.pretrained import exact_kernels

    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul

    def flags() -> tuple[bool, ...]:
        return cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic, products.allow_tf32

    before = flags()
    with exact_kernels():
        assert flags() == (False, False, True, False)
    assert flags() == before


def test_the_image_encoder_of_a_pipeline_is_found_with_its_processor(models: Path) -> None:
    images = noise((32, 32, 3))
    pipeline = built("pipeline_with_tower", models)
    alone = load_encoder(f"hf:{built('tower', models)}", shape=(32, 32, 3)).encode(images)
    by_option = load_encoder(f"hf:{pipeline}?subfolder=image_encoder", shape=(32, 32, 3))
    by_path = load_encoder(f"hf:{pipeline}/image_encoder", shape=(32, 32, 3))
    np.testing.assert_array_equal(by_option.encode(images), alone)
    np.testing.assert_array_equal(by_path.encode(images), alone)


def test_weights_that_can_run_code_are_refused(models: Path, tmp_path: Path) -> None:
    folder = copy(built("clip", models), tmp_path / "pickled", without="*.safetensors")
    torch.save(network(built("clip", models)).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(BackendError, match=r"no weights as safetensors, and other formats can run"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("model.safetensors", b"\x08\x00\x00", "cannot be loaded: SafetensorError"),
        ("config.json", b'{"caf\xe9": 1}', "cannot be loaded: UnicodeDecodeError"),
        ("preprocessor_config.json", b'{"image_mean": [0.5, 0.5]}', "2 numbers for the three"),
        ("preprocessor_config.json", b'{"size": {"height": -4, "width": 4}}', "sides of -4, 4"),
        (
            "preprocessor_config.json",
            b'{"size": {"height": 99999, "width": 99999}}',
            "sides of 99999",
        ),
        ("preprocessor_config.json", b'{"resample": 9}', "9 is not a valid Resampling"),
    ],
)
def test_torn_files_and_those_that_lie_are_refused(
    models: Path, tmp_path: Path, file: str, content: bytes, words: str
) -> None:
    folder = copy(built("dino", models), tmp_path / "torn")
    (folder / file).write_bytes(content)
    with pytest.raises(BackendError, match=words):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_a_card_that_is_no_utf_8_states_no_licence(models: Path, tmp_path: Path) -> None:
    folder = copy(built("dino", models), tmp_path / "card")
    (folder / "README.md").write_bytes("---\nlicense: café\n---\n".encode("latin-1"))
    licence = load_encoder(f"hf:{folder}", shape=(32, 32, 3)).licence
    assert licence == "no licence stated (card)"
    (folder / "README.md").write_text("---\nlicense: mit\u202e\x1b[31m\n---\n")
    licence = load_encoder(f"hf:{folder}", shape=(32, 32, 3)).licence
    assert licence == r"mit\u202e\x1b[31m (card)"
    (folder / "README.md").write_text(f"---\nlicense: {'a' * 10**6}\n---\n")  # of every caption
    assert len(load_encoder(f"hf:{folder}", shape=(32, 32, 3)).licence) < 200
    os.truncate(folder / "README.md", 1 << 28)  # of any size, it was read into memory
    licence = load_encoder(f"hf:{folder}", shape=(32, 32, 3)).licence
    assert licence == "no licence stated (card)"
    os.truncate(folder / "config.json", 1 << 28)
    with pytest.raises(BackendError, match="134,217,728 at most are read"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_code_of_the_model_is_not_run(models: Path, tmp_path: Path) -> None:
    folder = copy(built("clip", models), tmp_path / "code")
    told = json.loads((folder / "config.json").read_text())
    told["auto_map"] = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    told["model_type"] = "evil"
    (folder / "config.json").write_text(json.dumps(told))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(BackendError, match="no encoder of images"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_a_tokenizer_reads_its_words_from_no_file_elsewhere(models: Path, tmp_path: Path) -> None:
    """A writer would spell a private file in its captions."""
    folder = copy(built("clip", models), tmp_path / "words", without="tokenizer.json")
    (tmp_path / "private.txt").write_text("a\nprivate\nline\n[UNK]\n[PAD]\n")
    told = {"tokenizer_class": "BertTokenizer", "vocab": str(tmp_path / "private.txt")}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(BackendError, match="names a file for its vocab"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_an_adapter_without_its_weights_is_called_one(models: Path, tmp_path: Path) -> None:
    folder = copy(built("clip", models), tmp_path / "adapter")
    adapter = {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    with pytest.raises(BackendError, match=r"an adapter .* adapter_model\.safetensors is missing"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))


def test_a_package_that_no_extra_has_is_named(models: Path, tmp_path: Path) -> None:
    folder = copy(built("clip", models), tmp_path / "quantised")
    told = json.loads((folder / "config.json").read_text())
    told["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(told))
    with pytest.raises(BackendError, match=r"none of an extra: .*[Oo]ptimum") as raised:
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))
    assert "understudy[" not in str(raised.value)


def test_missing_weights_are_refused_and_not_drawn_at_random(models: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy(built("clip", models), tmp_path / "holes")
    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match=r"lacks 1 of the weights .* visual_projection.weight"):
        load_encoder(f"hf:{folder}", shape=(32, 32, 3))
