"""Sources whose answers are scripted, and an event loop whose time passes at once: where only timers are left, it jumps
to the next one. Nothing sleeps."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlstream.types import BIGINT, STRING
from sqlstream.udfs.lookup.asking import Worker
from sqlstream.udfs.lookup.source import Key, LookupClient, Request, Row

REQUEST = Request(keys=(("k", BIGINT),), columns=(("k", BIGINT), ("v", STRING)))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds since its start. ``jumps`` False: its clock stands still."""

    def __init__(self, *, jumps: bool = True) -> None:
        self.now = 0.0
        self.jumps = jumps
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        if timeout is None or (timeout > 0 and not self._loop.jumps):
            return super().select(None)
        actual = super().select(0)
        if not actual:
            self._loop.now += timeout
        return actual


@dataclass
class Script:
    """What a source does, and what was asked of it. Times in virtual milliseconds.

    ``rows`` by key. ``delay`` and ``failures``: how long an answer takes,
    and how often it fails first, by key. ``held``: keys answered only when the test calls ``release``.
    """

    rows: dict[Key, Sequence[Row]] = field(default_factory=dict)
    delay: Callable[[Key], float] = lambda key: 0
    failures: Counter[Key] = field(default_factory=Counter)
    held: set[Key] = field(default_factory=set)
    asked: list[tuple[float, list[Key]]] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    open_fails: int = 0
    open_takes: float = 0
    in_flight: Counter[Key] = field(default_factory=Counter)
    requests: int = 0
    most_requests: int = 0
    most_of_a_key: int = 0
    cancelled: list[Key] = field(default_factory=list)
    waiting: dict[Key, asyncio.Future[None]] = field(default_factory=dict)

    def release(self, *keys: Key) -> None:
        """On the event loop: answers these keys, now or when they are asked for."""
        self.held -= set(keys)
        for key in keys:
            if key in self.waiting:
                self.waiting.pop(key).set_result(None)

    @property
    def keys_asked(self) -> list[Key]:
        return [key for _, keys in self.asked for key in keys]


SCRIPTS: dict[str, Script] = {}


@dataclass(frozen=True)
class ScriptedSource:
    name: str
    request: Request = REQUEST

    async def open(self) -> LookupClient:
        script = SCRIPTS[self.name]
        script.opened += 1
        if script.open_takes:
            await asyncio.sleep(script.open_takes / 1000)
        if script.open_fails:
            script.open_fails -= 1
            raise ConnectionError("nobody is there")
        return _Client(script)


class _Client:
    def __init__(self, script: Script) -> None:
        self._script = script

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        script = self._script
        script.asked.append((round(asyncio.get_running_loop().time() * 1000, 3), list(keys)))
        script.requests += 1
        script.in_flight.update(keys)
        script.most_requests = max(script.most_requests, script.requests)
        script.most_of_a_key = max(script.most_of_a_key, *script.in_flight.values())
        try:
            return await self._answer(keys)
        except asyncio.CancelledError:
            script.cancelled += keys
            raise
        finally:
            script.requests -= 1
            script.in_flight.subtract(keys)

    async def _answer(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        script = self._script
        if delay := max(script.delay(key) for key in keys):
            await asyncio.sleep(delay / 1000)
        for key in keys:
            if key in script.held:
                script.waiting[key] = asyncio.get_running_loop().create_future()
                await script.waiting[key]
        for key in keys:
            if script.failures[key] > 0:
                script.failures[key] -= 1
                raise ConnectionError(f"no line for {key[0]}")
        return [script.rows.get(key, []) for key in keys]

    async def close(self) -> None:
        self._script.closed += 1


def scripted(name: str, script: Script, request: Request = REQUEST) -> ScriptedSource:
    SCRIPTS[name] = script
    return ScriptedSource(name, request)


def values(*keys: int) -> dict[Key, Sequence[Row]]:
    """One row for each key: (1, "v1")."""
    return {(key,): [(key, f"v{key}")] for key in keys}


def settle(worker: Worker) -> None:
    """Lets the event loop do what it can do without time."""
    for _ in range(10):
        worker.result(lambda: None)
