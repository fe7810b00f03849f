"""Aggregates per key and window on Spark's streaming aggregation, emitted when the window closes.

The grouping carries a hidden copy of the window's last millisecond, marked as event time: Spark emits and drops a
group exactly when its watermark reaches that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.aggregate_order import in_words_of_spark
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.lowering.columnar.groups import grouping_id, in_sets, key_in_sets, set_keys, split_call
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.functions import called_function, cast_arguments, register
from sqlstream.planner.lowering.hidden_columns import EVENT_TIME, column, event_time, micros
from sqlstream.planner.lowering.windows import (
    Collecting,
    session_columns,
    session_keys,
    window_columns,
    with_arrival,
    with_session_time,
    with_windows,
)
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical.steps import NativeState
from sqlstream.planner.windows import AlignedWindow, Session

# --- aggregate calls as Spark's streaming aggregation runs them --------------------------------------------------
# Spark has no DISTINCT aggregates on streams, so those collect the distinct values and reduce the array; aggregate
# functions in Python collect their arguments and run once over the array of each closed window.


@dataclass(frozen=True)
class Reduction:
    """How Spark's own aggregates compute one aggregate call of the query, in two steps.

    ``partials`` are pairs of a hidden column's name and the SQL of the Spark aggregate that fills it. ``result`` is SQL
    over these columns, which gives the value of the call after the aggregation.
    """

    partials: tuple[tuple[str, str], ...]
    result: str


def reduction_of(item: Item, index: int, rows: DataFrame, context: Context, *, sessions: bool) -> Reduction:
    """Translates one aggregate call (``item``) over ``rows`` into Spark's aggregates. ``index`` is its position among
    the aggregates, for the names of hidden columns; ``sessions`` says whether the windows are sessions.
    UnsupportedError SS3xx where Spark's streaming aggregation cannot compute DISTINCT.
    """
    treated, nulls = _split_nulls(item.expression)
    call, condition = _split_filter(treated)
    kept = context.sql(condition) if condition is not None else None
    collecting = Collecting(by_arrival=sessions, respecting_nulls=nulls is exp.RespectNulls)
    partial = _Partial(f"__aggregate_{index}", kept, rows, collecting)
    function = called_function(call, context.runtime)
    if function is not None and function.kind is FunctionKind.AGGREGATE:
        arguments = _struct([context.sql(a) for a in cast_arguments(call, function)])
        return Reduction(partial.listed(arguments), f"{register(function, context.runtime, 1)}({partial.values})")
    values = _distinct_values(call)
    if values is not None and isinstance(call, exp.WithinGroup):
        _check_order(call, values)
    in_order = in_words_of_spark(item.expression)
    if in_order is not item.expression:
        return Reduction(((partial.name, context.sql(as_expression(in_order))),), partial.name)
    if values is not None:
        return _distinct(call, [context.sql(v) for v in values], partial, context)
    treatment = "" if nulls is None else f" {_TREATMENTS[nulls]}"
    return (_in_arrival_order(call, nulls, partial, context) if sessions else None) or Reduction(
        ((partial.name, context.sql(call) + partial.filter + treatment),), partial.name
    )


_TREATMENTS: dict[type[exp.Expression], str] = {exp.IgnoreNulls: "IGNORE NULLS", exp.RespectNulls: "RESPECT NULLS"}


def _split_nulls(call: exp.Expression) -> tuple[exp.Expression, type[exp.Expression] | None]:
    """The call and what it says of NULLs; the binder puts that around all of it."""
    return (call.this, type(call)) if isinstance(call, tuple(_TREATMENTS)) else (call, None)


def _split_filter(call: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
    if isinstance(call, exp.Filter):
        return call.this, call.expression.this
    return call, None


def _struct(texts: Sequence[str]) -> str:
    """Arguments as one value; a struct is never NULL, so that NULL arguments are collected too."""
    members = ", ".join(f"'a{i}', {text}" for i, text in enumerate(texts))
    return f"named_struct({members})" if texts else "TRUE"


# --- DISTINCT -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Partial:
    """What all rewrites share: the hidden name, the FILTER, the rows that types are inferred from, how lists are
    made."""

    name: str
    kept: str | None
    rows: DataFrame
    collecting: Collecting

    @property
    def filter(self) -> str:
        return f" FILTER (WHERE {self.kept})" if self.kept is not None else ""

    def collected(self, collect: str, value: str) -> tuple[tuple[str, str], ...]:
        return ((self.name, f"{collect}({value}){self.filter}"),)

    def listed(self, value: str) -> tuple[tuple[str, str], ...]:
        """Collects the values into a list, which ``values`` reads."""
        return ((self.name, self.collecting.partial(value, self.kept)),)

    @property
    def values(self) -> str:
        return self.collecting.values(self.name)

    def type_of(self, aggregate: str) -> str:
        """Spark's type of an aggregate over the rows, as DDL."""
        return self.rows.selectExpr(f"{aggregate} AS t").schema["t"].dataType.simpleString()


def _distinct_values(call: exp.Expression) -> list[exp.Expression] | None:
    """The arguments under DISTINCT, or None where there is none."""
    distinct = call.find(exp.Distinct)
    return list(distinct.expressions) if distinct is not None else None


_NAMES: dict[type[exp.Expression], str] = {
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.GroupConcat: "listagg",
}
_SYNONYMS = {"mean": "avg", "array_agg": "collect_list", "string_agg": "listagg"}


def _name_of(call: exp.Expression) -> str:
    """The name of an aggregate function in lower case, one of its synonyms."""
    name = call.name.lower() if isinstance(call, exp.Anonymous) else _NAMES.get(type(call), call.key)
    return _SYNONYMS.get(name, name)


def _check_order(call: exp.WithinGroup, values: Sequence[exp.Expression]) -> None:
    """Spark cannot find distinct values in the order of another expression."""
    if [ordered.this for ordered in call.expression.expressions] != list(values[:1]):
        raise _no_rewrite(f"{_name_of(call.this).upper()}(DISTINCT …) in the order of another expression")


def _distinct(call: exp.Expression, values: list[str], partial: _Partial, context: Context) -> Reduction:
    name, value = partial.name, values[0]
    if call.find(exp.Order) is not None:
        raise _no_rewrite(f'DISTINCT with ORDER BY in the aggregate function "{_name_of(call)}"')
    if len(values) > 1 and _name_of(call) not in ("count", "listagg"):
        raise _no_rewrite(f'DISTINCT of several values in the aggregate function "{_name_of(call)}"')
    match _name_of(call):
        case "count":
            return Reduction(partial.collected("collect_set", _present(values)), f"CAST(size({name}) AS BIGINT)")
        case "min" | "max" as extreme:
            return Reduction(partial.collected(extreme, value), name)
        case "sum":
            return Reduction(partial.collected("collect_set", value), _sum(name, partial.type_of(f"sum({value})")))
        case "avg":
            total = _sum(name, partial.type_of(f"sum({value})"))
            average = f"CAST({total} / nullif(size({name}), 0) AS {partial.type_of(f'avg({value})')})"
            return Reduction(partial.collected("collect_set", value), average)
        case "collect_list" | "collect_set":
            return Reduction(partial.listed(value), f"array_distinct({partial.values})")
        case "listagg":
            joined = _joined(f"array_distinct({partial.values})", call, partial, context)
            return Reduction(partial.listed(value), joined)
    raise _no_rewrite(f'DISTINCT in the aggregate function "{_name_of(call)}"')


def _no_rewrite(what: str) -> UnsupportedError:
    hint = "DISTINCT works in COUNT, SUM, AVG, MIN, MAX, LISTAGG and COLLECT_LIST."
    return UnsupportedError("SS391", f"{what} is not executed", hint=hint)


def _joined(values: str, function: exp.Expression, partial: _Partial, context: Context) -> str:
    texts = f"array_join(transform({values}, v -> CAST(v AS STRING)), {_separator(function, context)})"
    return f"CASE WHEN size({partial.name}) > 0 THEN {texts} END"


def _in_arrival_order(
    call: exp.Expression, nulls: type[exp.Expression] | None, partial: _Partial, context: Context
) -> Reduction | None:
    """The aggregates whose result shows the order of rows; None for the others."""
    extreme = _EXTREMES.get(spark_name(call) or "")
    if extreme is not None:
        return _picked(nulls(this=call.copy()) if nulls is not None else call, extreme, partial, context)
    name = _name_of(call)
    if name not in ("collect_list", "listagg"):
        return None
    value = context.sql(call.expressions[0] if isinstance(call, exp.Anonymous) else call.this)
    result = partial.values if name == "collect_list" else _joined(partial.values, call, partial, context)
    return Reduction(partial.listed(value), result)


_EXTREMES = {
    "first": "min_by",
    "first_value": "min_by",
    "any_value": "min_by",
    "last": "max_by",
    "last_value": "max_by",
}


def _picked(call: exp.Expression, extreme: str, partial: _Partial, context: Context) -> Reduction:
    """The value, which may be NULL, of the first or last row to arrive."""
    split = split_call(partial.name, call, pa.null(), context.runtime)
    value = context.sql(split.columns[0][1])
    picked = partial.collecting.picked(extreme, value, partial.kept, ignores_nulls=split.call.ignore_nulls)
    return Reduction(((partial.name, picked),), f"{partial.name}.value")


def _separator(function: exp.Expression, context: Context) -> str:
    separators = _arguments(function)[1:] if isinstance(function, exp.Anonymous) else [function.args.get("separator")]
    return context.sql(separators[0]) if separators and separators[0] is not None else "''"


def _arguments(call: exp.Anonymous) -> list[exp.Expression]:
    """The arguments of a call, also under DISTINCT, where sqlglot puts all that follows it."""
    return [e for a in call.expressions for e in (a.expressions if isinstance(a, exp.Distinct) else [a])]


def _present(values: list[str]) -> str:
    """The values as one, NULL where any of them is: such rows COUNT(DISTINCT a, b) leaves out."""
    if len(values) == 1:
        return values[0]
    present = " AND ".join(f"({v}) IS NOT NULL" for v in values)
    return f"CASE WHEN {present} THEN {_struct(values)} END"


def _sum(array: str, result: str) -> str:
    """SQL text: the sum of an array as ``result``, NULL for an empty one."""
    added = f"CAST(coalesce(total + value, value) AS {result})"
    return f"aggregate({array}, CAST(NULL AS {result}), (total, value) -> {added})"


_CLOSES = "__closes"


def lower_window_aggregate(node: WindowAggregate, step: NativeState, context: Context) -> DataFrame:
    """Builds the DataFrame with aggregates per key and window, by Spark's streaming aggregation."""
    rows = context.lower(step.input)
    if isinstance(node.window, AlignedWindow):  # Spark's aggregation assigns sessions itself
        rows = with_windows(rows, node)
    rows = _keyed(node, rows)
    sessions = isinstance(node.window, Session)
    rows = with_arrival(rows) if sessions else rows
    reductions = [reduction_of(item, i, rows, context, sessions=sessions) for i, item in enumerate(node.aggregates)]
    grouped = _with_event_time(node, rows).groupBy(*_keys(node), *_window_keys(node))
    return grouped.agg(*_partial_results(reductions)).select(*_results(node, reductions))


def lower_group_aggregate(node: GroupAggregate, step: NativeState, context: Context) -> DataFrame:
    """Builds the DataFrame with aggregates per key: in real time a new result for each row of the key. Without
    aggregates it has the distinct rows.
    """
    rows = context.lower(step.input)
    keys = [column(name).alias(_key(i)) for i, name in enumerate(node.keys)]
    if not node.aggregates:
        return rows.select(*map(column, node.keys)).dropDuplicates()
    reductions = [reduction_of(item, i, rows, context, sessions=False) for i, item in enumerate(node.aggregates)]
    results = [F.expr(r.result).alias(item.name) for r, item in zip(reductions, node.aggregates, strict=True)]
    named = [column(_key(i)).alias(name) for i, name in enumerate(node.keys)]
    return rows.groupBy(*keys).agg(*_partial_results(reductions)).select(*named, *results)


# --- keys -----------------------------------------------------------------------------------------------------


def _key(index: int) -> str:
    return f"__key_{index}"


def _keyed(node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The rows with the keys under names of their own: aggregates still see a key that a grouping set leaves out."""
    keys = (key_in_sets(node, key, column(key)).alias(_key(i)) for i, key in enumerate(node.keys))
    return in_sets(node, rows).select("*", *keys)


def _keys(node: WindowAggregate) -> list[Column]:
    return [*(column(_key(i)) for i in range(len(node.keys))), *map(column, set_keys(node))]


def _with_event_time(node: WindowAggregate, rows: DataFrame) -> DataFrame:
    """The rows with the hidden column that Spark compares with its watermark."""
    if isinstance(node.window, Session):
        assert node.time is not None, "sessions need a time"
        return with_session_time(rows, node.time)
    closes = F.expr(event_time(micros(node.columns.end), -1))
    return rows.select("*", closes.alias(_CLOSES, metadata=EVENT_TIME))


def _window_keys(node: WindowAggregate) -> list[Column]:
    if isinstance(node.window, Session):
        return session_keys(node.window, keyed=bool(_keys(node)))
    return [column(node.columns.start), column(node.columns.end), column(_CLOSES)]


# --- results --------------------------------------------------------------------------------------------------


def _partial_results(reductions: list[Reduction]) -> list[Column]:
    """Spark's aggregates of all reductions; a group without any still needs one."""
    partials = [F.expr(text).alias(name) for r in reductions for name, text in r.partials]
    return partials or [F.count(F.lit(1)).alias("__count")]


def _results(node: WindowAggregate, reductions: list[Reduction]) -> list[Column]:
    keys = [column(_key(i)).alias(name) for i, name in enumerate(node.keys)]
    results = [F.expr(r.result).alias(item.name) for r, item in zip(reductions, node.aggregates, strict=True)]
    return [*keys, *grouping_id(node), *_window(node), *results]


def _window(node: WindowAggregate) -> tuple[Column, Column, Column]:
    if isinstance(node.window, Session):
        return session_columns(node.columns)
    return window_columns(node.columns, micros(node.columns.start), micros(node.columns.end))
