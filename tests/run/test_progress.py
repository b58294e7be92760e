"""Where events go: lines at most every ten seconds, JSON lines, bars, silence; and no secrets."""

import io
import json
import sys
from types import ModuleType

import pytest

from understudy.run.progress import JsonEvents, PlainEvents, paused, reporting


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


def advance(step, clock, seconds, times, done=1):
    for _ in range(times):
        clock.now += seconds
        step(done)


def test_a_plain_step_writes_at_once_and_then_a_line_every_ten_seconds(clock, stream):
    step = PlainEvents(stream, clock).step("drawing", 1000)
    assert stream.getvalue() == "drawing: 0 of 1,000\n"
    advance(step, clock, 1, 59, done=10)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 5
    assert lines[1] == "drawing: 100 of 1,000, 10%, 10/s, 1 min 30 s left"
    assert lines[5] == "drawing: 500 of 1,000, 50%, 10/s, 50 s left"
    advance(step, clock, 1, 41, done=10)
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "drawing: 1,000 done in 1 min 40 s"
    assert len(lines) == 1 + 9 + 1


@pytest.mark.parametrize("kind", [PlainEvents, JsonEvents])
def test_lines_never_tell_a_private_number_of_items(kind, clock, stream):
    events = kind(stream, clock)
    step = events.step("reading private records", 1234, owner_only=True)
    advance(step, clock, 10, 2, done=307)
    step(620)
    events.notice("Frechet distance 77.5", owner_only=True)
    written = stream.getvalue()
    assert "reading private records" in written
    assert "50%" in written or '"fraction": 0.5' in written
    assert not [number for number in ("1234", "1,234", "307", "614", "30.7", "77.5")
                if number in written]  # fmt: skip


def test_json_lines_have_a_step_once_a_second_and_every_message(clock, stream):
    events = JsonEvents(stream, clock)
    clock.now += 2
    step = events.step("drawing", 40)
    advance(step, clock, 0.25, 40)
    events.notice("loss 0.5")
    events.warning("the encoder cannot tell cats from dogs")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0] == {
        "event": "step_started",
        "seconds": 2.0,
        "id": 1,
        "step": "drawing",
        "done": 0,
        "total": 40,
        "fraction": 0.0,
        "took": 0.0,
    }
    assert [line["done"] for line in lines[1:10]] == [4, 8, 12, 16, 20, 24, 28, 32, 36]
    assert (lines[10]["event"], lines[10]["done"], lines[10]["took"]) == ("step_finished", 40, 10)
    assert lines[11:] == [
        {"event": "notice", "seconds": 12.0, "message": "loss 0.5"},
        {"event": "warning", "seconds": 12.0, "message": "the encoder cannot tell cats from dogs"},
    ]


def test_auto_is_lines_where_stderr_is_no_terminal(capsys):
    with reporting() as events:
        events.step("drawing", 3)
        events.warning("set a budget")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "drawing: 0 of 3\nnote: set a budget\n"


def test_the_first_word_comes_within_two_seconds_and_there_is_none_during_a_question(clock, stream):
    events = PlainEvents(stream, clock)
    clock.now += 1
    events.beat()
    assert stream.getvalue() == ""
    clock.now += 1
    events.beat()
    assert stream.getvalue() == "working: 2 s so far\n"
    with paused(events):
        clock.now += 60
        events.beat()
    assert stream.getvalue() == "working: 2 s so far\n"
    events.beat()
    assert stream.getvalue().endswith("working: 1 min 2 s so far\n")


def test_a_notebook_without_widgets_gets_lines_in_place_of_bars(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with reporting("rich") as events:
        events.step("embedding", 3)(3)
    assert capsys.readouterr().err == "embedding: 0 of 3\n"
