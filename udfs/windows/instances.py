"""Window instances, one per key and window: their state in memory, and as rows of a KeyedState."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Domain
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER
from sqlstream.udfs.triggers.trigger import Trigger, TriggerState, Windows

Values = np.ndarray[Any, np.dtype[Any]]

START, END = "__start", "__end"
FILLED, PANES, EMITTED, ROWS = "__filled", "__panes", "__emitted", "__rows"
TRIGGER, LAST = "__trigger.", "__last."

_ARROW = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "O": pa.binary()}


@dataclass(frozen=True)
class InstanceLayout:
    """The columns of stored instances. ``held``: the columns of the contents; ``last``: those of the result that was
    emitted last, if results are retracted."""

    keys: pa.Schema
    trigger: Trigger
    held: pa.Schema
    last: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows."""
        own = [(name, pa.int64()) for name in (START, END, EVENT_TIMER, PROCESSING_TIMER, PANES, ROWS)]
        flags = [(name, pa.bool_()) for name in (FILLED, EMITTED)]
        of_trigger = [(TRIGGER + name, _ARROW[values.dtype.kind]) for name, values in self.trigger.fresh(0).columns()]
        last = [(LAST + column.name, column.type) for column in self.last]
        return pa.schema([*self.keys, *(pa.field(*column) for column in own + flags + of_trigger + last), *self.held])

    @property
    def empty(self) -> Instances:
        """No instances."""
        return self.decode(self.schema.empty_table())

    def fresh(self, keys: pa.Table, start: Values, end: Values, held: pa.Table) -> Instances:
        """New instances of these keys and windows."""
        count = len(start)
        last = pa.table([pa.nulls(count, column.type) for column in self.last], schema=self.last)
        panes, rows = np.zeros(count, np.int64), np.zeros(count, np.int64)
        filled, emitted = np.zeros(count, bool), np.zeros(count, bool)
        return Instances(keys, start, end, self.trigger.fresh(count), filled, panes, rows, held, emitted, last)

    def decode(self, rows: pa.Table) -> Instances:
        """The instances that were stored as these rows."""
        state = self.trigger.fresh(rows.num_rows)
        _fill(state, rows, TRIGGER)
        last = rows.select([LAST + name for name in self.last.names]).rename_columns(self.last.names)
        return Instances(
            rows.select(self.keys.names),
            _numpy(rows, START),
            _numpy(rows, END),
            state,
            _numpy(rows, FILLED),
            _numpy(rows, PANES),
            _numpy(rows, ROWS),
            rows.select(self.held.names),
            _numpy(rows, EMITTED),
            last,
        )

    def encode(self, instances: Instances, timers: dict[Domain, Values]) -> pa.Table:
        """The instances as rows to store."""
        columns: dict[str, Any] = {
            **_columns(instances.keys),
            START: instances.start,
            END: instances.end,
            EVENT_TIMER: timers[Domain.EVENT],
            PROCESSING_TIMER: timers[Domain.PROCESSING],
            PANES: instances.panes,
            ROWS: instances.rows,
            FILLED: instances.filled,
            EMITTED: instances.emitted,
            **{TRIGGER + name: values for name, values in instances.trigger.columns()},
            **{LAST + name: column for name, column in _columns(instances.last).items()},
            **_columns(instances.held),
        }
        schema = self.schema
        return pa.table([_array(columns[column.name], column.type) for column in schema], schema=schema)


@dataclass
class Instances:
    """Columns of window instances, which are changed in place or replaced.

    ``filled``: the window is not empty. ``panes``: the number of firings. ``rows``: the number of rows since the window
    was last emptied, without rows that are in later windows too. ``held``: the columns of the contents. ``last``: the
    result that was emitted last, where ``emitted``.
    """

    keys: pa.Table
    start: Values
    end: Values
    trigger: TriggerState
    filled: Values
    panes: Values
    rows: Values
    held: pa.Table
    emitted: Values
    last: pa.Table

    @property
    def count(self) -> int:
        """The number of instances."""
        return len(self.start)

    @property
    def hashes(self) -> Values:
        """The key hash of each instance."""
        hashes: Values = self.keys.column(KEY_HASH).to_numpy()
        return hashes

    def at(self, index: Values) -> Instances:
        """A copy of some instances, by index or mask."""
        index = np.flatnonzero(index) if index.dtype == bool else index
        return Instances(
            self.keys.take(index),
            self.start[index],
            self.end[index],
            self.trigger.at(index),
            self.filled[index],
            self.panes[index],
            self.rows[index],
            self.held.take(index),
            self.emitted[index],
            self.last.take(index),
        )

    def followed_by(self, other: Instances) -> Instances:
        """These instances, then the others."""
        return Instances(
            joined(self.keys, other.keys),
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            self.trigger.followed_by(other.trigger),
            np.concatenate([self.filled, other.filled]),
            np.concatenate([self.panes, other.panes]),
            np.concatenate([self.rows, other.rows]),
            joined(self.held, other.held),
            np.concatenate([self.emitted, other.emitted]),
            joined(self.last, other.last),
        )

    def keep_last(self, index: Values, rows: pa.Table, there: Values) -> None:
        """Stores the results that some instances emitted last; where not ``there``, they were retracted."""
        self.last = with_rows(self.last, index, rows)
        self.emitted[index] = there

    def windows(self, watermark: int, processing_time: int, domain: Domain) -> Windows:
        """The windows of the instances, with the clocks of the call."""
        return Windows(self.start, self.end, watermark, processing_time, domain)


@dataclass
class Touched:
    """The ``instances`` that a call works on. ``stored_row``: the row of each in the loaded table, -1 for new ones.
    ``is_replaced``: true for loaded rows that are one of these instances or were merged into one."""

    instances: Instances
    stored_row: Values
    is_replaced: Values


def joined(first: pa.Table, second: pa.Table) -> pa.Table:
    """Two tables concatenated, in one chunk; also for tables without columns."""
    if first.num_columns == 0:
        return rows_without_columns(first.num_rows + second.num_rows)
    return pa.concat_tables([first, second]).combine_chunks()


def rows_without_columns(count: int) -> pa.Table:
    """A table of ``count`` rows without columns."""
    return pa.table({"": pa.nulls(count)}).select([])


def with_rows(table: pa.Table, index: Values, rows: pa.Table) -> pa.Table:
    """The table with the rows at an index replaced."""
    if len(index) == 0 or table.num_columns == 0:
        return table
    order = np.arange(table.num_rows)
    order[index] = table.num_rows + np.arange(len(index))
    return joined(table, rows).take(order)


def _fill(state: TriggerState, rows: pa.Table, prefix: str) -> None:
    for name in state.values:
        state[name] = _numpy(rows, prefix + name).astype(state[name].dtype, copy=False)
    for number, nested in enumerate(state.parts):
        _fill(nested, rows, f"{prefix}{number}.")


def _numpy(rows: pa.Table, name: str) -> Values:
    values: Values = rows.column(name).to_numpy()
    return values.copy()


def _columns(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.schema.names, table.columns, strict=True))


def _array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else values


def names_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema of some columns."""
    return pa.schema([schema.field(name) for name in names])
