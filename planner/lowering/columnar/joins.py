"""Joins on kernels: the columns that a kernel reads of both sides, the kernel, and the fields that it emits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType, MapType, StringType, StructType, VariantType
from sqlglot import exp

from sqlstream.planner.fields import Field
from sqlstream.planner.lowering.branches import BRANCH, each_taken, is_for
from sqlstream.planner.lowering.columnar.inputs import (
    Files,
    InputField,
    Inputs,
    came_at,
    clock_of,
    files_of,
    hashed_by_exchange,
    key,
    of_own,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import Together, kernel_schema, own_column, run, running, spark_schema
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.hidden_columns import column, hidden
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.join import Join, RegularJoin, WindowJoin
from sqlstream.planner.operators.multi_join import MultiJoin
from sqlstream.planner.operators.temporal_join import AsofJoin, TemporalJoin
from sqlstream.planner.physical.shared_operators import Branch, branches
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.expressions.tree import Expression
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.asof import VALUE, AsofJoinKernel
from sqlstream.udfs.joins.interval import TIME as INTERVAL_TIME
from sqlstream.udfs.joins.interval import IntervalJoinKernel
from sqlstream.udfs.joins.multi import MultiJoinKernel
from sqlstream.udfs.joins.pairs import Bounds, Side
from sqlstream.udfs.joins.regular import RegularJoinKernel
from sqlstream.udfs.joins.temporal import TIME as TEMPORAL_TIME
from sqlstream.udfs.joins.temporal import ProcessingTimeTemporalJoinKernel, TemporalJoinKernel
from sqlstream.udfs.joins.window import END, WindowJoinKernel
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Domain, Kernel

AnyJoin = Join | MultiJoin
_SIDES = ("left", "right")
_NOT_HASHED = (ArrayType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class JoinInput:
    """One input of a join's kernel. ``rows`` has the column KEY_HASH, the keys and the other fields.

    ``hashed`` are the keys whose hash the exchange computes. ``files`` are the files that the exchange reads itself,
    None if Spark reads them. ``outputs`` has a pair for each field: its column in the result, whose name the other side
    does not have, and its column in the input. ``together``: the rows of this and other inputs, which take them from
    one operator; None where ``rows`` are read for this input alone.
    """

    rows: DataFrame
    keys: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    hashed: tuple[str, ...]
    files: Files | None
    together: Together | None = None

    def side(self, ttl_ms: int = 0) -> Side:
        return Side(kernel_schema(self.rows), self.outputs, 1000 * ttl_ms)


More = Callable[[int, Inputs], None]
"""Adds the columns that kernels read of a port in addition to keys and fields."""


def join_inputs(node: AnyJoin, step: Operator, context: Context, more: More) -> list[JoinInput]:
    """The inputs of a join, left first, with the columns that its condition reads. ``more`` is called for each of them
    to add further columns.
    """
    found = dict[int, JoinInput]()
    for inputs in branches(step):
        rows = context.lower(inputs[0].below)
        if len(inputs) == 1:
            found[inputs[0].place] = _input(node, step, inputs[0].place, rows, context, more)
        else:
            found |= _inputs_together(node, step, each_taken(rows, inputs, context), inputs, context, more)
    return [found[port] for port in range(len(step.inputs))]


def column_of(node: Join, side: JoinInput, port: int, name: str) -> str:
    """The name of the kernel's input column for the field ``name``; ``port`` is the side, 0 for left and 1 for
    right.
    """
    number = next(i for i, field in enumerate(node.inputs[port].schema) if field.name == name)
    return side.outputs[number][1]


def condition_of(node: Join) -> Expression | None:
    """The part of ON that is neither equality of keys nor bounds of time, as a condition that kernels evaluate."""
    return None if node.pair_condition is None else node.pair_condition.condition


def joined(node: AnyJoin, step: Operator, sides: list[JoinInput], kernel: Kernel, context: Context) -> DataFrame:
    """Runs a join: returns the rows that its ``kernel`` emits for the ``sides``."""
    fields = StructType([field for side in sides for field in side.rows.schema])
    operator = running(step, context.plan, kernel, spark_schema(kernel.output, fields))
    if sides[0].hashed:
        keys = sides[0].keys
        unsafe = tuple(name for name, safe in zip(keys, node.null_safe, strict=True) if not safe)
        updates = any(ROW_KIND in side.rows.columns for side in sides)
        operator = replace(operator, hashed=sides[0].hashed, spread=() if updates else unsafe)
    together = tuple(dict.fromkeys(side.together for side in sides if side.together is not None))
    rows, files = [side.rows for side in sides], [side.files for side in sides]
    return _fields(node, run(rows, operator, context.runtime, files, together=together))


_ROWS = "__rows"
"""What the columns of several inputs are made of, one after the other: the fields and hidden columns of common rows."""


def _inputs_together(
    node: AnyJoin, step: Operator, rows: DataFrame, inputs: Sequence[Branch], context: Context, more: More
) -> dict[int, JoinInput]:
    """The inputs of a join, by their ports, that take what they need of the same ``rows``, which say for which input
    each is (BRANCH). What an input takes is NULL in the rows of the others.
    """
    whole = rows.select(F.struct(*map(column, rows.columns)).alias(_ROWS))
    found = dict[int, JoinInput]()
    for number, branch in enumerate(inputs):
        carried, given = whole.columns, whole.select("*", f"{_ROWS}.*")
        values = zip(node.inputs[branch.place].schema, branch.taken.values, strict=True)
        fields = (F.when(is_for(number), context.column(value)).alias(field.name) for field, value in values)
        taken = given.select(*fields, *hidden(given), *map(column, carried))
        made = _input(node, step, branch.place, taken, context, more, carried, is_for(number, f"{_ROWS}.{BRANCH}"))
        own = [name for name in made.rows.columns if name not in carried and (name != KEY_HASH or not made.hashed)]
        whole = made.rows.select(*map(column, carried), F.struct(*map(column, own)).alias(own_column(branch.place)))
        found[branch.place] = replace(made, rows=made.rows.drop(*carried))
    together = Together(whole.select(f"{_ROWS}.{BRANCH}", "*").drop(_ROWS), tuple(branch.place for branch in inputs))
    return {port: replace(made, together=together) for port, made in found.items()}


def _input(
    node: AnyJoin,
    step: Operator,
    port: int,
    rows: DataFrame,
    context: Context,
    more: More,
    carried: Sequence[str] = (),
    is_own: Column | None = None,
) -> JoinInput:
    """``carried``: further columns of ``rows`` that those of the input keep. ``is_own``: which rows are for the input;
    nothing is computed for others. None: all are.
    """

    inputs = Inputs(context, node.inputs[port].schema, rows, step.ports[port].watermark)
    equal = node.keys_of_side(port)
    keys = tuple(f"__key_{i}" for i in range(len(equal)))
    same = {value.name: name for name, value in zip(keys, equal, strict=True) if _is_itself(value, rows)}
    outputs = tuple((own, same.get(field.name, own)) for own, field in _places(node, port))
    for own, field in _places(node, port):
        if field.name not in same:
            inputs.field(field.name, own)
    for name, operand in node.pair_condition.columns[port] if node.pair_condition is not None else ():
        inputs.add(operand, name=name)
    more(port, inputs)
    named = rows.select(
        "*", *(of_own(context.column(value, rows), is_own).alias(name) for name, value in zip(keys, equal, strict=True))
    )
    by_key = (key(name, named.schema[name].dataType).alias(name) for name in keys)
    kinds = [column(ROW_KIND)] if ROW_KIND in rows.columns else []
    projected = named.select(*by_key, *inputs.columns(is_own), *kinds, *passed_on(rows), *map(column, carried))
    schema = kernel_schema(projected)
    fields_of = {
        name: InputField(value.name) for name, value in zip(keys, equal, strict=True) if isinstance(value, exp.Column)
    }
    hashed, hashed_rows = hashed_by_exchange(keys, schema), with_hash(node, projected, keys)
    return JoinInput(
        hashed_rows,
        keys,
        outputs,
        hashed,
        files_of(step, {**inputs.fields_of, **fields_of}, inputs, kernel_schema(hashed_rows), hashed, context, port),
    )


def _is_itself(value: exp.Expression, rows: DataFrame) -> bool:
    """True for a key that is the field as it is."""
    return isinstance(value, exp.Column) and isinstance(rows.schema[value.name].dataType, IntegralType | StringType)


def with_hash(node: AnyJoin, rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Adds KEY_HASH to the rows. Insertions with a NULL key, which can match nothing, are distributed by other columns,
    so that they do not all go to one key group.
    """
    hashed = with_key_hash(rows, keys)
    unsafe = [column(name).isNull() for name, safe in zip(keys, node.null_safe, strict=True) if not safe]
    others = [f.name for f in rows.schema if f.name not in keys and not isinstance(f.dataType, _NOT_HASHED)]
    if not unsafe or not others or ROW_KIND in rows.columns:
        return hashed
    spread = F.when(reduce(or_, unsafe), F.xxhash64(*map(column, others))).otherwise(column(KEY_HASH))
    return hashed.withColumn(KEY_HASH, spread)


def _places(node: AnyJoin, port: int) -> Iterator[tuple[str, Field]]:
    side = _SIDES[port] if port < len(_SIDES) else f"side_{port}"
    return ((f"__{side}_{i}", field) for i, field in enumerate(node.inputs[port].schema))


def _fields(node: AnyJoin, emitted: DataFrame) -> DataFrame:
    """The kernel's output under the names of the node's schema."""
    sides = range(len(node.inputs)) if node.kind.pairs else (0,)
    own = [column(name).alias(field.name) for port in sides for name, field in _places(node, port)]
    return emitted.select(*own, *hidden(emitted))


# --- ASOF joins -----------------------------------------------------------------------------------------------


def run_asof_join(node: AsofJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of an ASOF join: its inputs, exchanged by key and passed through its kernel."""

    def value(port: int, inputs: Inputs) -> None:
        inputs.add(node.values[port], name=VALUE)
        if node.ttl_ms:
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, value)
    left, right = sides
    kernel = AsofJoinKernel(
        (left.side(), right.side()),
        node.kind is JoinKind.LEFT,
        left.keys,
        node.null_safe,
        node.above,
        node.strict,
        tuple(column_of(node, right, 1, name) for name in node.first_by),
        condition_of(node),
        1000 * node.ttl_ms,
    )
    return joined(node, step, sides, kernel, context)


# --- interval joins -------------------------------------------------------------------------------------------


def run_interval_join(node: IntervalJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a join with bounds on the distance of two time attributes: its inputs, exchanged by key
    and passed through its kernel.
    """

    def time(port: int, inputs: Inputs) -> None:
        if node.by_clock:
            inputs.add_text(clock_of(inputs.below), INTERVAL_TIME)
            inputs.add_text(clock_of(inputs.below), CLOCK)  # before its first watermark Spark has no clock
            inputs.fired(node.inputs[port], node.times[port])
        else:
            inputs.time(node.times[port], INTERVAL_TIME)

    sides = join_inputs(node, step, context, time)
    left, right = sides
    kernel = IntervalJoinKernel(
        left.side(),
        right.side(),
        node.kind,
        left.keys,
        node.null_safe,
        Bounds(node.lower_us, node.upper_us),
        Domain.PROCESSING if node.by_clock else Domain.EVENT,
        condition_of(node),
    )
    return joined(node, step, sides, kernel, context)


# --- regular joins --------------------------------------------------------------------------------------------


def run_regular_join(node: RegularJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a join without bounds on time: its inputs, exchanged by key and passed through its
    kernel.
    """

    def clock(port: int, inputs: Inputs) -> None:
        """When rows arrived: Spark's clock lags by a micro-batch."""
        if any(node.ttl_ms):
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, clock)
    left, right = sides
    kernel = RegularJoinKernel(
        node.kind,
        (left.side(node.ttl_ms[0]), right.side(node.ttl_ms[1])),
        left.keys,
        node.null_safe,
        condition_of(node),
    )
    return joined(node, step, sides, kernel, context)


def run_multi_join(node: MultiJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of an inner join of several inputs on the same keys: its inputs, exchanged by key and passed
    through its kernel.
    """
    sides = join_inputs(node, step, context, lambda port, inputs: None)
    kernel = MultiJoinKernel(tuple(side.side() for side in sides), sides[0].keys)
    return joined(node, step, sides, kernel, context)


# --- temporal joins -------------------------------------------------------------------------------------------


def run_temporal_join(node: TemporalJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a join with a versioned table (FOR SYSTEM_TIME AS OF): its inputs, exchanged by key and
    passed through its kernel.
    """

    def more(port: int, inputs: Inputs) -> None:
        if node.timed:
            inputs.time(node.times[port], TEMPORAL_TIME)
        if node.uses_processing_time:
            inputs.add_text(came_at(inputs.below, context), CLOCK)

    sides = join_inputs(node, step, context, more)
    left, right = sides
    shown, outer, ttl = (left.side(node.left_ttl_ms), right.side()), node.kind is JoinKind.LEFT, 1000 * node.ttl_ms
    null_safe = node.null_safe
    by = tuple(column_of(node, left, 0, name) for name in node.left_row_identity) if node.retracts else ()
    kernel: TemporalJoinKernel | ProcessingTimeTemporalJoinKernel
    if node.timed:
        first_by = None if node.first_by is None else tuple(column_of(node, right, 1, name) for name in node.first_by)
        condition = condition_of(node)
        kernel = TemporalJoinKernel(shown, outer, left.keys, null_safe, node.strict, first_by, condition, ttl, by)
    else:
        kernel = ProcessingTimeTemporalJoinKernel(shown, outer, left.keys, null_safe, condition_of(node), ttl, by)
    return joined(node, step, sides, kernel, context)


# --- window joins ---------------------------------------------------------------------------------------------


def run_window_join(node: WindowJoin, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a join of rows in the same window: its inputs, exchanged by key and passed through its
    kernel.
    """

    def end(port: int, inputs: Inputs) -> None:
        inputs.time(node.ends[port], END)

    sides = join_inputs(node, step, context, end)
    left, right = sides
    null_safe = node.null_safe
    result_sides = left.side(), right.side()
    return joined(
        node, step, sides, WindowJoinKernel(node.kind, result_sides, left.keys, null_safe, condition_of(node)), context
    )


KERNELS: Lowerings = {
    AsofJoin: run_asof_join,
    IntervalJoin: run_interval_join,
    MultiJoin: run_multi_join,
    RegularJoin: run_regular_join,
    TemporalJoin: run_temporal_join,
    WindowJoin: run_window_join,
}
"""The operators here, as kernels per key group."""
