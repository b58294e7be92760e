"""Whatever is asked of whichever page, the answer is a page: never a failure of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from tests.web.web_site import Site, draw_dataset

from understudy.web.local_guard import FORM_TOKEN
from understudy.web.studio_app import pages

FORMS: Mapping[str, tuple[str, ...]] = {
    "/runs/start": ("source", "out", "epsilon", "shown", "size", "method", "set.clusters"),
    "/runs/cancel": ("run",),
    "/runs/resume": ("run",),
    "/result/do": ("run", "action", "count", "out", "real", "test", "seed", "full"),
    "/ledger/budget": ("dataset", "epsilon", "delta"),
}
DEVICE_FORMS: Mapping[str, tuple[str, ...]] = {
    "/do": ("action", "folder", "targets", "background", "classes", "segmenter", "code", "server"),
}
"""The fields of every form."""


ACTIONS = ("add", "request", "segment", "pair", "preview", "send", "delete", "train", "evaluate")


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
    """Requests made around the schema, with a session; every answer is below 500."""
    token = site.enter()
    draw_dataset(site.root / "photos", each=2)
    schema = schemathesis.openapi.from_dict(schema_of(site))
    operations = [result.ok() for result in schema.get_all_operations()]
    count = 0
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=max(1, examples // len(operations)),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def try_one(case: Any) -> None:
            nonlocal count
            count += 1
            query: dict[str, Any] = dict(case.query or {})
            for key in ("source", "run", "file"):  # half of them get past the first door
                if key in query and count % 2:
                    query[key] = "data/photos"
            path = re.sub(r"\{\w+\}", "studio.css", case.path)
            if case.method.upper() == "GET":
                answer = site.client.get(path, params=query)
            elif case.method.upper() == "PUT":
                headers = {"x-understudy-form": token}
                answer = site.client.put(path, params=query, content=b"PK", headers=headers)
            else:
                form = case.body if isinstance(case.body, dict) else {}
                if "action" in form and count % 2:
                    form = {**form, "action": ACTIONS[count // 2 % len(ACTIONS)]}
                answer = site.post(path, token, **{str(k): str(v) for k, v in form.items()})
            assert answer.status_code < 500, (path, query, answer.text[:300])
            assert "traceback" not in answer.text.lower()

        try_one()
    return count


def test_the_forms_are_those_of_the_pages(site: Site) -> None:
    paths = pages(site.studio, site.options).openapi()["paths"]
    assert set(FORMS) == {path for path, methods in paths.items() if "post" in methods}
    assert FORM_TOKEN not in {name for names in FORMS.values() for name in names}


@pytest.mark.parametrize("device", [False, True])
def test_no_request_breaks_a_page(tmp_path: Path, device: bool) -> None:
    assert fuzz(Site(tmp_path, device=device), 60) > (20 if device else 50)


@pytest.mark.slow
def test_no_request_of_twenty_thousand_breaks_a_page(site: Site) -> None:
    assert fuzz(site, 22_000) >= 20_000
