"""Calls of scalar functions under ``'sqlstream.functions.on-error'``.

They are computed below an operator, so that rows for which one raises an exception part from the others there.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.lowering.bad_rows import Letter, parted
from sqlstream.planner.lowering.functions import called_function, cast_arguments, register_tolerant
from sqlstream.planner.lowering.hidden import passes_by
from sqlstream.planner.lowering.lower import Context


def with_calls(
    rows: DataFrame, expressions: Sequence[exp.Expression], context: Context
) -> tuple[DataFrame, list[exp.Expression]]:
    """The rows without bad ones, with the results of all calls as columns, and the expressions over these."""
    if not context.functions.tolerates:
        return rows, list(expressions)
    computed: list[exp.Expression] = []
    for expression in expressions:
        rest = expression.copy()
        while (call := _innermost(rest, context)) is not None:
            rows, value = _with_call(rows, call, context)
            rest = value if call is rest else _replaced(rest, call, value)
        computed.append(rest)
    return rows, computed


def _innermost(expression: exp.Expression, context: Context) -> exp.Expression | None:
    """A call whose arguments call nothing."""

    def is_call(node: exp.Expr) -> bool:
        return isinstance(node, exp.Anonymous) and called_function(node, context.runtime) is not None

    calls = (call for call in expression.find_all(exp.Anonymous) if is_call(call))
    return next((c for c in calls if not any(is_call(below) for a in c.expressions for below in a.walk())), None)


def _replaced(expression: exp.Expression, call: exp.Expression, value: exp.Expression) -> exp.Expression:
    call.replace(value)
    return expression


def _with_call(rows: DataFrame, call: exp.Expression, context: Context) -> tuple[DataFrame, exp.Expression]:
    function = called_function(call, context.runtime)
    assert function is not None
    arguments = cast_arguments(call, function)
    texts = [argument.sql(dialect=SparkWithTime, comments=False) for argument in arguments]
    passing = passes_by(rows)
    skipped = "__skipped"
    rows = rows.select("*", (F.lit(False) if passing is None else passing).alias(skipped))
    name = register_tolerant(function, context.runtime, len(arguments))
    result = f"__call_{len(context.counted.sources)}"
    rows = rows.select("*", F.expr(f"{name}({', '.join([skipped, *texts])})").alias(result)).drop(skipped)
    names = [parameter for parameter, _ in function.parameters]
    keys = [*names, *(f"argument_{i + 1}" for i in range(len(names), len(texts)))]
    values = [F.expr(text).alias(key) for text, key in zip(texts, keys, strict=False)]
    record = F.to_json(F.struct(*values), {"ignoreNullFields": "false"}) if values else F.lit("{}")
    letter = Letter(function.name, record, F.col(f"{result}.error"), F.col(f"{result}.place"))
    context.counted.first(function.name, result)
    rows = parted(rows, letter, context.functions, context.counted.metric)
    return rows, exp.column("value", table=result, quoted=True)
