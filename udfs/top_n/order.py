"""ORDER BY as numbers: each column of an order becomes int64, so that numpy sorts and compares rows of any types. Also
the ranking of a Top-N.

The order of values is Spark's: NaN is the greatest number, -0.0 equals 0.0, texts are compared byte by byte, FALSE
precedes TRUE. NULLs are first or last as specified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs import keys as sorting
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.over.functions import Number

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MAGNITUDE = np.int64(2**63 - 1)


@dataclass(frozen=True)
class Order:
    """A column of ORDER BY, with its direction and the position of NULLs."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def sort_keys(rows: pa.Table, orders: Sequence[Order]) -> list[Numbers]:
    """The ORDER BY columns as int64 arrays, the most significant first, whose lexicographic order is that of the rows;
    peers are equal in all of them. A column with NULLs has two arrays.
    """
    return [key for order in orders for key in _keys(rows.column(order.column).combine_chunks(), order)]


def _keys(column: pa.Array, order: Order) -> Iterator[Numbers]:
    values = _numbers(column)
    values = ~values if order.descending else values
    if column.null_count:
        is_null = np.asarray(column.is_null())
        yield np.where(is_null, 0 if order.nulls_first else 2, 1)
        values = np.where(is_null, 0, values)
    yield values


def _numbers(column: pa.Array) -> Numbers:
    """int64, in the order of the values; anything for NULLs."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _filled(column.cast(pa.int64()))
    if pa.types.is_date32(kind):
        return _filled(column.cast(pa.int32()).cast(pa.int64()))
    if pa.types.is_temporal(kind) and kind.bit_width == 64:
        return _filled(column.cast(pa.int64()))
    if pa.types.is_floating(kind):
        return _of_floats(np.asarray(column.cast(pa.float64()).fill_null(0.0)))
    return _of_others(column)


def _filled(column: pa.Array) -> Numbers:
    return np.asarray(column.fill_null(0) if column.null_count else column, np.int64)


def _of_floats(values: npt.NDArray[np.float64]) -> Numbers:
    """The bits of a float ascend with its magnitude: those of negative ones are turned around."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = plain.view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def _of_others(column: pa.Array) -> Numbers:
    """The place of each value among the different ones in order: of texts, bytes and decimals."""
    dictionary = column.dictionary_encode()
    rank = np.empty(len(dictionary.dictionary) + 1, np.int64)
    rank[pc.array_sort_indices(dictionary.dictionary).to_numpy()] = np.arange(len(dictionary.dictionary))
    rank[-1] = 0
    return rank[np.asarray(dictionary.indices.fill_null(len(dictionary.dictionary)), np.int64)]


def numbers_of(function: Number, ids: Numbers, keys: Sequence[Numbers]) -> Numbers:
    """The ROW_NUMBER, RANK or DENSE_RANK, from 1, of each row among the rows of its key. ``ids`` has the index of each
    row's key, ``keys`` are the sort keys; rows are sorted by id, then by these.
    """
    count = len(ids)
    begins = _changes(ids)
    starts = np.flatnonzero(begins)
    first = np.repeat(starts, np.diff(starts, append=count))
    if function is Number.ROW_NUMBER:
        return np.arange(count) - first + 1
    begins_peers = begins.copy()
    for key in keys:
        begins_peers |= _changes(key)
    if function is Number.DENSE_RANK:
        group = np.cumsum(begins_peers)
        dense: Numbers = np.subtract(group, group[first]) + 1
        return dense
    peers = np.flatnonzero(begins_peers)
    rank = np.repeat(peers, np.diff(peers, append=count)) - first + 1
    return np.asarray(rank)


def _changes(values: Numbers) -> Flags:
    """True for the first row, and those whose value is another than that of the row before."""
    begins_run = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins_run[1:])
    return begins_run


def in_order(ids: Numbers, keys: Sequence[Numbers]) -> Numbers:
    """The row indices sorted by id, then by the keys (stable)."""
    return sorting.in_order([ids, *keys])


# --- the ranking of a Top-N: keys, order, and the row numbers that are wanted ---------------------------------


@dataclass(frozen=True)
class Ranking:
    """The definition of a Top-N: among the rows of equal ``keys``, sorted by ``order``, those whose ``function`` (such
    as ROW_NUMBER) is between ``first`` and ``last``, counted from 1.

    Of equal rows the first that arrived ranks first, or the last one if ``newest_first``.
    """

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
        """True if a key and a row number identify at most one row."""
        return self.function is Number.ROW_NUMBER

    def places(self, rows: pa.Table) -> Places:
        """Returns the columns that determine the order of ``rows`` in the ranking: the index of each row's key, and its
        sort keys. ``rows`` are in order of arrival.
        """
        keys = sort_keys(rows, self.order)
        if self.newest_first:
            keys = [*keys, -np.arange(rows.num_rows)]
        return Places(dense_ids(rows, self.keys).ids, keys)

    def best(self, places: Places) -> Flags:
        """One boolean per row: true if its number by ``function``, such as ROW_NUMBER, is at most ``last``."""
        numbers = places.numbers(self.function, places.in_order())
        return numbers <= self.last


class Places(NamedTuple):
    """What determines the order of rows in a ranking. ``ids``: for each row the index of its key. ``keys``: the sort
    keys of the rows, one array per ORDER BY column.
    """

    ids: Numbers
    keys: Sequence[Numbers]

    @property
    def keys_there(self) -> int:
        """The number of distinct keys, if ``ids`` has every index from 0."""
        return int(self.ids.max(initial=-1)) + 1

    def where(self, chosen: Flags) -> Places:
        """The ``Places`` of only those rows for which ``chosen`` is true."""
        return Places(self.ids[chosen], [key[chosen] for key in self.keys])

    def in_order(self) -> Numbers:
        """The row indices sorted by key, then in the order of the ranking."""
        return in_order(self.ids, self.keys)

    def numbers(self, function: Number, chosen: Numbers) -> Numbers:
        """For each row its number by ``function`` among the rows of its key in ``chosen``, which are sorted row
        indices; 0 for rows that are not in ``chosen``.
        """
        numbers_of_rows = np.zeros(len(self.ids), np.int64)
        numbers_of_rows[chosen] = numbers_of(function, self.ids[chosen], [key[chosen] for key in self.keys])
        return numbers_of_rows

    def reaching(self, ranking: Ranking, best_count: int) -> Flags:
        """One boolean per row: false for rows that are certainly not in the Top-N, to avoid sorting them.

        The first ``best_count`` rows are the Top-N so far, for which the result is true. It is false for any other row
        that the first ORDER BY column alone ranks after all rows of its key, if the key already has as many as the
        Top-N takes.
        """
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
