"""Ray: the same sums bit for bit, each block once, whatever is lost; no record is left in it."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.processes import WHOLE
from tests.run.samples import class_folders

from understudy import synthesize
from understudy.core.errors import ConfigError, RunError, UnsupportedTask
from understudy.core.types import Batch
from understudy.data import open_source
from understudy.data.holdout import HoldOut, split
from understudy.engine.local import LocalEngine
from understudy.planning.dry import dry_run
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import Cells, Counts
from understudy.privacy.rows import DistantRecords
from understudy.privacy.sums import BlockSum
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault
from understudy.run.config import make_config
from understudy.run.synthesize import run


def same(one, two):
    """Whether two batches hold the same records."""
    units = (one.units is None and two.units is None) or np.array_equal(one.units, two.units)
    return units and all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in ("values", "labels")
    )


def opened(folder, kind):
    rng = np.random.default_rng(0)
    labels, person = np.arange(50) % 3, np.array([f"p{i}" for i in rng.integers(0, 9, 50)])
    if kind == "folder":
        return open_source(class_folders(folder / "scans", {"a": 30, "b": 20}))
    values = rng.normal(size=(50, 4)).astype(np.float32)
    if kind == "bad rows":
        values[[3, 30]] = np.nan
    save = np.savez_compressed if kind == "compressed" else np.savez
    save(folder / "d.npz", embeddings=values, labels=labels, person=person)
    unit = "person" if kind != "bad rows" else None
    return open_source(folder / "d.npz", unit=unit, skip_bad=kind == "bad rows")


@pytest.mark.parametrize("kind", ["folder", "stored", "compressed", "bad rows", "held out"])
def test_records_are_the_same_at_any_position_as_in_a_stream(kind, tmp_path):
    source = opened(tmp_path, kind)
    if kind == "held out":
        source = split(source, HoldOut(bytes([7] * 32), 0.3, "person")).members
    (whole,) = source.batches(100)
    for positions in ([0, 1, 2], [5, 9, 10, 29], [29, 30], [0], range(len(source)), [7]):
        index = np.array([one for one in positions if one < len(source)], dtype=np.int64)
        part = source.read(index)
        assert np.array_equal(part.values, whole.values[index])
        assert np.array_equal(part.labels, whole.labels[index])
        if source.has_units:
            assert part.units.tolist() == [list(source.units())[i] for i in index]


def test_a_block_that_is_delivered_twice_counts_once_and_a_lost_one_ends_the_run():
    total = BlockSum(1, 2)
    for block in (0, 1, 1, 0):
        total.add(block, np.array([[1, block]]))
    assert total.total(2).tolist() == [[2, 1]]
    with pytest.raises(RunError, match=r"2 of 3 blocks.*Nothing was released"):
        total.total(3)


def test_a_full_disk_ends_the_embedding_of_a_block_and_the_next_one_is_whole():
    """A last write that was cut short was no error: the rest was read from the next block."""

    class Rows:
        classes = ("a",)

        def read(self, index):
            values = np.repeat(index[:, None].astype(np.float32), 256, axis=1)
            return Batch(values, np.zeros(len(index), np.int64))

    records = DistantRecords(Rows(), lambda values: values, 64)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1499 * 256 * 4, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            records.block((0, np.arange(1500), None))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for number, index in ((1, np.arange(1500, 3000)), (0, np.arange(1500))):
        values, _, _ = records.block((number, index, None))
        assert values[:, 0].tolist() == index.tolist()
    records._file.close()


class Repeating(LocalEngine):
    """An engine that delivers every result twice, as a worker may that was thought lost."""

    def map(self, function, items):
        for result in super().map(function, items):
            yield result
            yield result


@pytest.mark.parametrize("engine", [LocalEngine, Repeating])
def test_a_sum_has_every_record_once_whatever_the_engine_repeats(engine, tmp_path):
    class Unpaid:
        unit = Unit()

        def release(self, query, stage, total):
            return total(2.0**-10) / 1023  # a clipped 1 is cut to whole steps

    source = opened(tmp_path, "bad rows")
    vault = PrivateVault(source, Unpaid(), engine(2), tmp_path)
    counts = vault.release(Counts(Cells(np.zeros((3, 1, 4)))), stage="counts")
    (whole,) = source.batches(100)
    assert counts[:, 0].tolist() == np.bincount(whole.labels).tolist()


def test_options_of_ray_without_ray_are_refused():
    with pytest.raises(ConfigError, match="--engine ray"):
        make_config({"source": "x", "out": "y", "epsilon": 1.0, "ray_address": "127.0.0.1:6379"})


def test_a_cluster_on_other_machines_is_refused_unless_it_is_vouched_for(monkeypatch):
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")
    for address in ("203.0.113.7", "2001:db8::7"):
        with pytest.raises(ConfigError, match=r"another machine.*--ray-trusted.*Nothing was spent"):
            ray_engine.require_this_machine([address])
    ray_engine.require_this_machine(["127.0.0.1"])


def test_an_address_on_another_machine_is_refused_in_the_dry_run_too(tmp_path):
    """Before anything is sent there: a stranger's cluster would be shown this process's token."""
    pytest.importorskip("understudy.engine.ray_engine")
    source = {"source": "procedural:rings?count=40", "engine": "ray", "size": 16}
    source |= {"ledger": str(tmp_path / "l.db"), "epsilon": 1.0}
    for address in ("203.0.113.7:6379", "[2001:db8::7]:6379", "ray://203.0.113.7:10001"):
        for function in (dry_run, run):
            config = make_config({**source, "out": tmp_path / "out", "ray_address": address})
            with pytest.raises(ConfigError, match=r"another machine.*--ray-trusted"):
                function(config)
    config = make_config({**source, "out": tmp_path / "out", "ray_address": "127.0.0.1:6379"})
    assert not dry_run(config).refused


def test_an_address_where_no_cluster_is_is_said_at_once(monkeypatch):
    """Ray itself asks again for minutes."""
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")
    monkeypatch.setattr(ray_engine.ray, "init", lambda *_, **__: pytest.fail("Ray was asked"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for place in (address, "[::1]:1", "127.0.0.1:99999"):
            match = f"no Ray cluster answers at {re.escape(place)}"
            with pytest.raises(RunError, match=match), ray_engine.ray_engine(place):
                pass


OPEN_CLUSTER = """
import subprocess, sys
from ray.cluster_utils import Cluster

cluster = Cluster()
cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
driver = "import sys; from understudy.engine.ray_engine import ray_engine\\n"
driver += "with ray_engine(sys.argv[1]): pass"
print(cluster.head_node.get_session_dir_path())
subprocess.run([sys.executable, "-c", driver, cluster.address])
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_cluster_that_was_started_without_the_token_is_told_from_one_that_is_lost():
    """Its workers cannot reach this process, which asks for the token."""
    pytest.importorskip("understudy.engine.ray_engine")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", OPEN_CLUSTER], capture_output=True, text=True, check=False, env=bare
    )
    shutil.rmtree(done.stdout.strip().splitlines()[-1], ignore_errors=True)
    assert "without this process's token" in done.stderr


LOCAL_CLUSTER = """
import os, sys
from pathlib import Path
from understudy.engine.ray_engine import ray, ray_engine

with ray_engine(*sys.argv[1:]):
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    print(session, [oct(one.stat().st_mode & 0o777) for one in (session, *session.parents)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("address", [[], ["local"]])
def test_other_accounts_cannot_look_into_a_cluster_that_is_started_here(address):
    """Ray opens its own folders to everybody; and another cluster's address is not looked at."""
    pytest.importorskip("understudy.engine.ray_engine")
    done = subprocess.run(
        [sys.executable, "-c", LOCAL_CLUSTER, *address],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RAY_ADDRESS": "203.0.113.7:6379"},
    )
    assert done.returncode == 0, done.stderr
    session, modes = done.stdout.strip().split(" ", 1)
    assert "'0o700'" in modes, (session, modes)
    assert not Path(session).exists()


SIZES = {"dog": 230, "person": 170}
METHODS = {
    "clustering": {"settings": {"clusters": 2, "components": 12}, "quality_share": "5%"},
    "alignment": {
        "base": "base",
        "encoder": "embedded:dct",
        "decoder": "embedded:dct",
        "settings": {"clusters": 2, "partition": "matched", "second_moment": True},
    },
    "evolution": {
        "generator": "embedded:studio?steps=2",
        "settings": {"rounds": 2, "population": 8, "lookahead": 0},
    },
}


class Sums:
    """The exact sums of a run by their stages, before noise."""

    def __init__(self, monkeypatch):
        self.of_run = {}
        release = Account.release

        def recorded(account, query, stage, total, step=0):
            exact = total(query.grid(account.sigma(query, stage)), 1.0)
            self.of_run[stage] = exact.copy()
            return release(account, query, stage, lambda *_: exact, step)

        monkeypatch.setattr(Account, "release", recorded)

    def taken(self):
        sums, self.of_run = self.of_run, {}
        return sums


@pytest.fixture
def cluster():
    """A function from a number of nodes to a cluster; it ends with the test."""
    pytest.importorskip("understudy.engine.ray_engine")
    from ray.cluster_utils import Cluster

    clusters = []

    def start(nodes):
        for cluster in clusters:
            cluster.shutdown()
        clusters[:] = [Cluster()]
        for _ in range(nodes):
            clusters[0].add_node(num_cpus=2 if nodes == 1 else 1, object_store_memory=80 << 20)
        return clusters[0]

    yield start
    for cluster in clusters:
        session = cluster.head_node.get_session_dir_path()
        cluster.shutdown()
        shutil.rmtree(session, ignore_errors=True)


def charges(ledger):
    with Ledger(str(ledger)) as book:
        return sum(row.kind == "charge" for row in book.rows())


@pytest.mark.minutes
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_sums_of_one_node_three_and_three_without_one_are_those_of_here(
    method, cluster, tmp_path, monkeypatch
):
    import ray

    from understudy.engine.ray_engine import RayEngine

    if method == "evolution":
        pytest.importorskip("diffusers")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")
    source = class_folders(tmp_path / "scans", SIZES, seed=1)
    class_folders(tmp_path / "base", {"dog": 50, "person": 50}, seed=2)
    options = {**METHODS[method], "method": method, "epsilon": 4.0, "progress": "none"}
    options["ledger"] = str(tmp_path / "ledger.db")
    if "base" in options:
        options["base"] = str(tmp_path / "base")
    sums = Sums(monkeypatch)
    synthesize(source, out=tmp_path / "here", **options)
    here, charged = sums.taken(), charges(tmp_path / "ledger.db")
    assert sum(abs(part).sum() for part in here.values()) > 0
    for name, nodes in (("one", 1), ("three", 3), ("lost", 3)):
        nodes_of_run = cluster(nodes)
        if name == "lost":
            self_map, maps = RayEngine.map, []

            def losing(
                engine,
                function,
                items,
                homes=None,
                *,
                cluster=nodes_of_run,
                maps=maps,
                call=self_map,
            ):
                maps.append(engine)
                for number, result in enumerate(call(engine, function, items, homes)):
                    if len(maps) == 2 and number == 1:
                        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                        while sum(node["Alive"] for node in ray.nodes()) > 2:
                            time.sleep(0.1)  # its actor works until its loss is known
                    yield result

            monkeypatch.setattr(RayEngine, "map", losing)
        # The run as it was killed after its last answer: the same queries of the same records.
        shutil.copytree(tmp_path / "here", tmp_path / name)
        shutil.rmtree(tmp_path / name / "release")
        (tmp_path / name / "owner" / "run.json").unlink()
        address = nodes_of_run.address
        synthesize(
            source, out=tmp_path / name, resume=True, engine="ray", ray_address=address, **options
        )
        there = sums.taken()
        assert there.keys() == here.keys()
        assert [stage for stage in here if not np.array_equal(here[stage], there[stage])] == []
        assert charges(tmp_path / "ledger.db") == charged
        if name == "lost":
            assert maps[-1].workers == 3
            assert len(maps[-1].alive) == 2


@pytest.mark.slow
def test_a_network_is_trained_and_sampled_by_workers_and_the_run_is_gone_on_with_here(
    cluster, tmp_path, monkeypatch
):
    """What maps records was sent with the vault in it, which no worker may have."""
    from understudy.backends.embedded.denoiser import PatchNetwork

    def refuse(*_, **__):
        raise AssertionError("the driver samples by itself")

    source = class_folders(tmp_path / "scans", {"dog": 40, "person": 30}, seed=1)
    settings = {"steps": 2, "images": 16, "pretraining": 2, "solver_steps": 2, "multiplicity": 1}
    options = {"method": "finetuning", "settings": settings, "epsilon": 4.0, "progress": "none"}
    options |= {
        "denoiser": "embedded:denoiser?width=16&depth=1",
        "count": 70,
        "out": tmp_path / "o",
    }
    options["ledger"] = str(tmp_path / "ledger.db")
    with monkeypatch.context() as patch:
        patch.setattr(PatchNetwork, "predict", refuse)
        synthesize(source, engine="ray", ray_address=cluster(1).address, **options)
    first = {path.name: path.read_bytes() for path in tmp_path.glob("o/release/**/*.png")}
    shutil.rmtree(tmp_path / "o" / "release")
    (tmp_path / "o" / "owner" / "run.json").unlink()
    synthesize(source, resume=True, **options)
    again = {path.name: path.read_bytes() for path in tmp_path.glob("o/release/**/*.png")}
    assert len(first) == 70
    assert again == first


class Painter:
    """A decoder of one pixel: its embedding, its seed, and the size of its block."""

    name, shape, dim, licence, stochastic, block = "painter", (1, 1, 3), 1, "none", True, 4

    def decode(self, embeddings, *, seeds):
        sizes = np.full(len(seeds), len(seeds))
        return np.stack([embeddings[:, 0], seeds, sizes], axis=1).astype(np.uint8)[:, None, None]


def painted(decoder, count=30):
    return decoder.decode(np.arange(count)[:, None], seeds=np.arange(count) + 100)


ONE_BLOCK_EACH = np.array([[i, i + 100, 4 if i < 28 else 2] for i in range(30)])


class Scribe:
    """A generator of one pixel: the length of its prompt, its row and seed in one, its block."""

    name, shape, licence, tasks, block = "scribe", (1, 1, 3), "none", frozenset({"text"}), 4

    def generate(self, prompts, *, seed=0):
        return self.generate_rows(prompts, np.arange(len(prompts)), seed=seed)

    def generate_rows(self, prompts, rows, *, seed):
        pixels = [
            [len(text), row + seed, len(rows)] for text, row in zip(prompts, rows, strict=True)
        ]
        return np.array(pixels, np.uint8).reshape(-1, 1, 1, 3)

    def vary(self, images, prompts, *, strength, seed=0):
        raise UnsupportedTask("variation")

    inpaint = control = vary


@pytest.mark.parametrize("blocks", ["reversed", "twice", "lost"])
def test_images_lie_in_their_places_in_whatever_order_blocks_come(blocks):
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")

    class Disordered(ray_engine.RayEngine):
        def map(self, function, items, homes=None):
            results = [function(item) for item in items][::-1]
            yield from {"reversed": results, "twice": results * 2, "lost": results[1:]}[blocks]

    engine, decoder = Disordered([]), Painter()
    assert engine.decoder(decoder) is decoder  # the workers do not have it
    engine.share(decoder)
    distant = engine.decoder(decoder)
    if blocks == "lost":
        with pytest.raises(RunError, match="1 of 8 blocks of images are lost"):
            painted(distant)
        return
    assert np.array_equal(painted(distant)[:, 0, 0], ONE_BLOCK_EACH)
    assert painted(distant, 0).shape == (0, 1, 1, 3)
    generator = Scribe()
    assert engine.generator(generator) is generator
    engine.share(generator)
    distant = engine.generator(generator)
    written = distant.generate(["x" * i for i in range(30)], seed=100)
    assert np.array_equal(written[:, 0, 0], ONE_BLOCK_EACH)
    assert distant.generate([]).shape == (0, 1, 1, 3)


@pytest.mark.slow
def test_a_block_of_a_worker_that_dies_is_decoded_by_another(cluster, tmp_path):
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")
    numbers = 2 * ray_engine.PIECE  # of an embedding: a block comes in pieces

    class Mortal(Painter):
        def decode(self, embeddings, *, seeds):
            assert embeddings.shape[1:] == (numbers,)
            with (tmp_path / "blocks").open("a") as file:
                file.write(f"{os.getpid()} {seeds[0]}\n")
            time.sleep(0.5 if seeds[0] == 100 else 0.1)  # the first is not the first one done
            if seeds[0] == 108 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().decode(embeddings, seeds=seeds)

    with ray_engine.ray_engine(cluster(3).address) as engine:
        decoder = Mortal()
        engine.share(decoder)
        distant = engine.decoder(decoder)
        embeddings = np.repeat(np.arange(30, dtype=np.float32)[:, None], numbers, axis=1)
        images = distant.decode(embeddings, seeds=np.arange(30) + 100)
        assert (engine.workers, len(engine.alive)) == (3, 2)
    assert np.array_equal(images[:, 0, 0], ONE_BLOCK_EACH)
    lines = [line.split() for line in (tmp_path / "blocks").read_text().splitlines()]
    assert sorted(int(first) for _, first in lines).count(108) == 2
    assert len({process for process, _ in lines}) == 3
    assert str(os.getpid()) not in {process for process, _ in lines}


@pytest.mark.slow
def test_workers_that_search_images_release_those_of_here(cluster, tmp_path, monkeypatch):
    from understudy.backends.embedded.energies.energy_models import EnergyDecoder

    source = class_folders(tmp_path / "scans", {"dog": 60, "person": 60}, (24, 24, 1))
    options = {"epsilon": 4.0, "count": 150, "progress": "none"}
    options |= {"encoder": "embedded:energies", "decoder": "embedded:energies"}
    options["ledger"] = str(tmp_path / "ledger.db")
    synthesize(source, out=tmp_path / "here", **options)
    # As it was killed after its last answer, so that the noise is the same.
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "there" / "release")
    (tmp_path / "there" / "owner" / "run.json").unlink()

    def refuse(*_, **__):
        raise AssertionError("the driver searches by itself")

    monkeypatch.setattr(EnergyDecoder, "match", refuse)
    address = cluster(1).address
    synthesize(
        source, out=tmp_path / "there", resume=True, engine="ray", ray_address=address, **options
    )
    names = sorted(path.relative_to(tmp_path / "here") for path in tmp_path.glob("here/**/*.png"))
    assert len(names) > 150
    for name in names:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


@pytest.mark.slow
def test_images_of_texts_that_workers_draw_are_those_of_here(cluster, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from understudy.backends.embedded.studio.studio_generator import StudioGenerator

    draw = StudioGenerator.generate_rows

    def refuse(generator, prompts, rows, *, seed):
        assert len(prompts) <= 1, "the driver draws by itself"  # one before the charge, as a check
        return draw(generator, prompts, rows, seed=seed)

    source = class_folders(tmp_path / "scans", {"dog": 40, "person": 40}, (64, 64, 3))
    options = {"method": "evolution", "epsilon": 4.0, "count": 40, "progress": "none"}
    options["settings"] = {"rounds": 1, "population": 4, "lookahead": 0}
    options["ledger"] = str(tmp_path / "ledger.db")
    synthesize(source, out=tmp_path / "here", **options)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "there" / "release")
    (tmp_path / "there" / "owner" / "run.json").unlink()
    shutil.rmtree(tmp_path / "there" / "owner" / "kept")  # so that candidates are drawn anew, too
    monkeypatch.setattr(StudioGenerator, "generate_rows", refuse)
    address = cluster(1).address
    synthesize(
        source, out=tmp_path / "there", resume=True, engine="ray", ray_address=address, **options
    )
    names = sorted(path.relative_to(tmp_path / "here") for path in tmp_path.glob("here/**/*.png"))
    assert len(names) > 40
    for name in names:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


@pytest.mark.slow
def test_the_cluster_is_not_told_the_command_of_a_run(cluster):
    """The password of a ledger may be among its words."""
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")
    with ray_engine.ray_engine(cluster(1).address):
        jobs = ray_engine.ray._private.state.state.job_table()
        assert [job["Entrypoint"] for job in jobs] == ["understudy"]


@pytest.mark.slow
def test_no_image_and_no_path_is_in_the_folders_of_ray(cluster, tmp_path):
    rng = np.random.default_rng(0)
    mark = rng.integers(0, 256, (1, 16, 16, 1), dtype=np.uint8)  # a quarter kilobyte of its own
    images = np.repeat(mark, 3000, axis=0)
    folder = tmp_path / "ward-of-agnes-nitt"
    folder.mkdir()
    np.savez(folder / "scans.npz", images=images, labels=np.arange(3000) % 2)
    nodes = cluster(1)
    session = nodes.head_node.get_session_dir_path()
    command = [sys.executable, "-c", WHOLE, "synthesize"]
    command += [folder / "scans.npz", "--epsilon", "1", "--out", tmp_path / "out", "--yes"]
    command += ["--ledger", tmp_path / "ledger.db", "--engine", "ray"]
    command += ["--ray-address", nodes.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    searched, size = 0, 0
    for root, _, names in os.walk(session):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                content = Path(path).read_bytes()
                searched, size = searched + 1, size + len(content)
                assert b"agnes" not in content, path
                assert mark.tobytes() not in content, path
                assert mark.tobytes()[:48] not in content, path
    assert searched > 10
    assert size > 1000


@pytest.mark.slow
def test_no_file_of_the_folder_that_one_is_in_is_run(cluster, tmp_path, monkeypatch):
    """Ray adds that folder to where its workers import from, before all others."""
    ray_engine = pytest.importorskip("understudy.engine.ray_engine")
    for name in ("numpy", "understudy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_engine, "_START_SECONDS", 20.0)
    with ray_engine.ray_engine(cluster(1).address) as engine:
        assert engine.workers
    assert not (tmp_path / "ran").exists()
