"""Process functions without keys and state: each row is processed alone, without an exchange or a watermark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.exchange import CLOCK, HOLD, LATE_TABLE
from sqlstream.udfs.kernel import BARRIER, KEY_HASH, NO_WATERMARK, Domain
from sqlstream.udfs.process.kernel import Call, Process
from sqlstream.udfs.state.memory import MemoryStore

_MILLISECOND = 1000


@dataclass
class RowContext:
    """The ``kernel.Context`` of a batch without state and without progress of time."""

    processing_time: int
    watermark: int = NO_WATERMARK
    store: MemoryStore = field(default_factory=MemoryStore)
    emitted: list[pa.Table] = field(default_factory=list)

    def emit(self, rows: pa.Table) -> None:
        """Collects results."""
        self.emitted.append(rows)

    def emit_folded(self, folded: pa.Table, results: int) -> None:
        """Not supported: process functions do not fold results."""
        raise TypeError("process functions fold no results")

    def emit_late(self, rows: pa.Table) -> None:
        """Not supported: no row is late."""
        raise TypeError("no row is late where no time passes")

    def count(self, metric: str, value: int) -> None:
        """Not supported: nothing is counted."""
        raise TypeError("nothing is counted row by row")

    def set_timer(self, domain: Domain, time: int) -> None:
        """There are no timers."""

    def hold(self, time: int, rows: int = 1) -> None:
        """Not supported: no row is held."""
        raise TypeError("no row is held where no time passes")


@dataclass(frozen=True)
class RowByRow:
    """Applies a ``kernel`` without keys. The hidden columns are among the columns that it passes through, under the
    names of its output.

    Control rows, such as carriers of side outputs or holds of the watermark, bypass the function. CLOCK is a TIMESTAMP
    here.
    """

    kernel: Process

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the kernel's output."""
        for batch in batches:
            table = _with_hash(pa.Table.from_batches([batch]))
            passing = _passing(table)
            context = RowContext(_passed(table))
            Call(self.kernel, context).rows(table.filter(pc.invert(passing)))
            tables = [*context.emitted, self._passed_by(table.filter(passing))]
            yield from pa.concat_tables(tables).combine_chunks().to_batches()

    def _passed_by(self, rows: pa.Table) -> pa.Table:
        """Rows with nothing but what the kernel passes through."""
        output = self.kernel.output
        own = [rows.column(name).cast(self.kernel.schema.field(name).type) for name in self.kernel.passed]
        rest = [pa.nulls(rows.num_rows, column.type) for column in list(output)[len(own) :]]
        return pa.Table.from_arrays([*own, *rest], schema=output)


def _with_hash(rows: pa.Table) -> pa.Table:
    return rows.append_column(KEY_HASH, pa.array(np.zeros(rows.num_rows, np.int64)))


def _passing(rows: pa.Table) -> pa.Array:
    marks = [pc.is_valid(rows.column(name)) for name in (LATE_TABLE, HOLD, BARRIER) if name in rows.column_names]
    none = pa.chunked_array([pa.array(np.zeros(rows.num_rows, bool))])
    for mark in marks:
        none = pc.or_(none, mark)
    return none


def _passed(rows: pa.Table) -> int:
    """The processing time that had passed when the first row came."""
    first = pc.min(rows.column(CLOCK)) if CLOCK in rows.column_names else None
    if first is None or not first.is_valid:
        return time.time_ns() // 1000 - _MILLISECOND
    came: int = first.cast(pa.timestamp("us", first.type.tz)).cast(pa.int64()).as_py()
    return came - _MILLISECOND
