"""Runs that cannot finish are refused first; runs that stop on the way say what they cost."""

import errno
import sqlite3
import subprocess
import sys
import textwrap
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from tests.backends.tiny_onnx import block_means, save
from tests.plugin_packages import install
from tests.run.samples import class_folders, killed_at, quick_run, tree

import understudy
from understudy.core.entry_points import BACKENDS
from understudy.core.errors import BackendError, ConfigError, RunError, RunStopped, SecondRelease
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.safeguards import stops_explained

FULL = OSError(errno.ENOSPC, "No space left on device")
DECODE = "understudy.backends.embedded.dct.DctDecoder.decode"
WRITE = "understudy.run.session.write_release"


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return class_folders(tmp_path_factory.mktemp("private") / "scans")


@pytest.fixture
def go(scans, tmp_path):
    """A quick run of the scans into the test's folder."""
    return partial(quick_run, scans, tmp_path)


def charges(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        return [row.data["stage"] for row in ledger.rows() if row.kind == "charge"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 101.0}, "protects next to nothing.*--accept-epsilon"),
        ({"epsilon": 1e9}, "epsilon must be 10,000,000 or less, found 1000000000.0"),
        ({"epsilon": 1e300, "accept_epsilon": True}, "epsilon must be 10,000,000 or less"),
        ({"count": 10**12}, "1,000,000,000,000 samples take up to .* GB on disk"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused_before_anything_is_there(
    go, tmp_path, options, message
):
    with pytest.raises(ConfigError, match=message):
        go(**options)
    assert tree(tmp_path) == []


def test_a_large_epsilon_is_taken_where_it_is_meant(go):
    assert go(epsilon=150.0, accept_epsilon=True).receipt.epsilon == pytest.approx(150)


def test_memory_is_reckoned_with(go, monkeypatch, tmp_path):
    monkeypatch.setattr("understudy.run.safeguards.available_memory", lambda: 1000)
    with pytest.raises(ConfigError, match="of memory for their labels alone"):
        go(count=1000)
    assert tree(tmp_path) == []


def test_embeddings_take_no_room_for_images(scans, tmp_path, monkeypatch):
    """A million of them were reckoned with as if each were an image in a file."""
    free = SimpleNamespace(free=2_000_000_000)
    monkeypatch.setattr("understudy.run.safeguards.shutil.disk_usage", lambda _: free)
    options = {"epsilon": 8.0, "count": 1_000_000, "ledger": str(tmp_path / "ledger.db")}
    with pytest.raises(ConfigError, match=r"1,000,000 samples take up to .* GB on disk"):
        understudy.dry_run(scans, **options)
    assert understudy.dry_run(scans, **options, decoder="none").refused is None


@pytest.mark.parametrize("name", ["{}", "{}?folders=all", "~/scans"])
def test_a_result_inside_the_private_folder_is_refused(name, tmp_path, scans, monkeypatch):
    monkeypatch.setenv("HOME", str(scans.parent))
    before = tree(scans)
    with pytest.raises(ConfigError, match="lies inside the private dataset"):
        quick_run(name.format(scans), tmp_path, out=scans / "cat" / "out")
    assert tree(scans) == before


def test_a_result_in_the_home_folder_lies_there(go, tmp_path, monkeypatch):
    """A shell leaves the sign for it in ``--out=~/result``, as a configuration file does."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert go(out="~/result").release == tmp_path / "result" / "release"
    assert not (tmp_path / "~").exists()


def test_a_private_folder_inside_the_result_is_refused(go, scans):
    with pytest.raises(ConfigError, match="lies inside --out"):
        go(out=scans.parent)


@pytest.mark.parametrize(
    ("error", "message"),
    [(FULL, "No space left on device"), (MemoryError(), "the memory is full")],
)
def test_a_run_that_stops_says_what_it_cost_and_goes_on_for_nothing(go, tmp_path, error, message):
    said = f"{message}.*epsilon 8 was charged.*--resume"
    with killed_at(WRITE, error), pytest.raises(RunStopped, match=said):
        go()
    paid = charges(tmp_path)
    assert paid
    assert len(go(resume=True).receipt.stages) == len(paid)
    assert charges(tmp_path) == paid


def test_before_the_charge_it_says_that_nothing_was_charged(go, tmp_path):
    stopped = pytest.raises(RunStopped, match="Nothing was charged")
    with killed_at("understudy.run.session.private_cache", FULL), stopped:
        go()
    assert charges(tmp_path) == []


@pytest.mark.parametrize(
    ("begun", "stands"),
    [(True, "Nothing was charged. --resume goes on with"), (False, "no folder was begun$")],
)
def test_a_stop_offers_to_resume_what_was_begun_alone(tmp_path, begun, stands):
    out = tmp_path if begun else tmp_path / "out"
    with pytest.raises(RunStopped, match=stands), stops_explained(out):
        raise OSError(errno.EROFS, "Read-only file system")


def test_a_second_answer_for_one_charge_is_not_said_to_be_free(tmp_path):
    def stop():
        with stops_explained(tmp_path) as charged:
            charged.append("epsilon 1 was charged")
            raise SecondRelease("another value")

    with pytest.raises(RunStopped, match="pays for its stage again"):
        stop()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_ledger_that_is_lost_as_it_charges_leaves_a_run_that_goes_on(
    go, tmp_path, monkeypatch, is_written
):
    """It was said that nothing was charged, and the folder that had paid was removed."""

    kinds, append = [], Ledger._append

    def note_kinds(ledger, connection, entries):
        kinds.extend(entry["kind"] for entry in entries)
        append(ledger, connection, entries)

    def lose(connection):
        is_charge = "charge" in kinds
        if is_written or not is_charge:
            connection.execute("COMMIT")
        if is_charge:
            raise sqlite3.OperationalError("the server went away")

    said = "went away.*--resume goes on with .*charges what is not charged yet"
    with monkeypatch.context() as lost:
        lost.setattr(Ledger, "_append", note_kinds)
        lost.setattr("understudy.privacy.ledger.database.commit", lose)
        with pytest.raises(RunStopped, match=said):
            go()
    assert bool(charges(tmp_path)) == is_written
    stages = [one.stage for one in go(resume=True).receipt.stages]
    assert sorted(charges(tmp_path)) == sorted(stages)


@pytest.mark.parametrize(
    "answer", [None, np.zeros((0, 8, 8, 1), np.uint8), np.zeros((1, 8, 8, 1), np.float32)]
)
def test_a_decoder_that_makes_no_images_is_refused_before_the_charge(go, tmp_path, answer):
    wrong = patch(DECODE, return_value=answer)
    with wrong, pytest.raises(BackendError, match=r"refused: asked for an image.*Nothing was"):
        go()
    assert charges(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_a_decoder_that_fails_is_named_before_the_charge_and_leaves_no_folder(go, tmp_path):
    said = r"embedded:dct.* is refused: .*\(ValueError: of two sizes\).*Nothing was charged"
    broken = patch(DECODE, side_effect=ValueError("of two sizes"))
    with broken, pytest.raises(BackendError, match=said):
        go()
    assert charges(tmp_path) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [ValueError("a fault"), RunError("a fault")])
def test_an_error_on_the_way_says_what_was_charged(go, tmp_path, error):
    with killed_at(WRITE, error), pytest.raises(type(error), match="a fault") as stopped:
        go()
    (note,) = stopped.value.__notes__
    assert "epsilon 8 was charged before this" in note
    paid = charges(tmp_path)
    go(resume=True)
    assert charges(tmp_path) == paid


@pytest.mark.parametrize("error", [ValueError, OSError, SystemExit])
def test_a_plug_in_that_fails_as_it_samples_is_named_and_the_run_goes_on(
    go, tmp_path, monkeypatch, error
):
    """It ended in a traceback, or blamed the folder of the release, or said nothing at all."""
    points = {BACKENDS: {"painter": "painter:backend"}}
    painter = PAINTER.replace("ValueError", error.__name__)
    install(tmp_path / "site", "somebodys-painter", {"painter": painter}, points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "painter", raising=False)
    said = r"the plug-in somebodys-painter \(.*painter.py, line \d+\) failed: "
    said += f"{error.__name__}: no paint"
    said += r"\. epsilon 8 was charged before this, once and for good: --resume goes on with"
    monkeypatch.setenv("NO_PAINT", "1")
    with pytest.raises(RunStopped, match=said) as stopped:
        go(decoder="painter:")
    assert isinstance(stopped.value.__cause__, error)
    paid = charges(tmp_path)
    monkeypatch.delenv("NO_PAINT")
    go(decoder="painter:", resume=True)
    assert charges(tmp_path) == paid


@pytest.mark.slow
def test_a_runtime_that_fails_late_is_named_as_a_plug_in_is(go, tmp_path, monkeypatch):
    """Of ONNX Runtime it was bad input after a charge; of the hub's it ended in a traceback."""
    encoder = f"onnx:{block_means(tmp_path / 'encoder.onnx', 1)}"
    steps = [
        ("Shape", ["latents"], ["shape"], {}),
        ("Gather", ["shape", "first"], ["rows"], {}),
        ("Gather", ["ones", "rows"], ["one"], {}),  # which there is for three rows at most
        ("Mul", ["latents", "one"], ["same"], {}),
        ("Resize", ["same", "", "scales"], ["images"], {"mode": "nearest"}),
    ]
    sizes = {"latents": ["n", 1, 2, 2]}, {"images": ["n", 1, 8, 8]}
    weights = {"first": np.array(0), "ones": np.ones(4, np.float32)}
    weights["scales"] = np.array([1, 1, 4, 4], np.float32)
    decoder = f"onnx:{save(tmp_path / 'decoder.onnx', steps, *sizes, weights)}"
    stands = r".*\. epsilon 8 was charged before this, once and for good: --resume goes on with"
    with pytest.raises(RunStopped, match="decoder.onnx: cannot run on 1x2x2" + stands):
        go(encoder=encoder, decoder=decoder)

    transformers = pytest.importorskip("transformers")
    from tests.backends.tiny_models.clip import dino

    place, forward = dino(tmp_path / "dino"), transformers.Dinov2Model.forward
    out = tmp_path / "of the hub"

    def late(network, *args, **kwargs):
        if out.exists():
            network.layernorm(*args, "one too many")
        return forward(network, *args, **kwargs)

    monkeypatch.setattr(transformers.Dinov2Model, "forward", late)
    options = {"encoder": f"hf:{place}", "decoder": "none", "out": out}
    with pytest.raises(RunStopped, match=r"torch \(.*module.py, line \d+\) failed: TypeError: "):
        go(**options)


PAINTER = """
import os
from understudy.backends.embedded.dct import DctDecoder, DctOptions

class Painter(DctDecoder):
    def pixels(self, embeddings):
        if len(embeddings) > 1 and "NO_PAINT" in os.environ:  # not the one before the charge
            raise ValueError("no paint")
        return super().pixels(embeddings)

class backend:
    def models(self):
        return []

    def decoder(self, rest, shape, encoder, **options):
        painter = Painter(shape, DctOptions())
        painter.name = "painter:"
        return painter

backend = backend()
"""


def test_an_interrupt_says_the_same(go):
    with killed_at(WRITE, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt) as stopped:
        go()
    assert "epsilon 8 was charged" in stopped.value.__notes__[0]


@pytest.mark.parametrize("command", ["synthesize", "select"])
def test_who_interrupts_a_run_that_opens_hears_that_nothing_was_charged(command, scans, tmp_path):
    choice = {"keep": "50%", "private": scans, "no_guarantee": True}
    options = {"synthesize": {"epsilon": 1.0}, "select": choice}[command]
    opening = "understudy.data.open_source.open_class_folders"
    with killed_at(opening, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt) as stopped:
        getattr(understudy, command)(scans, out=tmp_path / "out", progress="none", **options)
    assert stopped.value.__notes__ == ["Nothing was charged, and no folder was begun"]


@pytest.mark.parametrize("place", ["understudy.data.open_source.open_class_folders", DECODE])
def test_a_runtime_that_is_short_of_memory_before_the_charge_says_so(go, tmp_path, place):
    """By oneDNN's words the first ended in a traceback, and the second blamed the decoder."""
    short = RuntimeError("could not create a primitive")
    said = r"the memory is full \(could not create a primitive\)\. Nothing was charged"
    with killed_at(place, short), pytest.raises(RunStopped, match=said):
        go()
    assert charges(tmp_path) == []


@pytest.mark.slow
def test_a_full_disk_ends_the_command_with_a_message(scans, tmp_path):
    """The system refuses files above 400,000 bytes, so the release cannot be written."""
    script = textwrap.dedent(
        """
        import resource, sys
        from understudy.cli.main import main
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        sys.argv = ["understudy", *sys.argv[1:]]
        main()
        """
    )
    values = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    np.savez(
        tmp_path / "vectors.npz", embeddings=values, labels=np.where(values[:, 0] > 0, "a", "b")
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "synthesize", str(tmp_path / "vectors.npz"), "--epsilon",
         "8", "--count", "200000", "--out", str(tmp_path / "out"), "--ledger",
         str(tmp_path / "ledger.db"), "--set", "clusters=1", "--progress", "none"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "File too large" in ended.stderr
    assert "epsilon 8 was charged" in ended.stderr
