"""Answers that are remembered: the last keys of a source, shared by the tasks of a process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

from sqlstream.udfs.lookup.options import Cache
from sqlstream.udfs.lookup.outcomes import LookupOutcome

NEVER = float("inf")
_UNKNOWN = (None, -NEVER)


class AnswerCache:
    """The keys that were used last, as many as ``options.rows``. ``clock`` gives seconds and never goes back."""

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
        """The answer of each key; None where it is not known, or no longer."""
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
