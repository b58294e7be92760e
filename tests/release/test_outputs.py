"""The folder of a run: started once, resumed only as what it was, held by one process."""

import fcntl
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from understudy.core.errors import BudgetRefused, ConfigError, RunError
from understudy.release.outputs import private_cache, release_folder, run_folder
from understudy.release.runs import is_locked

SETTINGS = {"epsilon": 1.0, "seed": 0, "count": None}


def start(out, settings=SETTINGS, resume=False):
    with run_folder(out, settings, resume=resume) as folder:
        return folder


def test_a_new_folder_belongs_to_the_owner_alone(tmp_path):
    folder = start(tmp_path / "out")
    assert stat.S_IMODE(folder.owner.stat().st_mode) == 0o700
    assert not folder.done


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty; choose another --out"):
        start(tmp_path)
    with pytest.raises(RunError, match="holds no run to resume"):
        start(tmp_path, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_started_run_wants_to_be_resumed(tmp_path):
    first = start(tmp_path / "out")
    with pytest.raises(RunError, match="add --resume"):
        start(tmp_path / "out")
    assert start(tmp_path / "out", resume=True).run == first.run


@pytest.mark.parametrize("left", [[], ["lock"], ["lock", "start.json.part"]])
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_killed_before_it_began_leaves_nothing_in_the_way(tmp_path, left, resume):
    (tmp_path / "out" / "owner").mkdir(parents=True)
    for name in left:
        (tmp_path / "out" / "owner" / name).write_text("{")
    assert start(tmp_path / "out", resume=resume).run


def test_every_changed_setting_is_named(tmp_path):
    start(tmp_path / "out")
    with pytest.raises(RunError) as caught:
        start(tmp_path / "out", {"epsilon": 2.0, "seed": 0, "count": 5}, resume=True)
    message = str(caught.value)
    assert "epsilon: 1.0 then, 2.0 now" in message
    assert "count: None then, 5 now" in message
    assert "seed" not in message


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"run": 1}', '{"run": "a", "settings": 3}', "[" * 100_000],
    ids=lambda content: content[:30],
)
def test_a_damaged_start_file_is_named(tmp_path, content):
    start(tmp_path / "out")
    (tmp_path / "out" / "owner" / "start.json").write_text(content)
    with pytest.raises(RunError, match=r"start\.json: damaged"):
        start(tmp_path / "out", resume=True)


def test_one_process_works_on_a_run_at_a_time(tmp_path):
    out = tmp_path / "out"
    with run_folder(out, SETTINGS, resume=False):
        child = os.fork()
        if child == 0:
            try:
                start(out, resume=True)
            except RunError as error:
                os._exit(7 if "another process works on this run" in str(error) else 8)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert start(out, resume=True).run


REFUSED = BudgetRefused("scans", requested=2.0, budget=1.0, spent=0.5, remaining=0.8, delta=1e-5)


def test_the_release_of_a_run_is_known_by_a_dot_and_by_a_link(tmp_path, monkeypatch):
    release = tmp_path / "out" / "release"
    release.mkdir(parents=True)
    (release / "privacy.json").write_text("{}")
    (tmp_path / "link").symlink_to(release)
    monkeypatch.chdir(release)
    for name in (".", tmp_path / "link", tmp_path / "out"):
        assert release_folder(Path(name)) == release.resolve()


def test_a_new_run_that_could_make_nothing_leaves_no_folder(tmp_path):
    def refuse():
        raise ConfigError("no words for the class")

    with pytest.raises(ConfigError), run_folder(tmp_path / "out", SETTINGS, resume=False) as folder:
        folder.keep("population", refuse)
    assert not (tmp_path / "out").exists()
    with run_folder(tmp_path / "out", SETTINGS, resume=False) as folder:
        folder.keep("weights", lambda: {"a": np.ones(1)})  # which took its time
        with pytest.raises(ConfigError):
            folder.keep("population", refuse)
    assert folder.begun


def test_a_resumed_run_that_is_refused_stays(tmp_path):
    first = start(tmp_path / "out")
    with pytest.raises(BudgetRefused), run_folder(tmp_path / "out", SETTINGS, resume=True):
        raise REFUSED
    assert start(tmp_path / "out", resume=True).run == first.run


def test_a_cache_is_private_and_goes_away(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "left.f32").write_bytes(b"of a killed run")
    with private_cache(tmp_path / "cache") as cache:
        assert list(cache.iterdir()) == []
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
        (cache / "a.f32").write_bytes(b"private")
    assert not cache.exists()
    with pytest.raises(ValueError, match="halfway"), private_cache(tmp_path / "cache"):
        raise ValueError("halfway")
    assert not cache.exists()


def test_what_is_kept_is_made_once_and_read_back(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"votes": np.arange(3.0), "captions": np.array(["a dog", "zwei Hünde"])}

    first = start(tmp_path / "out").keep("round 1", make)
    again = start(tmp_path / "out", resume=True).keep("round 1", make)
    assert made == [1]
    assert again["captions"].tolist() == first["captions"].tolist() == ["a dog", "zwei Hünde"]
    assert again["votes"].tolist() == [0.0, 1.0, 2.0]


def test_a_kept_file_is_whole_or_not_there(tmp_path):
    folder = start(tmp_path / "out")

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.keep("round 1", interrupted)
    assert folder.keep("round 1", lambda: {"a": np.ones(2)})["a"].tolist() == [1.0, 1.0]
    stored = folder.owner / "kept" / "round-1.npz"
    encrypted = bytearray(stored.read_bytes())
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1  # or so a bit says
    for content in (b"PK half", encrypted):
        stored.write_bytes(content)
        with pytest.raises(RunError, match=r"round-1\.npz: damaged"):
            folder.keep("round 1", interrupted)


def test_nothing_that_runs_code_is_kept_or_read(tmp_path):
    folder = start(tmp_path / "out")
    with pytest.raises(RunError, match="damaged"):
        folder.keep("objects", lambda: {"o": np.array([{}], dtype=object)})


def test_a_look_at_the_lock_stops_no_run(tmp_path):
    """`understudy runs` holds it for a moment, in which a run was refused as if it were at work."""
    start(tmp_path / "out")
    with (tmp_path / "out" / "owner" / "lock").open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        timer = threading.Timer(0.1, fcntl.flock, (looked_at, fcntl.LOCK_UN))
        timer.start()
        assert not start(tmp_path / "out", resume=True).done
        timer.join()


@pytest.mark.parametrize("name", ["lock", "start.json", "start.json.part"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_pipe_in_the_owners_folder_is_refused_and_not_waited_for(tmp_path, name, resume):
    """A run, and `understudy runs`, waited without end for somebody to write into it."""
    (tmp_path / "out" / "owner").mkdir(parents=True)
    os.mkfifo(tmp_path / "out" / "owner" / name)
    said = "is no file: remove it" if name != "start.json" else "exists and is not empty"
    with pytest.raises(RunError, match=said):
        start(tmp_path / "out", resume=resume)
    assert not is_locked(tmp_path / "out" / "owner" / name)


def test_a_refusal_is_said_where_the_owners_folder_is_a_link(tmp_path):
    """That a link cannot be removed like a folder was all that was said."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "owner").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(ConfigError, match="over"),
        run_folder(tmp_path / "out", SETTINGS, resume=False),
    ):
        raise ConfigError("over the budget")
