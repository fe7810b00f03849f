"""Queries that tasks compute over the columns of the files that they read, before rows cross into Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column, Expression
from sqlstream.udfs.file_splits import FileRows

ROWS_READ = "__rows_read"
"""BIGINT column: NULL in rows of the result. One more row, of the task, has the number of rows that it has read there,
and NULL in all other columns."""


@dataclass(frozen=True)
class ColumnRows:
    """Filters and projects the rows of files. ``schema``: the columns of the result, and ROWS_READ last. ``sources``:
    the column of the files for each column of the result. ``discards``: only the number of rows is given, because
    nobody keeps the result.
    """

    reader: FileRows
    schema: pa.Schema
    sources: tuple[str, ...]
    conditions: tuple[Expression, ...]
    discards: bool

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads a task's share of the files (``FileRows.rows``). Raises what the reader raises."""
        read = 0
        for batch in self.reader.rows(places):
            read += batch.num_rows
            kept = self._kept(batch)
            if kept.num_rows and not self.discards:
                yield self._result([kept.column(name) for name in self.sources], [None] * kept.num_rows)
        yield self._result([pa.nulls(1, kind) for kind in self.schema.types[:-1]], [read])

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which all conditions are true. Later conditions see only what earlier ones have kept."""
        for condition in self.conditions:
            kept = is_true(condition, {Column(name): batch.column(name) for name in batch.schema.names})
            if not np.all(kept):
                batch = batch.filter(pa.array(kept))
        return batch

    def _result(self, columns: list[pa.Array], read: list[int | None]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*columns, pa.array(read, pa.int64())], schema=self.schema)
