"""Joins: regular ones, and those by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import Join, RegularJoin, WindowJoin
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.interval import TIME as JOIN_TIME
from sqlstream.udfs.joins.interval import IntervalJoinKernel
from sqlstream.udfs.joins.pairs import Bounds, Side
from sqlstream.udfs.joins.regular import RegularJoinKernel
from sqlstream.udfs.joins.temporal import TIME as VERSION_TIME
from sqlstream.udfs.joins.temporal import TemporalJoinKernel
from sqlstream.udfs.joins.window import END as WINDOW_CLOSES
from sqlstream.udfs.joins.window import WindowJoinKernel
from sqlstream.udfs.kernel import Domain, Kernel
from tests.differential.without_spark.columns import NotHere, kind_items, micros, quoted, renamed, sql_of
from tests.differential.without_spark.harness import STEPS, PlanHarness


def run_regular_join(node: RegularJoin, step: Step, harness: PlanHarness) -> pa.Table:
    return _joined(
        harness,
        node,
        step,
        (None, None),
        lambda sides, keys, safe, condition: RegularJoinKernel(node.kind, sides, keys, safe, condition),
    )


def run_interval_join(node: IntervalJoin, step: Step, harness: PlanHarness) -> pa.Table:
    if node.by_clock:
        raise NotHere("processing time")
    bounds = Bounds(node.lower_us, node.upper_us)
    return _joined(
        harness,
        node,
        step,
        [(JOIN_TIME, time) for time in node.times],
        lambda sides, keys, safe, condition: IntervalJoinKernel(
            sides[0], sides[1], node.kind, keys, safe, bounds, Domain.EVENT, condition
        ),
    )


def run_window_join(node: WindowJoin, step: Step, harness: PlanHarness) -> pa.Table:
    return _joined(
        harness,
        node,
        step,
        [(WINDOW_CLOSES, end) for end in node.ends],
        lambda sides, keys, safe, condition: WindowJoinKernel(node.kind, sides, keys, safe, condition),
    )


def run_temporal_join(node: TemporalJoin, step: Step, harness: PlanHarness) -> pa.Table:
    if not node.timed:
        raise NotHere("processing time")
    first_by = None
    if node.first_by is not None:
        names = [field.name for field in node.right.schema]
        own = dict(_outputs(node, 1, _own_keys(node, 1)))
        first_by = tuple(own[f"__right_{names.index(name)}"] for name in node.first_by)
    return _joined(
        harness,
        node,
        step,
        [(VERSION_TIME, time) for time in node.times],
        lambda sides, keys, safe, condition: TemporalJoinKernel(
            sides, node.kind is JoinKind.LEFT, keys, safe, node.strict, first_by, condition, 0
        ),
    )


def _joined(
    harness: PlanHarness, node: Join, step: Step, times: Sequence[tuple[str, str] | None], kernel: Any
) -> pa.Table:
    keys = tuple(f"__key_{i}" for i in range(len(node.equal)))
    inputs = [_side(harness, node, port, harness.rows(below), times[port]) for port, below in enumerate(step.inputs)]
    inputs = _of_one_type(inputs, keys)
    safe = tuple(equality.null_safe for equality in node.equal)
    condition = None if node.pair_condition is None else node.pair_condition.condition
    outputs = [_outputs(node, port, _own_keys(node, port)) for port in range(2)]

    def made(*schemas: pa.Schema) -> Kernel:
        sides = tuple(Side(schema, of_side) for schema, of_side in zip(schemas, outputs, strict=True))
        found: Kernel = kernel(sides, keys, safe, condition)
        return found

    emitted = harness.emitted(step, made, inputs, keys)
    ports = (0, 1) if node.kind.pairs else (0,)
    fields = [(f.name, f"__{_SIDES[port]}_{i}") for port in ports for i, f in enumerate(node.inputs[port].schema)]
    return renamed(emitted, fields)


def _side(harness: PlanHarness, node: Join, port: int, rows: pa.Table, time: tuple[str, str] | None) -> pa.Table:
    """The keys of a side, its fields that are no keys, what the condition reads."""
    equal = [(e.left, e.right)[port] for e in node.equal]
    items = [(f"__key_{i}", sql_of(value)) for i, value in enumerate(equal)]
    own = _own_keys(node, port)
    fields = node.inputs[port].schema
    items += [(f"__{_SIDES[port]}_{i}", quoted(f.name)) for i, f in enumerate(fields) if f.name not in own]
    items += [(n, sql_of(e)) for n, e in (node.pair_condition.columns[port] if node.pair_condition is not None else ())]
    found = harness.values(rows, [*items, *kind_items(node.inputs[port], rows)])
    if time is not None:
        found = found.append_column(time[0], micros(rows.column(time[1])))
    return found


def _own_keys(node: Join, port: int) -> dict[str, str]:
    """The fields that are keys as they are, and their columns."""
    kinds = {f.name: f.type.name for f in node.inputs[port].schema}
    equal = [(e.left, e.right)[port] for e in node.equal]
    plain = {"TINYINT", "SMALLINT", "INT", "BIGINT", "STRING"}
    return {
        value.name: f"__key_{i}"
        for i, value in enumerate(equal)
        if isinstance(value, exp.Column) and kinds[value.name] in plain
    }


def _outputs(node: Join, port: int, own: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = ((f"__{_SIDES[port]}_{i}", f.name) for i, f in enumerate(node.inputs[port].schema))
    return tuple((name, own.get(field, name)) for name, field in names)


def _of_one_type(inputs: Sequence[pa.Table], keys: Sequence[str]) -> list[pa.Table]:
    """DuckDB's types of expressions are not always Spark's, but in these queries they are wide enough."""
    found = list(inputs)
    for name in keys:
        kinds = [rows.schema.field(name).type for rows in found]
        if kinds[0] != kinds[1]:
            kind = pa.int64() if all(map(pa.types.is_integer, kinds)) else kinds[0]
            found = [
                rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).cast(kind)) for rows in found
            ]
    return found


_SIDES = ("left", "right")


STEPS.update(
    {
        RegularJoin: run_regular_join,
        IntervalJoin: run_interval_join,
        WindowJoin: run_window_join,
        TemporalJoin: run_temporal_join,
    }
)
