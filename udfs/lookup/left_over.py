"""Outcomes for rows in state that have come between two calls of their kernel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from sqlstream.udfs.lookup.outcomes import LookupOutcome

MOST = 10_000
"""The most outcomes that are kept: rows may wait in another process by now, and never take theirs from here."""


class LeftOver:
    """Outcomes by key, each for ``seconds``."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._outcomes: OrderedDict[Hashable, tuple[LookupOutcome, float]] = OrderedDict()

    def put(self, key: Hashable, outcome: LookupOutcome) -> None:
        self._outcomes[key] = (outcome, self._clock() + self._seconds)
        self._outcomes.move_to_end(key)
        if len(self._outcomes) > MOST:
            self._outcomes.popitem(last=False)

    def pop(self, key: Hashable) -> LookupOutcome | None:
        """The outcome, which is not kept any longer; None where there is none, or it is too old."""
        outcome, until = self._outcomes.pop(key, (None, 0.0))
        return outcome if until > self._clock() else None
