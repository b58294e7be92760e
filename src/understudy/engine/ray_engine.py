"""The workers of a Ray cluster: processes, on one machine or many, that read records themselves.

What Ray is trusted with, and what not:

- No record enters Ray. A worker is sent references: a source by its paths, an encoder by its name,
  positions of records. It answers with integers, in pieces that Ray passes on inline. Nothing is
  put into the object store, so nothing of a record can be spilled to a disk.
- What workers draw and decode is public: seeds and embeddings, in blocks, and the images of each.
- Ray never runs anything twice by itself (no restarts, no retries). The items of a worker that is
  lost are given to the others here, and who adds up results adds each item once (`sums.BlockSum`).
- References are arguments of methods, in pieces: Ray keeps those of a constructor. An error comes
  back as a value and is raised here, so no path and no value reaches Ray's logs.
- A cluster that is started here listens with a secret token, and lies in a folder of mode 0700, in
  memory where there is a tmpfs, that is removed at the end.
"""

from __future__ import annotations

import copy
import io
import itertools
import os
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from understudy.core import errors
from understudy.core.blocks import BlockGenerator
from understudy.core.errors import RunError, UnderstudyError
from understudy.core.ports import Decoder, Generator
from understudy.core.types import Images, Labels, Seeds, Texts
from understudy.engine.ray_cluster import AUTHENTICATION, connected, ray, require_this_machine

T = TypeVar("T")
R = TypeVar("R")
InBlocks = Callable[..., NDArray[Any]]

PIECE = 96 * 1024
"""Bytes of an argument or an answer, at most: Ray passes on inline what is below 100 KiB."""

_MOST_BYTES = 64 << 20  # of a reference: what is larger holds records or weights
_UNSENT = (
    "the dataset, or what embeds it, has no short reference that a worker could be sent: {}. "
    "Nothing was spent. Take class folders or arrays in a file, or --engine local"
)
_AHEAD = 2  # items that a worker has at a time, so that it never waits for the next
_START_SECONDS = 120.0  # for a worker to start: it imports this package
_OF_IMAGES = {"decode": (0,), "match": (0, 4)}  # arguments of a decoder that have a row an image


class ModelRecipe:
    """How a value is made anew on a worker, such as an encoder by its name."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def _pieces(data: bytes) -> list[bytes]:
    return [data[start : start + PIECE] for start in range(0, len(data), PIECE)]


class _Failure:
    """An error of a worker: one of this package with its message; of others the place alone."""

    def __init__(self, error: BaseException) -> None:
        self.kind, self.message = "RunError", str(error)
        if isinstance(error, UnderstudyError):
            self.kind = type(error).__name__
        else:
            last = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{Path(last.filename).stem}, line {last.lineno}"
            reason = f" ({error.strerror})" if isinstance(error, OSError) else ""  # not the path
            self.message = f"a worker failed: {type(error).__name__}{reason} in {name}"

    def error(self) -> UnderstudyError:
        """The same error here."""
        kind = getattr(errors, self.kind, RunError)
        error: UnderstudyError = kind.__new__(kind)
        error.args = (self.message,)
        return error


def _of_block(function: InBlocks, item: tuple[int, list[NDArray[Any]]]) -> tuple[int, Any]:
    """Where a block begins, and the function of its rows."""
    start, rows = item
    return start, function(*rows)


def _decoded(decoder: Decoder, name: str, values: Sequence[Any], *rows: NDArray[Any]) -> Images:
    """Images by a method of a decoder: its values of images, and the seeds, are of a block."""
    *of_images, seeds = rows
    given = list(values)
    for position, value in zip(_OF_IMAGES[name], of_images, strict=True):
        given[position] = value
    images: Images = getattr(decoder, name)(*given, seeds=seeds)
    return images


def _generated(
    generator: BlockGenerator, seed: int, prompts: NDArray[np.object_], rows: Labels
) -> Images:
    """Images of rows of a call of a generator."""
    return generator.generate_rows(prompts.tolist(), rows, seed=seed)


class RayWorker:
    """What runs in a worker's process: values by their keys, and functions of items."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._values: dict[int, Any] = {}
        self._answers: dict[tuple[int, int], deque[bytes]] = {}
        self._blas = ThreadpoolController()

    def enter(self, folder: str) -> None:
        """Work in the driver's folder, where it exists, so that relative paths mean the same."""
        if os.path.isdir(folder):
            os.chdir(folder)

    def receive(self, piece: bytes) -> None:
        """The next piece of a value."""
        self._pieces.append(piece)

    def define(self, key: int) -> None:
        """Make a value of the pieces that were received."""
        data, self._pieces = b"".join(self._pieces), []
        try:
            value = _Reader(io.BytesIO(data), self._values).load()
            self._values[key] = value.make() if isinstance(value, ModelRecipe) else value
        except Exception as error:
            self._values[key] = _Failure(error)

    def forget(self, key: int) -> None:
        """Drop a function, and what is left of its answers."""
        self._values.pop(key, None)
        self._answers = {name: rest for name, rest in self._answers.items() if name[0] != key}

    def run(self, key: int, number: int, last: bytes) -> tuple[int, bytes]:
        """How many pieces a function's pickled result has, and the first; `rest` has the others.

        Its pickled item is what was received and the last piece.
        """
        function, item, self._pieces = self._values[key], b"".join([*self._pieces, last]), []
        try:
            if isinstance(function, _Failure):
                raise function.error()
            with self._blas.limit(limits=1, user_api="blas"):
                answer = pickle.dumps(function(pickle.loads(item)))
        except Exception as error:
            answer = pickle.dumps(_Failure(error))
        pieces = deque(_pieces(answer))
        count, first = len(pieces), pieces.popleft()
        if pieces:
            self._answers[key, number] = pieces
        return count, first

    def rest(self, key: int, number: int) -> bytes:
        """The next piece of an answer: Ray runs an actor's methods in the order of their calls."""
        return self._answers[key, number].popleft()


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` wrote."""

    def __init__(self, file: io.BytesIO, values: Mapping[int, Any]) -> None:
        super().__init__(file)
        self._values = values

    def persistent_load(self, key: Any) -> Any:
        value = self._values[key]
        if isinstance(value, _Failure):
            raise value.error()
        return value


class _Writer(ray.cloudpickle.Pickler):  # type: ignore[misc]  # Ray's calls carry no types
    """Pickles a value by value, closures too, but shared ones by their keys."""

    def __init__(self, file: io.BytesIO, keys: Mapping[int, int]) -> None:
        super().__init__(file)
        self._keys, self.used = keys, dict[int, None]()

    def persistent_id(self, value: Any) -> int | None:
        key = self._keys.get(id(value))
        if key is not None:
            self.used[key] = None
        return key


@dataclass(eq=False)
class _Member:
    """A worker as the driver knows it."""

    handle: Any
    keys: set[int] = field(default_factory=set)  # keys of values that it was sent
    items: dict[Any, int] = field(default_factory=dict)  # numbers of those that it works on
    backlog: deque[int] = field(default_factory=deque)  # numbers of those that it alone may have


class RayEngine:
    """Workers of a Ray cluster as an engine (`understudy.privacy.rows.DistantEngine`).

    Args:
        handles: The actors.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._members = [_Member(handle) for handle in handles]
        self._shared: dict[int, tuple[int, object, bytes, tuple[int, ...]]] = {}
        self._keys = itertools.count()
        self._home: dict[int, _Member] = {}  # who worked on an item of that number, and has it
        self.workers = len(self._members)

    @property
    def alive(self) -> tuple[Any, ...]:
        """The actors that were not lost."""
        return tuple(member.handle for member in self._members)

    def share(self, value: object, recipe: ModelRecipe | None = None) -> None:
        """Send a value once, when a function first refers to it; or what makes it."""
        key, data, used = self._written(value if recipe is None else recipe)
        self._shared[id(value)] = key, value, data, used

    def forget(self, value: object) -> None:
        """Drop a shared value, here and on the workers."""
        key, *_ = self._shared.pop(id(value))
        self._drop(key)

    def _drop(self, key: int) -> None:
        for member in self._members:
            if key in member.keys:
                member.keys.discard(key)
                member.handle.forget.remote(key)

    def decoder(self, decoder: Decoder) -> Decoder:
        """The same decoder, whose calls the workers carry out, block by block.

        One that is not shared, or states no ``block``, decodes where it is.
        """
        block = getattr(decoder, "block", 0)
        if not block or id(decoder) not in self._shared:
            return decoder
        distant = copy.copy(decoder)
        vars(distant)["at_once"] = block * self.workers
        for name in _OF_IMAGES:
            if hasattr(decoder, name):
                vars(distant)[name] = partial(self._images, decoder, name, block)
        return distant

    def _images(
        self, decoder: Decoder, name: str, block: int, *values: Any, seeds: Seeds
    ) -> Images:
        """The images of a call of a decoder."""
        of_images, common = _OF_IMAGES[name], list(values)
        for position in of_images:
            common[position] = None
        function = partial(_decoded, decoder, name, common)
        return self.in_blocks(function, block, *(values[i] for i in of_images), seeds)

    def generator(self, generator: Generator) -> Generator:
        """The same generator, whose images of texts the workers draw, block by block.

        One that is not shared, or draws in no blocks, draws where it is.
        """
        if not isinstance(generator, BlockGenerator) or id(generator) not in self._shared:
            return generator
        distant = copy.copy(generator)

        def generate(prompts: Texts, *, seed: int = 0) -> Images:
            rows = np.array(prompts, dtype=np.object_), np.arange(len(prompts))
            return self.in_blocks(partial(_generated, generator, seed), generator.block, *rows)

        vars(distant)["generate"] = generate
        return distant

    def in_blocks(self, function: InBlocks, block: int, *rows: NDArray[Any]) -> NDArray[Any]:
        """As `understudy.core.blocks.in_blocks`, each block in its place, whichever is done first.

        The rows, and what the function refers to, are public.
        """
        starts = range(0, len(rows[0]) or 1, block)
        items = [(start, [of[start : start + block] for of in rows]) for start in starts]
        results = dict(self.map(partial(_of_block, function), items, homes={}))
        if lost := len(starts) - len(results):
            raise RunError(f"{lost} of {len(starts)} blocks of images are lost")
        return np.concatenate([results[start] for start in starts])

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        homes: dict[int, _Member] | None = None,
    ) -> Iterator[R]:
        """Results in any order; the first error ends the map.

        Items go to who had the item of the same number before, else to who is free. Those of a
        worker that is lost go to the others; it may have answered.

        Args:
            function: Of an item.
            items: They are numbered in their order.
            homes: Who had the item of a number; None: as in earlier maps of private records.
        """
        arguments, homes = list(items), self._home if homes is None else homes
        entry = self._written(function)
        common: deque[int] = deque()
        self._distribute(range(len(arguments)), common, homes)
        # By the reference that is waited for: the worker, the item, and the answer so far.
        pending: dict[Any, tuple[_Member, int, bytes | None, list[Any]]] = {}
        while True:
            for member, number in self._due(common):
                self._send(member, *entry)
                *pieces, last = _pieces(pickle.dumps(arguments[number]))
                for piece in pieces:
                    member.handle.receive.remote(piece)
                ref = member.handle.run.remote(entry[0], number, last)
                member.items[ref] = number
                pending[ref] = member, number, None, []
            if not pending:
                break
            (ref, *_), _ = ray.wait(list(pending), num_returns=1)
            member, number, first, others = pending.pop(ref)
            del member.items[ref]
            try:
                if first is None:
                    count, first = ray.get(ref)
                    if count > 1:
                        others = [
                            member.handle.rest.remote(entry[0], number) for _ in range(1, count)
                        ]
                        member.items[others[-1]] = number
                        pending[others[-1]] = member, number, first, others
                        continue
                pieces = [first, *ray.get(others)]
            except ray.exceptions.RayError:
                self._bury(member, pending, common)
                common.append(number)
                continue
            homes[number] = member
            result: Any = pickle.loads(b"".join(pieces))
            if isinstance(result, _Failure):
                raise result.error()
            yield result
        self._drop(entry[0])

    def _due(self, common: deque[int]) -> Iterator[tuple[_Member, int]]:
        """Who is given which item: everyone has one before anyone has another."""
        for most in range(1, _AHEAD + 1):
            for member in self._members:
                while len(member.items) < most and (member.backlog or common):
                    yield member, (member.backlog or common).popleft()

    def _distribute(
        self, numbers: Iterable[int], common: deque[int], homes: Mapping[int, _Member]
    ) -> None:
        for member in self._members:
            member.items.clear()
            member.backlog.clear()
        for number in numbers:
            home = homes.get(number)
            (common if home not in self._members else home.backlog).append(number)

    def _bury(self, lost: _Member, pending: dict[Any, Any], common: deque[int]) -> None:
        """Give the items of a lost worker to the others."""
        self._members.remove(lost)
        ray.kill(lost.handle)  # where it was only out of reach: it must not go on
        common.extend([*lost.items.values(), *lost.backlog])
        for ref in [ref for ref, (member, *_) in pending.items() if member is lost]:
            del pending[ref]
        if not self._members:
            raise RunError(
                "every worker of the Ray cluster is gone (memory, or its machines): what was "
                "charged stays paid; go on with --resume"
            )

    def _written(self, value: object) -> tuple[int, bytes, tuple[int, ...]]:
        """A key for a value, its pickle, and the keys of the shared values in it."""
        file = io.BytesIO()
        writer = _Writer(file, {name: key for name, (key, *_) in self._shared.items()})
        try:
            writer.dump(value)
        except UnderstudyError:
            raise
        except Exception as error:  # whatever an object raises that cannot be pickled
            raise RunError(
                _UNSENT.format(f"it cannot be pickled ({type(error).__name__})")
            ) from None
        if file.tell() > _MOST_BYTES:
            raise RunError(_UNSENT.format(f"it takes {file.tell() >> 20} MiB"))
        return next(self._keys), file.getvalue(), tuple(writer.used)

    def _send(self, member: _Member, key: int, data: bytes, used: Iterable[int]) -> None:
        if key in member.keys:
            return
        for shared_key, _, shared_data, inner in list(self._shared.values()):
            if shared_key in used:
                self._send(member, shared_key, shared_data, inner)
        for piece in _pieces(data):
            member.handle.receive.remote(piece)
        member.handle.define.remote(key)
        member.keys.add(key)


@contextmanager
def ray_engine(address: str | None = None, *, trusted: bool = False) -> Iterator[RayEngine]:
    """The workers of a cluster, while the context lasts: one a processor.

    Args:
        address: ``HOST:PORT`` of a cluster; None: one is started on this machine, and ended.
        trusted: Whether the owner vouches for a cluster with other machines.

    Raises:
        ConfigError: The cluster is on other machines and not vouched for.
        RunError: It cannot be reached, or starts no worker.
    """
    with connected(address):
        if not trusted:
            require_this_machine(str(node["NodeManagerAddress"]) for node in ray.nodes())
        count = max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(RayWorker)
        handles = [actor.options(scheduling_strategy="SPREAD").remote() for _ in range(count)]
        try:
            entered = {handle.enter.remote(os.getcwd()): handle for handle in handles}
            ready, _ = ray.wait(
                list(entered), num_returns=count, timeout=_START_SECONDS, fetch_local=False
            )
            started = []
            for ref in ready:
                with suppress(ray.exceptions.RayError):
                    ray.get(ref)
                    started.append(entered[ref])
            if not started:
                raise RunError(
                    f"the Ray cluster started no worker in {_START_SECONDS:.0f} seconds, or it was "
                    f"started without this process's token: set {AUTHENTICATION} and "
                    "RAY_AUTH_TOKEN_PATH here as there (docs/scale.md)"
                )
            yield RayEngine(started)
        finally:
            for handle in handles:
                ray.kill(handle)
