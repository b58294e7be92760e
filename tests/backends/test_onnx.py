from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.backends.tiny_onnx import block_fill, block_means, channel_means, save

from understudy.backends import onnx
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.errors import BackendError
from understudy.core.types import Images, Shape

pytest.importorskip("onnxruntime")

SMALL = onnx._SMALL


@pytest.fixture(autouse=True)
def small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 4 pixels on they are tried as they are, and not first in a process of their own."""
    monkeypatch.setattr(onnx, "_SMALL", 4)


def noise(shape: Shape, rows: int = 5) -> Images:
    return np.random.default_rng(1).integers(0, 256, (rows, *shape), dtype=np.uint8)


def blocky(rows: int = 5, channels: int = 3) -> Images:
    """16 x 16 images that are flat in each 4 x 4 block."""
    return np.repeat(np.repeat(noise((4, 4, channels), rows), 4, axis=1), 4, axis=2)


def test_a_pair_brings_back_what_it_can_hold(tmp_path: Path) -> None:
    block_means(tmp_path / "enc.onnx")
    block_fill(tmp_path / "dec.onnx")
    images = blocky()
    encoder = load_encoder(f"onnx:{tmp_path}/enc.onnx", shape=(16, 16, 3))
    decoder = load_decoder(f"onnx:{tmp_path}/dec.onnx", shape=(16, 16, 3), encoder=encoder)
    embeddings = encoder.encode(images)
    expected = images[:, ::4, ::4].transpose(0, 3, 1, 2).reshape(5, 48) / 255
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    np.testing.assert_array_equal(decoder.decode(embeddings), images)


@pytest.mark.parametrize("latent", ["3x4x4", "3X4X4"])
def test_a_decoder_alone_is_told_the_shape(tmp_path: Path, latent: str) -> None:
    file = block_fill(tmp_path / "dec.onnx")
    decoder = load_decoder(f"onnx:{file}?latent={latent}", shape=(16, 16, 3))
    assert decoder.dim == 48
    with pytest.raises(BackendError, match=r"dec.onnx: cannot tell the shape.*\?latent=32x8x8"):
        load_decoder(f"onnx:{file}", shape=(16, 16, 3))


def test_pooled_features_are_taken_of_images_of_128_pixels_or_more(tmp_path: Path) -> None:
    """A classifier's features say little of images much smaller than those it was trained on."""
    file = save(  # counts pixels: the sum of an image that is white
        tmp_path / "area.onnx",
        [("ReduceSum", ["images", "axes"], ["area"], {"keepdims": 0})],
        {"images": ["n", 3, "h", "w"]},
        {"area": ["n", 3]},
        {"axes": np.array([2, 3], dtype=np.int64)},
    )

    def pixels(options: str, *shape: int) -> float:
        encoder = load_encoder(f"onnx:{file}{options}", shape=(*shape, 3))
        return float(encoder.encode(np.full((1, *shape, 3), 255, np.uint8))[0, 0])

    assert pixels("", 64, 32) == 256 * 128
    assert pixels("", 200, 150) == 200 * 150
    assert pixels("?size=32", 64, 64) == 32 * 32


def test_colour_becomes_luma_for_a_model_of_one_channel(tmp_path: Path) -> None:
    file = block_means(tmp_path / "grey.onnx", channels=1)
    images = blocky()
    embeddings = load_encoder(f"onnx:{file}", shape=(16, 16, 3)).encode(images)
    luma = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])
    found = np.rint(embeddings.reshape(5, 4, 4) * 255)
    np.testing.assert_allclose(found, luma[:, ::4, ::4], atol=1)  # Pillow truncates


def test_images_are_resized_by_pillow(tmp_path: Path) -> None:
    file = block_means(tmp_path / "enc.onnx")
    images = noise((28, 28, 3))
    found = load_encoder(f"onnx:{file}?size=8x12", shape=(28, 28, 3)).encode(images)
    small = np.stack(
        [
            np.asarray(Image.fromarray(image).resize((12, 8), Image.Resampling.BILINEAR))
            for image in images
        ]
    )
    expected = small.reshape(5, 2, 4, 3, 4, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(found, expected.reshape(5, -1), atol=1e-5)


@pytest.mark.parametrize(
    ("scale", "low", "high"), [("0..1", 0, 1), ("-1..1", -1, 1), ("0..255", 0, 255)]
)
def test_scale_says_what_black_and_white_are(
    tmp_path: Path, scale: str, low: float, high: float
) -> None:
    enc, dec = block_means(tmp_path / "enc.onnx"), block_fill(tmp_path / "dec.onnx")
    images = blocky(3)
    images[0], images[1] = 0, 255
    encoder = load_encoder(f"onnx:{enc}?scale={scale}", shape=(16, 16, 3))
    decoder = load_decoder(f"onnx:{dec}?scale={scale}", shape=(16, 16, 3), encoder=encoder)
    embeddings = encoder.encode(images)
    assert np.unique(embeddings[0]) == pytest.approx(low)
    assert np.unique(embeddings[1]) == pytest.approx(high)
    np.testing.assert_array_equal(decoder.decode(embeddings), images)


def test_a_stated_norm_bound_is_kept(tmp_path: Path) -> None:
    file = block_means(tmp_path / "enc.onnx")
    images = blocky()
    images[0] = 1
    free = load_encoder(f"onnx:{file}", shape=(16, 16, 3))
    bound = load_encoder(f"onnx:{file}?norm_bound=0.5", shape=(16, 16, 3))
    assert free.norm_bound is None
    assert bound.norm_bound == 0.5
    np.testing.assert_allclose(bound.encode(images)[0], free.encode(images)[0])  # short: untouched
    norms = np.linalg.norm(bound.encode(images)[1:].astype(np.float64), axis=1)
    assert norms.max() <= 0.5
    assert norms == pytest.approx(0.5, rel=1e-5)


def test_a_model_of_a_fixed_size_and_batch_gets_them(tmp_path: Path) -> None:
    file = channel_means(tmp_path / "fixed.onnx", batch=4, size=8)
    images = np.repeat(noise((1, 1, 3), 7), 64, axis=1).reshape(7, 8, 8, 3)
    encoder = load_encoder(f"onnx:{file}", shape=(8, 8, 3))
    np.testing.assert_allclose(encoder.encode(images), images[:, 0, 0] / 255, atol=1e-6)
    assert load_encoder(f"onnx:{file}", shape=(30, 20, 1)).dim == 3
    with pytest.raises(BackendError, match=r"fixed.onnx: it takes images of 8 x 8 pixels only"):
        load_encoder(f"onnx:{file}?size=16", shape=(8, 8, 3))


def test_one_of_several_outputs_is_chosen_by_name(tmp_path: Path) -> None:
    file = save(
        tmp_path / "two.onnx",
        [
            ("ReduceMean", ["images"], ["mean"], {"axes": [1, 2, 3], "keepdims": 0}),
            ("Flatten", ["images"], ["flat"], {"axis": 1}),
        ],
        {"images": ["n", 3, "h", "w"]},
        {"mean": ["n"], "flat": ["n", "d"]},
    )
    with pytest.raises(BackendError, match=r"outputs are mean, flat; choose one with \?output="):
        load_encoder(f"onnx:{file}", shape=(4, 4, 3))
    with pytest.raises(BackendError, match="there is no 'other'"):
        load_encoder(f"onnx:{file}?output=other", shape=(4, 4, 3))
    with pytest.raises(BackendError, match="it must hold one row for each"):
        load_encoder(f"onnx:{file}?output=mean", shape=(4, 4, 3))
    assert load_encoder(f"onnx:{file}?output=flat", shape=(4, 4, 3)).dim == 48


def test_files_that_are_no_models_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"hello")
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name, message in [
        ("gone.onnx", "no such file"),
        ("bad.onnx", "not a readable ONNX model"),
        ("empty.onnx", "not a readable ONNX model"),
        ("", "no such file"),
    ]:
        with pytest.raises(BackendError, match=f"{name}: .*{message}"):
            load_encoder(f"onnx:{tmp_path}/{name}", shape=(4, 4, 3))
        with pytest.raises(BackendError, match=f"{name}: .*{message}"):
            load_decoder(f"onnx:{tmp_path}/{name}", shape=(4, 4, 3))


def test_embeddings_that_do_not_fit_the_decoder_are_refused(tmp_path: Path) -> None:
    enc = block_means(tmp_path / "enc.onnx", channels=1)
    dec = block_fill(tmp_path / "dec.onnx")
    encoder = load_encoder(f"onnx:{enc}", shape=(16, 16, 1))
    with pytest.raises(BackendError, match=r"3x\?x\?, which does not fit embeddings of 1x4x4"):
        load_decoder(f"onnx:{dec}", shape=(16, 16, 1), encoder=encoder)
    with pytest.raises(BackendError, match=r"takes embeddings of 12 numbers.*makes 16"):
        load_decoder(f"onnx:{dec}?latent=3x2x2", shape=(16, 16, 1), encoder=encoder)


# Real models, where they are at hand.


def eurosat(shared_data: Path, rows: int) -> Images:
    files = sorted((shared_data / "images" / "eurosat" / "test").glob("*/*.jpg"))
    files = files[:: len(files) // rows][:rows]
    return np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])


@pytest.mark.slow
def test_the_tiny_autoencoder_keeps_satellite_pictures(shared_data: Path) -> None:
    images = eurosat(shared_data, 20)
    models = shared_data / "models"
    encoder = load_encoder(f"onnx:{models}/taef2_encoder.onnx", shape=(64, 64, 3))
    decoder = load_decoder(f"onnx:{models}/taef2_decoder.onnx", shape=(64, 64, 3), encoder=encoder)
    embeddings = encoder.encode(images)
    assert embeddings.shape == (20, 32 * 8 * 8)
    error = (images.astype(float) - decoder.decode(embeddings)) ** 2
    psnr = 10 * np.log10(255**2 / error.mean(axis=(1, 2, 3)))
    assert 31 < psnr.mean() < 34


def test_a_crash_of_the_runtime_is_an_error_and_not_the_end(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime 1.31 dies of SIGFPE when this model has nothing left to pool."""
    monkeypatch.setattr(onnx, "_SMALL", SMALL)
    file = shared_data / "models" / "squeezenet1_1_features.onnx"
    with pytest.raises(BackendError, match=r"squeezenet.*8 x 8 pixels.*too small.*\?size=128"):
        load_encoder(f"onnx:{file}", shape=(8, 8, 3))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("Cast", ["flat"], ["out"], {"to": 11}), ("Mul", ["out", "huge"], ["y"], {})], "finite"),
        ([("SequenceConstruct", ["flat", "images"], ["y"], {})], "cannot run"),
        (
            [
                ("ReduceMax", ["images"], ["top"], {"keepdims": 0}),  # 1 where any pixel is white
                ("Cast", ["top"], ["count"], {"to": 7}),
                ("Mul", ["count", "second"], ["more"], {}),
                ("Add", ["more", "ones"], ["shape"], {}),
                ("Tile", ["flat", "shape"], ["y"], {}),
            ],
            "gave outputs of the shapes",
        ),
    ],
)
def test_outputs_of_other_kinds_and_shapes_are_refused(
    tmp_path: Path, nodes: list[tuple[str, list[str], list[str], dict[str, object]]], words: str
) -> None:
    """Too large for float32, of no one shape, and of a shape that follows the pixels."""
    onnx_package = pytest.importorskip("onnx")
    helper = onnx_package.helper
    made = [helper.make_node(op, i, o, **more) for op, i, o, more in nodes]
    weights = {"huge": np.array(1e300), "ones": np.array([1, 1]), "second": np.array([0, 1])}
    used = {name for _, inputs, _, _ in nodes for name in inputs}
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["images"], ["flat"]), *made],
        "hostile",
        [helper.make_tensor_value_info("images", 1, ["n", 3, 8, 8])],
        [helper.make_empty_tensor_value_info("y")],
        [onnx_package.numpy_helper.from_array(weights[n], n) for n in sorted(used & {*weights})],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx_package.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "x.onnx")
    )
    with pytest.raises(BackendError, match=words):
        load_encoder(f"onnx:{tmp_path}/x.onnx", shape=(8, 8, 3)).encode(
            np.full((2, 8, 8, 3), 255, np.uint8)
        )


def test_no_file_of_the_folder_that_the_owner_is_in_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a small input is tried in a process of its own."""
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(onnx, "_SMALL", SMALL)
    load_encoder(f"onnx:{block_means(tmp_path / 'e.onnx')}", shape=(8, 8, 3))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["above", "absolute", "link"])
def test_no_file_outside_of_the_models_folder_passes_for_its_weights(
    tmp_path: Path, kind: str
) -> None:
    """They could be read from what a decoder draws. ONNX Runtime 1.23 still took them."""
    onnx_package = pytest.importorskip("onnx")
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(bytes(range(64)))
    (tmp_path / "model" / "link").symlink_to(tmp_path / "secret")
    place = {"above": "../secret", "absolute": str(tmp_path / "secret"), "link": "link"}[kind]
    weights = onnx_package.TensorProto(name="w", data_type=2, dims=[1, 3, 4, 4], data_location=1)
    weights.external_data.add(key="location", value=place)
    helper = onnx_package.helper
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["w"], ["pixels"], to=1),
            helper.make_node("Add", ["images", "pixels"], ["y"]),
        ],
        "hostile",
        [helper.make_tensor_value_info("images", 1, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", 1, ["n", 3, 4, 4])],
        [weights],
    )
    file = tmp_path / "model" / "x.onnx"
    opsets = [helper.make_opsetid("", 17)]
    file.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    with pytest.raises(BackendError, match="not a readable ONNX model"):
        load_encoder(f"onnx:{file}", shape=(4, 4, 3))
