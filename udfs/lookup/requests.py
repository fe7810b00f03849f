"""Requests in a worker process: requested keys, the waiters for each, attempts, retries, timeouts and the cache."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sqlstream.udfs.lookup.answers import LookupOutcome
from sqlstream.udfs.lookup.metrics import Meter
from sqlstream.udfs.lookup.options import Cache, Retry
from sqlstream.udfs.lookup.source import Key, Request


class Waiter:
    """Someone who waits for the answer to a key. ``sink(waiter, outcome)`` is called once, on the event loop."""

    __slots__ = ("key_id", "meter", "request", "sink")

    def __init__(self, sink: Callable[[Waiter, LookupOutcome], None], key_id: Any, meter: Meter) -> None:
        self.sink = sink
        self.key_id = key_id
        self.meter = meter
        self.request: KeyRequest | None = None


class KeyRequest:
    """The request for one key, over all its attempts. Its TIMEOUT starts with the first attempt.

    ``background``: it is for rows stored in state. ``gone``: the tasks of all its waiters have ended.
    """

    __slots__ = (
        "attempt",
        "attempts",
        "background",
        "gone",
        "identity",
        "key",
        "lane",
        "meter",
        "retry",
        "started",
        "waiters",
    )

    def __init__(self, key: Key, identity: Hashable, lane: Lane, meter: Meter) -> None:
        self.key = key
        self.identity = identity
        self.lane = lane
        self.meter = meter
        self.waiters: list[Waiter] = []
        self.attempts = Attempts()
        self.attempt: Attempt | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.started = self.background = self.gone = False


class Attempt:
    """One request that was sent to the source, for one key or a batch of keys. ``runs``: its asyncio task has
    started.
    """

    __slots__ = ("begun", "cancelled", "lane", "requests", "runs", "task")

    def __init__(self, requests: list[KeyRequest], lane: Lane, begun: float) -> None:
        self.requests = requests
        self.lane = lane
        self.begun = begun
        self.cancelled = self.runs = False
        self.task: asyncio.Task[None] | None = None


class Lane:
    """A queue of keys to request, with the requests in flight, whose number is limited (CAPACITY). Rows from the input
    and rows stored in state have a queue each.

    A batch is sent when it is full, or when its first key has waited for ``within`` seconds. ``window`` is the timer
    for that, ``due`` the number of keys that have waited that long.
    """

    def __init__(self, capacity: int, batch: int, within: float) -> None:
        self._capacity = capacity
        self._batch = batch
        self.within = within
        self.in_flight = 0
        self.due = 0
        self.window: asyncio.TimerHandle | None = None
        self._waiting: OrderedDict[KeyRequest, None] = OrderedDict()

    @property
    def has_room(self) -> bool:
        """True if the limit allows one more attempt in flight."""
        return self.in_flight < self._capacity

    @property
    def waits_for_more(self) -> bool:
        """True if the keys in the queue are not a full batch and none of them has waited ``within`` seconds yet."""
        return bool(self._waiting) and not self._sends

    @property
    def _sends(self) -> bool:
        return bool(self._waiting) and (self.within == 0 or self.due > 0 or len(self._waiting) >= self._batch)

    def add(self, request: KeyRequest, *, first: bool = False) -> None:
        """Adds a key to the end of the queue, or to its beginning with ``first``."""
        request.lane = self
        self._waiting[request] = None
        if first:
            self._waiting.move_to_end(request, last=False)

    def remove(self, request: KeyRequest) -> bool:
        """Removes a key from the queue; False if it is not there."""
        waits = request in self._waiting
        self._waiting.pop(request, None)
        return waits

    def next(self) -> list[KeyRequest]:
        """Removes and returns the keys of the next request; empty if none may be sent now."""
        if not self._sends or not self.has_room:
            return []
        requests = [self._waiting.popitem(last=False)[0] for _ in range(min(self._batch, len(self._waiting)))]
        self.due = max(0, self.due - len(requests))
        return requests

    def window_is_over(self) -> None:
        """Called when the oldest keys have waited for ``within`` seconds: marks the keys in the queue as due, so that
        they are sent even if they do not fill a batch.
        """
        self.window = None
        self.due = len(self._waiting)


_NAN = float("nan")
_COMPOSITE = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "FLOAT", "DOUBLE"})


def identities(request: Request) -> Callable[[Key], Hashable] | None:
    """A function that maps a key to a hashable value, so that equality in Python is equality in SQL: all NaN become one
    value, lists become tuples. None if no key column needs it.
    """
    return _identity if any(kind.name in _COMPOSITE for _, kind in request.keys) else None


def _identity(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(map(_identity, value))
    if isinstance(value, dict):
        return tuple((name, _identity(member)) for name, member in value.items())
    return _NAN if isinstance(value, float) and value != value else value


# --- retries --------------------------------------------------------------------------------------------------


JITTER = 0.1
"""Exponential delays vary by this share in either direction, so that keys that failed together spread out. Fixed delays
are exact."""


class Attempts:
    """Counts the retries of one key, separately for each retry policy."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[Retry, int] = {}

    def delay(
        self, retries: Sequence[Retry], *, missed: bool, spread: Callable[[], float] = random.random
    ) -> float | None:
        """The seconds to wait before the next attempt after a miss (``missed``) or an error; None if no more attempts
        are allowed. The call counts the attempt.

        ``spread``: a function that returns a random number of [0, 1), by which delays differ.
        """
        for retry in retries:
            if retry.on_miss if missed else retry.on_error:
                done = self._times.get(retry, 0)
                if done >= retry.times:
                    return None
                self._times[retry] = done + 1
                return delay_ms(retry, done, spread()) / 1000
        return None


def delay_ms(retry: Retry, done: int, spread: float = 0.5) -> float:
    """The delay in milliseconds before the next retry, after ``done`` retries. ``spread``, a number of [0, 1), varies
    exponential delays by up to 10 percent; with 0.5 the delay is exactly as configured.
    """
    if not retry.exponential:
        return retry.delay_ms
    # Larger exponents would overflow, and are past every limit and timeout.
    delay = float(retry.delay_ms * 2 ** min(done, 40))
    if retry.limit_ms is not None:
        delay = min(delay, retry.limit_ms)
    return delay * (1 + JITTER * (2 * spread - 1))


# --- deadlines of equal length: one timer of the event loop for all of them -----------------------------------


Wait = TypeVar("Wait")


class Deadlines(Generic[Wait]):
    """A timeout of ``seconds`` for each of many waiting objects: calls ``expired(wait)`` unless ``remove(wait)`` is
    called within ``seconds`` after ``add(wait)``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[Wait], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._expired = expired
        self._ends: OrderedDict[Wait, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of running waits."""
        return len(self._ends)

    @property
    def is_armed(self) -> bool:
        """True while a timer of the event loop is set, that is, while there are waits."""
        return self._timer is not None

    def add(self, wait: Wait) -> None:
        """Starts the timeout of a wait; no effect if it is running."""
        if wait in self._ends:
            return
        self._ends[wait] = self._loop.time() + self._seconds
        if self._timer is None:
            self._arm()

    def remove(self, wait: Wait) -> None:
        """Ends the timeout of a wait; no effect if it is not running."""
        self._ends.pop(wait, None)
        if not self._ends and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_at(next(iter(self._ends.values())), self._fire)

    def _fire(self) -> None:
        self._timer = None
        while self._ends:
            wait, end = next(iter(self._ends.items()))
            if end > self._loop.time():
                break
            del self._ends[wait]
            self._expired(wait)
        if self._ends and self._timer is None:
            self._arm()


# --- the cache of answers, shared by the tasks of a process ---------------------------------------------------


NEVER = float("inf")
_UNKNOWN = (None, -NEVER)


class AnswerCache:
    """A cache with the answers of at most ``options.rows`` keys, from which the least recently used key is removed
    first. ``clock`` returns monotonic seconds.
    """

    def __init__(self, options: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        negative_ms = options.ttl_ms if options.negative_ttl_ms is None else options.negative_ttl_ms
        self._rows = options.rows
        self._ttl = _seconds(options.ttl_ms)
        self._negative_ttl = _seconds(negative_ms)
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[LookupOutcome, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, keys: Iterable[Hashable]) -> list[LookupOutcome | None]:
        """The cached answer of each key; None where there is none or it has expired."""
        answers, outcomes = self._answers, []
        with self._lock:
            now = self._clock()
            for key in keys:
                outcome, until = answers.get(key, _UNKNOWN)
                if until > now:
                    answers.move_to_end(key)
                elif outcome is not None:
                    del answers[key]
                    outcome = None
                outcomes.append(outcome)
        return outcomes

    def put(self, key: Hashable, answer: LookupOutcome) -> None:
        """Caches an answer."""
        ttl = self._ttl if answer.rows else self._negative_ttl
        if ttl == 0:
            return
        with self._lock:
            self._answers[key] = (answer, self._clock() + ttl)
            self._answers.move_to_end(key)
            if len(self._answers) > self._rows:
                self._answers.popitem(last=False)


def _seconds(ms: int | None) -> float:
    return NEVER if ms is None else ms / 1000
