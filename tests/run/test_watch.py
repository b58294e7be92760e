"""What ``--watch`` tells the owner."""

import json

import numpy as np
import pytest
from tests.run.samples import class_folders

from understudy.backends.registry import load_encoder
from understudy.data import open_source
from understudy.metrics.fidelity import frechet_distance
from understudy.run.accuracy import Watch
from understudy.run.progress import SilentEvents


class Notices(SilentEvents):
    """Keeps the notices, and whether each is for the owner alone."""

    def __init__(self):
        self.notices = []

    def notice(self, message, *, owner_only=False):
        self.notices.append((message, owner_only))


def test_the_distance_to_the_private_records_is_reported_and_written(tmp_path):
    source = open_source(str(class_folders(tmp_path / "scans", {"cat": 20, "dog": 20})))
    encoder = load_encoder("embedded:dct?coefficients=2", shape=source.shape)
    private = np.concatenate([encoder.encode(batch.values) for batch in source.batches(16)])
    events = Notices()
    watch = Watch(source, encoder, tmp_path, events)
    watch("round 1", private)
    watch("round 2", private + np.float32(1))
    lines = [json.loads(line) for line in (tmp_path / "watch.jsonl").read_text().splitlines()]
    assert [line["when"] for line in lines] == ["round 1", "round 2"]
    assert {line["kind"] for line in lines} == {"owner-only"}
    assert lines[0]["frechet"] == pytest.approx(0, abs=1e-3)
    expected = frechet_distance(private, private + np.float32(1))
    assert lines[1]["frechet"] == pytest.approx(expected)
    assert [message.split(":")[0] for message, _ in events.notices] == ["round 1", "round 2"]
    assert all(owner_only for _, owner_only in events.notices)
