"""What a device asks for and what it gets: pairing, jobs, items, models, receipts, refusals."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.server.site import CLASSES, NOUN, Device, Server, submitted

from understudy.methods.sanitize import signed_results, wire
from understudy.methods.sanitize.wire_items import ITEM_BYTES, item_digest
from understudy.server.application import application
from understudy.server.job_store import DAY, Quotas


def check_refusal(answer: Any, status: int, code: str) -> wire.Refusal:
    refused = wire.decode_message(wire.Refusal, answer.content)
    assert (answer.status_code, refused.error) == (status, code), answer.text
    return refused


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_job_from_submission_to_receipt(server: Server, device: Device, level: int) -> None:
    job = submitted(level)
    state = device.submit(job)
    assert (state.state, list(state.missing)) == ("open", list(job.items))
    assert state.expires_in == DAY
    sent = device.send(job)
    assert sent == state.job
    assert device.state("GET", f"/v1/jobs/{sent}").state == "queued"
    check_refusal(device.call("GET", f"/v1/jobs/{sent}/model"), 409, "conflict")
    assert server.work()
    assert not server.work()
    done = device.state("GET", f"/v1/jobs/{sent}")
    assert (done.state, done.finished, done.failure) == ("done", 4, None)

    key = server.service.keys.public_key
    answer = device.call("GET", f"/v1/jobs/{sent}/model")
    result, model = signed_results.decode_model(answer.content, key)
    assert (result.job, result.label_classes, len(model)) == (sent, CLASSES, 32)
    assert result.submission == wire.submission_digest(job.submission)
    assert device.call("GET", f"/v1/jobs/{sent}/model").content == answer.content

    answer = device.call("DELETE", f"/v1/jobs/{sent}")
    receipt = wire.decode_message(wire.DeletionReceipt, answer.content)
    signed_results.check_signature(receipt, key)
    assert (receipt.job, receipt.delivered, receipt.reason) == (sent, True, "requested")
    assert receipt.item_bytes == sum(map(len, job.items.values()))
    assert device.call("DELETE", f"/v1/jobs/{sent}").content == answer.content
    assert device.state("GET", f"/v1/jobs/{sent}").state == "deleted"
    check_refusal(device.call("GET", f"/v1/jobs/{sent}/model"), 409, "conflict")
    check_refusal(device.call("POST", f"/v1/jobs/{sent}/start"), 409, "conflict")


def test_a_model_counts_as_sent_once_all_of_it_was(server: Server, device: Device) -> None:
    sent = device.send(submitted(0))
    assert server.work()
    path = f"/v1/jobs/{sent}/model"
    assert device.call("HEAD", path).status_code == 200

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        if event["type"] == "http.response.body":
            raise OSError("the device is gone")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {device.token}".encode())],
    }
    asyncio.run(application(server.service)(scope, receive, send))
    receipt = device.call("DELETE", f"/v1/jobs/{sent}")
    assert not wire.decode_message(wire.DeletionReceipt, receipt.content).delivered


def test_about_says_who_answers_and_with_what(server: Server, device: Device) -> None:
    about = wire.decode_message(wire.About, device.client.get("/v1/about").content)
    assert about.public_key == server.service.keys.public_key
    assert about.stages == ("customise", "compose", "train", "export")
    assert about.models[0].licence == "none"


def test_submitting_again_makes_no_second_job(device: Device, other: Device) -> None:
    job = submitted()
    first, second = device.submit(job), device.submit(job)
    assert first == second
    assert other.submit(job).job != first.job


def test_an_item_may_be_sent_again(server: Server, device: Device) -> None:
    job = submitted()
    state = device.submit(job)
    digest, data = next(iter(job.items.items()))
    path = f"/v1/jobs/{state.job}/items/{digest}"
    assert len(device.state("PUT", path, data).missing) == 2
    assert len(device.state("PUT", path, data).missing) == 2
    device.send(job)
    assert device.state("PUT", path, data).state == "queued"


def test_a_job_does_not_start_before_all_items_are_there(device: Device) -> None:
    job = submitted()
    state = device.submit(job)
    refused = device.call("POST", f"/v1/jobs/{state.job}/start")
    assert "3 items are missing" in check_refusal(refused, 409, "conflict").detail


def test_bytes_that_were_not_announced_are_refused(device: Device) -> None:
    job, another = submitted(), submitted()
    state = device.submit(job)
    (first, data), (second, _), *_ = job.items.items()
    strange, foreign = next(iter(another.items.items()))
    path = f"/v1/jobs/{state.job}/items/"
    for digest, sent in (
        (second, data),
        (strange, foreign),
        (first, data + b"\0"),
        (first, b""),
        (item_digest(b"x"), b"x"),
        ("A" * 64, data),
    ):
        check_refusal(device.call("PUT", path + digest, sent), 422, "malformed")
    assert device.state("GET", f"/v1/jobs/{state.job}").missing == state.missing


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"\xff\xfe", b'{"request":1,"manifest":2}', b"[" * 40_000, b"1e999"]
)
def test_a_body_outside_the_schema_is_refused(device: Device, body: bytes) -> None:
    check_refusal(device.call("POST", "/v1/jobs", body), 422, "malformed")


def test_what_was_sent_comes_back_in_no_message(device: Device) -> None:
    good = wire.encode_message(submitted(0).submission)
    for bad in (
        good.replace(NOUN.encode(), b"Secretword"),
        good.replace(b'"noun"', b'"secretword"'),
        good.replace(b'"level":0', b'"level":"secretword"'),
    ):
        answer = device.call("POST", "/v1/jobs", bad)
        check_refusal(answer, 422, "malformed")
        assert b"secretword" not in answer.content.lower()


def test_a_request_that_the_pipeline_cannot_do_is_refused_at_once(device: Device) -> None:
    body = wire.encode_message(submitted(0, side=256).submission)
    check_refusal(device.call("POST", "/v1/jobs", body), 422, "unsupported")


def test_a_body_is_counted_whatever_its_headers_say(device: Device) -> None:
    state = device.submit(submitted())
    path = f"/v1/jobs/{state.job}/items/{'0' * 64}"
    check_refusal(device.call("PUT", path, bytes(ITEM_BYTES + 1)), 413, "too-large")
    headers = {"authorization": f"Bearer {device.token}"}
    blocks = (bytes(2**16) for _ in range(4))  # sent in chunks, without a length
    check_refusal(device.client.put(path, content=blocks, headers=headers), 413, "too-large")
    check_refusal(device.call("GET", "/v1/about", b"x"), 413, "too-large")


def test_a_pairing_code_holds_once_and_not_for_long(server: Server, device: Device) -> None:
    def pair(secret: str) -> Any:
        body = wire.encode_message(wire.PairingRequest(secret=secret))
        return device.client.post("/v1/pair", content=body)

    code = server.pairing_code("http://localhost:8000")
    paired = wire.decode_message(wire.PairingResult, pair(code.secret).content)
    assert Device(device.client, paired.token).submit(submitted()).state == "open"
    check_refusal(pair(code.secret), 404, "unknown")
    check_refusal(pair("0" * 32), 404, "unknown")
    late = server.pairing_code("http://localhost:8000")
    server.now += 15 * 60
    check_refusal(pair(late.secret), 404, "unknown")


def test_no_token_and_no_secret_is_in_the_database(server: Server, device: Device) -> None:
    code = server.pairing_code("http://localhost:8000")
    for secret in (device.token, code.secret):
        assert secret.encode() not in server.content()
        assert bytes.fromhex(secret) not in server.content()


def test_every_caller_without_the_right_gets_the_same_answer(
    server: Server, device: Device, other: Device
) -> None:
    job = device.send(submitted())
    revoked = Device(device.client, server.token())
    assert server.store.revoke(server.store.devices()[-1].id)
    callers = [other, revoked, *(Device(device.client, token) for token in ("", "0" * 64, "x"))]
    for method, path in (
        ("GET", f"/v1/jobs/{job}"),
        ("GET", f"/v1/jobs/{job}/model"),
        ("PUT", f"/v1/jobs/{job}/items/{'0' * 64}"),
        ("POST", f"/v1/jobs/{job}/start"),
        ("DELETE", f"/v1/jobs/{job}"),
    ):
        answers = [caller.call(method, path) for caller in callers]
        answers.append(device.call(method, path.replace(job, "0" * 32)))
        answers.append(device.call(method, path.replace(job, "job")))
        assert len({(one.status_code, one.content, str(one.headers)) for one in answers}) == 1
        check_refusal(answers[0], 404, "unknown")
    for caller in callers[1:]:
        check_refusal(caller.call("POST", "/v1/jobs", b"x"), 404, "unknown")
    assert device.state("GET", f"/v1/jobs/{job}").state == "queued"


def test_paths_and_methods_that_are_none_are_refused_in_kind(device: Device) -> None:
    paths = ("/", "/docs", "/openapi.json", "/v1", "/v1/about/", "/v1/jobs/", "/v1/jobs/x/model/")
    for method, path in itertools.product(("GET", "POST", "DELETE"), paths):
        check_refusal(device.call(method, path), 404, "unknown")
    check_refusal(device.call("DELETE", "/v1/about"), 404, "unknown")


def test_quotas_of_a_device(tmp_path: Path) -> None:
    size = submitted().submission.item_bytes
    quotas = Quotas(open_jobs=2, jobs_a_day=4, stored_bytes=3 * size)
    server = Server(tmp_path, quotas=quotas)
    with server.client() as client:
        device, other = Device(client, server.token()), Device(client, server.token())

        def refused(references: int = 3) -> str:
            body = wire.encode_message(submitted(references=references).submission)
            return check_refusal(device.call("POST", "/v1/jobs", body), 429, "quota").detail

        assert "bytes of items" in refused(references=10)
        for _ in range(2):
            jobs = [device.submit(submitted(level)).job for level in (0, 1)]
            assert "2 jobs at a time" in refused()
            for job in jobs:
                device.call("DELETE", f"/v1/jobs/{job}")
        assert "4 jobs in 24 hours" in refused()
        assert other.submit(submitted()).state == "open"
        server.now += DAY
        assert device.submit(submitted()).state == "open"
    assert len(server.service.folders.jobs()) == 2  # no refused one's


def test_an_error_inside_is_a_refusal_that_says_nothing(
    server: Server,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise ValueError("secretword")

    monkeypatch.setattr(server.store, "clock", fail)
    answer = device.call("POST", "/v1/jobs", wire.encode_message(submitted().submission))
    check_refusal(answer, 500, "server")
    assert "secretword" not in answer.text + caplog.text
    assert "ValueError" in caplog.text
