"""Answers that are remembered: the last keys of a source, shared by the tasks of a process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence

from sqlstream.udfs.lookup.options import Cache
from sqlstream.udfs.lookup.source import Row

Rows = Sequence[Row]
NEVER = float("inf")


class AnswerCache:
    """The keys that were used last, as many as ``options.rows``. ``clock`` gives seconds and never goes back."""

    def __init__(self, options: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        negative_ms = options.ttl_ms if options.negative_ttl_ms is None else options.negative_ttl_ms
        self._rows = options.rows
        self._ttl = _seconds(options.ttl_ms)
        self._negative_ttl = _seconds(negative_ms)
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[Rows, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, keys: Iterable[Hashable]) -> list[Rows | None]:
        """The answer of each key; None where it is not known, or no longer."""
        with self._lock:
            now = self._clock()
            return [self._get(key, now) for key in keys]

    def _get(self, key: Hashable, now: float) -> Rows | None:
        found = self._answers.get(key)
        if found is None:
            return None
        rows, until = found
        if until <= now:
            del self._answers[key]
            return None
        self._answers.move_to_end(key)
        return rows

    def put(self, key: Hashable, rows: Rows) -> None:
        ttl = self._ttl if rows else self._negative_ttl
        if ttl == 0:
            return
        with self._lock:
            self._answers[key] = (rows, self._clock() + ttl)
            self._answers.move_to_end(key)
            if len(self._answers) > self._rows:
                self._answers.popitem(last=False)


def _seconds(ms: int | None) -> float:
    return NEVER if ms is None else ms / 1000
