"""One event loop thread per worker process, with everything that the tasks of the process share.

Spark forks its workers from a daemon, so the thread starts at its first use, in the process that uses it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlstream.udfs.lookup.asking import Asker
from sqlstream.udfs.lookup.options import Cache, LookupOptions, Order
from sqlstream.udfs.lookup.requests import AnswerCache
from sqlstream.udfs.lookup.source import LookupClient, LookupSource

Result = TypeVar("Result")


MOST_RUNS = 32
"""The number of queries whose state a process keeps."""


@dataclass(frozen=True)
class _OfRun:
    askers: dict[tuple[LookupSource, LookupOptions], Asker] = field(default_factory=dict)
    caches: dict[tuple[LookupSource, Cache], AnswerCache] = field(default_factory=dict)

    def cache(self, source: LookupSource, options: Cache) -> AnswerCache:
        return self.caches.setdefault((source, options), AnswerCache(options))


class Worker:
    """Clients by source; and for each run of a query, caches by source and options, and askers by source and request
    options.

    A query that starts sees the current contents of its sources: it shares no cached answers with earlier queries.
    """

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self.loop = new_loop()
        self._lock = threading.Lock()
        self._clients: dict[LookupSource, asyncio.Task[LookupClient]] = {}
        self._runs: OrderedDict[str, _OfRun] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="sqlstream-lookups", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while the thread of the event loop runs in this process."""
        return self._thread.is_alive()

    def asker(self, source: LookupSource, options: LookupOptions, run: str = "") -> Asker:
        """The asker of a source. ``run`` identifies the run of the query."""
        asking = _asking(options)
        with self._lock:
            own = self._of(run)
            asker = own.askers.get((source, asking))
            if asker is None:
                cache = own.cache(source, options.cache) if options.cache else None
                asker = Asker(source, asking, lambda: self._client(source), cache, self.loop)
                own.askers[source, asking] = asker
            return asker

    def _of(self, run: str) -> _OfRun:
        """The state of a query in this process. If there are too many queries, the one whose last task started first
        loses its state; if it continues, it asks again."""
        own = self._runs.setdefault(run, _OfRun())
        self._runs.move_to_end(run)
        if len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)
        return own

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedules a function on the event loop."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def result(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function called on the event loop."""
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        self.call(run)
        return future.result()

    def close(self) -> None:
        """Closes the clients and ends the thread."""
        asyncio.run_coroutine_threadsafe(self._close_clients(), self.loop).result()
        self.call(self.loop.stop)
        self._thread.join()

    async def _client(self, source: LookupSource) -> LookupClient:
        """The client of a source, opened once; after a failure the next one who asks opens it again."""
        opening = self._clients.get(source)
        if opening is None:
            opening = self._clients[source] = self.loop.create_task(_opened(source))
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._clients.get(source) is opening:
                del self._clients[source]
            raise

    async def _close_clients(self) -> None:
        current = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not current]
        opened = [task for task in self._clients.values() if task.done() and not task.exception()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.gather(*(task.result().close() for task in opened), return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


async def _opened(source: LookupSource) -> LookupClient:
    return await source.open()


def _asking(options: LookupOptions) -> LookupOptions:
    """The configuration that affects requests; lookups with the same one share requests."""
    capacity = options.capacity if options.asynchronous else 1
    return replace(options, asynchronous=True, capacity=capacity, order=Order.ORDERED)


_lock = threading.Lock()
_current: tuple[int, Worker] | None = None


def worker() -> Worker:
    """The worker of this process."""
    global _current
    with _lock:
        if _current is None or _current[0] != os.getpid() or not _current[1].is_alive:
            _current = (os.getpid(), Worker())
        return _current[1]
