"""The pack of a device: who received what at which level, and not what the photos hold."""

import json
import re
from pathlib import Path

import pytest
from tests.device.device_site import CANARY, DeviceSite
from tests.server.site import Server

import understudy
from understudy.core.errors import ConfigError


def test_a_pack_of_a_sanitize_job_on_both_sides(
    paired: DeviceSite, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # without a browser
    paired.add()
    shown = paired.show({"dog": "edges", "background": "segment"})
    paired.outbox.send(shown.parcel.digest, shown.code)
    pack = understudy.evidence(paired.home.folder, to=tmp_path / "pack", progress="none")
    assert pack.kind == "device"
    shared = " ".join(path.read_text() for path in pack.shared.rglob("*") if path.is_file())
    owner = (pack.owner / "index.html").read_text()
    (row,) = paired.rows("disclosure")
    assert all(
        f"L{part['level']} {part['kind']}" in shared for part in row.data["details"]["parts"]
    )
    assert "24 hours after it was sent" in shared
    assert "There is no guarantee" in shared
    claims = json.loads((pack.shared / "claims.json").read_text())["claims"]
    assert {one["status"] for one in claims if one["layer"] == "top"} == {"not claimed"}
    assert {"trust model", "deletion"} <= {
        one["block"] for one in claims if one["status"] == "claimed"
    }
    for secret in ("dog", CANARY, str(tmp_path)):  # nouns, names and paths are the owner's
        assert not re.search(rf"\b{re.escape(secret)}\b", shared)
    assert "&#34;noun&#34;: &#34;dog&#34;" in owner
    assert not (pack.shared / "registry.yaml").exists()

    receipt = paired.outbox.delete(paired.attempt(shown))
    again = understudy.evidence(paired.home.folder, to=tmp_path / "pack", progress="none")
    assert "with a signed receipt at hand" in (again.shared / "index.html").read_text()
    theirs = understudy.evidence(server.folder, to=tmp_path / "theirs", progress="none")
    assert theirs.kind == "server"
    page = (theirs.shared / "index.html").read_text()
    assert f"job {receipt.job[:8]}" in page
    assert "deleted (requested), receipt stored" in page
    with pytest.raises(ConfigError, match="--real is for releases"):
        understudy.evidence(server.folder, to=tmp_path / "x", real="photos", progress="none")
