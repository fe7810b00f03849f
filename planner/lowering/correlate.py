"""Table functions over each row: Spark's generators, UNNEST and Python table functions."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType
from sqlglot import exp

from sqlstream.errors import UnsupportedError, repeating
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.lowering.columns import column, quoted, string
from sqlstream.planner.lowering.functions import called_function
from sqlstream.planner.lowering.hidden import hidden, passing
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.lowering.tolerant_calls import with_calls
from sqlstream.planner.nodes import Correlate
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.exchange import HOLD, LATE_TABLE

_ABOVE_DEFER = repeating("SS435")

_OUTER = {"explode", "posexplode", "inline"}
"""Generators that may give no row; each has a twin ``…_outer`` that then gives one of NULLs."""


@lower_node.register
def _(node: Correlate, step: Step, context: Context) -> DataFrame:
    rows, (function,) = with_calls(context.lower(step.input), [node.function], context)
    kept = [*(column(f.name) for f in node.input.schema), *hidden(rows)]
    generated = _generator(replace(node, function=function), node.function, rows, context)
    return rows.select(*kept, generated.alias(*(f.name for f in node.outputs)))


def _generator(node: Correlate, called: exp.Expression, rows: DataFrame, context: Context) -> Column:
    """``called`` is the function as the query has it; ``node`` has the column of its results where there is one."""
    function = called_function(called, context.runtime)
    if function is not None and function.kind is FunctionKind.TABLE:
        if not context.functions.tolerates:  # a tolerant call leaves out the rows that pass by
            _require_rows_only(node, rows)
        return _call("inline", context.sql(node.function), node, rows)
    if isinstance(node.function, exp.Unnest):
        return _unnest(node.function, node, rows, context)
    _require_rows_only(node, rows)
    text = context.sql(node.function)
    name, _, arguments = text.partition("(")
    name = name.lower().removesuffix("_outer")
    return F.expr(f"{name}_outer({arguments}" if node.outer and name in _OUTER else text)


def _require_rows_only(node: Correlate, rows: DataFrame) -> None:
    """Functions would be called for rows with NULL in all fields, and Spark's own drop these, unless they are outer."""
    if LATE_TABLE in rows.columns:
        hint = "Use UNNEST, or INSERT what is below into a table, and read that."
        message = "table functions above LATE DATA TO, ON ERROR TO and dead letters are not executed"
        raise UnsupportedError("SS398", message, hint=hint)
    if HOLD in rows.columns and not node.outer:
        message = "table functions between ALIGN BARRIERS or a lookup ON TIMEOUT DEFER and a window are not executed"
        raise UnsupportedError(_ABOVE_DEFER, message, hint="Use UNNEST, or write LEFT JOIN … ON TRUE.")


def _call(generator: str, array: str, node: Correlate, rows: DataFrame) -> Column:
    """A generator over an array. Rows on their way to something else are one row each, with NULL in all outputs."""
    is_passing = passing(rows)
    array = f"IF({is_passing.sql(dialect=SparkWithTime)}, array(NULL), {array})" if is_passing is not None else array
    return F.expr(f"{generator}{'_outer' if node.outer else ''}({array})")


def _unnest(unnest: exp.Unnest, node: Correlate, rows: DataFrame, context: Context) -> Column:
    """Elements of one array, the members of its structs or the entries of a map, as many as the node's outputs."""
    (argument,) = unnest.expressions
    text = context.sql(argument)
    kind = rows.select(F.expr(text).alias("value")).schema["value"].dataType
    members: list[str] = []
    if isinstance(kind, MapType):
        text, members = f"map_entries({text})", ["key", "value"]
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        members = kind.elementType.fieldNames()
    if unnest.args.get("offset"):
        return _with_ordinality(text, [f"e.{quoted(member)}" for member in members] or ["e"], node, rows)
    return _call("inline" if members else "explode", text, node, rows)


def _with_ordinality(text: str, members: list[str], node: Correlate, rows: DataFrame) -> Column:
    """WITH ORDINALITY: the position, from 1, is the last output."""
    names = [f.name for f in node.outputs]
    values = ", ".join(f"{string(n)}, {m}" for n, m in zip(names, [*members, "i + 1"], strict=True))
    return _call("inline", f"transform({text}, (e, i) -> named_struct({values}))", node, rows)
