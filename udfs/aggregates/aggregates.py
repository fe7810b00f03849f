"""Several aggregate calls over groups of rows, computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates.accumulator import (
    ARRIVAL,
    Accumulator,
    AggregateCall,
    Batch,
    Columns,
    Groups,
    Plan,
    Source,
)
from sqlstream.udfs.aggregates.extremes import Extreme
from sqlstream.udfs.aggregates.registry import plan_of, plan_over_changes, shows_arrival

# Infinity and NaN are valid values in SQL, so numpy must not warn.
_as_in_sql = np.errstate(all="ignore")


@dataclass(frozen=True)
class Aggregates:
    """Computes the aggregate ``calls`` over rows with the columns of ``input``. Raises UnsupportedError SS395 for calls
    that are not executed.

    ``lift`` makes accumulators of rows, ``merge`` combines those of parts of the rows, in order, ``finish`` computes
    the results, one column per call (schema ``results``). Sums of floating-point numbers may differ in the last bits.

    ``by_number``: parts may be merged in any order, because the input column ARRIVAL numbers rows in order of arrival.
    ``retracting``: rows can be removed by merging their ``negated`` accumulators; only for calls whose ``retracts`` is
    true. ``updating``: the input is a changelog with ROW_KIND, and retractions remove rows, for any call. If a result
    then depends on the order of rows, a retraction removes the last row with the same arguments and the same values of
    ``identified_by``. If parts are merged in any order, such equal rows must be in one part.
    """

    calls: tuple[AggregateCall, ...]
    input: pa.Schema
    by_number: bool = False
    retracting: bool = False
    updating: bool = False
    identified_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert len({c.name for c in self.calls}) == len(self.calls), "results have names of their own"
        _ = self._plans

    def for_merging_windows(self) -> Aggregates:
        """Aggregates of the same calls that also record the order of arrival (``by_number``), if a result depends on
        it; otherwise these aggregates.
        """
        if not any(shows_arrival(call) for call in self.calls):
            return self
        return replace(self, input=self.input.append(pa.field(ARRIVAL, pa.int64())), by_number=True)

    def newest(self, accumulators: pa.Table) -> np.ndarray:
        """For each accumulator row the greatest arrival number among the input rows that it contains, -1 if it contains
        none. Only with ``by_number``.
        """
        assert self.by_number, "rows have no numbers"
        column = accumulators.column(self._accumulators.names[-1])
        numbers: np.ndarray = pc.fill_null(column, -1).to_numpy()
        return numbers

    @property
    def accumulators(self) -> pa.Schema:
        """The schema of the stored accumulators of all calls, under hidden names."""
        return self._accumulators

    @property
    def results(self) -> pa.Schema:
        """The schema of the results: one column per call."""
        return pa.schema([(c.name, c.result) for c in self.calls])

    @_as_in_sql
    def lift(self, rows: pa.Table, groups: np.ndarray, count: int) -> pa.Table:
        """The accumulators of input rows: a table of ``count`` rows, one per group. ``groups`` has the group index of
        each row; rows are in order of arrival.
        """
        batch = Batch(rows, Groups(groups, count))
        return self._table([c for a in self._distinct for c in a.lift(batch)], count)

    @_as_in_sql
    def merge(self, accumulators: pa.Table, groups: np.ndarray, count: int) -> pa.Table:
        """Merges stored accumulators: returns a table of ``count`` rows. ``groups`` has the new group index of each
        accumulator row; accumulators of one group are merged in the order of their rows.
        """
        merged_groups = Groups(groups, count)
        parts = _split(_columns(accumulators, self._accumulators.names), self._distinct)
        return self._table(
            [c for a, p in zip(self._distinct, parts, strict=True) for c in a.merge(p, merged_groups)], count
        )

    @_as_in_sql
    def of_ranges(self, accumulators: pa.Table, start: np.ndarray, stop: np.ndarray) -> pa.Table | None:
        """One merged accumulator row for each range ``[start, stop)`` of accumulator rows; None if some call cannot be
        computed from running totals.
        """
        columns_of_ranges: list[pa.Array] = []
        parts = _split(_columns(accumulators, self._accumulators.names), self._distinct)
        for accumulator, own_columns in zip(self._distinct, parts, strict=True):
            columns = accumulator.of_ranges(own_columns, start, stop)
            if columns is None:
                return None
            columns_of_ranges += columns
        return self._table(columns_of_ranges, len(start))

    @_as_in_sql
    def finish(self, accumulators: pa.Table) -> pa.Table:
        """The results of the calls: one row for each row of accumulators."""
        parts = _split(_columns(accumulators, self._accumulators.names), self._distinct)
        by_accumulator = dict(zip(self._distinct, parts, strict=True))
        results = [
            plan.finish(*(c for a in plan.accumulators for c in by_accumulator[a])).cast(call.result)
            for call, plan in zip(self.calls, self._plans, strict=True)
        ]
        return _table(results, self.results, accumulators.num_rows)

    @property
    def retracts(self) -> bool:
        """True if rows can be removed from the accumulators of all calls by ``negated``."""
        return all(accumulator.retracts for accumulator in self._distinct)

    @_as_in_sql
    def negated(self, accumulators: pa.Table) -> pa.Table:
        """The accumulators that remove the rows counted in ``accumulators`` when they are merged into others."""
        parts = _split(_columns(accumulators, self._accumulators.names), self._distinct)
        columns = [c for a, p in zip(self._distinct, parts, strict=True) for c in a.negated(p)]
        return self._table(columns, accumulators.num_rows)

    @property
    def may_survive(self) -> bool:
        """True if all calls are MIN or MAX: a retraction then often leaves their result unchanged (see
        ``survives``).
        """
        return all(isinstance(accumulator, Extreme) for accumulator in self._distinct)

    def survives(self, accumulators: pa.Table, gone: pa.Table) -> np.ndarray:
        """One boolean per accumulator row: true if its results certainly do not change when rows are retracted.
        ``gone`` has the accumulators of the retracted rows.
        """
        names = self._accumulators.names
        parts = (_split(_columns(table, names), self._distinct) for table in (accumulators, gone))
        flags = (a.survives(own, left) for a, own, left in zip(self._distinct, *parts, strict=True))
        return np.asarray(np.logical_and.reduce(list(flags)))

    @cached_property
    def _plans(self) -> tuple[Plan, ...]:
        by_number, retracting = self.by_number, self.retracting
        if self.updating:
            return tuple(plan_over_changes(c, self.input, self.identified_by, by_number=by_number) for c in self.calls)
        return tuple(plan_of(c, self.input, by_number=by_number, retracting=retracting) for c in self.calls)

    @cached_property
    def _distinct(self) -> tuple[Accumulator, ...]:
        """The distinct accumulators of all calls, followed by the newest number if rows have numbers."""
        newest = [Extreme(Source((ARRIVAL,)), pa.int64(), greatest=True)] if self.by_number else []
        return tuple(dict.fromkeys([*(a for plan in self._plans for a in plan.accumulators), *newest]))

    @cached_property
    def _accumulators(self) -> pa.Schema:
        types = [t for a in self._distinct for t in a.types]
        return pa.schema([(f"__accumulator_{i}", t) for i, t in enumerate(types)])

    def _table(self, columns: Sequence[pa.Array], count: int) -> pa.Table:
        return _table(columns, self._accumulators, count)


def _table(columns: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.Table:
    """A table that knows its number of rows without columns too."""
    if not columns:
        return pa.table({"": pa.nulls(count)}).select([])
    return pa.Table.from_arrays(list(columns), schema=schema)


def _columns(table: pa.Table, names: Sequence[str]) -> Columns:
    return tuple(table.column(name).combine_chunks() for name in names)


def _split(columns: Columns, accumulators: Sequence[Accumulator]) -> list[Columns]:
    parts, start = [], 0
    for accumulator in accumulators:
        end = start + len(accumulator.types)
        parts.append(columns[start:end])
        start = end
    return parts
