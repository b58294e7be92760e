"""``--encoder auto``: the encoder and decoder of a run that names none, and the reason."""

import json

import numpy as np
import pytest
from tests.run.samples import class_folders, embeddings, quick_run
from tests.run.stripes import CLASSES, striped_npz

from understudy.backends.registry import load_decoder, load_encoder
from understudy.data import open_source
from understudy.planning.dry import dry_run
from understudy.report import read_record
from understudy.run import codec_rules
from understudy.run.codec_rules import choose_codec, codec_roles
from understudy.run.config import make_config
from understudy.run.prepare import prepare
from understudy.run.resample import resample
from understudy.run.run_plan import NO_IMAGES
from understudy.run.synthesize import synthesize

DCT = "embedded:dct"
ENERGIES = "embedded:energies"
PHOTO = "embedded:photo"


@pytest.mark.parametrize(
    ("shape", "codec"),
    [
        ((64, 64, 3), ENERGIES),
        ((16, 100, 1), ENERGIES),
        ((256, 256, 3), ENERGIES),
        ((15, 64, 1), DCT),
        ((64, 257, 3), DCT),
        ((512,), DCT),
        (None, DCT),
    ],
)
def test_the_codec_goes_by_size(shape, codec):
    choice = choose_codec(shape)
    assert choice.codec == codec
    assert choice.reason.startswith(codec)


def test_what_is_not_installed_is_not_taken_and_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(codec_rules, "find_spec", lambda name: None)
    choice = choose_codec((64, 64, 3))
    assert choice.codec == DCT
    assert "pip install 'understudy[torch]'" in choice.reason
    assert "64 x 64, colour" in choice.reason


@pytest.mark.parametrize(
    ("named", "roles"),
    [
        ({}, (ENERGIES, ENERGIES)),
        ({"encoder": DCT}, (DCT, DCT)),
        ({"encoder": f"{DCT}?coefficients=200"}, (f"{DCT}?coefficients=200", DCT)),
        ({"encoder": PHOTO}, (PHOTO, PHOTO)),
        ({"decoder": DCT}, (DCT, DCT)),
        (
            {"decoder": f"{PHOTO}?folder=mine"},
            (PHOTO, f"{PHOTO}?folder=mine"),
        ),
        ({"encoder": "onnx:one.onnx"}, ("onnx:one.onnx", None)),
        ({"encoder": "none"}, ("none", None)),
    ],
)
def test_one_half_of_a_codec_brings_the_other(named, roles):
    assert codec_roles(named, (64, 64, 3)) == dict(zip(("encoder", "decoder"), roles, strict=True))


def test_every_image_has_a_codec_that_opens_it():
    for shape in [(1, 1, 1), (23, 25, 1), (9, 300, 3)]:
        codec = choose_codec(shape).codec
        encoder = load_encoder(codec, shape=shape)
        decoder = load_decoder(codec, shape=shape, encoder=encoder)
        images = np.zeros((1, *shape), dtype=np.uint8)
        seeds = np.zeros(1, dtype=np.uint64)
        assert decoder.decode(encoder.encode(images), seeds=seeds).shape == images.shape


def config(source, tmp_path, **options):
    ledger = str(tmp_path / "ledger.db")
    given = {"source": str(source), "out": tmp_path / "out", "epsilon": 1.0, "ledger": ledger}
    return make_config({**given, **options})


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 1), (16, 16, 1)])
def test_small_grey_images_get_what_serves_few_and_a_plan_counts_them(shape):
    choice = choose_codec(shape)
    assert choice.codec == ENERGIES
    assert choice.hint == f"; understudy plan says whether {DCT} serves as many better"
    assert not choose_codec((33, 32, 1)).hint
    assert not choose_codec((12, 12, 1)).hint


def test_the_plan_says_which_and_why_unless_one_is_named(tmp_path):
    source = class_folders(tmp_path / "scans", {"cat": 3, "dog": 3}, (12, 10, 1))
    for options in ({}, {"encoder": "auto"}, {"encoder": "auto", "decoder": "auto"}):
        notes = dry_run(config(source, tmp_path, **options)).notes
        assert [note for note in notes if "12 x 10, grey" in note and note.startswith(DCT)]
    assert not any(DCT in note for note in dry_run(config(source, tmp_path, encoder=DCT)).notes)
    vectors = embeddings(tmp_path / "vectors.npz")
    ready = prepare(config(vectors, tmp_path, encoder="auto"))
    assert ready.codec is None


def test_a_run_that_will_release_no_images_says_so_before_its_charge(tmp_path):
    """Whoever named an encoder alone paid, and found no image."""
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (32, 32, 1))
    for decoder, says in ((None, True), ("none", False), (DCT, False)):
        encoder = DCT if decoder == DCT else "embedded:scattering"
        notes = dry_run(config(source, tmp_path, encoder=encoder, decoder=decoder)).notes
        assert (NO_IMAGES in notes[:2]) == says
    vectors = embeddings(tmp_path / "vectors.npz")
    assert NO_IMAGES not in dry_run(config(vectors, tmp_path)).notes


def test_the_chosen_names_are_written_down_and_used_again(tmp_path, monkeypatch):
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (12, 10, 1))
    synthesize(source, out=tmp_path / "out", epsilon=1, ledger=str(tmp_path / "l.db"), count=8)
    settings = json.loads((tmp_path / "out/owner/run.json").read_text())["settings"]
    assert (settings["encoder"], settings["decoder"]) == (DCT, DCT)
    monkeypatch.setattr(codec_rules, "has_energies", lambda shape: True)
    more = resample(tmp_path / "out", out=tmp_path / "more", count=5)
    assert len(open_source(more.release)) == 5


def record_of(source, folder, **options):
    release = quick_run(source, folder, settings={}, **options).release
    return read_record(json.loads((release / "privacy.json").read_text()))


def test_a_record_names_the_settings_and_the_public_images_that_samples_depend_on(tmp_path):
    private, drawings = striped_npz(tmp_path / "private.npz", 90), "procedural:leaves?count=40"
    record = record_of(private, tmp_path, count=6)
    assert (record.params, record.public_sources) == ({}, ())
    assert record.facts["class_sizes"].keys() == set(CLASSES)
    assert not record.facts.keys() & {"clusters_per_class", "own_directions_per_class"}
    given = {"count": 6, "encoder": DCT, "public": drawings}
    mixture = record_of(private, tmp_path / "dct", **given)
    assert (mixture.params["filter"], mixture.public_sources) == ("none", (drawings,))
    assert set(mixture.facts["clusters_per_class"]) == set(CLASSES)


def test_public_images_that_no_sample_depends_on_are_said_to_be_of_no_use(tmp_path):
    private, drawings = striped_npz(tmp_path / "private.npz", 90), "procedural:leaves?count=40"
    for codec, is_said in (("auto", True), (DCT, False)):
        plan = dry_run(config(private, tmp_path, encoder=codec, public=drawings))
        assert any("serve --quality alone" in note for note in plan.notes) == is_said


def test_embeddings_in_blocks_that_no_decoder_matches_are_whitened_by_drawings(tmp_path):
    private = striped_npz(tmp_path / "private.npz", 90)
    ready = prepare(config(private, tmp_path, encoder=ENERGIES, decoder="none"))
    assert ready.public.name == "procedural:leaves?channels=3"
    assert prepare(config(private, tmp_path, encoder=ENERGIES)).public is None
