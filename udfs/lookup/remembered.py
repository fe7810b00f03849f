"""Lookups of rows that may be retracted: a row goes with the answers with which it came, as in Flink's
KeyedLookupJoinWrapper."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.changes.remembered import Remembered
from sqlstream.udfs.kernel import Context, Domain, Kernel


@dataclass(frozen=True)
class RememberedLookups(Kernel):
    """Rows with their answers; those that retract others have none."""

    remembered: Remembered

    @property
    def output(self) -> pa.Schema:
        return self.remembered.output

    @property
    def uses_processing_time(self) -> bool:
        return self.remembered.living.ttl > 0

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        context.emit(self.remembered.results(rows, context))
        context.set_timer(Domain.PROCESSING, self.remembered.wakes(context))

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        self.remembered.forget(time, context)
        context.set_timer(Domain.PROCESSING, self.remembered.wakes(context))
