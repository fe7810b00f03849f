"""OVER, and rows that a query brings itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.groups import split_call
from sqlstream.planner.nodes import Correlate
from sqlstream.planner.operators.over import NTH, NUMBERS, SHIFTS, Over, OverCall, UpdatingOver
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Number, Numbered, OverFunction, Shifted
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.over.line import Tie
from sqlstream.udfs.over.updating import UpdatingOverKernel
from sqlstream.udfs.top_n.order import Order
from tests.differential.without_spark.columns import (
    NoFunctions,
    NotHere,
    arrow_type,
    kind_items,
    micros,
    quoted,
    renamed,
    sql_of,
)
from tests.differential.without_spark.harness import STEPS, PlanHarness

_ANY_FRAME = Frame(rows=True, start=0)
_TIME = "__time"


def run_over(node: Over, step: Step, harness: PlanHarness) -> pa.Table:
    if node.domain is TimeDomain.PROCESSING:
        raise NotHere("processing time")
    below = harness.rows(step.input)
    rows, own, functions = _read(node, below, node.calls, harness, in_time=True)
    rows = rows.append_column(_TIME, micros(below.column(node.time)))
    keys = tuple(own[name] for name in node.keys)
    fields = tuple(own[field.name] for field in node.of_input)
    ties = tuple(Tie(own[tie.name], tie.descending, tie.nulls_first) for tie in node.ties)
    emitted = harness.emitted(
        step,
        lambda schema: OverKernel(schema, keys, _TIME, fields, functions, Domain.EVENT, ties),
        [rows],
        keys,
    )
    names = [(field.name, own[field.name]) for field in node.of_input]
    return renamed(emitted, [*names, *((f.name, f"__result_{i}") for i, f in enumerate(node.results))])


def run_updating_over(node: UpdatingOver, step: Step, harness: PlanHarness) -> pa.Table:
    rows, own, functions = _read(node, harness.rows(step.input), node.calls, harness, in_time=node.in_time)
    keys = tuple(own[name] for name in node.keys)
    order = tuple(Order(own[sort.name], sort.descending, sort.nulls_first) for sort in node.order)
    emitted = harness.emitted(
        step,
        lambda schema: UpdatingOverKernel(schema, keys, order, tuple(own.values()), functions, 0),
        [rows],
        keys,
    )
    return renamed(emitted, [*own.items(), *((f.name, f"__result_{i}") for i, f in enumerate(node.results))])


def _read(
    node: Over | UpdatingOver, rows: pa.Table, calls: Sequence[OverCall], harness: PlanHarness, *, in_time: bool
) -> tuple[pa.Table, dict[str, str], tuple[OverFunction, ...]]:
    """The rows that the kernel reads, the columns of the fields, the functions."""
    own = {field.name: f"__field_{i}" for i, field in enumerate(node.input.schema)}
    read = {f"__field_{i}": quoted(field.name) for i, field in enumerate(node.input.schema)}
    functions = tuple(_function(number, call, read, in_time) for number, call in enumerate(calls))
    return harness.values(rows, [*read.items(), *kind_items(node.input, rows)]), own, functions


def _function(number: int, call: OverCall, read: dict[str, str], in_time: bool) -> OverFunction:
    name, expression, kind = f"__result_{number}", call.item.expression, arrow_type(call.item.type)
    frame = call.frame or _ANY_FRAME
    if in_time and not frame.rows:
        start, end = (None if offset is None else offset * 1000 for offset in (frame.start, frame.end))
        frame = replace(frame, start=start, end=end)
    if not isinstance(expression, exp.Anonymous) or expression.name not in NUMBERS | SHIFTS | {NTH}:
        split = split_call(name, expression, kind, NoFunctions())  # type: ignore[arg-type]
        read.update({column: sql_of(value) for column, value in split.columns})
        return Aggregated(split.call.over({column: column for column, _ in split.columns}), frame)
    if expression.name in NUMBERS:
        return Numbered(name, Number(expression.name), pa.int32())
    value, *rest = expression.expressions
    read[f"{name}_value"] = sql_of(value)
    count = int(rest[0].name) if rest else 1
    if expression.name == NTH:
        return Nth(name, f"{name}_value", count, frame, kind)
    if len(rest) > 1:
        read[f"{name}_default"] = sql_of(rest[1])
    default = f"{name}_default" if len(rest) > 1 else None
    return Shifted(name, f"{name}_value", -count if expression.name == "lag" else count, kind, default)


def run_correlate(node: Correlate, step: Step, harness: PlanHarness) -> pa.Table:
    """Rows of VALUES, each beside every row."""
    structs = [call for call in node.function.find_all(exp.Anonymous) if call.name == "NAMED_STRUCT"]
    if not isinstance(node.function, exp.Inline) or node.outer or not structs:
        raise NotHere("a table function")
    below = harness.rows(step.input)
    fields = [(f.name, quoted(f.name)) for f in node.input.schema]
    rows = []
    for struct in structs:
        items = [(f.name, sql_of(value)) for f, value in zip(node.outputs, struct.expressions[1::2], strict=True)]
        rows.append(harness.select(below, [*fields, *items], (), node.schema))
    return pa.concat_tables(rows)


STEPS.update({Over: run_over, UpdatingOver: run_updating_over, Correlate: run_correlate})
