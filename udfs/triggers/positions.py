"""Searching among the positions of many window instances at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sqlstream.udfs.triggers.state import Values
from sqlstream.udfs.triggers.trigger import NONE

FIRST_STRETCH = 16


def spread(starts: Values, lengths: Values) -> tuple[Values, Values]:
    """All positions from each start on, and the number of the start to which each belongs."""
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owner)) - before[owner] + starts[owner], owner


def first_where(starts: Values, ends: Values, holds: Callable[[Values, Values], Values]) -> Values:
    """The first position from each start, before its end, at which ``holds(positions, owners)`` is true; else NONE.

    Looks at stretches of doubling length, so that it costs about as much as the distance to what it finds.
    """
    first = np.full(len(starts), NONE, np.int64)
    cursor, active, length = starts.copy(), np.flatnonzero(starts < ends), FIRST_STRETCH
    while len(active):
        stretch = np.minimum(ends[active] - cursor[active], length)
        position, owner = spread(cursor[active], stretch)
        hits = np.flatnonzero(holds(position, active[owner]))
        np.minimum.at(first, active[owner[hits]], position[hits])
        cursor[active] += stretch
        active = active[(first[active] == NONE) & (cursor[active] < ends[active])]
        length *= 2
    return first
