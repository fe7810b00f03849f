"""Top-N, first and last rows, changes by key, and set operations."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.operators.changelogs import Normalize
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.changes.kernels import NormalizeKernel, SetOperationKernel
from sqlstream.udfs.kernel import ROW_KIND, Kernel
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.state.time_to_live import TimeToLive
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel
from sqlstream.udfs.top_n.kernel import TopNKernel, WindowTopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking
from tests.differential.without_spark.columns import NotHere, arrow_type, kinds_of, micros, numbered, renamed
from tests.differential.without_spark.harness import STEPS, PlanHarness


def run_top_n(node: TopN, step: Step, harness: PlanHarness) -> pa.Table:
    rows, fields = numbered(node.input, harness.rows(step.input))
    keys = tuple(fields[name] for name in node.keys)
    order = tuple(Order(fields[by.name], by.descending, by.nulls_first) for by in node.order)
    ranking = Ranking(keys, order, Number(node.function), node.first, node.last, newest_first=node.newest_first)
    number = None if node.number is None else "__number"
    passed = tuple(fields.values())

    def kernel(schema: pa.Schema) -> Kernel:
        if node.closes is not None:
            return WindowTopNKernel(schema, ranking, passed, "__closes", number)
        return TopNKernel(schema, ranking, passed, number, 0)

    if node.closes is not None:
        closes = pc.add(micros(rows.column(fields[node.closes.field])), 1000 * node.closes.after_ms)
        rows = rows.append_column("__closes", closes)
    emitted = harness.emitted(step, kernel, [rows], keys)
    return renamed(emitted, [*fields.items(), *([] if node.number is None else [(node.number, "__number")])])


def run_deduplicate(node: Deduplicate, step: Step, harness: PlanHarness) -> pa.Table:
    if not node.timed and not node.is_distinct:
        raise NotHere("processing time")
    rows, fields = numbered(node.input, harness.rows(step.input))
    rows = rows.append_column(_TIME, micros(rows.column(fields[node.time])))
    closes = None
    if node.closes is not None:
        closes = "__closes"
        at = pc.add(micros(rows.column(fields[node.closes.field])), 1000 * node.closes.after_ms)
        rows = rows.append_column(closes, at)
    time = _TIME if node.timed else None
    keys, passed = tuple(fields[name] for name in node.keys), tuple(fields.values())
    before = not step.drops_before
    emitted = harness.emitted(
        step,
        lambda schema: DeduplicateKernel(schema, keys, passed, time, node.last, before=before, ttl=0, closes=closes),
        [rows],
        keys,
    )
    return renamed(emitted, list(fields.items()))


def run_normalize(node: Normalize, step: Step, harness: PlanHarness) -> pa.Table:
    rows, fields = numbered(node.input, harness.rows(step.input), kinds=True)
    keys = tuple(f"__key_{i}" for i in range(len(node.keys)))
    for own, name in zip(keys, node.keys, strict=True):
        rows = rows.append_column(own, rows.column(fields[name]))
    passed = tuple(fields.values())
    emitted = harness.emitted(step, lambda schema: NormalizeKernel(schema, keys, passed, 0), [rows], keys)
    return renamed(emitted, list(fields.items()))


def run_set_operation(node: SetOperation, step: Step, harness: PlanHarness) -> pa.Table:
    types = [arrow_type(f.type) for f in node.schema]
    names = [f"__field_{i}" for i in range(len(types))]
    sides = []
    for below in step.inputs:
        rows = harness.rows(below)
        columns = [rows.column(i).cast(kind) for i, kind in enumerate(types)]
        kinds = [ROW_KIND] if below.node.changelog_mode != APPEND_ONLY else []
        sides.append(pa.table([*columns, *([kinds_of(rows)] if kinds else [])], names=[*names, *kinds]))
    updates = node.changelog_mode != APPEND_ONLY

    def kernel(*schemas: pa.Schema) -> Kernel:
        fields = pa.schema([schemas[0].field(name) for name in names])
        return SetOperationKernel(node.kind, fields, TimeToLive(0), updates)

    emitted = harness.emitted(step, kernel, sides, names)
    return renamed(emitted, [(f.name, own) for f, own in zip(node.schema, names, strict=True)])


_TIME = "__time"


STEPS.update(
    {
        TopN: run_top_n,
        Deduplicate: run_deduplicate,
        Normalize: run_normalize,
        SetOperation: run_set_operation,
    }
)
