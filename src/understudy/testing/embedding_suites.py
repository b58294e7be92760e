"""What every encoder and every decoder must do."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder, PromptedDecoder, TextEncoder
from understudy.core.types import Embeddings, Images, Shape
from understudy.testing.sample_inputs import CLOSE, extreme_images, largest_difference

EMBEDDED = 11
SEEDS = np.arange(EMBEDDED, dtype=np.uint64)
DECODER_PROMPTS = ("a dog", "a cat on a sofa", "a dog", "", "a blue wall")
PROMPTED = len(DECODER_PROMPTS)
PROMPTED_SEEDS = SEEDS[:PROMPTED]


@cache
def encoder_once(name: str, shape: Shape) -> Encoder:
    """The encoder of a name, loaded when it is first asked for."""
    return load_encoder(name, shape=shape)


@cache
def decoder_once(name: str, shape: Shape, encoder_name: str | None = None) -> Decoder:
    """The decoder of a name and of its encoder's, loaded when it is first asked for."""
    encoder = encoder_once(encoder_name, shape) if encoder_name else None
    return load_decoder(name, shape=shape, encoder=encoder)


class _EmbeddingSuite:
    """What an encoder under test is and what it is given.

    Attributes:
        name: The name that loads the encoder.
        shape: (height, width, channels) of the images.
    """

    name: ClassVar[str]
    shape: ClassVar[Shape] = (16, 16, 3)

    @pytest.fixture
    def encoder(self) -> Encoder:
        return encoder_once(self.name, self.shape)

    @pytest.fixture
    def images(self) -> Images:
        """`EMBEDDED` images that it takes."""
        return extreme_images(self.shape, EMBEDDED)


class EncoderSuite(_EmbeddingSuite):
    """What every encoder must do.

    A subclass states ``name`` and ``shape``, or overrides the fixtures ``encoder`` and ``images``.
    """

    def test_an_encoder_says_what_it_is(self, encoder: Encoder) -> None:
        assert isinstance(encoder, Encoder)
        assert encoder.dim > 0
        assert encoder.ordered in (True, False)
        assert encoder.licence
        assert encoder.norm_bound is None or encoder.norm_bound > 0

    def test_embeddings_are_finite_rows(self, encoder: Encoder, images: Images) -> None:
        embeddings = encoder.encode(images)
        assert embeddings.shape == (EMBEDDED, encoder.dim)
        assert embeddings.dtype == np.float32
        assert np.isfinite(embeddings).all()
        assert np.linalg.norm(embeddings[0] - embeddings[1]) > 0

    def test_ordered_numbers_begin_with_the_important_ones(
        self, encoder: Encoder, images: Images
    ) -> None:
        if not encoder.ordered:
            pytest.skip("states no order")
        random = np.random.default_rng(5)
        row, column = (
            axis[..., None]
            for axis in np.meshgrid(*(np.arange(size) for size in images.shape[1:3]), indexing="ij")
        )
        samples = []
        for _ in range(40):  # soft coloured spots of many positions and sizes
            y, x, size = random.uniform(0.2, 0.8, 3) * (*images.shape[1:3], max(images.shape[1:3]))
            soft = np.exp(-((row - y) ** 2 + (column - x) ** 2) / (0.1 * size**2))
            samples.append(soft * random.uniform(0, 255, images.shape[3]))
        spread = encoder.encode(np.stack(samples).astype(np.uint8)).var(axis=0)
        half = encoder.dim // 2
        assert spread[:half].sum() > 1.5 * spread[half:].sum()

    def test_no_images_give_no_embeddings(self, encoder: Encoder, images: Images) -> None:
        assert encoder.encode(images[:0]).shape == (0, encoder.dim)

    def test_a_row_depends_on_its_own_image_only(self, encoder: Encoder, images: Images) -> None:
        together = encoder.encode(images)
        backwards = encoder.encode(images[::-1])[::-1]
        alone = np.concatenate([encoder.encode(images[i : i + 1]) for i in range(EMBEDDED)])
        slack = 1e-5 * np.abs(together).max()
        np.testing.assert_allclose(backwards, together, rtol=0, atol=slack)
        np.testing.assert_allclose(alone, together, rtol=0, atol=slack)

    def test_the_norm_bound_holds(self, encoder: Encoder, images: Images) -> None:
        if encoder.norm_bound is None:
            pytest.skip("states no bound")
        norms = np.linalg.norm(encoder.encode(images).astype(np.float64), axis=1)
        assert norms.max() <= encoder.norm_bound

    def test_encoding_leaves_its_input_alone(self, encoder: Encoder, images: Images) -> None:
        before = images.copy()
        images.setflags(write=False)
        encoder.encode(images)
        np.testing.assert_array_equal(images, before)

    def test_encoding_repeats_itself(self, encoder: Encoder, images: Images) -> None:
        first = encoder.encode(images)
        again = load_encoder(encoder.name, shape=images.shape[1:])
        np.testing.assert_array_equal(encoder.encode(images), first)
        np.testing.assert_array_equal(again.encode(images), first)

    def test_other_images_are_refused(self, encoder: Encoder, images: Images) -> None:
        with pytest.raises(BackendError, match="uint8 images of shape"):
            encoder.encode(images[:, 1:])
        with pytest.raises(BackendError, match="float32"):
            encoder.encode(images.astype(np.float32))


class TextEncoderSuite(_EmbeddingSuite):
    """What every encoder of texts must do.

    A subclass states ``name`` and ``shape``, or overrides the fixtures ``encoder`` and ``images``.
    """

    def test_texts_are_unit_rows_in_the_space_of_the_images(
        self, encoder: TextEncoder, images: Images
    ) -> None:
        assert isinstance(encoder, TextEncoder)
        texts = ["a brown dog", "a person reading", "", "a brown dog " * 40]
        embeddings = encoder.encode_text(texts)
        assert embeddings.shape == (len(texts), encoder.dim)
        assert embeddings.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(encoder.encode(images), axis=1), 1, atol=1e-5)
        assert np.abs(embeddings[0] - embeddings[1]).max() > 1e-3
        assert encoder.encode_text([]).shape == (0, encoder.dim)

    def test_a_text_depends_on_itself_only(self, encoder: TextEncoder) -> None:
        texts = ["a brown dog", "a person reading near the window", "black", "a dog " * 40, "sofa"]
        together = encoder.encode_text(texts)
        alone = np.concatenate([encoder.encode_text([text]) for text in texts])
        np.testing.assert_allclose(alone, together, rtol=0, atol=1e-5)

    def test_a_text_encoder_refuses_what_is_no_list_of_texts(self, encoder: TextEncoder) -> None:
        with pytest.raises(BackendError, match="list of texts"):
            encoder.encode_text("a dog")
        with pytest.raises(BackendError, match="list of texts"):
            encoder.encode_text(["a dog", None])  # type: ignore[list-item]


class DecoderSuite:
    """What every decoder must do that turns its encoder's embeddings back into images.

    A subclass states the names, or overrides the fixtures ``decoder`` and ``embeddings``.

    Attributes:
        name: The name that loads the decoder.
        encoder_name: The name that loads the encoder it belongs to.
        shape: (height, width, channels) of the images.
    """

    name: ClassVar[str]
    encoder_name: ClassVar[str]
    shape: ClassVar[Shape] = (16, 16, 3)

    @pytest.fixture
    def decoder(self) -> Decoder:
        return decoder_once(self.name, self.shape, self.encoder_name)

    @pytest.fixture
    def embeddings(self) -> Embeddings:
        """`EMBEDDED` embeddings by its encoder, the first two of a black and of a white image."""
        encoder = encoder_once(self.encoder_name, self.shape)
        return encoder.encode(extreme_images(self.shape, EMBEDDED))

    def test_a_decoder_says_what_it_is(self, decoder: Decoder, embeddings: Embeddings) -> None:
        assert isinstance(decoder, Decoder)
        assert decoder.dim == embeddings.shape[1]
        assert decoder.licence

    def test_decoded_images_are_uint8(self, decoder: Decoder, embeddings: Embeddings) -> None:
        images = decoder.decode(embeddings, seeds=SEEDS)
        assert images.shape == (EMBEDDED, *decoder.shape)
        assert images.dtype == np.uint8
        assert images[1].astype(int).sum() > images[0].astype(int).sum()
        assert decoder.decode(embeddings[:0], seeds=SEEDS[:0]).shape == (0, *decoder.shape)

    def test_decoding_clips_to_black_and_white(
        self, decoder: Decoder, embeddings: Embeddings
    ) -> None:
        images = decoder.decode(embeddings[:2] * np.float32(1000), seeds=SEEDS[:2])
        assert set(np.unique(images)) <= {0, 255}

    def test_an_image_depends_on_its_own_embedding_and_seed_only(
        self, decoder: Decoder, embeddings: Embeddings
    ) -> None:
        together = decoder.decode(embeddings, seeds=SEEDS).astype(int)
        alone = [
            decoder.decode(embeddings[i : i + 1], seeds=SEEDS[i : i + 1]) for i in range(EMBEDDED)
        ]
        # A value halfway between two may round either way.
        assert np.abs(together - np.concatenate(alone)).max() <= 1

    def test_each_block_that_a_decoder_states_is_made_by_itself(
        self, decoder: Decoder, embeddings: Embeddings
    ) -> None:
        block = getattr(decoder, "block", 0)
        rows = np.resize(np.arange(EMBEDDED), block + 3)
        seeds = np.arange(len(rows), dtype=np.uint64)
        parts = [
            decoder.decode(embeddings[rows][part], seeds=seeds[part])
            for part in (slice(block), slice(block, None))
        ]
        together = decoder.decode(embeddings[rows], seeds=seeds)
        np.testing.assert_array_equal(together, np.concatenate(parts))

    def test_a_decoder_says_whether_its_images_depend_on_seeds(
        self, decoder: Decoder, embeddings: Embeddings
    ) -> None:
        images = decoder.decode(embeddings, seeds=SEEDS)
        others = decoder.decode(embeddings, seeds=SEEDS + np.uint64(1000))
        assert decoder.stochastic == bool((images != others).any())

    def test_decoding_repeats_itself_and_leaves_its_input_alone(
        self, decoder: Decoder, embeddings: Embeddings
    ) -> None:
        before = embeddings.copy()
        embeddings.setflags(write=False)
        images = decoder.decode(embeddings, seeds=SEEDS)
        np.testing.assert_array_equal(images, decoder.decode(embeddings, seeds=SEEDS))
        np.testing.assert_array_equal(embeddings, before)

    def test_other_embeddings_are_refused(self, decoder: Decoder, embeddings: Embeddings) -> None:
        with pytest.raises(BackendError, match="takes embeddings of shape"):
            decoder.decode(embeddings[:, 1:], seeds=SEEDS)
        embeddings[2, 0] = np.nan
        with pytest.raises(BackendError, match="not finite"):
            decoder.decode(embeddings, seeds=SEEDS)


def unit_embeddings(decoder: Decoder) -> Embeddings:
    """(5, d) random directions."""
    rows = np.random.default_rng(4).normal(size=(PROMPTED, decoder.dim)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


class PromptedDecoderSuite:
    """What every decoder must do that draws an image of an embedding and a prompt, by a seed.

    A subclass states ``name`` and ``shape``, or overrides the fixture ``decoder``.

    Attributes:
        name: The name that loads the decoder.
        shape: (height, width, channels) of the images.
    """

    name: ClassVar[str]
    shape: ClassVar[Shape] = (28, 28, 3)

    @pytest.fixture
    def decoder(self) -> PromptedDecoder:
        """The decoder under test."""
        decoder = decoder_once(self.name, self.shape)
        assert isinstance(decoder, PromptedDecoder)
        return decoder

    def test_a_decoder_draws_embeddings_with_prompts(self, decoder: PromptedDecoder) -> None:
        rows, seeds = unit_embeddings(decoder), PROMPTED_SEEDS
        images = decoder.decode_prompted(rows, DECODER_PROMPTS, seeds=seeds)
        assert decoder.stochastic
        assert images.shape == (PROMPTED, *decoder.shape)
        assert images.dtype == np.uint8
        assert decoder.licence
        assert len(decoder.shape) == 3
        nothing = decoder.decode_prompted(rows[:0], [], seeds=seeds[:0])
        assert nothing.shape == (0, *decoder.shape)
        assert decoder.decode(rows, seeds=seeds).shape == (PROMPTED, *decoder.shape)
        again = decoder.decode_prompted(rows, DECODER_PROMPTS, seeds=seeds)
        np.testing.assert_array_equal(again, images)
        others = decoder.decode_prompted(rows, DECODER_PROMPTS, seeds=seeds + np.uint64(9))
        assert largest_difference(others, images) > CLOSE

    def test_the_same_embedding_has_an_image_for_each_seed(self, decoder: PromptedDecoder) -> None:
        rows = np.repeat(unit_embeddings(decoder)[:1], PROMPTED, axis=0)
        seeds = np.array([3, 5, 3, 7, 2**64 - 1], dtype=np.uint64)
        for results in (
            decoder.decode(rows, seeds=seeds),
            decoder.decode_prompted(rows, DECODER_PROMPTS[:1] * PROMPTED, seeds=seeds),
        ):
            assert largest_difference(results[2], results[0]) <= CLOSE
            for other in (1, 3, 4):
                assert largest_difference(results[other], results[0]) > CLOSE

    def test_an_embedding_and_a_seed_count_for_their_own_row_only(
        self, decoder: PromptedDecoder
    ) -> None:
        rows, seeds = unit_embeddings(decoder), PROMPTED_SEEDS
        images = decoder.decode_prompted(rows, DECODER_PROMPTS, seeds=seeds)
        for part in (slice(1), slice(2), slice(2, 5), slice(4, 5)):
            alone = decoder.decode_prompted(rows[part], DECODER_PROMPTS[part], seeds=seeds[part])
            assert largest_difference(alone, images[part]) <= CLOSE
        changed = rows.copy()
        changed[1] = -8 * rows[1]
        shifted = decoder.decode_prompted(changed, DECODER_PROMPTS, seeds=seeds)
        assert largest_difference(shifted[[0, 2, 3, 4]], images[[0, 2, 3, 4]]) <= CLOSE
        assert largest_difference(shifted[1], images[1]) > 0

    def test_wrong_embeddings_are_refused(self, decoder: PromptedDecoder) -> None:
        rows, seeds = unit_embeddings(decoder), PROMPTED_SEEDS
        with pytest.raises(BackendError, match="embeddings of shape"):
            decoder.decode(rows[:, 1:], seeds=seeds)
        with pytest.raises(BackendError, match="4 prompts for 5"):
            decoder.decode_prompted(rows, DECODER_PROMPTS[:4], seeds=seeds)
        with pytest.raises(BackendError, match="noise_level"):
            decoder.decode_prompted(rows, DECODER_PROMPTS, seeds=seeds, noise_level=100_000)
        with pytest.raises(BackendError, match="4,\\) for 5 embeddings"):
            decoder.decode(rows, seeds=seeds[:4])
        rows[0, 0] = np.nan
        with pytest.raises(BackendError, match="finite"):
            decoder.decode(rows, seeds=seeds)

    def test_the_name_loads_the_same_decoder(self, decoder: PromptedDecoder) -> None:
        again = load_decoder(decoder.name, shape=decoder.shape)
        rows, seeds = unit_embeddings(decoder)[:2], PROMPTED_SEEDS[:2]
        np.testing.assert_array_equal(
            again.decode(rows, seeds=seeds), decoder.decode(rows, seeds=seeds)
        )
