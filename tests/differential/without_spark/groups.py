"""GROUP BY, with and without windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.lowering.columnar.groups import split_call
from sqlstream.planner.lowering.columnar.inputs import END, START
from sqlstream.planner.lowering.columnar.inputs import TIME as ROW_TIME
from sqlstream.planner.lowering.columnar.window_kernels import design_of, kernel_of
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.steps import Step
from sqlstream.planner.windows import Cumulate, Hop, Tumble
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.groups.kernel import GroupAggregateKernel, strategies_of
from sqlstream.udfs.kernel import ROW_KIND, Kernel
from sqlstream.udfs.state.time_to_live import TimeToLive
from sqlstream.udfs.windows.emission import WINDOW_END, WINDOW_START
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


def run_group_aggregate(node: GroupAggregate, step: Step, harness: PlanHarness) -> pa.Table:
    rows = _in_sets(node, harness.rows(step.input))
    sets = [] if node.grouping_sets is None else [(_SET, quoted(_SET))]
    keys = [(f"__key_{i}", _key_in_sets(node, name)) for i, name in enumerate(node.keys)]
    calls = [split_call(f"__result_{i}", *_call(item), NoFunctions()) for i, item in enumerate(node.aggregates)]  # type: ignore[arg-type]
    arguments = {name: sql_of(value) for call in calls for name, value in call.columns}
    read = harness.values(rows, [*keys, *sets, *arguments.items(), *kind_items(node.input, rows)])
    read = _typed_keys(node, read)
    names = tuple(name for name, _ in (*keys, *sets))

    def kernel(schema: pa.Schema) -> Kernel:
        living = TimeToLive(0)
        strategies = strategies_of(
            [c.call for c in calls], names, schema, updates=ROW_KIND in schema.names, living=living
        )
        updates = node.changelog_mode != APPEND_ONLY
        return GroupAggregateKernel(
            schema, names, strategies, tuple(c.call.name for c in calls), living, emits_kinds=updates
        )

    emitted = harness.emitted(step, kernel, [read], names)
    results = [(name, f"__key_{i}") for i, name in enumerate(node.keys)]
    results += [(item.name, f"__result_{i}") for i, item in enumerate(node.aggregates)]
    found = renamed(emitted, results)
    if node.grouping_id is None:
        return found
    ids = pa.array(_grouping_ids(node)[emitted.column(_SET).to_numpy()], pa.int64())
    return found.add_column(len(node.keys), node.grouping_id, ids)


def run_window_aggregate(node: WindowAggregate, step: Step, harness: PlanHarness) -> pa.Table:
    if node.grouping_sets is not None or step.link is not None:  # type: ignore[attr-defined]
        raise NotHere("chained windows, and grouping sets of windows")
    rows = harness.rows(step.input)
    calls = [split_call(f"__result_{i}", *_call(item), NoFunctions()) for i, item in enumerate(node.aggregates)]  # type: ignore[arg-type]
    inputs = _Inputs(node)
    keys = [(f"__key_{i}", quoted(name)) for i, name in enumerate(node.keys)]
    names = tuple(name for name, _ in keys)
    design = design_of(node, names, inputs)  # type: ignore[arg-type]
    arguments = {name: sql_of(value) for call in calls for name, value in call.columns}
    read = harness.values(rows, [*keys, *arguments.items(), *inputs.texts.items()])

    def kernel(schema: pa.Schema) -> Kernel:
        return kernel_of(design, Aggregates(tuple(c.call for c in calls), schema), schema)

    emitted = harness.emitted(step, kernel, [read], names)
    bounds = {WINDOW_START: node.columns.start, WINDOW_END: node.columns.end}
    results = [(name, f"__key_{i}") for i, name in enumerate(node.keys)]
    found = renamed(emitted, [*results, *((name, own) for own, name in bounds.items())])
    time = pc.subtract(micros(emitted.column(WINDOW_END)), 1000).cast(_TIMESTAMP)
    found = found.append_column(node.columns.time, time)
    for i, item in enumerate(node.aggregates):
        found = found.append_column(item.name, emitted.column(f"__result_{i}"))
    return found


def run_assign_windows(node: AssignWindows, step: Step, harness: PlanHarness) -> pa.Table:
    assert node.time is not None
    rows = harness.rows(step.input)
    times = rows.column(node.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    which, start, end = _windows(node.window, times)
    found = rows.take(pa.array(which))
    named = ((node.columns.start, start), (node.columns.end, end), (node.columns.time, end - 1000))
    for name, times_of in named:
        found = found.append_column(name, pa.array(times_of).cast(_TIMESTAMP))
    return found


_TIMESTAMP = pa.timestamp("us", "UTC")


def _windows(window: object, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row of each window, its start and its end."""
    match window:
        case Tumble(size_ms=size, offset_ms=0, zone=None):
            slide = size
        case Hop(slide_ms=slide, size_ms=size, offset_ms=0, zone=None):
            pass
        case Cumulate(step_ms=step, size_ms=size, offset_ms=0, zone=None):
            return _cumulated(1000 * step, 1000 * size, times)
        case _:
            raise NotHere("other windows")
    slide, size = 1000 * slide, 1000 * size
    count = -(-size // slide)
    which = np.repeat(np.arange(len(times)), count)
    start = (times - times % slide)[which] - np.tile(np.arange(count), len(times)) * slide
    holds = start + size > times[which]
    return which[holds], start[holds], start[holds] + size


def _cumulated(step: int, size: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = size // step
    which = np.repeat(np.arange(len(times)), count)
    start = (times - times % size)[which]
    end = start + step * (1 + np.tile(np.arange(count), len(times)))
    holds = end > times[which]
    return which[holds], start[holds], end[holds]


@dataclass
class _Inputs:
    """What ``inputs.Inputs`` is to the design of a window's kernel."""

    node: WindowAggregate
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.node.window is None:
            self.time(self.node.columns.start, START)
            self.time(self.node.columns.end, END)

    def time(self, name: str, to: str = ROW_TIME) -> str:
        self.texts[to] = f"epoch_us({quoted(name)})"
        return to


def _call(item: Any) -> tuple[exp.Expression, pa.DataType]:
    return item.expression, arrow_type(item.type)


def _in_sets(node: GroupAggregate, rows: pa.Table) -> pa.Table:
    if node.grouping_sets is None:
        return rows
    sets = len(node.grouping_sets)
    taken = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), sets)))
    return taken.append_column(_SET, pa.array(np.tile(np.arange(sets, dtype=np.int32), rows.num_rows)))


def _key_in_sets(node: GroupAggregate, name: str) -> str:
    if node.grouping_sets is None:
        return quoted(name)
    members = [str(i) for i, members in enumerate(node.grouping_sets) if name in members]
    return f"CASE WHEN {_SET} IN ({', '.join(members)}) THEN {quoted(name)} END" if members else "NULL"


def _typed_keys(node: GroupAggregate, rows: pa.Table) -> pa.Table:
    fields = {f.name: f.type for f in node.input.schema}
    for i, name in enumerate(node.keys):
        rows = rows.set_column(i, f"__key_{i}", rows.column(i).cast(arrow_type(fields[name])))
    return rows


def _grouping_ids(node: GroupAggregate) -> np.ndarray:
    assert node.grouping_sets is not None
    bits = [[key not in members for key in reversed(node.keys)] for members in node.grouping_sets]
    return np.array([sum(bit << i for i, bit in enumerate(row)) for row in bits], np.int64)


_SET = "__set"


STEPS.update(
    {
        GroupAggregate: run_group_aggregate,
        WindowAggregate: run_window_aggregate,
        AssignWindows: run_assign_windows,
    }
)
