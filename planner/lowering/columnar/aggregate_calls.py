"""Aggregate calls of a plan, taken apart for the columnar gear: columns to project below, a call over their names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.functions.kinds import spark_name
from sqlstream.planner.lowering.functions import called_function, cast_arguments
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import Item
from sqlstream.planner.rewriting import node_of
from sqlstream.planner.type_inference import call_arguments
from sqlstream.types import DataType, from_spark
from sqlstream.udfs.aggregates import AggregateCall, Ordering

_NOT_EXECUTED = "SS395"

# How many arguments are columns, where not all are; the others are constants.
_COLUMNS = {
    "listagg": 1,
    "string_agg": 1,
    "approx_count_distinct": 1,
    "approx_percentile": 1,
    "percentile_approx": 1,
    "percentile": 1,
    "percentile_cont": 0,
    "percentile_disc": 0,
    "mode": 1,
    "first": 1,
    "first_value": 1,
    "last": 1,
    "last_value": 1,
    "any_value": 1,
}
_PICKS = frozenset({"first", "first_value", "last", "last_value", "any_value"})
_TEXTS = frozenset({"listagg", "string_agg"})
# The value that these aggregate stands in ORDER BY.
_ORDERED_VALUE = frozenset({"percentile_cont", "percentile_disc", "mode"})


@dataclass(frozen=True)
class SplitCall:
    """``columns``: name and expression of each column that ``call`` reads. Equal expressions have equal names."""

    call: AggregateCall
    columns: tuple[tuple[str, exp.Expression], ...]


def split(item: Item, rows: DataFrame, context: Context) -> SplitCall:
    """The aggregate ``item`` over ``rows``; UnsupportedError SS395 for arguments that must be constants."""
    known = not item.type.is_unknown
    result = item.type if known else _type_in_spark(item.expression, rows, context)
    return split_call(item.name, item.expression, _arrow(result), context.runtime)


def _arrow(result: DataType) -> pa.DataType:
    try:
        return result.to_arrow()
    except TypeError as error:
        hint = "Cast the value, for instance to BIGINT or STRING."
        raise UnsupportedError(_NOT_EXECUTED, f"aggregates of the type {result} are not executed", hint=hint) from error


def _type_in_spark(expression: exp.Expression, rows: DataFrame, context: Context) -> DataType:
    found = rows.groupBy().agg(F.expr(context.sql(expression)).alias("t"))
    return from_spark(found.schema["t"].dataType.jsonValue())


def split_call(name: str, expression: exp.Expression, result: pa.DataType, runtime: Runtime) -> SplitCall:
    parts = _parts(expression)
    function = called_function(parts.call, runtime)
    if function is not None and function.kind is FunctionKind.AGGREGATE:
        values = cast_arguments(exp.Anonymous(this=function.name, expressions=parts.values), function)
        return _split(name, function.name, parts, values, (), result, runtime.implementation(function))
    called = spark_name(parts.call)
    assert called is not None, f"{parts.call!r} is no aggregate call"
    values, constants = _values_and_constants(called, parts)
    if called in _PICKS and constants:
        parts, constants = parts.ignoring_nulls(constants[0] is True), ()
    return _split(name, called, parts, _prepared(called, values, result), constants, result)


def _split(
    name: str,
    function: str,
    parts: _Parts,
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
    text = expression.sql(dialect="spark", comments=False)
    return f"__argument_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _ordering(ordered: exp.Ordered) -> Ordering:
    return Ordering(
        _column_name(node_of(ordered.this)), bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    )


# --- the parts of a call --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    """A call without its wrappers. ``values`` are its arguments, without DISTINCT and ORDER BY.

    ``nulls`` is IgnoreNulls or RespectNulls where the call says it.
    """

    call: exp.Expression
    values: list[exp.Expression]
    condition: exp.Expression | None
    order: tuple[exp.Ordered, ...]
    distinct: bool
    nulls: type[exp.Expression] | None

    def ignoring_nulls(self, ignored: bool) -> _Parts:
        return replace(self, nulls=exp.IgnoreNulls) if ignored else self


def _parts(expression: exp.Expression) -> _Parts:
    condition: exp.Expression | None = None
    order: list[exp.Ordered] = []
    nulls: type[exp.Expression] | None = None
    call = expression
    while isinstance(call, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        match call:
            case exp.Filter():
                condition = call.expression.this
            case exp.WithinGroup():
                order = list(call.expression.expressions)
            case _:
                nulls = type(call)
        call = node_of(call.this)
    values: list[exp.Expression] = []
    for argument in map(node_of, call_arguments(call)):
        found, inner_order = _unwrapped(argument)
        values += found
        order += inner_order
    return _Parts(call, values, condition, tuple(order), call.find(exp.Distinct) is not None, nulls)


def _unwrapped(argument: exp.Expression) -> tuple[list[exp.Expression], list[exp.Ordered]]:
    """The values of an argument, and its ORDER BY."""
    match argument:
        case exp.Distinct():
            inner = [_unwrapped(node_of(e)) for e in argument.expressions]
            return [v for i in inner for v in i[0]], [o for i in inner for o in i[1]]
        case exp.Order():
            return _unwrapped(node_of(argument.this))[0], list(argument.expressions)
    return [argument], []


# --- arguments ------------------------------------------------------------------------------------------------


def _values_and_constants(called: str, parts: _Parts) -> tuple[list[exp.Expression], tuple[object, ...]]:
    if called == "count" and all(isinstance(v, (exp.Star, exp.Literal)) for v in parts.values) and not parts.distinct:
        return [], ()
    count = _COLUMNS.get(called, len(parts.values))
    if called in _ORDERED_VALUE and parts.order:
        return [node_of(parts.order[0].this)], tuple(_constant(called, v) for v in parts.values)
    return parts.values[:count], tuple(_constant(called, v) for v in parts.values[count:])


def _constant(called: str, expression: exp.Expression) -> object:
    match expression:
        case exp.Literal():
            return expression.name if expression.is_string else float(expression.name)
        case exp.Boolean():
            return bool(expression.this)
        case exp.Null():
            return None
        case exp.Array():
            return tuple(_constant(called, node_of(e)) for e in expression.expressions)
        case exp.Paren():
            return _constant(called, node_of(expression.this))
        case exp.Cast():
            return _constant(called, node_of(expression.this))
    message = f'an argument of "{called}" must be a constant, not {expression.sql(dialect="spark")}'
    raise UnsupportedError(_NOT_EXECUTED, message, hint="Write it as a literal.")


def _prepared(called: str, values: list[exp.Expression], result: pa.DataType) -> list[exp.Expression]:
    """The arguments as the kernel takes them."""
    if called in _TEXTS and not pa.types.is_binary(result):
        return [exp.cast(v.copy(), exp.DataType.Type.TEXT) for v in values]
    if called == "approx_count_distinct":
        return [_hashed(v) for v in values]
    return values


def _hashed(value: exp.Expression) -> exp.Expression:
    """The hash that Spark's HyperLogLog++ takes; NULL for NULL."""
    hashed = exp.Anonymous(this="xxhash64", expressions=[value.copy()])
    return exp.Case(ifs=[exp.If(this=value.copy().is_(exp.null()).not_(), true=hashed)])
