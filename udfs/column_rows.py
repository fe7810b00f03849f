"""Queries that tasks compute over the columns of the files or messages that they read, before rows cross into Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.time_texts import in_micros
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.exchange import newest_time
from sqlstream.udfs.expressions.evaluation import is_true, whole_column
from sqlstream.udfs.expressions.tree import Added, Column, ColumnStep
from sqlstream.udfs.files.splits import SplitRows

ROWS_READ, ROWS_GIVEN, ROWS_BAD = "__rows_read", "__rows_given", "__rows_bad"
"""BIGINT columns: NULL in rows of the result. One more row, of the task, has the number of rows that it has read there,
of those that belong to the result, and of records that could not be read; and NULL in all other columns."""


def stepped(batch: pa.RecordBatch, steps: Iterable[ColumnStep]) -> pa.RecordBatch:
    """The rows of a batch after filters and projections, with the columns that they have added. Each step sees only
    what the steps before it have kept.
    """
    for step in steps:
        columns = {Column(name): array for name, array in zip(batch.schema.names, batch.columns, strict=True)}
        if isinstance(step, Added):
            batch = batch.append_column(step.name, whole_column(step.expression, columns, batch.num_rows))
            continue
        kept = is_true(step.expression, columns)
        if not np.all(kept):
            batch = batch.filter(pa.array(kept))
    return batch


@dataclass(frozen=True)
class SelectedRows:
    """Filters and projects the rows that an exchange has read. ``schema``: the columns that the exchange takes;
    ``sources`` has for each the column after the ``steps`` that it is, itself where it is not listed. Times that the
    exchange takes as BIGINT become microseconds.
    """

    steps: tuple[ColumnStep, ...]
    schema: pa.Schema
    sources: Mapping[str, str]

    def newest(self, batch: pa.RecordBatch, time: str) -> int | None:
        """The newest time, in microseconds, among all rows that were read. ``time``: the column of the exchange."""
        return newest_time(in_micros(batch.column(self.sources.get(time, time))))

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows and columns that the exchange takes of those that were read."""
        batch = stepped(batch, self.steps)
        return pa.RecordBatch.from_arrays([self._column(batch, f) for f in self.schema], schema=self.schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        values = batch.column(self.sources.get(field.name, field.name))
        micros = pa.types.is_timestamp(values.type) and pa.types.is_int64(field.type)
        return in_micros(values) if micros else values


@dataclass(frozen=True)
class ColumnRows:
    """Filters and projects the rows of splits. ``schema``: the columns of the result, then ROWS_READ and ROWS_GIVEN. If
    bad records are tolerated, also ROWS_BAD, and BAD if they become rows of the result, which are NULL elsewhere.
    ``sources``: the column after the ``steps`` for each column of the result. ``discards``: only the numbers of rows
    are given, because nobody keeps the result.
    """

    reader: SplitRows
    schema: pa.Schema
    sources: tuple[str, ...]
    steps: tuple[ColumnStep, ...]
    discards: bool

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the source splits (``SplitRows.rows``). Raises what the reader raises."""
        counts = {ROWS_READ: 0, ROWS_GIVEN: 0, ROWS_BAD: 0}
        for batch in self.reader.rows(places):
            counts[ROWS_READ] += batch.num_rows
            good, bad = _parted(batch)
            counts[ROWS_BAD] += len(bad)
            if len(bad) and BAD in self.schema.names:
                yield self._batch(len(bad), {BAD: bad})
            kept = stepped(good, self.steps)
            counts[ROWS_GIVEN] += kept.num_rows
            if kept.num_rows and not self.discards:
                columns = map(kept.column, self.sources)
                yield self._batch(kept.num_rows, dict(zip(self.schema.names, columns, strict=False)))
        yield self._batch(1, {name: pa.array([count]) for name, count in counts.items()})

    def _batch(self, rows: int, given: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The ``given`` columns; the others are NULL."""
        columns = [given[f.name] if f.name in given else pa.nulls(rows, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _parted(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows that could be read, and BAD of the others."""
    if BAD not in batch.schema.names:
        return batch, pa.nulls(0)
    bad = batch.column(BAD)
    is_bad = pc.struct_field(bad, "error").is_valid()
    if is_bad.true_count in (0, len(bad)):  # as where the reader gives bad records apart
        return (batch.slice(0, 0), bad) if is_bad.true_count else (batch, bad.slice(0, 0))
    return batch.filter(pc.invert(is_bad)), bad.filter(is_bad)
