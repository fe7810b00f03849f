"""Rows that no window took: counted, sent to a table, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.event_times import time_text
from sqlstream.udfs.kernel import LATE_ROWS, Context
from sqlstream.udfs.texts import python_list
from sqlstream.udfs.windows.emission import TIMESTAMP, WINDOW_END, WINDOW_START, bounds

LATE_ROW = repeating("SS406")

Values = np.ndarray[Any, np.dtype[Any]]


class LateRows(Enum):
    DROP = "drop"
    EMIT = "emit"
    FAIL = "fail"


@dataclass(frozen=True)
class Lateness:
    """``allowed``: microseconds for which windows stay after their end. ``columns``: those of the input that go to the
    table of late rows."""

    allowed: int = 0
    action: LateRows = LateRows.DROP
    columns: tuple[str, ...] = ()

    def output(self, rows: pa.Schema) -> pa.Schema | None:
        if self.action is not LateRows.EMIT:
            return None
        windows = [pa.field(name, TIMESTAMP) for name in (WINDOW_START, WINDOW_END)]
        return pa.schema([*(rows.field(name) for name in self.columns), *windows])

    def report(self, rows: pa.Table, start: Values, end: Values, context: Context) -> None:
        """``rows`` are late for all their windows; ``start`` and ``end`` are the bounds of the last of them."""
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
