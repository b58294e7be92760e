"""Commands outlive the studio, wait for each other, and are never begun twice."""

import fcntl
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.cli.processes import Commands
from tests.web.web_site import Site, draw_dataset, hidden_fields

from understudy.core.files import owner_file
from understudy.run import books
from understudy.web import child_jobs
from understudy.web.child_jobs import ChildJob, ChildJobs

PATIENCE = 300.0  # seconds


def until(condition: Callable[[], object], *, jobs: ChildJobs | None = None) -> None:
    """Wait for a condition, which is looked at as often as a processor allows."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        if jobs is not None:
            jobs.tend()
        os.sched_yield()


def blocked(jobs: ChildJobs, fifo: Path, queue: str = "") -> ChildJob:
    """A command that waits until its configuration, a FIFO, is written."""
    os.mkfifo(fifo)
    return jobs.ask("synthesize", ["synthesize", f"--config={fifo}"], queue=queue, about=str(fifo))


def test_a_job_outlives_the_studio_and_is_not_begun_twice(tmp_path: Path) -> None:
    first = ChildJobs(tmp_path / "jobs")
    job = blocked(first, tmp_path / "fifo")
    first.tend()
    process = (tmp_path / "jobs" / job.id / "process").read_text()
    again = ChildJobs(tmp_path / "jobs")  # the first one is as good as killed
    assert again.report(job).state == "running"
    assert again.ask("synthesize", job.words, about=job.about) == job
    again.tend()
    assert (tmp_path / "jobs" / job.id / "process").read_text() == process
    (tmp_path / "fifo").write_text("nonsense: 1\n")
    until(lambda: again.report(job).is_over)
    again.tend()
    assert (tmp_path / "jobs" / job.id / "process").read_text() == process
    assert again.report(job).state == "stopped"  # nobody saw its end, and it left no result
    until(lambda: first.report(job).state == "failed", jobs=first)
    assert "unknown key" in first.report(job).message
    assert oct((tmp_path / "jobs" / job.id).stat().st_mode)[-3:] == "700"


def test_a_job_that_was_begun_and_died_stays_where_it_is(tmp_path: Path) -> None:
    jobs = ChildJobs(tmp_path / "jobs")
    job = jobs.ask("ledger", ["ledger", "list"])
    (tmp_path / "jobs" / job.id / "begun").touch()  # killed between this and the process
    jobs.tend()
    assert jobs.report(job).state == "stopped"
    assert not (tmp_path / "jobs" / job.id / "process").exists()


@pytest.mark.parametrize(("said", "state"), [("audit (owner only)", "finished"), ("", "failed")])
def test_an_audit_that_refutes_a_promise_worked(tmp_path: Path, said: str, state: str) -> None:
    """Its end is 1, and the page called the verdict a failure of the command."""
    jobs = ChildJobs(tmp_path / "jobs")
    folder = tmp_path / "jobs" / jobs.ask("audit", ["audit", "photos"]).id
    for name, text in {"begun": "", "out": said, "err": "", "end.json": '{"code": 1}'}.items():
        (folder / name).write_text(text)
    (job,) = jobs.all()
    assert jobs.report(job).state == state


def test_what_was_killed_and_spends_nothing_begins_anew_with_the_next_studio(
    tmp_path: Path,
) -> None:
    first, words = ChildJobs(tmp_path / "jobs"), ["check", "nothing-here", "--json"]
    free, paid = first.ask("check", words), first.ask("synthesize", words, queue="ledger")
    for job in (free, paid):
        first.cancel(job)
    assert [first.ask("check", words), first.report(free).state] == [free, "stopped"]
    again = ChildJobs(tmp_path / "jobs")
    assert again.ask("synthesize", words, queue="ledger") == paid
    assert again.report(again.ask("check", words)).state == "queued"


def test_a_job_that_another_studio_begins_is_left_to_it(tmp_path: Path) -> None:
    jobs = ChildJobs(tmp_path / "jobs")
    job = blocked(jobs, tmp_path / "fifo")
    place = tmp_path / "jobs" / job.id
    with owner_file(place / "lock", "w") as lock:  # the other one, before its mark and after
        fcntl.flock(lock, fcntl.LOCK_EX)
        tending = threading.Thread(target=jobs.tend, daemon=True)
        tending.start()
        tending.join(10)
        assert not tending.is_alive()
        (place / "out").write_text("its answer")
        (place / "begun").touch()
    jobs._begin(job)
    assert (place / "out").read_text() == "its answer"
    assert not (place / "process").exists()


def test_runs_of_one_ledger_wait_and_a_stop_loses_nothing(tmp_path: Path) -> None:
    jobs = ChildJobs(tmp_path / "jobs")
    one = blocked(jobs, tmp_path / "one", "ledger")
    two = blocked(jobs, tmp_path / "two", "ledger")
    three = blocked(jobs, tmp_path / "three", "ledger")
    other = blocked(jobs, tmp_path / "other", "another ledger")
    jobs.tend()
    assert [jobs.report(job).state for job in (one, two, other)] == ["running", "queued", "running"]
    assert [jobs.report(job).ahead for job in (two, three)] == [1, 2]
    jobs.cancel(two)
    assert jobs.report(two).state == "stopped"
    for job in (one, other):
        jobs.cancel(job)
    until(lambda: jobs.report(one).is_over, jobs=jobs)
    assert jobs.report(one).state == "stopped"
    jobs.tend()
    assert jobs.report(three).state == "running"
    jobs.cancel(three)
    ends = [tmp_path / "jobs" / job.id / "end.json" for job in (one, three, other)]
    until(lambda: all(end.exists() for end in ends), jobs=jobs)


def test_the_folder_of_a_studio_is_its_owners_alone(tmp_path: Path) -> None:
    ChildJobs(tmp_path / "web" / "jobs")
    assert [oct((tmp_path / name).stat().st_mode)[-3:] for name in ("web", "web/jobs")] == [
        "700"
    ] * 2


@pytest.mark.parametrize("id", ["", "../../etc", "A" * 16, "0" * 16, "0" * 15 + "/", "\0" * 16])
def test_no_other_id_is_a_job(tmp_path: Path, id: str) -> None:
    assert ChildJobs(tmp_path / "jobs").get(id) is None


class ServedStudio:
    """``understudy web`` in a process that can be killed."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder, self.commands, self.port = folder, commands, 0
        self.start()

    def start(self) -> None:
        words = ["web", f"--root={self.folder / 'data'}", f"--ledger={self.folder / 'l.db'}"]
        home = {"XDG_DATA_HOME": str(self.folder / "home")}
        self.started = self.commands.start(*words, f"--port={self.port}", env=home)
        printed = Path(f"{self.started[1]}.out")
        until(lambda: printed.is_file() and "Ctrl-C" in printed.read_text())
        link = re.match(r"open (http://127.0.0.1:(\d+))(/enter\S+)", printed.read_text())
        assert link
        self.port = int(link[2])
        self.client = httpx2.Client(base_url=link[1], headers={"origin": link[1]}, timeout=PATIENCE)
        assert self.client.get(link[3]).status_code == 303

    def stop(self, number: int) -> None:
        self.client.close()
        os.kill(self.started[0], number)
        self.commands.wait(self.started)

    def text(self, path: str, **query: str) -> str:
        return self.client.get(path, params=query).text


def check_killed_studio(folder: Path, commands: Commands, kills: int, seed: int) -> None:
    """One run of a studio that is killed so often; it is shown each time, and charged once."""
    draw_dataset(folder / "data" / "photos")
    served, rng = ServedStudio(folder, commands), random.Random(seed)
    charge = {"source": "data/photos", "epsilon": "1", "out": "run", "size": "8", "channels": "1"}
    charge |= {"encoder": "embedded:dct", "classes": "boots,shirts"}
    try:
        until(lambda: "Yes, charge" in served.text("/charge", **charge))
        values = hidden_fields(served.text("/charge", **charge))
        assert served.client.post("/runs/start", data=values).status_code == 303
        for _ in range(kills):
            end = time.monotonic() + rng.uniform(0, 0.4)
            until(lambda end=end: time.monotonic() > end)  # type: ignore[misc]
            served.stop(signal.SIGKILL)
            served.start()
            page = served.text("/run", run="data/run")
            assert "Run data/run" in page
            assert "Yes, charge" not in page
            if "Go on with it" in page:
                values = hidden_fields(page)
                assert served.client.post("/runs/resume", data=values).status_code == 303
        until(lambda: "See the result" in served.text("/run", run="data/run"))
    finally:
        served.stop(signal.SIGTERM)
    (account,) = books.overview(str(folder / "l.db"))
    assert account.spent.epsilon == pytest.approx(1, abs=1e-3)
    assert len(account.spent.runs) == 1


@pytest.mark.slow
def test_killing_the_server_at_twenty_points_charges_once(
    tmp_path: Path, with_pages: Commands
) -> None:
    for number in range(5):
        check_killed_studio(tmp_path / str(number), with_pages, kills=4, seed=number)


def test_no_file_of_the_folder_that_the_studio_is_in_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual root is the folder that it is started in, and that may be a stranger's."""
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    jobs = ChildJobs(tmp_path / "jobs")
    job = jobs.ask("check", ["check", "nothing-here", "--json"])
    until((tmp_path / "jobs" / job.id / "end.json").exists, jobs=jobs)
    assert not (tmp_path / "ran").exists()
    assert "nothing-here" in jobs.out(job)


def test_a_button_asks_again_after_as_many_commands_as_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept was counted, and that number stands still once the oldest ones go."""
    monkeypatch.setattr(child_jobs, "_MOST_STORED", 2)
    site = Site(tmp_path, device=True)
    with site.client:
        token, asked = site.enter(), []
        for _ in range(6):
            assert site.post("/do", token, action="withdraw").status_code == 303
            job = site.studio.jobs.all()[-1]
            asked.append(job.asked)
            site.studio.jobs.cancel(job)
    assert sorted(set(asked)) == asked
