"""Aggregate calls of a plan, taken apart for the columnar gear: columns to project below, a call over their names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.lowering.functions import called_function, cast_arguments, ship
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.physical.aggregate_arguments import (
    NOT_EXECUTED,
    PICKS,
    CallParts,
    parts_of,
    prepared,
    values_and_constants,
)
from sqlstream.planner.rewriting import node_of
from sqlstream.types import DataType, from_spark
from sqlstream.udfs.aggregates import AggregateCall, Ordering


@dataclass(frozen=True)
class SplitCall:
    """``columns``: name and expression of each column that ``call`` reads. Equal expressions have equal names."""

    call: AggregateCall
    columns: tuple[tuple[str, exp.Expression], ...]


def split(item: Item, rows: DataFrame, context: Context) -> SplitCall:
    """The aggregate ``item`` over ``rows``; UnsupportedError SS395 for arguments that must be constants."""
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
    typed = rows.groupBy().agg(F.expr(context.sql(expression)).alias("t"))
    return from_spark(typed.schema["t"].dataType.jsonValue())


def split_call(name: str, expression: exp.Expression, result: pa.DataType, runtime: Runtime) -> SplitCall:
    parts = parts_of(expression)
    function = called_function(parts.call, runtime)
    if function is not None and function.kind is FunctionKind.AGGREGATE:
        values = cast_arguments(exp.Anonymous(this=function.name, expressions=parts.values), function)
        implementation = runtime.implementation(function)
        ship(implementation)
        return _split(name, function.name, parts, values, (), result, implementation)
    called = spark_name(parts.call)
    assert called is not None, f"{parts.call!r} is no aggregate call"
    values, constants = values_and_constants(called, parts)
    if called in PICKS and constants:
        parts, constants = parts.ignoring_nulls(constants[0] is True), ()
    return _split(name, called, parts, prepared(called, values, binary=pa.types.is_binary(result)), constants, result)


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
        tuple(map(_column_name, values)),
        result,
        filter=_column_name(parts.condition) if parts.condition is not None else None,
        distinct=parts.distinct,
        order=tuple(_ordering(o) for o in parts.order),
        constants=constants,
        ignore_nulls=parts.nulls is exp.IgnoreNulls,
        respect_nulls=parts.nulls is exp.RespectNulls,
        implementation=implementation,
    )
    conditions = [parts.condition] if parts.condition is not None else []
    read = [*values, *conditions, *(node_of(o.this) for o in parts.order)]
    return SplitCall(call, tuple({_column_name(e): e for e in read}.items()))


def _column_name(expression: exp.Expression) -> str:
    text = expression.sql(dialect=SparkWithTime, comments=False)
    return f"__argument_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _ordering(ordered: exp.Ordered) -> Ordering:
    return Ordering(
        _column_name(node_of(ordered.this)), bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    )
