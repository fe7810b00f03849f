"""The ranking of a Top-N: keys, order, and which numbers of rows are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs import sorting
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.top_n.order import Flags, Numbers, Order, in_order, numbers_of, sort_keys


@dataclass(frozen=True)
class Ranking:
    """The rows whose number ``function`` is from ``first`` to ``last``, counted from 1, among those of equal ``keys``
    in the ``order``; of equal rows the one that came first goes first, or the last one where ``newest_first``."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    function: Number
    first: int
    last: int
    newest_first: bool = False

    def __post_init__(self) -> None:
        assert 1 <= self.first <= self.last, "a Top-N has bounds"

    @property
    def has_slots(self) -> bool:
        """True where a key and a number stand for one row at most."""
        return self.function is Number.ROW_NUMBER

    def places(self, rows: pa.Table) -> Places:
        """``rows`` are in order of arrival."""
        keys = sort_keys(rows, self.order)
        if self.newest_first:
            keys = [*keys, -np.arange(rows.num_rows)]
        return Places(dense_ids(rows, self.keys).ids, keys)

    def best(self, places: Places) -> Flags:
        """True for rows that no others of these keep from being among the best ``last`` of their key."""
        numbers = places.numbers(self.function, places.in_order())
        return numbers <= self.last


class Places(NamedTuple):
    """``ids``: the dense number of the key of each row. ``keys``: the numbers by which rows of a key are in order."""

    ids: Numbers
    keys: Sequence[Numbers]

    @property
    def keys_there(self) -> int:
        """The number of different keys, of rows whose ids leave none out."""
        return int(self.ids.max(initial=-1)) + 1

    def where(self, chosen: Flags) -> Places:
        return Places(self.ids[chosen], [key[chosen] for key in self.keys])

    def in_order(self) -> Numbers:
        return in_order(self.ids, self.keys)

    def numbers(self, function: Number, chosen: Numbers) -> Numbers:
        """The number of each row among those ``chosen``, which are in order; 0 for the others."""
        numbers_of_rows = np.zeros(len(self.ids), np.int64)
        numbers_of_rows[chosen] = numbers_of(function, self.ids[chosen], [key[chosen] for key in self.keys])
        return numbers_of_rows

    def reaching(self, ranking: Ranking, best_count: int) -> Flags:
        """True for rows that may be among the best: the first ``best_count``, which are so far, and the others, except
        for those that the first column of the order puts behind the last row of a full key. So most rows of a long
        stream are not sorted."""
        ids, reaches = self.ids[:best_count], np.ones(len(self.ids), np.bool_)
        if not best_count or not self.keys or ranking.function is Number.DENSE_RANK:
            return reaches
        by_id = sorting.in_order([ids])
        begins = np.flatnonzero(np.diff(ids[by_id], prepend=-1))
        full = np.diff(begins, append=best_count) >= ranking.last
        worst = np.full(int(self.ids.max()) + 1, np.iinfo(np.int64).max)
        worst[ids[by_id][begins[full]]] = np.maximum.reduceat(self.keys[0][:best_count][by_id], begins)[full]
        reaches[best_count:] = self.keys[0][best_count:] <= worst[self.ids[best_count:]]
        return reaches
