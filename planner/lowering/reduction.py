"""Aggregate calls as Spark's streaming aggregation runs them.

Spark has no DISTINCT aggregates on streams, so those collect the distinct values and reduce the array; aggregate
functions in Python collect their arguments and run once over the array of each closed window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.lowering.functions import called_function, cast_arguments, register
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.nodes import Item


@dataclass(frozen=True)
class Reduction:
    """``partials`` are Spark's aggregates by hidden name, ``result`` is SQL text over these names."""

    partials: tuple[tuple[str, str], ...]
    result: str


def reduction_of(item: Item, index: int, rows: DataFrame, context: Context) -> Reduction:
    """How to compute an aggregate item over ``rows``; SS3xx where DISTINCT has no rewrite."""
    name = f"__aggregate_{index}"
    call, condition = _split_filter(item.expression)
    kept = f" FILTER (WHERE {context.sql(condition)})" if condition is not None else ""
    function = called_function(call, context.runtime)
    if function is not None and function.kind is FunctionKind.AGGREGATE:
        arguments = _struct([context.sql(a) for a in cast_arguments(call, function)])
        collected = f"collect_list({arguments}){kept}"
        return Reduction(((name, collected),), f"{register(function, context.runtime, 1)}({name})")
    values = _distinct_values(call)
    if values is not None:
        return _distinct(call, [context.sql(v) for v in values], _Partial(name, kept, rows), context)
    return Reduction(((name, context.sql(call) + kept),), name)


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
    """What all rewrites share: the hidden name, the FILTER clause and the rows that types are asked of."""

    name: str
    filter: str
    rows: DataFrame

    def collected(self, collect: str, value: str) -> tuple[tuple[str, str], ...]:
        return ((self.name, f"{collect}({value}){self.filter}"),)

    def type_of(self, aggregate: str) -> str:
        """Spark's type of an aggregate over the rows, as DDL."""
        return self.rows.selectExpr(f"{aggregate} AS t").schema["t"].dataType.simpleString()


def _distinct_values(call: exp.Expression) -> list[exp.Expression] | None:
    """The arguments under DISTINCT, or None where there is none."""
    found = call.find(exp.Distinct)
    return list(found.expressions) if found is not None else None


def _distinct(call: exp.Expression, values: list[str], partial: _Partial, context: Context) -> Reduction:
    name, value = partial.name, values[0]
    match call:
        case exp.Count():
            return Reduction(partial.collected("collect_set", _present(values)), f"CAST(size({name}) AS BIGINT)")
        case exp.Min() | exp.Max():
            return Reduction(partial.collected(call.key, value), name)
        case exp.Sum():
            return Reduction(partial.collected("collect_set", value), _sum(name, partial.type_of(f"sum({value})")))
        case exp.Avg():
            total = _sum(name, partial.type_of(f"sum({value})"))
            average = f"CAST({total} / nullif(size({name}), 0) AS {partial.type_of(f'avg({value})')})"
            return Reduction(partial.collected("collect_set", value), average)
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            return Reduction(partial.collected("collect_list", value), f"array_distinct({name})")
        case exp.GroupConcat():
            return _listagg(call, value, partial, context)
    name = call.name if isinstance(call, exp.Anonymous) else call.key
    hint = "DISTINCT works in COUNT, SUM, AVG, MIN, MAX, LISTAGG and COLLECT_LIST."
    raise UnsupportedError("SS391", f'DISTINCT in the aggregate function "{name}" is not executed', hint=hint)


def _listagg(call: exp.GroupConcat, value: str, partial: _Partial, context: Context) -> Reduction:
    separator = call.args.get("separator")
    joined_by = context.sql(separator) if separator is not None else "''"
    texts = f"array_join(array_distinct({partial.name}), {joined_by})"
    return Reduction(
        partial.collected("collect_list", f"CAST({value} AS STRING)"),
        f"CASE WHEN size({partial.name}) > 0 THEN {texts} END",
    )


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
