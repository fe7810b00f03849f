"""Rows enriched by lookups: the operator that runs in a task, over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.garbage import spare_imports
from sqlstream.udfs.lookup.answers import AnswerShape
from sqlstream.udfs.lookup.metrics import METRICS, METRICS_TYPE
from sqlstream.udfs.lookup.options import LookupOptions, Order
from sqlstream.udfs.lookup.source import LookupSource
from sqlstream.udfs.lookup.task import Task
from sqlstream.udfs.lookup.worker import worker


@dataclass(frozen=True)
class LookupStep:
    """One lookup: ``keys`` are columns of the input, in the order of the keys of the source's request.

    ``number`` is that of the lookup in the plan, for metrics. ``answers`` names the column it adds, LIST<STRUCT> of the
    request's columns: empty for a miss and for a NULL key, NULL where there is no answer. ``error`` names a STRING
    column that says what went wrong (ON ERROR TO), ``deferred`` a BOOLEAN one that is true where the row's time was up
    (ON TIMEOUT DEFER). ``run`` tells the query from all others: answers are remembered for it alone.
    """

    number: int
    source: LookupSource
    keys: tuple[str, ...]
    answers: str
    options: LookupOptions
    error: str | None = None
    deferred: str | None = None
    run: str = ""

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The columns that the lookup adds."""
        fields = [pa.field(self.answers, AnswerShape(self.source.request).type)]
        if self.error is not None:
            fields.append(pa.field(self.error, pa.string()))
        if self.deferred is not None:
            fields.append(pa.field(self.deferred, pa.bool_()))
        return tuple(fields)


@dataclass(frozen=True)
class LookupRows:
    """Several lookups of the same rows, asked at the same time. A row leaves when all its answers are there.

    Rows leave in the strictest order of the lookups. Several that are KEY ORDERED by different columns keep the order
    of arrival: it is that of each of their keys.
    """

    steps: tuple[LookupStep, ...]

    @property
    def order(self) -> Order:
        orders = {step.options.order if step.options.asynchronous else Order.ORDERED for step in self.steps}
        if Order.ORDERED in orders:
            return Order.ORDERED
        if Order.KEY_ORDERED not in orders:
            return Order.UNORDERED
        return Order.KEY_ORDERED if len({step.keys for step in self.steps}) == 1 else Order.ORDERED

    def output(self, schema: pa.Schema) -> pa.Schema:
        """The input's columns, those of each step, and METRICS."""
        added = [column for step in self.steps for column in step.columns]
        return pa.schema([*schema, *added, pa.field(METRICS, METRICS_TYPE)])

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the input with their answers; at the end one row with METRICS alone, if there was any input."""
        spare_imports()
        task = Task(self.steps, self.order, worker())
        try:
            yield from task.run(batches, self.output)
        finally:
            task.close()
