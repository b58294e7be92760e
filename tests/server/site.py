"""A server on a folder, its clock in our hands, and a device that speaks to it."""

from __future__ import annotations

import hashlib
import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from understudy.methods.sanitize import wire
from understudy.methods.sanitize.jobs import MODEL_FILE, VALIDATION_FILE, JobMaterial, StageFiles
from understudy.methods.sanitize.pairing_code import PairingCode
from understudy.methods.sanitize.wire_items import BoxItem, EdgesItem, Item, TargetItem
from understudy.server.application import application
from understudy.server.job_service import JobService, ServerKeys, new_pairing_code
from understudy.server.job_store import JobStore, Quotas
from understudy.server.sealed_folders import JobFolders
from understudy.server.worker import Worker

NOUN, CLASSES = "zebrafinch", ("perching on wood", "preening")
CANARY = b"canary in a coal mine!"
"""What a pipeline that is asked for it puts into every stage's files, as tuned weights would be."""


def free_port() -> int:
    """A port that nobody listens at, and that no connection is given (Linux: from 32,768 on)."""
    for port in random.sample(range(20_000, 32_000), 1_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("every port is in use")


class DigestPipeline:
    """Stages whose files are digests of everything before them: equal only where all inputs are.

    Args:
        trace: Called with the name of every stage that is really run.
    """

    name = "digests"
    stages: tuple[str, ...] = ("customise", "compose", "train", "export")
    models = (wire.ModelLicence(name="none", licence="none"),)

    def __init__(self, trace: Any = lambda stage: None) -> None:
        self._trace = trace

    def objection(self, request: wire.JobRequest) -> str | None:
        return "no side of 256" if request.side == 256 else None

    def run(self, stage: str, material: JobMaterial) -> StageFiles:
        self._trace(stage)
        material.beat()
        if material.request.images_per_class == 13:
            raise ValueError(f"the noun was {material.request.target_object[0].noun}")
        digest = hashlib.sha256(f"{stage} {material.seed}".encode())
        digest.update(wire.encode_message(material.request))
        for part in material.request.disclosed:
            for item in material.items(part):
                digest.update(item.payload)
        before = self.stages[: self.stages.index(stage)]
        for earlier in before:
            digest.update(material.result(earlier, "digest"))
        files = {"digest": digest.digest() + CANARY}
        if stage == self.stages[-1]:
            files |= {MODEL_FILE: digest.digest(), VALIDATION_FILE: b"0.5"}
        return files


@dataclass
class Server:
    """One server's folder; `service` opens it as any process would."""

    folder: Path
    database: str = ""
    quotas: Quotas = field(default_factory=Quotas)
    now: int = 1_800_000_000
    pipeline: DigestPipeline = field(default_factory=DigestPipeline)
    stopped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys = ServerKeys.of(self.folder)
        url = self.database or f"sqlite:///{self.folder / 'server.db'}"
        self.store = JobStore(url, lambda latest: lambda: self.now)
        folders = JobFolders(self.folder)
        self.service = JobService(
            self.store,
            folders,
            keys,
            self.pipeline,
            quotas=self.quotas,
            stop_worker=self.stopped.append,
        )

    def work(self) -> bool:
        return Worker(self.service).take_one()

    def client(self, **options: Any) -> TestClient:
        return TestClient(application(self.service, **options))

    def pairing_code(self, url: str, certificate: str | None = None) -> PairingCode:
        return new_pairing_code(self.store, self.service.keys, url, certificate)

    def token(self) -> str:
        result = self.service.pair(self.pairing_code("http://localhost").secret)
        assert result is not None
        return result.token

    def content(self) -> bytes:
        """Everything in the folder, the database and its journals with it."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return b"\0".join(path.read_bytes() for path in files)


@dataclass
class Device:
    """What a paired device does, one call a request."""

    client: TestClient
    token: str

    def call(self, method: str, path: str, content: bytes = b"") -> Any:
        headers = {"authorization": f"Bearer {self.token}"}
        return self.client.request(method, path, content=content, headers=headers)

    def state(self, method: str, path: str, content: bytes = b"") -> wire.JobState:
        answer = self.call(method, path, content)
        assert answer.status_code == 200, answer.text
        return wire.decode_message(wire.JobState, answer.content)

    def submit(self, job: Submitted) -> wire.JobState:
        return self.state("POST", "/v1/jobs", wire.encode_message(job.submission))

    def send(self, job: Submitted) -> str:
        """Submit, send every item, start: the id of the job."""
        state = self.submit(job)
        for digest, data in job.items.items():
            self.state("PUT", f"/v1/jobs/{state.job}/items/{digest}", data)
        return self.state("POST", f"/v1/jobs/{state.job}/start").job


@dataclass(frozen=True)
class Submitted:
    submission: wire.JobSubmission
    items: dict[str, bytes]


def submitted(
    level: int = 1, references: int = 3, feature: str = "edges", **fields: Any
) -> Submitted:
    """A job at this level of the object, the background at L0."""
    rng = np.random.default_rng(references)
    arrays: dict[int, Sequence[Item]] = {}
    side = fields.pop("side", 32)
    if level == 1 and feature == "box":
        arrays = {1: [BoxItem.of(1, side, np.array([0, 0, 9, 9])) for _ in range(references)]}
    elif level == 1:
        arrays = {1: [EdgesItem.of(1, rng.random((side, side)) < 0.1) for _ in range(references)]}
    elif level == 2:
        images = rng.integers(0, 256, (references, side, side, 3), np.uint8)
        arrays = {1: [TargetItem.of(1, image, image[..., 0] < 99) for image in images]}
    target = wire.PartRequest(noun=NOUN, level=level, feature=feature if level == 1 else None)
    request = wire.JobRequest(
        target_object=(target,),
        background=wire.PartRequest(noun="aviary"),
        training_object="classifier",
        label_classes=CLASSES,
        side=side,
        references=references if level else 0,
        **fields,
    )
    manifest, items = wire.manifest_of(arrays)
    return Submitted(wire.JobSubmission(request=request, manifest=manifest), items)
