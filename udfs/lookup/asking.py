"""Sends requests to a source: each key only once at a time, at most CAPACITY requests in flight, with retries and
timeouts.

All methods run on the event loop. Where the language leaves it open:

* The TIMEOUT of a row starts when the first attempt for its key is sent, or when the row joins a request in flight. (In
  Flink it starts with a place in the queue.) It does not run while the source is opened (drivers are imported, files
  loaded), as Flink opens its functions before the first row. Opening fails after OPENING_S.
* A request is in flight while its source works on it. Between two attempts it takes no capacity, but its rows continue
  to wait and their time continues to run. Retried keys are sent before new ones.
* A batch is one request. If it fails, it fails for all of its keys; each is retried with whatever batch is next.
* A request whose rows have all timed out is cancelled, and its capacity is free when it has ended. With DEFER it
  continues in the background, for BACKGROUND_S at least, where again at most CAPACITY requests are in flight.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlstream.errors import ExecutionError
from sqlstream.udfs.lookup.answers import AnswerShape, LookupOutcome, of_error, of_timeout
from sqlstream.udfs.lookup.metrics import RETRIES, Meter
from sqlstream.udfs.lookup.options import Cache, LookupOptions, Order
from sqlstream.udfs.lookup.requests import AnswerCache, Attempt, Deadlines, KeyRequest, Lane, Waiter, identities
from sqlstream.udfs.lookup.source import Key, LookupClient, LookupSource, Row

BACKGROUND_S = 180.0
"""How long (or TIMEOUT, if longer) a request continues in the background, and its outcome is kept after that. Rows in
state ask for it once per micro-batch, and answers that take longer than TIMEOUT must still arrive."""


OPENING_S = 120.0
"""How long (or TIMEOUT, if longer) a source may take to open before the keys that wait for it fail."""

NOT_OPEN = "SS436"

Answers = Sequence[Sequence[Row] | BaseException]
"""Answers by key, in the order of the requests."""


class Cancelled(Exception):
    """Raised where a source's client cancelled its own request, which counts as an error of the lookup."""


class Asker:
    """Sends the requests of a worker process to one source. All lookups with the same options share it, and one request
    serves all rows that wait for the same key.
    """

    def __init__(
        self,
        source: LookupSource,
        options: LookupOptions,
        client: Callable[[], Awaitable[LookupClient]],
        cache: AnswerCache | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.source = source
        self.options = options
        self.cache = cache
        self.shape = AnswerShape(source.request)
        self.identity = identities(source.request)
        self._open_client = client
        self._client: LookupClient | None = None
        self._loop = loop
        self._requests: dict[Hashable, KeyRequest] = {}
        within = options.batch_within_ms / 1000
        self._rows, self._background = (Lane(options.capacity, options.batch, within) for _ in range(2))
        seconds = options.timeout_ms / 1000
        self._deadlines: Deadlines[Waiter] = Deadlines(loop, seconds, self._expired)
        self._opening_s = max(seconds, OPENING_S)
        patience = max(seconds, BACKGROUND_S)
        self._left: Deadlines[KeyRequest] = Deadlines(loop, patience, self._background_expired)
        self._left_over = UnclaimedOutcomes(patience, loop.time)
        self._unwatched = Meter()

    # --- requests ----------------------------------------------------------------------------------------

    def ask(self, asked: Iterable[tuple[Key, Waiter]]) -> None:
        """Requests the answers to keys. Each ``Waiter`` is called with the outcome of its key."""
        for key, waiter in asked:
            self._ask(key, waiter)
        self._pump(self._rows)

    def _ask(self, key: Key, waiter: Waiter) -> None:
        identity = key if self.identity is None else self.identity(key)
        request = self._requests.get(identity)
        if request is None:
            cached = self.cache.get((identity,))[0] if self.cache else None
            if cached is not None:
                waiter.sink(waiter, cached)
                return
            request = self._new(key, identity, self._rows, waiter.meter)
        waiter.request = request
        request.waiters.append(waiter)
        if request.started:
            self._deadlines.add(waiter)

    def forget(self, waiters: Iterable[Waiter]) -> None:
        """Removes the waiters of a task that has ended, and cancels requests for which no one else waits."""
        for waiter in waiters:
            self._deadlines.remove(waiter)
            request = waiter.request
            if request is not None and waiter in request.waiters:
                request.waiters.remove(waiter)
                if not request.waiters:
                    self._left_alone(request, goes_on=False)

    def take(self, keys: Sequence[Key]) -> list[LookupOutcome | None]:
        """Returns the outcome of each key for rows that are stored in state (ON TIMEOUT DEFER); None for outcomes that
        have not arrived. Never waits: it starts requests for keys that were not requested yet.
        """
        outcomes = [self._take(key) for key in keys]
        self._pump(self._background)
        return outcomes

    def _take(self, key: Key) -> LookupOutcome | None:
        identity = key if self.identity is None else self.identity(key)
        outcome = self._left_over.pop(identity)
        if outcome is not None:
            return outcome
        cached = self.cache.get((identity,))[0] if self.cache else None
        if cached is not None:
            return cached
        request = self._requests.get(identity)
        if request is None:
            request = self._new(key, identity, self._background, self._unwatched)
        request.background = True
        if request.started:
            self._left.add(request)
        return None

    @property
    def timers(self) -> int:
        """The number of waiters whose timeout is running."""
        return len(self._deadlines) + len(self._left)

    @property
    def is_idle(self) -> bool:
        """True where no request is in flight and no timer is set."""
        return not (self._requests or self._deadlines.is_armed or self._left.is_armed)

    def _new(self, key: Key, identity: Hashable, lane: Lane, meter: Meter) -> KeyRequest:
        request = self._requests[identity] = KeyRequest(key, identity, lane, meter)
        lane.add(request)
        return request

    # --- attempts ---------------------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        while asked := lane.next():
            self._start(asked, lane)
        if lane.waits_for_more and lane.has_room and lane.window is None:
            lane.window = self._loop.call_later(lane.within, self._window_is_over, lane)

    def _window_is_over(self, lane: Lane) -> None:
        lane.window_is_over()
        self._pump(lane)

    def _start(self, requests: list[KeyRequest], lane: Lane) -> None:
        lane.in_flight += 1
        attempt = Attempt(requests, lane, self._loop.time())
        for request in requests:
            request.attempt = attempt
        requests[0].meter.sent(lane.in_flight)
        attempt.task = self._loop.create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        attempt.runs = True
        self._ended(attempt, () if attempt.cancelled else await self._answers(attempt))

    async def _answers(self, attempt: Attempt) -> Answers:
        requests = attempt.requests
        try:
            client = self._client
            if client is None:
                client = self._client = await self._opened()
            self._begin(attempt)
            returned = await client.ask([request.key for request in requests])
            return self.shape.checked(len(requests), returned)
        except asyncio.CancelledError:
            return () if attempt.cancelled else [Cancelled("the request was cancelled")] * len(requests)
        except Exception as error:
            return [error] * len(requests)

    def _begin(self, attempt: Attempt) -> None:
        attempt.begun = self._loop.time()
        for request in attempt.requests:
            if not request.started and not request.gone:
                self._begin_time(request)

    def _begin_time(self, request: KeyRequest) -> None:
        request.started = True
        for waiter in request.waiters:
            self._deadlines.add(waiter)
        if request.background:
            self._left.add(request)

    def _ended(self, attempt: Attempt, answers: Answers) -> None:
        attempt.lane.in_flight -= 1
        attempt.requests[0].meter.took(self._loop.time() - attempt.begun)
        for request, answer in zip(attempt.requests, answers, strict=False):
            self._settle(request, answer)
        self._pump(attempt.lane)

    async def _opened(self) -> LookupClient:
        try:
            async with asyncio.timeout(self._opening_s) as limit:
                return await self._open_client()
        except TimeoutError:
            if not limit.expired():
                raise
        message = f'the source of the lookup in "{self.source.name}" did not open in {self._opening_s:.0f} s'
        raise ExecutionError(NOT_OPEN, message, hint="See what it waits for, or give it more time with TIMEOUT.")

    def _settle(self, request: KeyRequest, answer: Sequence[Row] | BaseException) -> None:
        failed = isinstance(answer, BaseException)
        request.attempt = None
        if not request.gone and (failed or not answer):
            delay = request.attempts.delay(self.options.retries, missed=not failed)
            if delay is not None:
                request.meter.count(RETRIES)
                request.retry = self._loop.call_later(delay, self._again, request)
                return
        if isinstance(answer, BaseException):
            self._finish(request, of_error(self.source, request.key, self.options, answer))
            return
        outcome = LookupOutcome(answer)
        # A request that was cancelled may have missed a row that exists by now.
        if self.cache is not None and (answer or not request.gone):
            self.cache.put(request.identity, outcome)
        self._finish(request, outcome)

    def _again(self, request: KeyRequest) -> None:
        request.retry = None
        request.lane.add(request, first=True)
        self._pump(request.lane)

    def _finish(self, request: KeyRequest, outcome: LookupOutcome) -> None:
        if request.gone:
            return
        del self._requests[request.identity]
        waiters, request.waiters = request.waiters, []  # whose task ends must not find it again
        for waiter in waiters:
            self._deadlines.remove(waiter)
            waiter.sink(waiter, outcome)
        if request.background:
            self._left.remove(request)
            self._left_over.put(request.identity, outcome)

    # --- timeouts -----------------------------------------------------------------------------------------

    def _expired(self, waiter: Waiter) -> None:
        request = waiter.request
        assert request is not None
        request.waiters.remove(waiter)
        waiter.sink(waiter, of_timeout(self.source, request.key, self.options))
        if not request.waiters:
            self._left_alone(request, goes_on=self.options.defers)

    def _left_alone(self, request: KeyRequest, *, goes_on: bool) -> None:
        """The last waiter is gone. ``goes_on``: rows in state wait for it, or will."""
        if goes_on or request.background:
            self._to_background(request)
        else:
            self._give_up(request)

    def _give_up(self, request: KeyRequest) -> None:
        request.gone = True
        del self._requests[request.identity]
        request.lane.remove(request)
        self._left.remove(request)
        if request.retry is not None:
            request.retry.cancel()
        attempt = request.attempt
        if attempt is not None and attempt.task is not None and all(other.gone for other in attempt.requests):
            attempt.cancelled = True
            if attempt.runs:  # a task that is cancelled before its first step never ends what it began
                attempt.task.cancel()

    def _to_background(self, request: KeyRequest) -> None:
        request.background = True
        self._left.add(request)
        waited = request.lane.remove(request)
        request.lane = self._background
        if waited:
            self._background.add(request)
            self._pump(self._background)
        attempt = request.attempt
        if attempt is not None and attempt.lane is self._rows:
            self._attempt_to_background(attempt)

    def _attempt_to_background(self, attempt: Attempt) -> None:
        """Moves an attempt that only rows in state wait for to the background, or gives it up if the background is
        full."""
        going_on = [request for request in attempt.requests if not request.gone]
        if any(not request.background for request in going_on):
            return
        if not self._background.has_room:
            for request in going_on:
                self._give_up(request)
            return
        self._rows.in_flight -= 1
        self._background.in_flight += 1
        attempt.lane = self._background
        self._pump(self._rows)

    def _background_expired(self, request: KeyRequest) -> None:
        """The background time of a request has passed: rows in state will request it again. It continues if other rows
        wait for it."""
        request.background = False
        if not request.waiters:
            self._give_up(request)


# --- outcomes that arrived between two calls of a kernel ------------------------------------------------------


MOST = 10_000
"""The limit of stored outcomes: rows may wait in another process by now and never take theirs from here."""


class UnclaimedOutcomes:
    """Outcomes by key for rows stored in state (ON TIMEOUT DEFER), until a kernel takes them. Each expires after
    ``seconds``.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._outcomes: OrderedDict[Hashable, tuple[LookupOutcome, float]] = OrderedDict()

    def put(self, key: Hashable, outcome: LookupOutcome) -> None:
        """Stores an outcome."""
        self._outcomes[key] = (outcome, self._clock() + self._seconds)
        self._outcomes.move_to_end(key)
        if len(self._outcomes) > MOST:
            self._outcomes.popitem(last=False)

    def pop(self, key: Hashable) -> LookupOutcome | None:
        """Removes and returns the outcome of ``key``; None if there is none or it has expired."""
        outcome, until = self._outcomes.pop(key, (None, 0.0))
        return outcome if until > self._clock() else None


# --- one event loop thread per worker process, with everything that the tasks of the process share ---------------
# Spark forks its workers from a daemon, so the thread starts at its first use, in the process that uses it.


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
    """What all lookups of a worker process share: an event loop in a thread, one client per source, and for each run of
    a query the answer caches and the ``Asker``s.

    A query that starts sees the current contents of its sources, because it shares no cached answers with earlier runs.
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
        """The asker of a source, shared by the tasks of one run. ``run`` identifies the run of the query."""
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
        """Schedules a call of ``function`` on the event loop, without waiting for it."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def result(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Calls ``function`` on the event loop, waits, and returns its result."""
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        self.call(run)
        return future.result()

    def close(self) -> None:
        """Closes the clients and ends the thread of the event loop."""
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
    """The ``Worker`` of this process, which is created at the first call."""
    global _current
    with _lock:
        if _current is None or _current[0] != os.getpid() or not _current[1].is_alive:
            _current = (os.getpid(), Worker())
        return _current[1]
