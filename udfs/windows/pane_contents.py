"""The stored contents of panes: accumulators per pane and key, appended in chunks and merged when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners.assigner import Times
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.chunked import ChunkedState
from sqlstream.udfs.windows.numbering import number, stable_order
from sqlstream.udfs.windows.ranges import Indices

MOST_PARTS = 16
"""A pane of more parts is merged once it has grown to twice its size, or right away while it is small."""

SMALL_ROWS = 2_048


@dataclass(frozen=True)
class Entries:
    """One row per pane and key: by pane, which is a position among ``panes``, then by first appearance of the key."""

    rows: pa.Table
    panes: Times
    pane: Indices
    key: Indices
    key_count: int

    def by_key(self) -> tuple[Entries, Indices]:
        """Sorted by key, then by pane; and where each row was."""
        order = stable_order(self.key, self.key_count)
        return Entries(self.rows.take(pa.array(order)), self.panes, self.pane[order], self.key[order],
                       self.key_count), order  # fmt: skip

    def of_pane(self, position: int) -> pa.Table:
        start, stop = np.searchsorted(self.pane, (position, position + 1))
        return self.rows.slice(start, stop - start)


def read_entries(state: ChunkedState, panes: Times, keys: Sequence[str], aggregates: Aggregates) -> Entries:
    """The contents of panes, merged; those that became smaller are replaced in the state."""
    tables = state.read(panes)
    pane_tables = [tables[int(pane)] for pane in panes]
    sizes = np.array([table.num_rows for table in pane_tables], np.int64)
    rows = pa.concat_tables(pane_tables).combine_chunks()
    pane = np.repeat(np.arange(len(panes)), sizes)
    entries = merged(rows, panes, pane, keys, aggregates)
    left = np.bincount(entries.pane, minlength=len(panes))
    for position in np.flatnonzero(left < sizes).tolist():
        state.replace(int(panes[position]), entries.of_pane(position))
    return entries


def merged(rows: pa.Table, panes: Times, pane: Indices, keys: Sequence[str], aggregates: Aggregates) -> Entries:
    """Merges rows of equal pane and key. ``pane``: that of each row, ascending."""
    ids = dense_ids(rows, keys)
    cells = number(pane * ids.count + ids.ids, len(panes) * ids.count)
    if cells.count == rows.num_rows:
        return Entries(rows, panes, pane, ids.ids, ids.count)
    first = pa.array(cells.first)
    values = aggregates.merge(rows.select(aggregates.accumulators.names), cells.ids, cells.count)
    columns = [rows.column(key).take(first) for key in keys] + values.columns
    table = pa.Table.from_arrays(columns, schema=rows.schema)
    return Entries(table, panes, pane[cells.first], ids.ids[cells.first], ids.count)


def compact(state: ChunkedState, panes: Times, keys: Sequence[str], aggregates: Aggregates) -> None:
    """Merges panes that were appended to often. Over time this costs a constant for each row that was appended."""
    due = [int(pane) for pane in panes if _is_fragmented(state, int(pane))]
    if due:
        read_entries(state, np.array(due, np.int64), keys, aggregates)


def _is_fragmented(state: ChunkedState, pane: int) -> bool:
    parts, rows, base = state.extent(pane)
    return parts > MOST_PARTS and (rows >= 2 * base or base <= SMALL_ROWS)
