"""GROUP BY on kernels: calls split into columns and kernel calls, grouping sets, and the operator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.functions.catalogue import aggregate_of
from sqlstream.planner.aggregate_calls import (
    NOT_EXECUTED,
    CallParts,
    argument_name,
    call_parts,
    kernel_arguments,
    values_and_constants,
)
from sqlstream.planner.aggregate_order import in_words_of_spark
from sqlstream.planner.catalog import APPEND_ONLY, FunctionKind
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.lowering.columnar.inputs import (
    InputField,
    Inputs,
    came_at,
    key,
    kinds_of,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run_by_keys
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.functions import called_function, cast_arguments, ship
from sqlstream.planner.lowering.hidden_columns import column, hidden, passes_by, quoted
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.steps import Operator
from sqlstream.types import DataType, from_spark
from sqlstream.udfs.aggregates import AggregateCall, Ordering
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.groups.kernel import GroupAggregateKernel, strategies_of
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.state.time_to_live import TimeToLive

# --- aggregate calls, split into columns to project below and a call over their names ----------------------------


@dataclass(frozen=True)
class SplitCall:
    """An aggregate call whose arguments Spark computes as columns of the kernel's input. ``columns`` are pairs of a
    column's name and the expression that computes it; ``call`` refers to these names. Equal expressions have equal
    names.
    """

    call: AggregateCall
    columns: tuple[tuple[str, exp.Expression], ...]


def split(item: Item, rows: DataFrame, context: Context) -> SplitCall:
    """Divides the aggregate ``item`` into columns that Spark computes from ``rows`` and a call for the kernel over
    them. UnsupportedError SS395 for arguments that must be constants and are not.
    """
    has_type = not item.type.is_unknown
    result = item.type if has_type else _type_in_spark(item.expression, rows, context)
    return split_call(item.name, item.expression, _arrow(result), context.runtime)


def _arrow(result: DataType) -> pa.DataType:
    try:
        return result.to_arrow()
    except TypeError as error:
        hint = "Cast the value, for instance to BIGINT or STRING."
        raise UnsupportedError(NOT_EXECUTED, f"aggregates of the type {result} are not executed", hint=hint) from error


def _type_in_spark(expression: exp.Expression, rows: DataFrame, context: Context) -> DataType:
    typed = rows.groupBy().agg(F.expr(context.sql(as_expression(in_words_of_spark(expression)))).alias("t"))
    return from_spark(typed.schema["t"].dataType.jsonValue())


def split_call(name: str, expression: exp.Expression, result: pa.DataType, runtime: Runtime) -> SplitCall:
    """Divides an aggregate expression into columns that Spark computes and a call for the kernel over them. ``name`` is
    that of the result and ``result`` its Arrow type.
    """
    parts = call_parts(expression)
    function = called_function(parts.call, runtime)
    if function is not None and function.kind is FunctionKind.AGGREGATE:
        values = cast_arguments(exp.Anonymous(this=function.name, expressions=parts.values), function)
        implementation = runtime.implementation(function)
        ship(implementation)
        return _split(name, function.name, parts, values, (), result, implementation)
    called = spark_name(parts.call)
    assert called is not None, f"{parts.call!r} is no aggregate call"
    values, constants = values_and_constants(called, parts)
    aggregate = aggregate_of(called)
    if aggregate is not None and aggregate.says_whether_nulls_are_ignored and constants:
        parts, constants = parts.ignoring_nulls(constants[0] is True), ()
    return _split(
        name, called, parts, kernel_arguments(called, values, binary=pa.types.is_binary(result)), constants, result
    )


def _split(
    name: str,
    function: str,
    parts: CallParts,
    values: list[exp.Expression],
    constants: tuple[object, ...],
    result: pa.DataType,
    implementation: object = None,
) -> SplitCall:
    call = AggregateCall(
        name,
        function,
        tuple(map(argument_name, values)),
        result,
        filter=argument_name(parts.condition) if parts.condition is not None else None,
        distinct=parts.distinct,
        order=tuple(_ordering(o) for o in parts.order),
        constants=constants,
        ignore_nulls=parts.nulls is exp.IgnoreNulls,
        respect_nulls=parts.nulls is exp.RespectNulls,
        implementation=implementation,
    )
    conditions = [parts.condition] if parts.condition is not None else []
    read = [*values, *conditions, *(as_expression(o.this) for o in parts.order)]
    return SplitCall(call, tuple({argument_name(e): e for e in read}.items()))


def _ordering(ordered: exp.Ordered) -> Ordering:
    return Ordering(
        argument_name(as_expression(ordered.this)),
        bool(ordered.args.get("desc")),
        bool(ordered.args.get("nulls_first")),
    )


def run_group_aggregate(node: GroupAggregate, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a GROUP BY without a window: the input's rows, exchanged and passed through its
    kernel.
    """
    rows = in_sets(node, context.lower(step.input))
    calls = [split(item, rows, context) for item in node.aggregates]
    inputs = Inputs(context, node.input.schema, rows)
    for call in calls:
        for name, expression in call.columns:
            inputs.add(expression, name=name)
    if node.ttl_ms:  # rows that arrive before the first tick of the clock also have their whole time to live
        inputs.add_text(came_at(rows, context), CLOCK)
    keys = (*_keys(node), *set_keys(node))
    own = (*_key_columns(node, rows), *inputs.columns(), *kinds_of(node))
    projected = with_key_hash(rows.select(*own, *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    named = [replace(call.call, name=f"__result_{i}") for i, call in enumerate(calls)]
    living = TimeToLive(1000 * node.ttl_ms)
    strategies = strategies_of(named, keys, schema, updates=ROW_KIND in schema.names, living=living)
    updates = node.changelog_mode != APPEND_ONLY
    kernel = GroupAggregateKernel(schema, keys, strategies, tuple(c.name for c in named), living, emits_kinds=updates)
    fields_of = {**inputs.fields_of, **{own: InputField(name) for own, name in _keys(node).items()}}
    emitted = run_by_keys(kernel, projected, keys, fields_of, inputs, step, context)
    return emitted.select(*_results(node), *hidden(emitted))


def _keys(node: GroupAggregate) -> dict[str, str]:
    """Fields by the kernel's own names for them, which none of the plan's can be."""
    return {f"__key_{i}": name for i, name in enumerate(node.keys)}


def _key_columns(node: GroupAggregate, rows: DataFrame) -> list[Column]:
    keys = {own: key(name, rows.schema[name].dataType) for own, name in _keys(node).items()}
    in_set = (key_in_sets(node, _keys(node)[own], value).alias(own) for own, value in keys.items())
    return [*in_set, *map(column, set_keys(node))]


def _results(node: GroupAggregate) -> list[Column]:
    return [
        *(column(own).alias(name) for own, name in _keys(node).items()),
        *grouping_id(node),
        *(column(f"__result_{i}").alias(item.name) for i, item in enumerate(node.aggregates)),
    ]


# --- GROUPING SETS -----------------------------------------------------------------------------------------------
# Each row once per set, with the keys that the set leaves out as NULL. The set is a key of its own


SET = "__set"

Grouped = WindowAggregate | GroupAggregate


def in_sets(node: Grouped, rows: DataFrame) -> DataFrame:
    """Repeats each row once per grouping set, and adds the number of the set as column SET. Control rows and side
    outputs are not repeated. Without grouping sets the rows are returned unchanged.
    """
    if node.grouping_sets is None:
        return rows
    sets = F.sequence(F.lit(0), F.lit(len(node.grouping_sets) - 1))
    passing = passes_by(rows)
    return rows.select(
        "*", F.explode(sets if passing is None else F.when(passing, F.array(F.lit(0))).otherwise(sets)).alias(SET)
    )


def key_in_sets(node: Grouped, key: str, value: Column) -> Column:
    """The column of a grouping key, which is NULL in rows of sets that lack the key."""
    if node.grouping_sets is None:
        return value
    members = [i for i, members in enumerate(node.grouping_sets) if key in members]
    return F.when(column(SET).isin(members), value)


def set_keys(node: Grouped) -> list[str]:
    """The additional key columns that distinguish grouping sets; empty without sets."""
    return [SET] if node.grouping_sets is not None else []


def grouping_id(node: Grouped) -> list[Column]:
    """GROUPING_ID over all keys as a column: one bit per key, the first key's the highest, set if the grouping set
    lacks the key.
    """
    if node.grouping_id is None:
        return []
    assert node.grouping_sets is not None, "only grouping sets have a GROUPING_ID"
    bits = [[key not in members for key in reversed(node.keys)] for members in node.grouping_sets]
    ids = (sum(bit << i for i, bit in enumerate(row)) for row in bits)
    array = f"array({', '.join(f'{i}L' for i in ids)})"
    return [F.expr(f"{array}[{quoted(SET)}]").alias(node.grouping_id)]


KERNELS: Lowerings = {
    GroupAggregate: run_group_aggregate,
}
"""The operators here, as kernels per key group."""
