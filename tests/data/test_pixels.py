import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image
from tests.data.samples import encode, picture, png_of_16_bits

from understudy.data.image_decoding import (
    BadImage,
    Header,
    decode,
    frame_count,
    header,
    resize_pixels,
)
from understudy.data.reading_options import Reading, Window

RED = (255, 0, 0)


def saved(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9)),
    st.sampled_from(["PNG", "BMP", "TIFF", "WEBP"]),
    st.sampled_from([1, 3]),
)
def test_lossless_formats_come_back_bit_for_bit(
    plane: np.ndarray, format: str, channels: int
) -> None:
    pixels = np.stack([np.roll(plane, c) for c in range(channels)], axis=2)
    data = encode(pixels, format, **({"lossless": True} if format == "WEBP" else {}))
    np.testing.assert_array_equal(decode(data, channels=channels), pixels)
    head = header(data)
    assert (head.height, head.width) == plane.shape
    assert head.grey == (channels == 1) or format == "WEBP"  # WebP has no grey


@pytest.mark.parametrize("transparency", [0, b"\x00\xff"])
def test_palette_with_transparency_is_laid_on_white(transparency: object) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, 0, 0, 255])
    image.putpixel((1, 0), 1)
    data = saved(image, transparency=transparency)
    assert decode(data).tolist() == [[[255, 255, 255], [0, 0, 255]]]


def test_alpha_is_laid_on_white() -> None:
    image = Image.new("RGBA", (2, 1), (*RED, 255))
    image.putpixel((1, 0), (*RED, 51))  # a fifth of red on white
    for format in ("PNG", "TIFF"):
        assert decode(saved(image, format)).tolist() == [[[255, 0, 0], [255, 204, 204]]]
    grey = Image.new("LA", (2, 1), (0, 255))
    grey.putpixel((1, 0), (0, 0))
    assert decode(saved(grey)).tolist() == [[[0], [255]]]
    assert header(saved(grey)).grey


def test_a_transparent_colour_is_laid_on_white() -> None:
    grey = Image.new("L", (2, 1), 7)
    grey.putpixel((0, 0), 9)
    assert decode(saved(grey, transparency=9)).tolist() == [[[255], [7]]]
    colour = Image.new("RGB", (2, 1), RED)
    colour.putpixel((0, 0), (1, 2, 3))
    assert decode(saved(colour, transparency=(1, 2, 3))).tolist() == [[[255] * 3, [*RED]]]


def test_cmyk() -> None:
    image = Image.new("CMYK", (1, 1), (0, 255, 255, 0))
    assert decode(saved(image, "TIFF")).tolist() == [[[255, 0, 0]]]
    assert np.abs(decode(saved(image, "JPEG")).astype(int) - RED).max() < 6


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bits_need_a_window(format: str) -> None:
    values = np.array([[0, 257, 128 * 257, 65_535, 65_406, 65_407]], np.uint16)
    data = saved(Image.fromarray(values), format)
    for read in (header, decode):
        with pytest.raises(BadImage, match=r"16 bits.* from 0 to 65,535: .*\?window=CENTRE,WIDTH"):
            read(data)
    whole = Reading(Window(32_768, 65_536))
    assert decode(data, reading=whole)[0, :, 0].tolist() == [0, 1, 128, 255, 254, 255]
    assert header(data, whole) == Header(1, 6, grey=True, window=True)
    narrow = Reading(Window(257.5, 3))  # 256 and less is black, 258 and more is white
    steps = saved(Image.fromarray(np.array([[255, 256, 257, 258, 259]], np.uint16)), format)
    assert decode(steps, reading=narrow)[0, :, 0].tolist() == [0, 0, 128, 255, 255]


def test_real_numbers_are_scaled_from_0_to_1_and_others_refused() -> None:
    good = saved(Image.fromarray(np.array([[0, 0.5, 1]], np.float32)), "TIFF")
    assert decode(good)[0, :, 0].tolist() == [0, 128, 255]
    for wrong in ([0, 2], [-0.1, 0], [np.nan, 0]):
        data = saved(Image.fromarray(np.array([wrong], np.float32)), "TIFF")
        with pytest.raises(BadImage, match=r"must be in 0\.\.1"):
            decode(data)


@pytest.mark.parametrize("type", [np.uint16, np.float32])
def test_a_tiff_whose_zero_is_white_is_shown_as_a_viewer_shows_it(type: type) -> None:
    """Of 8 bits it was, of 16 and more it came out as its own negative."""
    image = Image.fromarray(np.array([[0, 64, 255]], type))
    data = saved(image, "TIFF", tiffinfo={0x0106: 0})
    assert decode(data, reading=Reading(Window(128, 256)))[0, :, 0].tolist() == [255, 191, 0]


def test_a_tiff_of_64_bits_is_not_said_to_be_none() -> None:
    """Its reason was that it is no TIFF, or damaged. Pillow writes none, so a tag is changed."""
    data = saved(Image.fromarray(np.zeros((1, 2), np.float32)), "TIFF")
    bits, wide = (struct.pack("<HHLHH", 258, 3, 1, count, 0) for count in (32, 64))
    assert bits in data
    with pytest.raises(BadImage, match=r"a TIFF of numbers that are not read: save .* 32 bits"):
        decode(data.replace(bits, wide))


def tiff(values: np.ndarray, **options: Any) -> bytes:
    tifffile = pytest.importorskip("tifffile")
    file = BytesIO()
    tifffile.imwrite(file, values, photometric="rgb", **options)
    return file.getvalue()


def test_planes_of_8_bits_are_read() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (3, 8, 8), dtype=np.uint8)
    data = tiff(pixels, planarconfig="separate")
    np.testing.assert_array_equal(decode(data), np.moveaxis(pixels, 0, 2))


@pytest.mark.parametrize("window", [None, Window(2048, 4096)])
@pytest.mark.parametrize(
    ("form", "channels"),
    [("PNG", 2), *((form, n) for form in ("PNG", "<", ">", "zlib", "separate") for n in (3, 4))],
)
def test_colours_of_16_bits_are_refused(form: str, channels: int, window: Window | None) -> None:
    """Their high bytes were read: of 12 bits nearly black, and of planes noise."""
    values = np.random.default_rng(0).integers(0, 4096, (5, 7, channels), dtype=np.uint16)
    extra = {"extrasamples": ["unassalpha"] * (channels - 3)}
    if form == "PNG":
        data = png_of_16_bits(values)
    elif form == "separate":
        data = tiff(np.moveaxis(values, 2, 0), planarconfig="separate", **extra)
    elif form == "zlib":
        data = tiff(values, compression="zlib", **extra)
    else:
        data = tiff(values, byteorder=form, **extra)
    for read in (header, decode):
        with pytest.raises(BadImage, match="has colours of 16 bits: save it with 8 bits a colour"):
            read(data, reading=Reading(window))


def test_whole_numbers_of_32_bits() -> None:
    data = saved(Image.fromarray(np.array([[-1_000_000, 0, 1_000_000]], np.int32)), "TIFF")
    with pytest.raises(BadImage, match="16 bits or more"):
        decode(data)
    reading = Reading(Window(0.5, 2_000_001))
    assert decode(data, reading=reading)[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(format: str, orientation: int) -> None:
    """Each picture is stored so that its orientation turns it to the same four tall quarters."""
    quarters = np.array([[10, 90], [170, 250]], np.uint8)
    upright = np.kron(quarters, np.ones((16, 8), np.uint8))[:, :, None].repeat(3, axis=2)
    turn = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.fromarray(np.ascontiguousarray(turn(upright))), format, exif=exif)
    pixels = decode(data).astype(int)
    assert pixels.shape == upright.shape
    assert np.abs(pixels - upright).max() < 25  # JPEG and lossy WebP
    head = header(data)
    assert (head.height, head.width) == (32, 16)


def test_channels_are_made_to_fit() -> None:
    grey = encode(picture(0, channels=1))
    assert decode(grey, channels=3).shape == (6, 5, 3)
    assert decode(encode(picture(0)), channels=1).shape == (6, 5, 1)


def test_resizing_is_antialiased_and_the_same_for_files_and_arrays() -> None:
    board = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)[:, :, None]
    small = decode(encode(board), size=(8, 4))
    assert small.shape == (8, 4, 1)
    assert np.abs(small.astype(int) - 127).max() < 30  # sampling without a filter gives 0 and 255
    np.testing.assert_array_equal(resize_pixels(board[None], (8, 4))[0], small)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_several_frames_are_refused_or_asked_for(format: str) -> None:
    frames = [Image.new("RGB", (4, 3), colour) for colour in ((250, 0, 0), (0, 250, 0))]
    lossless = {"lossless": True} if format == "WEBP" else {}
    data = saved(frames[0], format, save_all=True, append_images=frames[1:], **lossless)
    for read in (header, decode):
        with pytest.raises(BadImage, match=r"has 2 frames or pages.*\?frames=first.*\?frames=all"):
            read(data)
    assert frame_count(data) == 2
    for frames_read, frame, expected in (("first", 0, (250, 0, 0)), ("all", 1, (0, 250, 0))):
        reading = Reading(frames=frames_read)  # type: ignore[arg-type]
        assert tuple(decode(data, reading=reading, frame=frame)[0, 0]) == expected


def test_padding_is_black_and_keeps_the_ratio() -> None:
    wide = np.full((8, 32, 1), 160, np.uint8)
    square = decode(encode(wide), size=(8, 8), fit="pad")[:, :, 0]
    assert square.max(axis=1).tolist() == [0, 0, 0, 160, 160, 0, 0, 0]
    assert square.min(axis=1).tolist() == [0, 0, 0, 160, 160, 0, 0, 0]
    same = resize_pixels(wide[None], (8, 8), "pad")[0, :, :, 0]
    np.testing.assert_array_equal(same, square)


def test_a_crop_keeps_the_middle_and_a_stretch_keeps_all() -> None:
    wide = np.zeros((8, 24, 1), np.uint8)
    wide[:, 8:16] = 200
    for fit, white in (("crop", 1.0), ("stretch", 1 / 3)):
        square = decode(encode(wide), size=(8, 8), fit=fit)  # type: ignore[arg-type]
        assert abs((square > 100).mean() - white) < 0.1


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "TIFF", "BMP"])
def test_a_truncated_file_is_found_when_it_is_decoded(format: str) -> None:
    data = encode(picture(3, 40, 40), format)
    with pytest.raises(BadImage):
        decode(data[: len(data) // 2])


@pytest.mark.parametrize("side", [9_500, 60_000])
def test_a_decompression_bomb_is_refused_by_its_header(side: int) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    size = struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(99)))
    for read in (header, decode):
        with pytest.raises(BadImage, match="decompression bomb"):
            read(bomb)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["PNG", "JPEG", "WEBP", "TIFF", "BMP"]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=12),
)
def test_damaged_bytes_give_an_image_or_a_reason(
    format: str, damage: list[tuple[int, int]]
) -> None:
    data = bytearray(encode(picture(5, 12, 12), format))
    for place, value in damage:
        data[place % len(data)] = value
    try:
        pixels = decode(bytes(data))
    except BadImage:
        return
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] in (1, 3)


@pytest.mark.parametrize("error", [MemoryError(), OSError("out of memory when reading image file")])
def test_short_memory_is_no_fault_of_an_image(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A sound image was "damaged or cut short", and --skip-bad left it out."""

    def short(*_: object) -> None:
        raise error

    data = encode(picture(5, 12, 12), "PNG")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load_prepare", short)
    with pytest.raises(MemoryError):
        decode(data)
