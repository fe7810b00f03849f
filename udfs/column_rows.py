"""Queries that tasks compute over the columns of the files that they read, before rows cross into Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column, Expression
from sqlstream.udfs.file_splits import FileRows

ROWS_READ, ROWS_GIVEN = "__rows_read", "__rows_given"
"""BIGINT columns: NULL in rows of the result. One more row, of the task, has the number of rows that it has read there,
and of those that belong to the result, and NULL in all other columns."""


@dataclass(frozen=True)
class ColumnRows:
    """Filters and projects the rows of files. ``schema``: the columns of the result, then ROWS_READ and ROWS_GIVEN.
    ``sources``: the column of the files for each column of the result. ``discards``: only the numbers of rows are
    given, because nobody keeps the result.
    """

    reader: FileRows
    schema: pa.Schema
    sources: tuple[str, ...]
    conditions: tuple[Expression, ...]
    discards: bool

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the files (``FileRows.rows``). Raises what the reader raises."""
        read = given = 0
        for batch in self.reader.rows(places):
            read += batch.num_rows
            kept = self._kept(batch)
            given += kept.num_rows
            if kept.num_rows and not self.discards:
                counts = pa.nulls(kept.num_rows, pa.int64())
                yield self._batch([*(kept.column(name) for name in self.sources), counts, counts])
        nulls = (pa.nulls(1, kind) for kind in self.schema.types[:-2])
        yield self._batch([*nulls, pa.array([read]), pa.array([given])])

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which all conditions are true. Later conditions see only what earlier ones have kept."""
        for condition in self.conditions:
            kept = is_true(condition, {Column(name): batch.column(name) for name in batch.schema.names})
            if not np.all(kept):
                batch = batch.filter(pa.array(kept))
        return batch

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
