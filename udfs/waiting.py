"""Counts of what an operator still holds: rows in open windows, timers, rows held back by barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sqlstream.udfs.kernel import END_OF_TIME, Domain


class Pending(Enum):
    """The kind of what is pending.

    ROWS_IN_WINDOWS: rows of open windows. ROWS: rows that are to be processed in order of time. HELD: rows held back
    until barriers are aligned. WINDOWS: open windows, where the number of their rows is unknown.
    """

    ROWS_IN_WINDOWS = "rows in windows"
    ROWS = "rows"
    TIMERS = "timers"
    HELD = "held"
    WINDOWS = "windows"


@dataclass(frozen=True)
class Wait:
    """``count`` items of kind ``what`` are pending until the clock of ``domain`` reaches their times.

    ``first`` and ``last`` are the earliest and the latest of these times, in microseconds. ``domain`` None: they wait
    for no clock.
    """

    what: Pending
    domain: Domain | None
    count: int
    first: int = END_OF_TIME
    last: int = END_OF_TIME


def waits(
    what: Pending, domain: Domain, last: np.ndarray, count: np.ndarray | None = None, first: np.ndarray | None = None
) -> Iterator[Wait]:
    """The pending items with the times ``last`` (and ``first``), of ``count`` each, 1 if None. Items whose time is
    END_OF_TIME are not pending."""
    count = np.ones(len(last), np.int64) if count is None else count
    first = last if first is None else first
    timed = (last != END_OF_TIME) & (count > 0)
    if timed.any():
        yield Wait(what, domain, int(count[timed].sum()), int(first[timed].min()), int(last[timed].max()))


def added(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """The sum of some ``Wait``s: one per kind and clock."""
    sums: dict[tuple[Pending, Domain | None], Wait] = {}
    for wait in waits:
        key = wait.what, wait.domain
        so_far = sums.get(key, Wait(*key, 0, END_OF_TIME, -END_OF_TIME))
        first, last = min(so_far.first, wait.first), max(so_far.last, wait.last)
        sums[key] = Wait(*key, so_far.count + wait.count, first, last)
    return tuple(sums.values())
