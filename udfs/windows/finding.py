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
        found = _search(np.stack([self.key, self.start]), np.stack([key, start])) - 1
        return np.where((found >= 0) & (self.key[found] == key) & (self.end[found] > start), found, -1)

    def equal(self, key: Values, start: Values, end: Values) -> Values:
        windows = np.stack([self.key, self.start, self.end])
        found = _search(windows, np.stack([key, start, end])) - 1
        same = (found >= 0) & (self.key[found] == key) & (self.start[found] == start) & (self.end[found] == end)
        return np.where(same, found, -1)


def _search(ordered: Values, asked: Values) -> Values:
    """How many columns of ``ordered``, which are in order, come before or equal each column asked for."""
    both = np.concatenate([ordered, asked], axis=1)
    order = np.lexsort(both[::-1])
    passed = np.cumsum(order < ordered.shape[1])
    found = np.empty(len(order), np.int64)
    found[order] = passed
    return found[ordered.shape[1] :]


def numbers_of(order: Values, found: Values) -> Values:
    """What was found in order, as numbers before ordering; -1 stays."""
    return np.where(found >= 0, order[found], -1) if len(order) else np.full(len(found), -1)
