"""Queries that tasks compute over the columns of the files that they read, before rows cross into Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column, Expression
from sqlstream.udfs.file_splits import FileRows

ROWS_READ, ROWS_GIVEN, ROWS_BAD = "__rows_read", "__rows_given", "__rows_bad"
"""BIGINT columns: NULL in rows of the result. One more row, of the task, has the number of rows that it has read there,
of those that belong to the result, and of records that could not be read; and NULL in all other columns."""


@dataclass(frozen=True)
class ColumnRows:
    """Filters and projects the rows of files. ``schema``: the columns of the result, then ROWS_READ and ROWS_GIVEN. If
    bad records are tolerated, also ROWS_BAD, and BAD if they become rows of the result, which are NULL elsewhere.
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
        counts = {ROWS_READ: 0, ROWS_GIVEN: 0, ROWS_BAD: 0}
        for batch in self.reader.rows(places):
            counts[ROWS_READ] += batch.num_rows
            good, bad = _parted(batch)
            counts[ROWS_BAD] += len(bad)
            if len(bad) and BAD in self.schema.names:
                yield self._batch(len(bad), {BAD: bad})
            kept = self._kept(good)
            counts[ROWS_GIVEN] += kept.num_rows
            if kept.num_rows and not self.discards:
                columns = map(kept.column, self.sources)
                yield self._batch(kept.num_rows, dict(zip(self.schema.names, columns, strict=False)))
        yield self._batch(1, {name: pa.array([count]) for name, count in counts.items()})

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which all conditions are true. Later conditions see only what earlier ones have kept."""
        for condition in self.conditions:
            kept = is_true(condition, {Column(name): batch.column(name) for name in batch.schema.names})
            if not np.all(kept):
                batch = batch.filter(pa.array(kept))
        return batch

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
