"""The arguments of an aggregate call: what it reads of rows, and what is constant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.functions.aggregates import ORDERED_TYPES
from sqlstream.functions.builtin import Arrival
from sqlstream.functions.catalogue import aggregate_of, kind_of
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.grammar.spans import span_of
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.fields import Item, Schema
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.type_inference import Types, call_arguments

NOT_EXECUTED = "SS395"

# These aggregate the value in ORDER BY.
_ORDERED_VALUE = frozenset({"percentile_cont", "percentile_disc", "mode"})


# --- the parts of a call --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallParts:
    """The parts of an aggregate call.

    ``call`` is the call without FILTER, WITHIN GROUP and null treatment; ``values`` are its arguments without DISTINCT
    and ORDER BY. ``condition`` is that of FILTER, ``order`` that of ORDER BY. ``nulls`` is sqlglot's class IgnoreNulls
    or RespectNulls, None if neither is written.
    """

    call: exp.Expression
    values: list[exp.Expression]
    condition: exp.Expression | None
    order: tuple[exp.Ordered, ...]
    distinct: bool
    nulls: type[exp.Expression] | None

    def ignoring_nulls(self, ignored: bool) -> CallParts:
        """The parts with IGNORE NULLS if ``ignored`` is true; else unchanged."""
        return replace(self, nulls=exp.IgnoreNulls) if ignored else self


def values_read_by(item: Item) -> Iterator[exp.Expression]:
    """The expressions that an aggregate's kernel reads of each row: arguments, condition of FILTER, ORDER BY.

    UnsupportedError SS395 for arguments that must be constants and are not.
    """
    parts = call_parts(item.expression)
    called = spark_name(parts.call)
    if called is None or kind_of(called) is None:  # a function of the user's, whose arguments are cast
        yield from (exp.cast(value.copy(), exp.DataType.Type.UNKNOWN) for value in parts.values)
    else:
        values, _ = values_and_constants(called, parts)
        yield from kernel_arguments(called, values, binary=item.type.name == "BINARY")
    yield from [parts.condition] if parts.condition is not None else []
    yield from (as_expression(ordered.this) for ordered in parts.order)


def argument_name(expression: exp.Expression) -> str:
    """The name of the column that has the value of an expression of ``values_read_by``; equal ones have equal names."""
    text = expression.sql(dialect=SparkWithTime, comments=False)
    return f"__argument_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def fields_read_by(items: Iterable[Item]) -> tuple[tuple[str, ...], dict[str, exp.Expression]]:
    """What the kernels of aggregates read of each row: the names of fields, and the expressions that are none, by
    ``argument_name``.
    """
    read = [expression for item in items for expression in values_read_by(item)]
    names = dict.fromkeys(expression.name for expression in read if isinstance(expression, exp.Column))
    return tuple(names), {argument_name(e): e for e in read if not isinstance(e, exp.Column)}


def call_parts(expression: exp.Expression) -> CallParts:
    """Takes an aggregate call apart. FILTER, WITHIN GROUP and IGNORE NULLS may stand around the call."""
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
        call = as_expression(call.this)
    values: list[exp.Expression] = []
    for argument in map(as_expression, call_arguments(call)):
        inner_values, inner_order = _unwrapped(argument)
        values += inner_values
        order += inner_order
    return CallParts(call, values, condition, tuple(order), call.find(exp.Distinct) is not None, nulls)


def with_filter(call: exp.Expr, condition: exp.Expr) -> exp.Filter:
    """The aggregate call over the rows for which ``condition`` holds too, beside that of its own FILTER."""
    if isinstance(call, exp.Filter):
        condition = exp.And(this=exp.paren(call.expression.this.copy()), expression=condition.copy())
        return exp.Filter(this=call.this.copy(), expression=exp.Where(this=condition))
    return exp.Filter(this=call.copy(), expression=exp.Where(this=condition.copy()))


def _unwrapped(argument: exp.Expression) -> tuple[list[exp.Expression], list[exp.Ordered]]:
    """The values of an argument, and its ORDER BY."""
    match argument:
        case exp.Distinct():
            inner = [_unwrapped(as_expression(e)) for e in argument.expressions]
            return [v for i in inner for v in i[0]], [o for i in inner for o in i[1]]
        case exp.Order():
            return _unwrapped(as_expression(argument.this))[0], list(argument.expressions)
    return [argument], []


# --- arguments ------------------------------------------------------------------------------------------------


def values_and_constants(called: str, parts: CallParts) -> tuple[list[exp.Expression], tuple[object, ...]]:
    """Divides the arguments of a call into a pair of lists: those that are computed per row, and those that are
    constants. ``called`` is the function's name in lower case.
    """
    if called == "count" and all(isinstance(v, (exp.Star, exp.Literal)) for v in parts.values) and not parts.distinct:
        return [], ()
    if called in _ORDERED_VALUE and (parts.order or called != "mode"):
        ordered = [as_expression(one.this) for one in parts.order[:1]]
        return ordered, tuple(_constant(called, value) for value in parts.values)
    if called == "percentile":
        value, percentages, *frequency = parts.values
        return [value, *frequency], (_constant(called, percentages),)
    aggregate = aggregate_of(called)
    columns = aggregate.columns if aggregate is not None and aggregate.more_are_constants else None
    if columns is None:
        return parts.values, ()
    return parts.values[:columns], tuple(_constant(called, value) for value in parts.values[columns:])


def _constant(called: str, expression: exp.Expression) -> object:
    match expression:
        case exp.Literal():
            return expression.name if expression.is_string else float(expression.name)
        case exp.Boolean():
            return bool(expression.this)
        case exp.Null():
            return None
        case exp.Array():
            return tuple(_constant(called, as_expression(e)) for e in expression.expressions)
        case exp.Paren():
            return _constant(called, as_expression(expression.this))
        case exp.Cast():
            return _constant(called, as_expression(expression.this))
    message = f'an argument of "{called}" must be a constant, not {expression.sql(dialect="spark")}'
    raise UnsupportedError(NOT_EXECUTED, message, hint="Write it as a literal.")


def kernel_arguments(called: str, values: list[exp.Expression], *, binary: bool) -> list[exp.Expression]:
    """Returns the arguments of the aggregate ``called`` as its kernel expects them, for instance with casts. ``binary``
    says whether the argument is BINARY.
    """
    if called in ("listagg", "string_agg") and not binary:
        return [exp.cast(v.copy(), exp.DataType.Type.TEXT) for v in values]
    if called == "approx_count_distinct":
        return [_hashed(v) for v in values]
    return values


def _hashed(value: exp.Expression) -> exp.Expression:
    """The hash that Spark's HyperLogLog++ takes; NULL for NULL."""
    hashed = exp.Anonymous(this="xxhash64", expressions=[value.copy()])
    return exp.Case(ifs=[exp.If(this=value.copy().is_(exp.null()).not_(), true=hashed)])


_IN_SPARK = "Over finished data Spark may compute it: SET 'execution.runtime-mode' = 'batch'."


def not_executed(item: Item, types: Types) -> UnsupportedError | None:
    """The error SS395 where no kernel computes an aggregate call, or not for a type of its arguments; None where one
    does, and for types that only Spark knows. ``types``: of the expressions over the rows that are aggregated.
    """
    parts = call_parts(item.expression)
    called = spark_name(parts.call)
    if called is None or kind_of(called) is None or types.function(called) is not None:  # a function of the user's
        return None
    aggregate = aggregate_of(called)
    if aggregate is None or aggregate.kernel is None:
        hint = f"A Python class can be an aggregate function: CREATE FUNCTION. {_IN_SPARK}"
        return _not_executed(called, "is not executed on streams", parts.call, hint)
    columns, _ = values_and_constants(called, parts)
    columns = kernel_arguments(called, columns, binary=item.type.name == "BINARY")
    ordered = [(as_expression(one.this), ORDERED_TYPES) for one in parts.order] if aggregate.orderable else []
    for value, taken in (*zip(columns, aggregate.kernel, strict=False), *ordered):
        kind = types.of(value)
        if taken is not None and not kind.is_unknown and kind.name not in {*taken, "VOID"}:
            hint = f"Convert the argument, as in CAST(x AS DOUBLE). {_IN_SPARK}"
            return _not_executed(called, f"is not executed on streams for the type {kind}", parts.call, hint)
    return None


def _not_executed(called: str, reason: str, at: exp.Expression, hint: str) -> UnsupportedError:
    return UnsupportedError(NOT_EXECUTED, f'aggregate function "{called}" {reason}', span_of(at), hint=hint)


# --- what calls see of the order of rows ----------------------------------------------------------------------


def sees_order(expression: exp.Expression) -> bool:
    """True if the result of an aggregate call may depend on the order in which rows arrive, as that of FIRST_VALUE or
    COLLECT_LIST. Also true for users' functions.
    """
    shows = _arrivals(expression) & {Arrival.PICKED, Arrival.LISTED}
    return bool(shows) or expression.find(exp.Anonymous) is not None


def sees_ties(expression: exp.Expression) -> bool:
    """True if the result of an aggregate call may depend on which of several rows arrives first, but only where these
    rows have equal ORDER BY values or equal arguments. Also true for approximations by sketches.
    """
    return bool(_arrivals(expression) & {Arrival.TIES, Arrival.SKETCHES})


def _arrivals(expression: exp.Expression) -> set[Arrival]:
    aggregates = (aggregate_of(spark_name(call)) for call in expression.find_all(exp.Func))
    return {aggregate.arrival for aggregate in aggregates if aggregate is not None}


def lists_in_arrival_order(call: exp.Expr) -> str | None:
    """The name of an aggregate such as COLLECT_LIST that lists values in the order of arrival; None for other calls,
    and for those with ORDER BY.
    """
    inner = call
    while isinstance(inner, AGGREGATE_WRAPPERS):
        if isinstance(inner, exp.WithinGroup):
            return None
        inner = inner.this
    name = spark_name(inner) if isinstance(inner, exp.Func) else None
    aggregate = aggregate_of(name)
    return name if aggregate is not None and aggregate.arrival is Arrival.LISTED else None


def types_of_aggregate(aggregate: Item, rows: Schema) -> str:
    """Returns a pair: the type of an aggregate's result, and the types of the values that it reads of each row."""
    types = {f.name: f.type for f in rows}
    read = [str(types[c.name]) for c in aggregate.expression.find_all(exp.Column) if c.name in types]
    return f"{aggregate.type} of {', '.join(read)}" if read else str(aggregate.type)


_CHAINABLE = (exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum)


def reads_plain_column(call: exp.Expression) -> bool:
    """True for aggregate calls that read one column unchanged, such as ``SUM(v)``, and for ``COUNT(*)``. False where an
    expression must be computed first, as in ``SUM(v + 1)``.
    """
    arguments = list(call.iter_expressions())
    counts = isinstance(call, exp.Count) and isinstance(call.this, exp.Star | exp.Literal)
    return isinstance(call, _CHAINABLE) and len(arguments) == 1 and (counts or isinstance(call.this, exp.Column))
