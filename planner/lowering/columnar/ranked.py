"""Operators on kernels that keep, order or compare whole rows of each key.

Deduplicate, Top-N, sort by time, CURRENT_WATERMARK, normalize, and INTERSECT and EXCEPT. Their input has the fields,
keys and kinds of rows as columns, hashed by the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.lowering.columnar.inputs import (
    TIME,
    InputField,
    Inputs,
    came_at,
    key,
    keys_among,
    passed_on,
    row_kind,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, run_by_keys, running, spark_schema
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.hidden_columns import column, hidden, micros, quoted
from sqlstream.planner.node import Node
from sqlstream.planner.operators.changelogs import Normalize
from sqlstream.planner.operators.current_watermark import CurrentWatermark
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.over import Closing
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.changes.kernels import NormalizeKernel, SetOperationKernel
from sqlstream.udfs.current_watermark import NOW, CurrentWatermarkKernel
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import ROW_KIND, Kernel
from sqlstream.udfs.over.functions import Number
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.over.line import Tie
from sqlstream.udfs.state.time_to_live import TimeToLive
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel
from sqlstream.udfs.top_n.kernel import TopNKernel, WindowTopNKernel
from sqlstream.udfs.top_n.order import Order, Ranking


@dataclass(frozen=True)
class RankedInput:
    """The input of a kernel that ranks or sorts rows. ``fields`` maps each field of the operator's input to a column.
    ``keys`` are the names of the key columns, in which equal values have identical bytes.
    """

    rows: DataFrame
    fields: dict[str, str]
    keys: tuple[str, ...]
    time: InputField | None = None

    @property
    def schema(self) -> pa.Schema:
        return kernel_schema(self.rows)

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(self.fields.values())

    def emitted(self, kernel: Kernel, step: Operator, context: Context) -> DataFrame:
        """Runs the kernel on this input and returns the DataFrame of its output. The exchange reads files itself where
        it can.
        """
        fields_of = {own: InputField(name) for name, own in self.fields.items()}
        fields_of |= {TIME: self.time} if self.time is not None else {}
        (under,) = step.node.inputs
        inputs = Inputs(context, under.schema, self.rows)
        return run_by_keys(kernel, self.rows, self.keys, fields_of, inputs, step, context)

    def results(self, emitted: DataFrame, others: Iterable[Column] = ()) -> DataFrame:
        """Turns the kernel's output into rows with the fields of the plan, and the columns ``others``."""
        named = (column(own).alias(name) for name, own in self.fields.items())
        return emitted.select(*named, *others, *hidden(emitted))


def ranked_input(
    node: Node,
    keys: Sequence[str],
    below: DataFrame,
    columns: Sequence[Column] = (),
    *,
    time: str | None = None,
    came_at: str | None = None,
) -> RankedInput:
    """Prepares the input of a kernel that ranks or sorts rows. ``below`` has the rows of the node's only input.

    ``columns`` are additional columns to compute. ``time`` is the field from which the column TIME is computed.
    ``came_at`` is the SQL text of the row's arrival time, None if it is not needed.
    """
    (under,) = node.inputs
    fields = {f.name: f"__field_{i}" for i, f in enumerate(under.schema)}
    chosen, own = keys_among(below, keys, fields)
    named = [column(name).alias(to) for name, to in fields.items()]
    if under.changelog_mode != APPEND_ONLY:
        named.append(row_kind())
    clock = [F.expr(came_at).alias(CLOCK)] if came_at is not None else []
    timed = [F.expr(micros(time)).alias(TIME)] if time is not None else []
    own_names = tuple(own.values())
    rows = with_key_hash(below.select(*chosen, *named, *timed, *columns, *clock, *passed_on(below)), own_names)
    return RankedInput(rows, fields, own_names, InputField(time, micros=True) if time is not None else None)


_CLOSES = "__closes"


# --- deduplicate ----------------------------------------------------------------------------------------------


def run_deduplicate(node: Deduplicate, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame with the first or last row of each key."""
    time = node.time if node.timed else None
    below = context.lower(step.input)
    clock = came_at(below, context) if node.ttl_ms else None
    closes = [] if node.closes is None else [F.expr(closing_micros(node.closes)).alias(_CLOSES)]
    ranked = ranked_input(node, node.keys, below, closes, time=time, came_at=clock)
    kernel = DeduplicateKernel(
        ranked.schema,
        ranked.keys,
        ranked.passed,
        TIME if node.timed else None,
        node.last,
        before=not step.drops_before,
        ttl=node.ttl_ms * 1000,
        closes=_CLOSES if node.closes is not None else None,
    )
    return ranked.results(ranked.emitted(kernel, step, context))


# --- Top-N ----------------------------------------------------------------------------------------------------


_NUMBER = "__number"


def run_top_n(node: TopN, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a Top-N: the first rows of each key in an order."""
    below = context.lower(step.input)
    closes = [] if node.closes is None else [F.expr(closing_micros(node.closes)).alias(_CLOSES)]
    clock = came_at(below, context) if node.ttl_ms else None
    ranked = ranked_input(node, node.keys, below, closes, came_at=clock)
    emitted = ranked.emitted(_kernel(node, ranked), step, context)
    return ranked.results(emitted, [] if node.number is None else [column(_NUMBER).alias(node.number)])


def closing_micros(closing: Closing) -> str:
    """SQL text of the watermark, in microseconds, at which the window of a row is complete."""
    return f"({micros(closing.field)}) + {closing.after_ms * 1000}L"


def _kernel(node: TopN, ranked: RankedInput) -> Kernel:
    order = tuple(Order(ranked.fields[key.name], key.descending, key.nulls_first) for key in node.order)
    function = Number(node.function)
    last = max(node.last, node.first)  # below LIMIT 0 there are no rows
    ranking = Ranking(ranked.keys, order, function, node.first, last, newest_first=node.newest_first)
    number = None if node.number is None else _NUMBER
    if node.closes is not None:
        return WindowTopNKernel(ranked.schema, ranking, ranked.passed, _CLOSES, number)
    return TopNKernel(ranked.schema, ranking, ranked.passed, number, node.ttl_ms * 1000)


# --- temporal sort: the kernel of OVER, without functions --------------------------------------------------------


def run_temporal_sort(node: TemporalSort, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of rows sorted by event time."""
    ranked = ranked_input(node, node.keys, context.lower(step.input), time=node.time)
    ties = tuple(Tie(ranked.fields[tie.name], tie.descending, tie.nulls_first) for tie in node.ties)
    kernel = OverKernel(ranked.schema, ranked.keys, TIME, ranked.passed, (), ties=ties)
    return ranked.results(ranked.emitted(kernel, step, context))


# --- CURRENT_WATERMARK: the fields of the rows, and the watermark as one more ------------------------------------


def run_current_watermark(node: CurrentWatermark, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of rows with CURRENT_WATERMARK as a column."""
    ranked = ranked_input(node, (), context.lower(step.input))
    kernel = CurrentWatermarkKernel(ranked.schema, ranked.passed)
    now = F.expr(f"CAST(timestamp_micros({quoted(NOW)}) AS {node.output.type.name})").alias(node.output.name)
    return ranked.results(ranked.emitted(kernel, step, context), [now])


# --- normalize ------------------------------------------------------------------------------------------------


def run_normalize(node: Normalize, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame in which upserts by key have become complete changes, with the previous row of each
    update.
    """
    rows = context.lower(step.input)
    fields = {f"__field_{i}": f.name for i, f in enumerate(node.schema)}
    keys = {f"__key_{i}": name for i, name in enumerate(node.keys)}
    by_key = [key(name, rows.schema[name].dataType).alias(own) for own, name in keys.items()]
    named = [column(name).alias(own) for own, name in fields.items()]
    # Rows that arrive before the first tick of the clock also have their whole time to live.
    clock = [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    projected = with_key_hash(rows.select(*by_key, *named, row_kind(), *clock, *passed_on(rows)), tuple(keys))
    schema = kernel_schema(projected)
    kernel = NormalizeKernel(schema, tuple(keys), tuple(fields), node.ttl_ms * 1000)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    return emitted.select(*(column(own).alias(name) for own, name in fields.items()), *hidden(emitted))


# --- INTERSECT and EXCEPT -------------------------------------------------------------------------------------


def run_set_operation(node: SetOperation, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of INTERSECT or EXCEPT, with or without ALL."""
    sides = [_fields(node, context.lower(below), context) for below in step.inputs]
    fields = list(_names(node))
    schema = kernel_schema(sides[0])
    updates = node.changelog_mode != APPEND_ONLY
    living = TimeToLive(1000 * node.ttl_ms)
    kernel = SetOperationKernel(node.kind, pa.schema([schema.field(name) for name in fields]), living, updates)
    output = spark_schema(kernel.output, StructType([sides[0].schema[name] for name in fields]))
    emitted = run(sides, running(step, context.plan, kernel, output), context.runtime)
    return emitted.select(*(column(own).alias(name) for own, name in _names(node).items()), *hidden(emitted))


def _names(node: SetOperation) -> dict[str, str]:
    """Fields by the kernel's own names for them."""
    return {f"__field_{i}": field.name for i, field in enumerate(node.schema)}


def _fields(node: SetOperation, rows: DataFrame, context: Context) -> DataFrame:
    """Adds KEY_HASH, which is the hash of all fields."""
    own = [key(name, rows.schema[name].dataType).alias(alias) for alias, name in _names(node).items()]
    kinds = [column(ROW_KIND)] if ROW_KIND in rows.columns else []
    # Rows that arrive before the first tick of the clock also have their whole time to live.
    clock = [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    return with_key_hash(rows.select(*own, *kinds, *clock, *passed_on(rows)), tuple(_names(node)))


KERNELS: Lowerings = {
    CurrentWatermark: run_current_watermark,
    Deduplicate: run_deduplicate,
    Normalize: run_normalize,
    SetOperation: run_set_operation,
    TemporalSort: run_temporal_sort,
    TopN: run_top_n,
}
"""The operators here, as kernels per key group."""
