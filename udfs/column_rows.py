"""Queries that tasks compute over the columns of the files that they read, before rows cross into Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.exchange import newest_time
from sqlstream.udfs.expressions.evaluation import is_true, whole_column
from sqlstream.udfs.expressions.tree import Added, Column, ColumnStep
from sqlstream.udfs.file_splits import FileRows, in_micros

ROWS_READ, ROWS_GIVEN = "__rows_read", "__rows_given"
"""BIGINT columns: NULL in rows of the result. One more row, of the task, has the number of rows that it has read there,
and of those that belong to the result, and NULL in all other columns."""


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
    """Filters and projects the rows of files. ``schema``: the columns of the result, then ROWS_READ and ROWS_GIVEN.
    ``sources``: the column after the ``steps`` for each column of the result. ``discards``: only the numbers of rows
    are given, because nobody keeps the result.
    """

    reader: FileRows
    schema: pa.Schema
    sources: tuple[str, ...]
    steps: tuple[ColumnStep, ...]
    discards: bool

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the files (``FileRows.rows``). Raises what the reader raises."""
        read = given = 0
        for batch in self.reader.rows(places):
            read += batch.num_rows
            kept = stepped(batch, self.steps)
            given += kept.num_rows
            if kept.num_rows and not self.discards:
                counts = pa.nulls(kept.num_rows, pa.int64())
                yield self._batch([*(kept.column(name) for name in self.sources), counts, counts])
        nulls = (pa.nulls(1, kind) for kind in self.schema.types[:-2])
        yield self._batch([*nulls, pa.array([read]), pa.array([given])])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
