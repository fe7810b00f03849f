"""The options of LOOKUP ASYNC: how a lookup sends requests and what it does with answers. Times are in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Order(Enum):
    """The order in which a lookup emits rows: that of arrival, that of arrival among rows with equal keys
    (KEY_ORDERED), or that in which the answers arrive.
    """

    ORDERED = "ORDERED"
    UNORDERED = "UNORDERED"
    KEY_ORDERED = "KEY ORDERED"


class OnTimeout(Enum):
    """What happens to a row whose TIMEOUT passes: FAIL the job, answer NULL as for a miss, or store the row in state
    and continue to ask (DEFER).
    """

    FAIL = "FAIL"
    NULL = "NULL"
    DEFER = "DEFER"


class OnError(Enum):
    """What happens to a row whose lookup fails: FAIL the job, answer NULL as for a miss, or send the row TO a table."""

    FAIL = "FAIL"
    NULL = "NULL"
    TO = "TO"


@dataclass(frozen=True)
class Retry:
    """A retry policy: ``times`` attempts after the first. ``exponential``: each delay is twice the previous one, up to
    ``limit_ms``.
    """

    times: int
    delay_ms: int
    on_miss: bool = True
    on_error: bool = True
    exponential: bool = False
    limit_ms: int | None = None


@dataclass(frozen=True)
class Cache:
    """The options of a lookup's cache, which has the answers of the ``rows`` most recently used keys.

    Answers expire after ``ttl_ms`` milliseconds; those of keys without rows after ``negative_ttl_ms``, by default
    ``ttl_ms``. If both are None, answers never expire.
    """

    rows: int
    ttl_ms: int | None = None
    negative_ttl_ms: int | None = None


@dataclass(frozen=True)
class LookupOptions:
    """The options of a lookup.

    ``asynchronous`` False: one request at a time, in order of arrival (a lookup join without LOOKUP ASYNC).
    ``capacity``: the maximum number of requests in flight per task. ``timeout_ms`` (milliseconds) covers all attempts
    of a row. ``retries``: at most one policy for misses and one for errors. ``batch``: the number of keys per request;
    a request waits at most ``batch_within_ms`` milliseconds for so many.
    """

    asynchronous: bool = True
    order: Order = Order.ORDERED
    capacity: int = 100
    timeout_ms: int = 180_000
    on_timeout: OnTimeout = OnTimeout.FAIL
    on_error: OnError = OnError.FAIL
    retries: tuple[Retry, ...] = ()
    cache: Cache | None = None
    batch: int = 1
    batch_within_ms: int = 0

    @property
    def defers(self) -> bool:
        """True with ON TIMEOUT DEFER, where rows without an answer wait in state."""
        return self.on_timeout is OnTimeout.DEFER


DEFAULT_LOOKUP = LookupOptions()
