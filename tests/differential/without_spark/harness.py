"""A physical plan, run micro-batch by micro-batch: each operator with state has a kernel in the harness of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.planner.catalog import RowKind
from sqlstream.planner.fields import Field
from sqlstream.planner.node import Node
from sqlstream.planner.physical.steps import Operator, PhysicalPlan, Reused, Step
from sqlstream.udfs.harness import KernelHarness, key_hashes
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, NO_WATERMARK, ROW_KIND
from tests.differential.without_spark.columns import (
    NotHere,
    ahead,
    named,
    quoted,
)

Changes = Mapping[str, pa.Table]
"""By table the rows of a micro-batch: its physical columns and, where some are no inserts, ROW_KIND."""


@cache
def in_duckdb() -> duckdb.DuckDBPyConnection:
    """The database of this process, with what it lacks of Spark's functions."""
    found = duckdb.connect(config={"threads": 1})
    found.execute("CREATE MACRO shiftright(value, count) AS value >> count")
    return found


@dataclass(frozen=True)
class _Running:
    harness: KernelHarness
    schemas: list[pa.Schema]


class PlanHarness:
    """A query that runs micro-batch by micro-batch.

    ``groups``: key groups of each operator. ``restarts``: goes on from its state alone before some micro-batches.
    """

    def __init__(self, plan: PhysicalPlan, *, groups: int = 1, restarts: Random | None = None) -> None:
        self._plan = plan
        self._groups = groups
        self._restarts = restarts
        self._running: dict[int, _Running] = {}
        self._shared: dict[int, pa.Table] = {}
        self._empty: dict[tuple[object, ...], pa.Table] = {}
        self.lifted = False
        self.is_first = True
        self.changes: Changes = {}
        self.watermark = NO_WATERMARK

    def batch(self, changes: Changes, watermark: int | None = None) -> pa.Table:
        """What comes out of a micro-batch, of rows or of a new watermark: the fields of the query, then ROW_KIND."""
        assert watermark is None or not changes, "rows and watermarks come in micro-batches of their own"
        self.changes, self.lifted = changes, watermark is not None
        self.watermark = self.watermark if watermark is None else watermark
        rows = self.rows(self._plan.root)
        self.is_first = False
        if ROW_KIND not in rows.column_names:
            rows = rows.append_column(ROW_KIND, pa.array(["+I"] * rows.num_rows, pa.string()))
        return rows

    def rows(self, step: Step) -> pa.Table:
        if isinstance(step, Reused):  # its operator is on the left of it
            return self._shared[step.reuse]
        rows = run_step(step.node, step, self)
        if step.drops_before and ROW_KIND in rows.column_names:
            rows = rows.filter(pc.not_equal(rows.column(ROW_KIND), RowKind.UPDATE_BEFORE.value))
        if isinstance(step, Operator) and step.reuse is not None:
            self._shared[step.reuse] = rows
        return rows

    def select(
        self, rows: pa.Table, items: Sequence[tuple[str, str]], where: Sequence[str], schema: Sequence[Field]
    ) -> pa.Table:
        kinds = [(ROW_KIND, quoted(ROW_KIND))] if ROW_KIND in rows.column_names else []
        values = self.values(rows, [*items, *kinds], where)
        types = [*(None if f.type.is_unknown else f.type.to_arrow() for f in schema), *(None for _ in kinds)]
        columns = [v if kind is None else v.cast(kind) for v, kind in zip(values.columns, types, strict=True)]
        return pa.table(columns, names=values.column_names)

    def values(self, rows: pa.Table, items: Sequence[tuple[str, str]], where: Sequence[str] = ()) -> pa.Table:
        """The rows that fulfil all conditions, in their order."""
        plain = {quoted(name): name for name in rows.column_names}
        if items and not where and all(text in plain for _, text in items):
            return pa.table([rows.column(plain[text]) for _, text in items], names=[name for name, _ in items])
        texts = ", ".join(f"{text} AS {quoted(name)}" for name, text in items) or "1 AS nothing"
        condition = f" WHERE {' AND '.join(f'({text})' for text in where)}" if where else ""
        sql = f"SELECT {texts} FROM rows_of_step{condition}"
        asked = (sql, *rows.schema.names, *map(str, rows.schema.types))
        if not rows.num_rows and asked in self._empty:
            return self._empty[asked]
        database = in_duckdb()
        database.register("rows_of_step", named(rows))
        found: pa.Table = database.sql(sql).to_arrow_table()
        self._empty[asked] = found.slice(0, 0)
        return found

    def emitted(self, step: Step, kernel: Any, inputs: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
        assert isinstance(step, Operator)
        hashed = [rows.add_column(0, KEY_HASH, key_hashes(rows, keys)) for rows in inputs]
        if step.number not in self._running:
            schemas = [rows.schema for rows in hashed]
            harness = KernelHarness(kernel(*schemas), schemas, keys, groups=self._groups)
            self._running[step.number] = _Running(harness, schemas)
        running = self._running[step.number]
        for rows, schema in zip(hashed, running.schemas, strict=True):
            assert rows.schema.equals(schema), f"{rows.schema} is not {schema}"
        if self._restarts is not None and self._restarts.random() < 0.3:
            running.harness.restart()
        arriving = [ahead(rows) if self.lifted else rows for rows in hashed]
        back = 1000 * step.held_back_ms
        watermark = self.watermark if self.watermark in (NO_WATERMARK, END_OF_TIME) else self.watermark - back
        running.harness.batch(dict(enumerate(arriving)), watermark=watermark)
        return running.harness.output_table()


STEPS: dict[type[Node], Callable[[Any, Any, PlanHarness], pa.Table]] = {}
"""What runs the steps of a class of nodes; the modules beside this one add theirs."""


def run_step(node: Node, step: Step, harness: PlanHarness) -> pa.Table:
    """The rows that a step emits in the micro-batch; NotHere where only Spark runs it."""
    run = STEPS.get(type(node))
    if run is None:
        raise NotHere(type(node).__name__)
    return run(node, step, harness)
