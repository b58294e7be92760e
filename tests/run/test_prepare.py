"""What does not fit together is refused before anything private is read or spent."""

import pytest
from tests.backends.tiny_onnx import block_fill, block_means, channel_means
from tests.run.samples import QUICK, class_folders, embeddings, with_manifest

from understudy.core.errors import ConfigError, SourceError
from understudy.run.config import make_config
from understudy.run.prepare import prepare


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return class_folders(tmp_path_factory.mktemp("data") / "scans", {"cat": 4, "dog": 4})


@pytest.fixture
def vectors(tmp_path):
    return embeddings(tmp_path / "vectors.npz")


def prepared(source, tmp_path, **options):
    options = {"settings": QUICK, **options}
    return prepare(
        make_config({"source": str(source), "out": tmp_path / "out", "epsilon": 1.0, **options})
    )


def test_images_are_encoded_and_decoded_by_default(images, tmp_path):
    ready = prepared(images, tmp_path)
    assert (ready.context.encoder.name, ready.context.decoder.name) == (
        "embedded:dct",
        "embedded:dct",
    )
    assert ready.source.classes == ("cat", "dog")
    assert sum(ready.plan.shares.values()) == pytest.approx(1.0)
    assert not (tmp_path / "out").exists()


def test_a_test_set_with_a_class_that_training_lacks_is_refused(images, tmp_path):
    test = class_folders(tmp_path / "test", {"cat": 2, "dog": 2, "emu": 2})
    with pytest.raises(SourceError, match=r"may have no classes but those of .*has emu besides"):
        prepared(images, tmp_path, test=str(test), size=16)
    fewer = class_folders(tmp_path / "fewer", {"ant": 2, "dog": 2})
    with pytest.raises(SourceError, match="ant"):
        prepared(images, tmp_path, test=str(fewer), size=16)


def test_a_unit_column_that_is_not_there_is_named(images, tmp_path):
    people = with_manifest(tmp_path / "people")
    assert prepared(people, tmp_path, unit="patient").source.has_units
    with pytest.raises(SourceError, match="household"):
        prepared(people, tmp_path, unit="household")
    with pytest.raises(SourceError, match="patient"):
        prepared(images, tmp_path, unit="patient")


@pytest.mark.parametrize("option", ["encoder", "decoder"])
def test_embeddings_take_no_models(vectors, tmp_path, option):
    ready = prepared(vectors, tmp_path, settings={}, decoder="none")
    assert (ready.context.encoder, ready.context.decoder) == (None, None)
    with pytest.raises(ConfigError, match="holds embeddings already: leave out"):
        prepared(vectors, tmp_path, settings={}, **{option: "embedded:dct"})


def test_kinds_and_lengths_must_agree(images, vectors, tmp_path):
    with pytest.raises(SourceError, match=r"holds images, and .* embeddings"):
        prepared(vectors, tmp_path, settings={}, test=str(images))
    with pytest.raises(SourceError, match="embeddings"):
        prepared(images, tmp_path, public=str(vectors))
    longer = embeddings(tmp_path / "longer.npz", dim=7)
    with pytest.raises(SourceError, match=r"embeddings of 7 numbers, and .* of 6"):
        prepared(vectors, tmp_path, settings={}, public=str(longer))


def test_a_test_set_is_brought_to_the_size_of_the_private_images(images, tmp_path):
    test = class_folders(tmp_path / "test", {"cat": 2, "dog": 2}, shape=(20, 10, 1))
    ready = prepared(images, tmp_path, test=str(test), size=16)
    assert ready.source.shape == ready.test.shape == (16, 16, 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"settings": {"filter": "images"}, "decoder": "none"}, ConfigError, "needs a decoder"),
        ({"public": "no-such-place"}, SourceError, "no such file or folder"),
    ],
)
def test_what_cannot_work_is_refused(images, tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        prepared(images, tmp_path, **options)


def test_a_format_of_images_is_refused_for_embeddings(vectors, tmp_path):
    with pytest.raises(ConfigError, match="leave out --format"):
        prepared(vectors, tmp_path, format="parquet")


@pytest.mark.parametrize("method", ["finetuning", "labelling"])
def test_a_release_of_images_too_small_to_test_is_refused_before_a_charge(images, tmp_path, method):
    """Methods without a decoder draw images of the private size: the run was paid for, and ended
    with the error of the network that was to learn from them."""
    public = class_folders(tmp_path / "public", {"cat": 4, "dog": 4}, seed=3)
    options = {"method": method, "public": str(public), "settings": {}, "test": str(public)}
    with pytest.raises(ConfigError, match="at least 16 pixels a side"):
        prepared(images, tmp_path, **options)


@pytest.mark.parametrize(("method", "several"), [("finetuning", 2), ("labelling", 1)])
def test_images_are_chosen_by_quality_where_no_decoder_draws_them(
    images, tmp_path, method, several
):
    """They were refused as a release of embeddings alone."""
    public = class_folders(tmp_path / "public", {"cat": 4, "dog": 4}, seed=3)
    options = {"method": method, "public": str(public), "settings": {}, "size": 16}
    options |= {"quality": "piqe", "quality_threshold": 50.0}
    assert prepared(images, tmp_path, **options).quality.images_per_embedding == several
    if several == 1:
        with pytest.raises(ConfigError, match="all would be the same"):
            prepared(images, tmp_path, **options, images_per_embedding=2)


def test_a_selection_among_candidates_has_nothing_to_choose_by_quality(images, tmp_path):
    options = {"method": "selection", "candidates": str(images), "settings": {}, "size": 16}
    with pytest.raises(ConfigError, match="selects candidates as they are"):
        prepared(images, tmp_path, **options, quality="piqe", quality_threshold=50.0)


def test_directions_need_an_order_or_public_images(vectors, tmp_path):
    with pytest.raises(ConfigError, match="needs --public"):
        prepared(vectors, tmp_path, settings={"components": 3})
    public = embeddings(tmp_path / "public.npz", seed=5)
    assert prepared(vectors, tmp_path, settings={"components": 3}, public=str(public)).public


def test_shapes_of_images_must_agree_without_size(tmp_path):
    mixed = class_folders(tmp_path / "mixed", {"cat": 2, "dog": 2})
    class_folders(tmp_path / "wide", {"cat": 1}, shape=(8, 9, 1))
    (tmp_path / "wide" / "cat" / "scan-0.png").rename(mixed / "cat" / "wide.png")
    with pytest.raises(SourceError, match="size"):
        prepared(mixed, tmp_path)
    assert prepared(mixed, tmp_path, size=8).source.shape == (8, 8, 1)


def test_other_images_get_the_channels_of_the_private_ones(images, tmp_path):
    """A dry run passed, and the run refused colours before its charge."""
    colour = class_folders(tmp_path / "colour", {"cat": 4, "dog": 4}, (16, 16, 3))
    ready = prepared(images, tmp_path, public=str(colour), test=str(colour), size=16)
    assert ready.source.shape == ready.public.shape == ready.test.shape == (16, 16, 1)


@pytest.mark.slow
def test_public_images_suit_what_is_made_of_them(images, tmp_path):
    """All drawings where a decoder makes images of a grid, leaves where features are released."""
    encoder = f"onnx:{block_means(tmp_path / 'enc.onnx')}"
    decoder = f"onnx:{block_fill(tmp_path / 'dec.onnx')}"
    drawn = {"size": 16, "settings": {}, "encoder": encoder}
    grid = prepared(images, tmp_path, decoder=decoder, **drawn)
    assert grid.public.name == "procedural:all?channels=1"
    assert prepared(images, tmp_path, **drawn).public.name == "procedural:leaves?channels=1"
    pooled = f"onnx:{channel_means(tmp_path / 'pool.onnx')}"
    assert prepared(images, tmp_path, **{**drawn, "encoder": pooled}).public is not None
    assert prepared(images, tmp_path, decoder=decoder, public="none", **drawn).public is None
    assert prepared(images, tmp_path).public is None
