"""Rows that may be retracted, stored with the results that were computed for them: a retraction retracts the same
results.

The state holds the current rows and their results. The changes of a micro-batch are emitted as retractions, then
insertions; rows that are inserted and retracted within one micro-batch are not emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.joins.stored_side import Changes, Flags, found_among, net_flags
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND, Context
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.time_to_live import TimeToLive


@dataclass(frozen=True)
class StoredResults:
    """Stores the result of each row, so that a retraction of the row retracts the same result.

    ``columns``: KEY_HASH, ROW_KIND, the columns of the rows and those of the results. A retraction belongs to the
    stored row that is equal in the columns ``by``; such rows have the same KEY_HASH. ``without``: a column that is not
    NULL in rows that have no result, such as the error of a failed lookup; no retraction is emitted for them.
    """

    columns: pa.Schema
    by: tuple[str, ...]
    living: TimeToLive
    without: str | None = None

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([column for column in self.columns if column.name != KEY_HASH]).remove_metadata()

    def results(self, rows: pa.Table, context: Context) -> pa.Table:
        """Applies changed rows, in order of arrival, and returns the resulting changelog: first the retractions (-D),
        then the insertions (+I).
        """
        changes = self._net(rows)
        state = self._state(context)
        stored = self._known(state, changes, context)
        gone, seen = found_among(stored, changes.removed, self.by)
        context.count(IGNORED, int(np.count_nonzero(~seen)))
        stay = stored.filter(pa.array(~gone))
        again, there = found_among(stay, changes.repeated, self.by)
        # A row that had expired, was retracted and is inserted again is a new row.
        added = pa.concat_tables([changes.added, changes.repeated.filter(pa.array(~there))])
        if len(gone):
            state.replace(self._refreshed(stay, again, context))
        if added.num_rows:
            state.append(self._kept(added, context))
        state.flush()
        retracted = stored.filter(pa.array(gone))
        if self.without is not None:
            retracted = retracted.filter(pc.is_null(retracted.column(self.without)))
        return pa.concat_tables([self._of_kind("-D", retracted), self._of_kind("+I", added)])

    def forget(self, time: int, context: Context) -> None:
        """Drops the stored rows whose time to live has passed at the processing time ``time`` (microseconds)."""
        assert self.living.ttl, "rows are remembered for ever"
        state = self._state(context)
        self.living.forgotten(state, time)
        state.flush()

    def wakes(self, context: Context) -> int:
        """The processing time, in microseconds, at which ``forget`` must be called next; END_OF_TIME for never."""
        return self.living.wakes(self._state(context), context)

    def _net(self, rows: pa.Table) -> Changes:
        none = rows.slice(0, 0)
        flags = net_flags(rows, self.by, repeats=self.living.ttl > 0)
        if flags is None:
            return Changes(rows, none, none)
        return Changes(*(none if chosen is None else rows.filter(pa.array(chosen)) for chosen in flags))

    def _known(self, state: KeyedState, changes: Changes, context: Context) -> pa.Table:
        """The stored rows that the changes may concern. Insertions need none."""
        asked = [rows.column(KEY_HASH).to_numpy() for rows in (changes.removed, changes.repeated) if rows.num_rows]
        return self.living.alive(state.load(np.concatenate(asked)), context) if asked else self._stored.empty_table()

    # --- state ------------------------------------------------------------------------------------------------

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "remembered", self._stored)

    def _kept(self, rows: pa.Table, context: Context) -> pa.Table:
        columns = [rows.column(name) for name in self._names]
        return pa.Table.from_arrays([*columns, *self.living.timers(rows.num_rows, context)], schema=self._stored)

    def _refreshed(self, rows: pa.Table, again: Flags, context: Context) -> pa.Table:
        """Gives rows that were inserted again the time to live of new ones."""
        if not again.any():
            return rows
        timers = np.where(again, self.living.ends(context), rows.column(PROCESSING_TIMER).to_numpy())
        return rows.set_column(rows.schema.get_field_index(PROCESSING_TIMER), PROCESSING_TIMER, pa.array(timers))

    def _of_kind(self, kind: str, rows: pa.Table) -> pa.Table:
        kinds = pa.repeat(kind, rows.num_rows)
        columns = [kinds if column.name == ROW_KIND else rows.column(column.name) for column in self.output]
        return pa.Table.from_arrays(columns, schema=self.output)

    @cached_property
    def _names(self) -> list[str]:
        return [name for name in self.columns.names if name != ROW_KIND]

    @cached_property
    def _stored(self) -> pa.Schema:
        columns = [self.columns.field(name) for name in self._names]
        return pa.schema([*columns, *self.living.timer]).remove_metadata()
