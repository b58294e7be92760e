"""Workers: killed anywhere, a job goes on after its last whole stage, with the same result."""

import itertools
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event

import pytest
from tests.server.site import CANARY, CLASSES, NOUN, Device, DigestPipeline, Server, submitted

from understudy.methods.sanitize.signed_results import decode_model
from understudy.server import worker
from understudy.server.job_store import ATTEMPTS, DAY, TOMBSTONE, JobRow, Quotas
from understudy.server.sealed_folders import JobFolders, JobGoneError
from understudy.server.worker import LEASE, Worker, WorkerPool

WATCHED = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}
"""Events before which a process is killed: whatever changes what is on disk."""


def row_of(server: Server, job: str) -> JobRow:
    row = server.store.job(job)
    assert row is not None
    return row


def model_of(server: Server, job: str) -> bytes:
    row = row_of(server, job)
    assert row.state == "done", row
    return decode_model(server.service.model(row), server.service.keys.public_key)[1]


def killed(server: Server, point: int, act: Callable[[Server], object]) -> bool:
    """Whether a process that opens the server's folder and acts got to its ``point``-th event.

    There it kills itself. It is forked, for importing everything again takes seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the thread of the client has no locks
        child = os.fork()
    if child == 0:
        code = 1
        try:
            again, count = Server(server.folder, now=server.now), itertools.count(1)

            def watch(event: str, arguments: object) -> None:
                if event in WATCHED and next(count) == point:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(watch)
            act(again)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def take_one(server: Server) -> None:
    Worker(server.service, "killed").take_one()


def kill_everywhere(server: Server, device: Device, points: range) -> tuple[int, set[bytes]]:
    """The kills that happened, and the models that the jobs gave in the end."""
    job = device.send(submitted())
    server.store.close()
    before = server.folder.with_name("before")
    shutil.copytree(server.folder, before)
    kills, models = 0, set()
    for point in points:
        shutil.rmtree(server.folder)
        shutil.copytree(before, server.folder)
        ran: list[str] = []
        again = Server(server.folder, pipeline=DigestPipeline(ran.append))
        died = killed(again, point, take_one)
        kills += died
        assert again.service.sweep() == 0
        again.store.release("killed")
        row = row_of(again, job)
        finished = row.finished
        assert again.work() == (row.state != "done")
        assert len(ran) <= 4 - finished
        models.add(model_of(again, job))
        assert not again.service.folders.exists(job, "items") or not died
        again.service.sweep()
        for folder in ("items", "stages"):
            assert not again.service.folders.exists(job, folder)
        again.store.close()
    return kills, models


@pytest.mark.parametrize(
    ("points", "least"),
    [
        (range(20, 81, 30), 3),
        pytest.param(range(1, 201, 2), 50, marks=pytest.mark.slow),  # each of its steps
    ],
)
def test_a_killed_worker_s_job_goes_on_with_the_same_result(
    server: Server, device: Device, points: range, least: int
) -> None:
    kills, models = kill_everywhere(server, device, points)
    assert kills >= least
    assert len(models) == 1


def kill_the_server(server: Server, step: int) -> int:
    """The kills that happened while a device submitted; the device begins again each time."""
    job, kills, models = submitted(references=2), 0, set()
    token = server.token()

    def send(again: Server) -> None:
        owner, _ = again.service.access(bytes.fromhex(token), "0" * 32)
        assert owner is not None
        sent = again.service.submit(owner, job.submission).job
        for digest, data in job.items.items():
            again.service.put_item(row_of(again, sent), digest, data)
        again.service.start(row_of(again, sent))

    died = True
    while died:
        died = killed(server, step * (kills + 1), send)
        kills += died
        with server.client() as client:
            device = Device(client, token)
            sent = device.send(job)
            assert server.work()
            models.add(model_of(server, sent))
            device.call("DELETE", f"/v1/jobs/{sent}")
        server.service.sweep()
        server.now += DAY  # a folder that was being made when the server was killed goes, too
        server.service.sweep()
        assert server.service.folders.jobs() == set()
        server.now += TOMBSTONE
        server.service.sweep()
    assert len(models) == 1
    return kills


@pytest.mark.parametrize(("step", "least"), [(13, 2), pytest.param(1, 30, marks=pytest.mark.slow)])
def test_a_server_that_is_killed_makes_one_job_of_it(server: Server, step: int, least: int) -> None:
    assert kill_the_server(server, step) >= least


def test_stages_that_are_on_disk_are_not_run_again(server: Server, device: Device) -> None:
    ran: list[str] = []

    def trace(stage: str) -> None:
        ran.append(stage)
        if ran.count("train") == 1 and stage == "train":
            raise SystemExit  # what ends a process, and is no failure of the job

    server.pipeline._trace = trace
    job = device.send(submitted())
    with pytest.raises(SystemExit):
        server.work()
    assert device.state("GET", f"/v1/jobs/{job}").finished == 2
    assert not server.work()  # the lease of the first holds
    server.now += LEASE
    assert server.work()
    assert ran == ["customise", "compose", "train", "train", "export"]


def test_a_worker_whose_lease_is_over_changes_nothing(server: Server, device: Device) -> None:
    def trace(stage: str) -> None:
        if stage == "compose" and not late:
            late.append(stage)
            server.now += LEASE
            taken.append(server.work())

    late: list[str] = []
    taken: list[bool] = []
    server.pipeline._trace = trace
    job = device.send(submitted())
    assert server.work()
    assert taken == [True]
    state = device.state("GET", f"/v1/jobs/{job}")
    assert (state.state, state.finished) == ("done", 4)
    assert model_of(server, job)


def test_a_job_that_kills_its_workers_fails_in_the_end(server: Server, device: Device) -> None:
    def trace(stage: str) -> None:
        raise SystemExit

    server.pipeline._trace = trace
    job = device.send(submitted())
    for _ in range(ATTEMPTS):
        with pytest.raises(SystemExit):
            server.work()
        server.now += LEASE
    assert not server.work()
    state = device.state("GET", f"/v1/jobs/{job}")
    assert (state.state, state.failure) == ("failed", "crashed")


def test_no_device_s_jobs_keep_another_one_waiting(tmp_path: Path) -> None:
    """Three devices, one of which submits everything first: their jobs are taken in turn."""
    server = Server(tmp_path / "server", quotas=Quotas(open_jobs=20))
    with server.client() as client:
        devices = [Device(client, server.token()) for _ in range(3)]
        jobs: dict[str, int] = {}
        for number, count in ((0, 6), (1, 2), (2, 2)):
            for _ in range(count):
                jobs[devices[number].send(submitted())] = number
                server.now += 1
        order = []
        for number in range(4):
            row = server.store.claim(f"worker {number}", LEASE)  # at work at the same time
            assert row is not None
            order.append(jobs[row.id])
        late = devices[1].send(submitted())
        jobs[late] = 1
        while (row := server.store.claim("worker", LEASE)) is not None:
            order.append(jobs[row.id])
        assert order == [0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 0]
    server.store.close()


def test_a_job_of_a_worker_that_died_takes_a_turn_of_its_own(
    server: Server, device: Device, other: Device
) -> None:
    mine, theirs = device.send(submitted()), other.send(submitted())
    for _ in range(3):
        first = server.store.claim("w", LEASE)
        assert first is not None
        server.store.release("w")
        second = server.store.claim("w", LEASE)
        assert second is not None
        server.store.release("w")
        assert {first.id, second.id} == {mine, theirs}


def test_a_job_that_takes_too_long_is_ended_and_not_taken_up_again(tmp_path: Path) -> None:
    """Its time is counted over all attempts, and a worker that hangs is killed."""
    server = Server(tmp_path / "server", quotas=Quotas(job_seconds=100))
    with server.client() as client:
        device = Device(client, server.token())
        job = device.send(submitted())
        server.now += 1
        next_job = device.send(submitted())
        for name, worked in (("first", 60), ("second", 41)):
            server.service.end_overtime()
            assert server.stopped == []
            claimed = server.store.claim(name, LEASE)
            assert claimed is not None
            assert claimed.id == job  # the older one
            assert server.store.renew(job, name, LEASE, worked)
            if name == "first":
                server.store.release(name)  # it has died
        server.service.end_overtime()
        state = device.state("GET", f"/v1/jobs/{job}")
        assert (state.state, state.failure) == ("failed", "time")
        assert server.stopped == ["second"]
        assert not server.store.renew(job, "second", LEASE, 1)
        assert server.work()
        assert row_of(server, next_job).state == "done"
        assert not server.work()
    server.store.close()


@pytest.mark.slow
def test_a_worker_counts_its_time(
    server: Server, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BEAT_SECONDS", 1)
    job = device.send(submitted())

    def hang(stage: str) -> None:
        while not server.store.overtime(1):
            Event().wait(0.05)

    server.pipeline._trace = hang
    assert server.work()
    assert row_of(server, job).state == "done"


def test_a_failure_says_nothing_of_the_request(
    server: Server, device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    job = device.send(submitted(0, images_per_class=13))
    assert server.work()
    state = device.state("GET", f"/v1/jobs/{job}")
    assert (state.state, state.failure) == ("failed", "pipeline")
    assert NOUN not in caplog.text
    assert job not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize("stage", DigestPipeline.stages)
def test_a_job_that_is_deleted_while_it_runs_leaves_nothing(
    server: Server, device: Device, stage: str
) -> None:
    def trace(name: str) -> None:
        if name == stage:
            device.call("DELETE", f"/v1/jobs/{job}")

    server.pipeline._trace = trace
    job = device.send(submitted())
    assert server.work()
    assert len(server.stopped) == 1
    assert device.state("GET", f"/v1/jobs/{job}").state == "deleted"
    assert server.service.folders.jobs() == set()


def test_nothing_readable_is_on_disk_at_any_time(server: Server, device: Device) -> None:
    job = submitted(2)
    arrays = [data[-200:] for data in job.items.values()]
    words = [NOUN.encode(), CLASSES[0].encode(), CANARY, *arrays]

    def search(stage: str = "") -> None:
        content = server.content()
        assert not [word for word in words if word in content]
        searched.append(stage)

    searched: list[str] = []
    server.pipeline._trace = search
    device.send(job)
    search()
    assert server.work()
    search()
    assert len(searched) == 6


def test_items_and_stages_go_when_the_model_is_there(server: Server, device: Device) -> None:
    job = device.send(submitted())
    folder = server.folder / "jobs" / job
    assert len(list((folder / "items").iterdir())) == 3
    server.work()
    assert sorted(path.name for path in folder.iterdir()) == ["model", "submission"]


@pytest.mark.parametrize("state", ["open", "queued", "done", "failed"])
def test_after_24_hours_nothing_is_left(server: Server, device: Device, state: str) -> None:
    job = submitted(images_per_class=13 if state == "failed" else 400)
    sent = device.submit(job).job if state == "open" else device.send(job)
    if state in ("done", "failed"):
        server.work()
    key = (server.folder / "keys" / sent).read_bytes()
    server.now += DAY - 1
    assert server.service.sweep() == 0
    server.now += 1
    assert server.service.sweep() == 1
    assert server.service.folders.jobs() == set()
    assert key not in server.content()
    answer = device.call("DELETE", f"/v1/jobs/{sent}")
    assert b'"reason":"expired"' in answer.content
    assert server.service.sweep() == 0


def test_a_deletion_that_was_interrupted_is_finished(server: Server, device: Device) -> None:
    job = device.send(submitted())
    server.store.mark_deleting(job, "requested")
    assert device.state("GET", f"/v1/jobs/{job}").state == "deleted"
    assert not server.work()
    assert server.service.sweep() == 1
    assert server.service.folders.jobs() == set()
    assert b'"reason":"requested"' in device.call("DELETE", f"/v1/jobs/{job}").content


@pytest.mark.parametrize("set_by", [-2 * DAY, 0, 2 * DAY])
def test_folders_of_no_job_are_removed_in_time(server: Server, device: Device, set_by: int) -> None:
    # The times of files are by the machine's clock, which may have been set since.
    server.service.folders.create("f" * 32)
    for folder in ("jobs", "keys"):
        os.utime(server.folder / folder / ("f" * 32), (server.now + set_by,) * 2)
    job = device.submit(submitted()).job
    server.service.sweep()
    assert server.service.folders.jobs() == {job, "f" * 32}
    server.now += 3601
    server.service.sweep()
    assert server.service.folders.jobs() == {job}


def test_several_may_destroy_a_job_at_once_while_others_list_and_read(tmp_path: Path) -> None:
    folders = JobFolders(tmp_path)
    jobs = [f"{number:032x}" for number in range(60)]
    together = Barrier(4, timeout=10)

    def destroy() -> None:
        for job in jobs:
            together.wait()
            folders.destroy(job)

    def look() -> None:
        for job in jobs:
            together.wait()
            for _ in range(20):
                folders.jobs()
                with suppress(JobGoneError):
                    folders.read(job, "items/x")

    for job in jobs:
        folders.create(job)
        folders.write(job, "items/x", b"canary")
    with ThreadPoolExecutor(4) as threads:
        doing = [threads.submit(act) for act in (destroy, destroy, destroy, look)]
        for one in doing:
            one.result()
    assert folders.jobs() == set()


def test_sealed_files_are_whole_their_own_and_gone_with_their_key(tmp_path: Path) -> None:
    folders = JobFolders(tmp_path)
    for job in ("a", "b"):
        folders.create(job)
    for size in (0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20):
        data = os.urandom(size)
        folders.write("a", "items/x", data)
        assert folders.read("a", "items/x") == data
    sealed = (tmp_path / "jobs/a/items/x").read_bytes()
    for changed in (sealed[:-1], sealed[: 2**20], b"", sealed[:100] + b"x" + sealed[101:]):
        (tmp_path / "jobs/a/items/x").write_bytes(changed)
        with pytest.raises(Exception, match="was changed"):
            folders.read("a", "items/x")
    (tmp_path / "jobs/a/items/y").write_bytes(sealed)
    (tmp_path / "jobs/b/items").mkdir()
    (tmp_path / "jobs/b/items/x").write_bytes(sealed)
    for job, path in (("a", "items/y"), ("b", "items/x")):
        with pytest.raises(Exception, match="was changed"):
            folders.read(job, path)
    folders.destroy("a")
    with pytest.raises(JobGoneError):
        folders.write("a", "items/x", b"")
    assert folders.jobs() == {"b"}


def test_no_file_of_the_folder_that_a_server_is_started_in_is_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is spawned by a module that such a file took the place of."""
    ran = tmp_path / "ran"
    (tmp_path / "multiprocessing.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    pool = WorkerPool(OpenServer(server.folder, server.now), server.service, 1)  # type: ignore[arg-type]
    pool.tend()
    (process,) = pool._workers.values()
    process.join(1.0)
    pool.close()
    assert not ran.exists()


class OpenServer:
    """Opens the service inside of a worker process."""

    def __init__(self, folder: Path, now: int) -> None:
        self.folder, self.now = folder, now

    def __call__(self) -> object:
        return Server(self.folder, now=self.now).service


def test_the_pool_replaces_a_worker_that_was_killed(server: Server, device: Device) -> None:
    pool = WorkerPool(OpenServer(server.folder, server.now), server.service, 1)  # type: ignore[arg-type]
    pool.tend()
    (first,) = pool._workers
    pool.stop_worker(first)
    pool.stop_worker("unknown")
    pool.tend()
    (second,) = pool._workers
    assert first != second
    process = pool._workers[second]
    pool.close()
    assert not process.is_alive()
    assert Worker(server.service).name != second
