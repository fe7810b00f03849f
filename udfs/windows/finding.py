"""To which windows stored rows belong: windows of keys found by their bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]


class WindowsByKey(NamedTuple):
    """Windows by key, start and end."""

    key: Values
    start: Values
    end: Values

    def holding(self, key: Values, start: Values) -> Values:
        """The last window of the key that begins at or before a start and ends after it; -1 for none."""
        candidate = _search(np.stack([self.key, self.start]), np.stack([key, start])) - 1
        return np.where((candidate >= 0) & (self.key[candidate] == key) & (self.end[candidate] > start), candidate, -1)

    def equal(self, key: Values, start: Values, end: Values) -> Values:
        windows = np.stack([self.key, self.start, self.end])
        candidate = _search(windows, np.stack([key, start, end])) - 1
        same = (
            (candidate >= 0)
            & (self.key[candidate] == key)
            & (self.start[candidate] == start)
            & (self.end[candidate] == end)
        )
        return np.where(same, candidate, -1)


def _search(ordered: Values, asked: Values) -> Values:
    """How many columns of ``ordered``, which are in order, come before or equal each column asked for."""
    combined = np.concatenate([ordered, asked], axis=1)
    order = np.lexsort(combined[::-1])
    passed = np.cumsum(order < ordered.shape[1])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = passed
    return ranks[ordered.shape[1] :]


def numbers_of(order: Values, positions: Values) -> Values:
    """Translates positions in sorted order to the original numbers; -1 stays."""
    return np.where(positions >= 0, order[positions], -1) if len(order) else np.full(len(positions), -1)
