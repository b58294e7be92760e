"""What ``--watch`` tells the owner."""

import json

import numpy as np
import pytest
from tests.run.samples import class_folders

from understudy.backends.registry import load_encoder
from understudy.data import open_source
from understudy.metrics.fidelity import frechet_distance
from understudy.run.watch import Watch


def test_the_distance_to_the_private_rows_is_told_and_kept(tmp_path):
    source = open_source(str(class_folders(tmp_path / "scans", {"cat": 20, "dog": 20})))
    encoder = load_encoder("embedded:dct?coefficients=2", shape=source.shape)
    private = np.concatenate([encoder.encode(batch.values) for batch in source.batches(16)])
    told = []

    def bars(words, total=None):
        told.append(words)
        return lambda done: None

    watch = Watch(source, encoder, tmp_path, bars)
    watch("round 1", private)
    watch("round 2", private + np.float32(1))
    lines = [json.loads(line) for line in (tmp_path / "watch.jsonl").read_text().splitlines()]
    assert [line["when"] for line in lines] == ["round 1", "round 2"]
    assert {line["kind"] for line in lines} == {"owner-only"}
    assert lines[0]["frechet"] == pytest.approx(0, abs=1e-3)
    expected = frechet_distance(private, private + np.float32(1))
    assert lines[1]["frechet"] == pytest.approx(expected)
    assert all("owner only" in words for words in told)
