"""Output rows of firings: bounds, panes and results, and retractions of earlier results. Also late rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.event_times import time_text
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, LATE_ROWS, ROW_KIND, Context
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.texts import python_list
from sqlstream.udfs.windows.instances import Instances
from sqlstream.udfs.windows.ranges import AllRows

Values = np.ndarray[Any, np.dtype[Any]]

PANE, PANE_INDEX = "__pane", "__pane_index"
WINDOW_START, WINDOW_END = "window_start", "window_end"
TIMESTAMP = pa.timestamp("us", "UTC")
EARLY, ON_TIME, LATE = range(3)
PANE_NAMES = ("EARLY", "ON_TIME", "LATE")

INSERT, DELETE, BEFORE, AFTER = range(4)
KINDS = ("+I", "-D", "-U", "+U")


class Firings(NamedTuple):
    """Firings of windows, in the order of their output; each field has one value per firing.

    ``instance``: the index of the window instance. ``when``: its order among the firings of one call. ``start`` and
    ``end``: the window's bounds in microseconds. ``pane``: EARLY, ON_TIME or LATE. ``results`` are the result rows of
    the window function; ``of`` has, for each of them, the index of its firing, None if each firing has exactly one.
    ``gone``: true for firings of windows whose rows were all retracted, None if there are none.
    """

    instance: Values
    when: Values
    start: pa.Array
    end: pa.Array
    pane: Values
    results: pa.Table
    of: Values | None = None
    gone: Values | None = None


class Emitted(NamedTuple):
    """Output rows and, for each row, a number by which all output of one call is sorted."""

    rows: pa.Table
    when: Values


@dataclass(frozen=True)
class Emission:
    """Builds the output rows of a window operator.

    ``keys``: the key columns, which come first. ``results``: the schema of the window function. ``panes``: rows have
    the kind (EARLY, ON_TIME, LATE) and number of their firing. ``retracting``: earlier results are retracted.
    ``row_kinds``: rows have ROW_KIND.
    """

    keys: pa.Schema
    results: pa.Schema
    panes: bool = False
    retracting: bool = False
    row_kinds: bool = False

    @property
    def output(self) -> pa.Schema:
        kinds = [(ROW_KIND, pa.string())] if self.row_kinds else []
        return pa.schema([*self.keys, *self.values, *(pa.field(*kind) for kind in kinds)])

    @property
    def values(self) -> pa.Schema:
        """The schema of all output columns except the key and the row kind."""
        bounds = [(WINDOW_START, TIMESTAMP), (WINDOW_END, TIMESTAMP)]
        panes = [(PANE, pa.string()), (PANE_INDEX, pa.int64())] if self.panes else []
        return pa.schema([*(pa.field(*b) for b in bounds), *self.results, *(pa.field(*p) for p in panes)])

    @property
    def last(self) -> pa.Schema:
        """The columns in which a window's last emitted result is stored, to be retracted later; an empty schema if
        results are not retracted.
        """
        return self.values if self.retracting else pa.schema([])

    def emit(self, instances: Instances, firings: Firings) -> Emitted:
        """The output rows of firings. Updates the firing numbers and last results of the ``instances``."""
        if self.retracting:
            return self._emit_changes(instances, firings)
        index = _number(instances, firings.instance)
        firing_of_row = np.arange(len(firings.instance)) if firings.of is None else firings.of
        rows = self._values(firings, firing_of_row, index)
        kinds = np.full(len(firing_of_row), INSERT)
        return self._output(instances, firings.instance[firing_of_row], rows, kinds, firings.when[firing_of_row])

    def retract(self, instances: Instances, index: Values, when: Values) -> Emitted:
        """Rows that retract the last results of the instances with these indices. ``when``: for each of them, a number
        that gives its order in the output of the call.
        """
        return self._output(instances, index, instances.last.take(index), np.full(len(index), DELETE), when)

    def _emit_changes(self, instances: Instances, firings: Firings) -> Emitted:
        """-U of the previous result and +U of the new one, +I for a first result, nothing for an unchanged one, -D if
        all rows were retracted."""
        assert firings.of is None, "rows as they are are not retracted"
        count = len(firings.instance)
        there = np.ones(count, bool) if firings.gone is None else ~firings.gone
        chosen, had = self._changed(instances, firings, there)
        there, of = there[chosen], firings.instance[chosen]
        index = np.zeros(len(chosen), np.int64)
        index[there] = _number(instances, of[there])
        rows = self._values(firings, chosen, index)
        before = _previous(of)
        old = pa.concat_tables([rows, instances.last.take(of)]).combine_chunks()
        old = old.take(np.where(before < 0, len(chosen) + np.arange(len(chosen)), before))
        when, withdrawn, added = firings.when[chosen], np.flatnonzero(had), np.flatnonzero(there)
        kinds = np.where(there, BEFORE, DELETE)[withdrawn]
        taken_back = self._output(instances, of[withdrawn], old.take(withdrawn), kinds, when[withdrawn])
        kinds = np.where(had, AFTER, INSERT)[added]
        new = self._output(instances, of[added], rows.take(added), kinds, when[added])
        newest = _newest(of)
        instances.keep_last(of[newest], rows.take(newest), there[newest])
        order = np.argsort(np.concatenate([2 * withdrawn, 2 * added + 1]), kind="stable")
        emitted = pa.concat_tables([taken_back.rows, new.rows]).combine_chunks()
        return Emitted(emitted.take(order), np.concatenate([taken_back.when, new.when])[order])

    def _changed(self, instances: Instances, firings: Firings, there: Values) -> tuple[Values, Values]:
        """The firings that change what was emitted last, and of each of these whether something was. ``there``: the
        firing has a result."""
        count = len(there)
        rows = self._values(firings, np.arange(count), np.zeros(count, np.int64))
        previous = _previous(firings.instance)
        candidates = pa.concat_tables([rows, instances.last.take(firings.instance)]).combine_chunks()
        compared = dense_ids(candidates, [WINDOW_START, WINDOW_END, *self.results.names]).ids
        first = previous < 0
        other = np.where(first, count + np.arange(count), previous)
        had = np.where(first, instances.emitted[firings.instance], there[previous])
        changed = np.where(there, ~had | (compared[:count] != compared[other]), had)
        chosen = np.flatnonzero(changed)
        return chosen, had[chosen]

    def _values(self, firings: Firings, firing_of_row: Values, index: Values) -> pa.Table:
        """One row for each entry of ``firing_of_row``; ``index``: pane numbers by firing or entry."""
        results = firings.results if firings.of is not None else firings.results.take(firing_of_row)
        columns = [firings.start.take(firing_of_row), firings.end.take(firing_of_row), *results.columns]
        if self.panes:
            names = pa.array(PANE_NAMES).take(pa.array(firings.pane[firing_of_row]))
            numbers = index if firings.of is None else index[firing_of_row]
            columns += [names, pa.array(numbers)]
        return pa.table(columns, schema=self.values)

    def _output(
        self, instances: Instances, instance_of_row: Values, values: pa.Table, kinds: Values, when: Values
    ) -> Emitted:
        keys = instances.keys.select(self.keys.names).take(instance_of_row)
        columns = [*keys.columns, *values.columns]
        if self.row_kinds:
            columns.append(pa.array(KINDS).take(pa.array(kinds)))
        return Emitted(pa.table(columns, schema=self.output), when)


def bounds(values: Values | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Times in microseconds as an Arrow array of TIMESTAMP."""
    return pc.cast(pa.array(values) if isinstance(values, np.ndarray) else values, TIMESTAMP)


def in_order(emitted: list[Emitted]) -> pa.Table | None:
    """All rows of several outputs, sorted by ``when`` (stable); None if there are no rows."""
    emitted = [rows_emitted for rows_emitted in emitted if rows_emitted.rows.num_rows]
    if not emitted:
        return None
    when = np.concatenate([rows_emitted.when for rows_emitted in emitted])
    rows = pa.concat_tables([rows_emitted.rows for rows_emitted in emitted])
    return rows if (when[1:] >= when[:-1]).all() else rows.combine_chunks().take(np.argsort(when, kind="stable"))


def _number(instances: Instances, instance_of_firing: Values) -> Values:
    """The pane number of each firing; those of one instance follow each other."""
    ranks = ranks_of(instance_of_firing)
    numbers = instances.panes[instance_of_firing] + ranks
    np.add.at(instances.panes, instance_of_firing, 1)
    return numbers


def ranks_of(groups: Values) -> Values:
    """For each entry, how many earlier entries belong to the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(groups) else ordered
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    return ranks


def _previous(groups: Values) -> Values:
    """The entry before each that is of the same group; -1 for none."""
    order = np.argsort(groups, kind="stable")
    previous = np.full(len(groups), -1)
    same = groups[order][1:] == groups[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _newest(groups: Values) -> Values:
    """The last entry of each group."""
    newest = np.ones(len(groups), bool)
    previous = _previous(groups)
    newest[previous[previous >= 0]] = False
    return np.flatnonzero(newest)


# --- late rows: counted, sent to a side output, or an error ---------------------------------------------------


LATE_ROW = repeating("SS406")


class LateRows(Enum):
    """What happens to late rows: they are dropped, emitted to a side output, or raise an error."""

    DROP = "drop"
    EMIT = "emit"
    FAIL = "fail"


@dataclass(frozen=True)
class Lateness:
    """How late rows are treated. ``allowed``: the allowed lateness in microseconds, for which windows are stored after
    their end. ``columns``: the columns of the input that are emitted for late rows.
    """

    allowed: int = 0
    action: LateRows = LateRows.DROP
    columns: tuple[str, ...] = ()

    def output(self, rows: pa.Schema) -> pa.Schema | None:
        """The schema of late rows in the side output; None if they are not emitted."""
        if self.action is not LateRows.EMIT:
            return None
        windows = [pa.field(name, TIMESTAMP) for name in (WINDOW_START, WINDOW_END)]
        return pa.schema([*(rows.field(name) for name in self.columns), *windows])

    def report(self, rows: pa.Table, start: Values, end: Values, context: Context) -> None:
        """Counts ``rows`` that are late for all their windows, and emits them to the side output or raises
        ExecutionError SS406, as configured. ``start`` and ``end`` are the bounds of the last window of each, in
        microseconds.
        """
        if rows.num_rows == 0:
            return
        context.count(LATE_ROWS, rows.num_rows)
        if self.action is LateRows.FAIL:
            raise _late_row(rows, start, end)
        if self.action is LateRows.EMIT:
            columns = [*(rows.column(name) for name in self.columns), bounds(start), bounds(end)]
            schema = self.output(rows.schema)
            context.emit_late(pa.table(columns, schema=schema))


NO_LATENESS = Lateness()


def _late_row(rows: pa.Table, start: Values, end: Values) -> ExecutionError:
    columns = [name for name in rows.column_names if not name.startswith("__")]
    (row,) = python_list(rows.select(columns).slice(0, 1), "a value of a late row")
    window = " to ".join(time_text(int(bound[0])) for bound in (start, end))
    message = f"a row is late for its window, which is from {window}"
    hint = "Write LATE DATA DROP or LATE DATA TO a table, or ALLOW an interval."
    return ExecutionError(LATE_ROW, message, detail=f"The row: {row}.", hint=hint)


# --- columns that kernels store with their rows, and emit -----------------------------------------------------


@dataclass(frozen=True)
class StoredColumns:
    """Which columns of its ``input`` a window kernel stores, and which it emits. The key columns are emitted before the
    window's bounds and the results, except those that a ``function`` without aggregation (AllRows) emits itself.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    function: Aggregates | AllRows

    @cached_property
    def stored(self) -> pa.Schema:
        """The schema of the stored columns: key hash, keys, and the columns that the window function needs."""
        function = self.function.input.names if isinstance(self.function, Aggregates) else self.function.columns
        return self._fields(dict.fromkeys((KEY_HASH, *self.keys, *function)))

    @cached_property
    def output(self) -> pa.Schema:
        bounds = (pa.field(WINDOW_START, TIMESTAMP), pa.field(WINDOW_END, TIMESTAMP))
        return pa.schema([*self._fields(self.leading), *bounds, *self._results])

    @cached_property
    def leading(self) -> list[str]:
        """The key columns that are emitted before the results, because the results do not contain them."""
        return [name for name in self.keys if name not in self._results.names]

    @cached_property
    def _results(self) -> pa.Schema:
        return self.function.results if isinstance(self.function, Aggregates) else self._fields(self.function.columns)

    def _fields(self, names: dict[str, None] | list[str] | tuple[str, ...]) -> pa.Schema:
        return pa.schema([self.input.field(name) for name in names])


# --- limits for windows that fire at every interval since a very old row --------------------------------------


TOO_MANY_FIRINGS = repeating("SS468")

_LOOKS = 1000
"""The number of rounds of firings after which their pace is checked."""

MOST_FIRINGS = 100_000_000
"""The limit of results of one key in one step of a clock: one per second for three years."""


def require_few(firings: int, begin: int, end: int) -> None:
    """Raises ExecutionError SS468 if there are too many ``firings`` between the times ``begin`` and ``end``, in
    microseconds.
    """
    if firings > MOST_FIRINGS:
        until = f"until {time_text(end)}" if end != END_OF_TIME else "until the end of the input"
        raise ExecutionError(
            TOO_MANY_FIRINGS,
            f"a window would fire {firings:,} times from {time_text(begin)} {until}, and may {MOST_FIRINGS:,} times",
            hint="Filter out rows of so old a time, as by WHERE ts >= TIMESTAMP '2000-01-01 00:00:00', or let the "
            "window fire less often.",
        )


@dataclass
class FiringPace:
    """Estimates how often windows will fire in one call, so that a query whose clock advances over too many firings can
    be refused early. Windows fire in rounds, each window at its earliest timer.
    """

    _rounds: int = 0
    _first: int = 0

    def fires(self, timer: Values, until: Values) -> None:
        """Records a round: ``timer`` has for each window the time of its next firing, ``until`` the time up to which it
        may fire, both in microseconds.

        Raises ExecutionError SS468 if, at the rate so far, too many firings are to be expected.
        """
        if self._rounds == 0 and len(timer):
            self._first = int(timer.min())
        self._rounds += 1
        if self._rounds % _LOOKS or not len(timer):
            return
        latest = int(np.argmin(timer))
        now, end = int(timer[latest]), int(until[latest])
        if now > self._first and end != END_OF_TIME:
            require_few((end - self._first) * self._rounds // (now - self._first), self._first, end)
