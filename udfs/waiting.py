"""What an operator keeps for later, counted from its state: rows in open windows, timers, rows behind barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sqlstream.udfs.kernel import END_OF_TIME, Domain


class Pending(Enum):
    """The kind of what waits. ROWS_IN_WINDOWS: rows of open windows. ROWS: rows that are to be processed in order of
    time. HELD: rows that wait for barriers. WINDOWS: open windows of keys, where the number of their rows is unknown.
    """

    ROWS_IN_WINDOWS = "rows in windows"
    ROWS = "rows"
    TIMERS = "timers"
    HELD = "held"
    WINDOWS = "windows"


@dataclass(frozen=True)
class Wait:
    """``count`` of ``what`` wait for the clock of ``domain``: the first of them until it reaches ``first``, the last
    until ``last``, in microseconds. ``domain`` None: they wait for no time."""

    what: Pending
    domain: Domain | None
    count: int
    first: int = END_OF_TIME
    last: int = END_OF_TIME


def waits(
    what: Pending, domain: Domain, last: np.ndarray, count: np.ndarray | None = None, first: np.ndarray | None = None
) -> Iterator[Wait]:
    """What waits, so many each and without them one, from ``first`` until ``last``; where that is no time, nothing."""
    count = np.ones(len(last), np.int64) if count is None else count
    first = last if first is None else first
    timed = (last != END_OF_TIME) & (count > 0)
    if timed.any():
        yield Wait(what, domain, int(count[timed].sum()), int(first[timed].min()), int(last[timed].max()))


def added(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """One for each kind and clock."""
    sums: dict[tuple[Pending, Domain | None], Wait] = {}
    for wait in waits:
        key = wait.what, wait.domain
        so_far = sums.get(key, Wait(*key, 0, END_OF_TIME, -END_OF_TIME))
        first, last = min(so_far.first, wait.first), max(so_far.last, wait.last)
        sums[key] = Wait(*key, so_far.count + wait.count, first, last)
    return tuple(sums.values())
