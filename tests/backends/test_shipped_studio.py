"""The mini studio as it is shipped: whole, small, and able to draw what it is asked for."""

import shutil
from functools import cache
from urllib.parse import urlencode

import numpy as np
import pytest

from understudy.backends.embedded.shipped import STUDIO_WEIGHTS as WEIGHTS
from understudy.backends.embedded.shipped import damaged, is_shipped
from understudy.backends.registry import backends, load_decoder, load_encoder, load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Captioner, Generator

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")
MOST = 40_000_000


@cache
def pictures(*kinds, count=24):
    from understudy.playhouse import World

    world = World(64, kinds)
    return [world.draw(9_000_000 + at) for at in range(count)]


def stack(drawn):
    return np.stack([picture.image for picture in drawn])


@cache
def loaded(port):
    return load_model(port, "embedded:studio")


def test_it_is_there_whole_and_small():
    assert is_shipped(WEIGHTS)
    assert damaged(WEIGHTS) == []
    assert sum(f.stat().st_size for f in WEIGHTS.rglob("*") if f.is_file()) <= MOST
    summed = {line.partition("  ")[2] for line in (WEIGHTS / "SHA256SUMS").read_text().splitlines()}
    there = {f.relative_to(WEIGHTS).as_posix() for f in WEIGHTS.rglob("*") if f.is_file()}
    assert there - summed == {"README.md", "SHA256SUMS"}
    assert {info.name for info in backends() if info.available} >= {"embedded:studio"}


def test_a_changed_or_missing_file_is_found(tmp_path):
    copy = tmp_path / "weights"
    shutil.copytree(WEIGHTS, copy)
    network = copy / "vae" / "diffusion_pytorch_model.safetensors"
    content = bytearray(network.read_bytes())
    content[-1] ^= 1
    network.write_bytes(content)
    (copy / "clip" / "config.json").unlink()
    assert sorted(damaged(copy)) == ["clip/config.json", "vae/diffusion_pytorch_model.safetensors"]


@pytest.mark.slow
def test_it_draws_what_it_is_asked_for():
    wanted = [("brown", "sleeping"), ("black", "sitting")]
    prompts = [f"a {coat} dog {status} on the floor, blue wall" for coat, status in wanted]
    said = loaded(Captioner).attributes(loaded(Generator).generate(prompts * 6, seed=3))
    for row, (coat, status) in enumerate(wanted):
        assert np.mean([one.get("coat") == coat for one in said[row::2]]) >= 0.7
        assert np.mean([one.get("status") == status for one in said[row::2]]) >= 0.7


@pytest.mark.slow
def test_an_image_comes_back_from_its_embedding():
    encoder = load_encoder("embedded:studio", shape=(64, 64, 3))
    decoder = load_decoder("embedded:studio", shape=(64, 64, 3), encoder=encoder)
    there = encoder.encode(stack(pictures("dog", "person", count=12)))
    back = encoder.encode(decoder.decode(there, seeds=np.arange(len(there))))
    own = (there * back).sum(axis=1)
    others = (there * np.roll(back, 1, axis=0)).sum(axis=1)
    assert own.mean() >= 0.75
    assert (own > others).mean() >= 0.9


@pytest.mark.slow
def test_an_embedding_without_a_prompt_tells_its_own():
    encoder = load_encoder("embedded:studio", shape=(64, 64, 3))
    there = encoder.encode(stack(pictures("dog", count=2)))
    captioned, plain = (
        load_decoder(f"embedded:studio?steps=2{option}", shape=(64, 64, 3), encoder=encoder)
        for option in ("", "&caption=false")
    )
    captions, seeds = loaded(Captioner).captions_of(there), np.arange(2)
    with_caption = captioned.decode(there, seeds=seeds)
    without = plain.decode(there, seeds=seeds)
    np.testing.assert_array_equal(
        with_caption, captioned.decode_prompted(there, captions, seeds=seeds)
    )
    np.testing.assert_array_equal(without, plain.decode_prompted(there, [""] * 2, seeds=seeds))
    assert (with_caption != without).any()


def drawn_by_diffusers(**options):
    from understudy.backends.embedded.studio.studio_models import Studio

    return Studio().generator(options)


@pytest.mark.parametrize(
    "options", [{}, {"guidance": 1, "batch": 2}, {"negative": "a dog", "shape": "32x48x1"}]
)
def test_texts_are_drawn_to_the_bit_as_diffusers_draws_them(options, one_thread):
    """In batches, with words that are cut or mean nothing, and a prompt that comes again."""
    query = urlencode({"batch": 3, **options})
    ours, theirs = load_model(Generator, f"embedded:studio?{query}"), drawn_by_diffusers(**options)
    assert type(ours) is not type(theirs)
    dog = "a brown dog sleeping on a sofa, blue wall"
    prompts = [dog, "", "A  PERSON \u00e9 1 eating's " + "very " * 40, "x<|endoftext|>y", dog]
    for images in (ours.generate(prompts, seed=4), ours.generate(prompts[:2], seed=4)):
        expected = theirs.generate(prompts[: len(images)], seed=4)
        np.testing.assert_array_equal(images, expected)
    assert (ours.shape, ours.tasks, ours.sampling) == (theirs.shape, theirs.tasks, theirs.sampling)
    assert (ours.licence, ours.vocabulary) == (theirs.licence, theirs.vocabulary)


def test_other_tasks_are_those_of_diffusers(one_thread):
    ours, theirs = load_model(Generator, "embedded:studio"), drawn_by_diffusers()
    images, masks = stack(pictures("dog", count=2)), np.zeros((2, 64, 64), dtype=bool)
    masks[:, 16:40, 16:40] = True
    for draw in (
        lambda one: one.vary(images, ["a dog"] * 2, strength=0.5, seed=1),
        lambda one: one.inpaint(images, masks, ["a dog"] * 2, seed=1, negative="a person"),
        lambda one: one.control("edges", images, ["a dog"] * 2, seed=1),
    ):
        np.testing.assert_array_equal(draw(ours), draw(theirs))
    asked = load_model(Generator, "embedded:studio?steps=4")
    assert type(asked) is type(theirs)


def test_threads_draw_what_one_thread_draws():
    prompts, threads = [picture.caption for picture in pictures("dog", count=5)], []
    drawn, before = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            drawn.append(load_model(Generator, "embedded:studio?batch=2").generate(prompts))
            threads.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*drawn)
    assert threads == [1, 3]


@pytest.mark.slow
def test_it_draws_in_four_steps_at_any_strength():
    generator, passes = drawn_by_diffusers(), []
    generator._pipelines.network.register_forward_hook(lambda *_: passes.append(1))
    image = generator.generate(["a brown dog"])
    assert len(passes) == 4
    for strength in (0.9, 0.07):
        passes.clear()
        generator.vary(image, ["a brown dog"], strength=strength)
        assert len(passes) == 4, strength
    assert generator.sampling == "4 steps, guidance 3"
    assert load_model(Generator, "embedded:studio?steps=10").sampling == "10 steps, guidance 3"


@pytest.mark.slow
def test_its_four_steps_come_nearer_to_many_than_six_even_ones():
    prompts = [picture.caption for picture in pictures("dog", "person", count=8)]
    drawn = {
        steps: load_model(Generator, f"embedded:studio{steps}").generate(prompts, seed=1) / 255
        for steps in ("", "?steps=6", "?steps=20")
    }
    few, even = (((drawn[key] - drawn["?steps=20"]) ** 2).mean() for key in ("", "?steps=6"))
    assert few < even


def test_weights_of_another_studio_are_no_pickles(tmp_path):
    from safetensors.torch import load_file

    folder = tmp_path / "studio"
    shutil.copytree(WEIGHTS, folder)
    weights = folder / "clip" / "model.safetensors"
    torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(BackendError, match="no weights in safetensors"):
        load_model(Generator, f"embedded:studio?folder={folder}")


def test_a_studio_that_has_not_learnt_to_draw_yet_says_so(tmp_path):
    """It was looked for on the hub, under the name of its folder."""
    folder = tmp_path / "studio"
    shutil.copytree(WEIGHTS, folder, ignore=shutil.ignore_patterns("unet"))
    with pytest.raises(BackendError, match="has no folder unet: a studio draws once"):
        load_model(Generator, f"embedded:studio?folder={folder}")
