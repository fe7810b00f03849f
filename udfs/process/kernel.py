"""The kernel of process functions: user code row by row and timer by timer, on the state of the keys of a key group.

Rows come in order of arrival. Where they are asked for in order of time (``ordered``) they wait until the watermark
reaches them; event time then passes row by row: first the timers before a row's time, then the row, at last the timers
up to the watermark. Rows that come behind the watermark are dropped and counted there, and processed like others where
no order is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pyarrow as pa

from sqlstream.udfs.kernel import Context, Domain
from sqlstream.udfs.process.call import Call
from sqlstream.udfs.process.process_call import ProcessCall
from sqlstream.udfs.waiting import Wait


@dataclass(frozen=True)
class Process(ProcessCall):
    """The kernel of a call."""

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        Call(self, context).rows(rows)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Rows until their turn in order of time, timers until they fire."""
        return Call(self, context).waits()

    def on_event_time(self, watermark: int, context: Context) -> None:
        Call(self, context).time(Domain.EVENT)

    def on_processing_time(self, time: int, context: Context) -> None:
        Call(self, context).time(Domain.PROCESSING)

    def __getstate__(self) -> dict[str, object]:
        """Leaves out what is derived from the other fields and need not be picklable."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
