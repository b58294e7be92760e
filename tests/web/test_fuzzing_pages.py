"""Whatever is asked of whichever page, the answer is a page: never a failure of the server."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.web.web_site import ORIGIN, Site, Story, draw_dataset

from understudy.web.local_guard import FORM_HEADER, FORM_TOKEN
from understudy.web.studio_app import pages

FORMS: Mapping[str, tuple[str, ...]] = {
    "/runs/start": ("source", "out", "epsilon", "shown", "size", "method", "set.clusters"),
    "/runs/cancel": ("run",),
    "/runs/resume": ("run",),
    "/data/evaluate": ("source", "real", "test", "full", "skip_bad"),
    "/result/do": ("run", "action", "count", "out", "real", "test", "seed", "full"),
    "/result/cancel": ("run", "job"),
    "/ledger/budget": ("dataset", "source", "skip_bad", "epsilon", "delta"),
}
DEVICE_FORMS: Mapping[str, tuple[str, ...]] = {
    "/do": (
        *("action", "folder", "targets", "background", "classes", "segmenter", "code", "server"),
        *("number", "part", "cell.A1"),
    )
}
"""The fields of every form."""


PLACES = {"source": "data/photos", "run": "data/run 1", "file": "data/run 1", "real": "data/photos"}
ACTIONS = (
    "add",
    "request",
    "segment",
    "correct",
    "pair",
    "preview",
    "send",
    "delete",
    "train",
    "evaluate",
    "audit",
)


def schema_of(site: Site) -> dict[str, Any]:
    """The OpenAPI schema of the pages, with the forms that the guard reads before them."""
    schema = pages(site.studio, site.options).openapi()
    for path, names in (DEVICE_FORMS if site.device else FORMS).items():
        fields = {name: {"type": "string"} for name in names}
        content = {"schema": {"type": "object", "properties": fields, "required": [names[0]]}}
        schema["paths"][path]["post"]["requestBody"] = {
            "content": {"application/x-www-form-urlencoded": content}
        }
    return schema


def fuzz(site: Site, examples: int) -> int:
    """Requests made around the schema, with a session; every answer is below 500.

    Each is made as it was drawn, and with a real dataset, release and job in its place.
    """
    schemathesis = pytest.importorskip("schemathesis")  # a second of imports, in one process only
    token = site.enter()
    draw_dataset(site.root / "photos", each=2)
    job = site.studio.jobs.ask("check", ["check", "x"])
    site.studio.jobs.cancel(job)  # so that its progress ends
    real = PLACES | {"job": job.id}
    schema = schemathesis.openapi.from_dict(schema_of(site))
    operations = [result.ok() for result in schema.get_all_operations()]
    count = 0
    client = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site.app),
        base_url=ORIGIN,
        headers={"origin": ORIGIN, FORM_HEADER: token},
        cookies=site.client.cookies,
    )
    with asyncio.Runner() as loop:  # a thread for each request would take most of the time
        for operation in operations:

            @given(case=operation.as_strategy())
            @settings(
                max_examples=max(1, examples // len(operations) // 2),
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def try_one(case: Any) -> None:
                nonlocal count
                path = re.sub(r"\{\w+\}", "studio.css", case.path)
                query, form = dict(case.query or {}), case.body
                form = {k: str(v) for k, v in form.items()} if isinstance(form, dict) else {}
                for _ in range(2):
                    count += 1
                    body = {"content": b"PK"} if case.method.upper() == "PUT" else {"data": form}
                    if case.method.upper() == "GET":
                        body = {}
                    answer = loop.run(client.request(case.method, path, params=query, **body))
                    assert answer.status_code < 500, (path, query, form, answer.text[:300])
                    assert "traceback" not in answer.text.lower()
                    real["action"] = ACTIONS[count // 2 % len(ACTIONS)]
                    for values in (query, form):
                        values |= {name: real[name] for name in real if name in values}

            try_one()
    return count


def test_the_forms_are_those_of_the_pages(site: Site) -> None:
    paths = pages(site.studio, site.options).openapi()["paths"]
    assert set(FORMS) == {path for path, methods in paths.items() if "post" in methods}
    assert FORM_TOKEN not in {name for names in FORMS.values() for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("device", [False, True])
def test_no_request_breaks_a_page(tmp_path: Path, device: bool) -> None:
    site = Site(tmp_path, device=device)
    with site.client:
        count = fuzz(site, 60)
    assert count > (20 if device else 50)


@pytest.mark.minutes
@pytest.mark.slow
def test_no_request_of_twenty_thousand_breaks_a_page(site: Site, story: Story) -> None:
    """Half of them on a real dataset and a real release."""
    shutil.copytree(story[0].root / "run 1", site.root / "run 1")
    assert fuzz(site, 22_000) >= 20_000
