"""Table functions over each row: Spark's generators, UNNEST and Python table functions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructType
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.lowering.columns import column, quoted, string
from sqlstream.planner.lowering.functions import called_function
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.nodes import Correlate
from sqlstream.udfs.exchange import HOLD, LATE_TABLE

_ABOVE_DEFER = "SS435"

_OUTER = {"explode", "posexplode", "inline"}
"""Generators that may give no row; each has a twin ``…_outer`` that then gives one of NULLs."""


@lower_node.register
def _(node: Correlate, context: Context) -> DataFrame:
    rows = context.lower(node.input)
    _require_rows_only(node, rows)
    kept = [*(column(f.name) for f in node.input.schema), *hidden(rows)]
    generated = _generator(node, rows, context).alias(*(f.name for f in node.outputs))
    return rows.select(*kept, generated)


def _require_rows_only(node: Correlate, rows: DataFrame) -> None:
    """Generators drop rows with NULL in all fields, unless they are outer."""
    if LATE_TABLE in rows.columns:
        hint = "INSERT what is below into a table, and unnest what comes from there."
        message = "UNNEST and LATERAL above LATE DATA TO, ON ERROR TO and dead letters are not executed"
        raise UnsupportedError("SS398", message, hint=hint)
    if HOLD in rows.columns and not node.outer:
        message = "UNNEST and LATERAL between ALIGN BARRIERS or a lookup ON TIMEOUT DEFER and a window are not executed"
        raise UnsupportedError(_ABOVE_DEFER, message, hint="Unnest below it, or write LEFT JOIN … ON TRUE.")


def _generator(node: Correlate, rows: DataFrame, context: Context) -> Column:
    called = called_function(node.function, context.runtime)
    if called is not None and called.kind is FunctionKind.TABLE:
        return _call("inline", context.sql(node.function), node.outer)
    if isinstance(node.function, exp.Unnest):
        return _unnest(node.function, node, rows, context)
    text = context.sql(node.function)
    name, _, arguments = text.partition("(")
    name = name.lower().removesuffix("_outer")
    return F.expr(f"{name}_outer({arguments}" if node.outer and name in _OUTER else text)


def _call(generator: str, argument: str, outer: bool) -> Column:
    return F.expr(f"{generator}{'_outer' if outer else ''}({argument})")


def _unnest(unnest: exp.Unnest, node: Correlate, rows: DataFrame, context: Context) -> Column:
    """Elements of one array, the members of its structs or the entries of a map, as many as the node's outputs."""
    (argument,) = unnest.expressions
    text = context.sql(argument)
    kind = rows.select(F.expr(text).alias("value")).schema["value"].dataType
    structs = isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)
    if unnest.args.get("offset"):
        return _with_ordinality(text, structs, node)
    return _call("inline" if structs else "explode", text, node.outer)


def _with_ordinality(text: str, structs: bool, node: Correlate) -> Column:
    """WITH ORDINALITY: the position, from 1, is the last output."""
    members = [f"e.{quoted(f.name)}" for f in node.outputs[:-1]] if structs else ["e"]
    names = [f.name for f in node.outputs]
    values = ", ".join(f"{string(n)}, {m}" for n, m in zip(names, [*members, "i + 1"], strict=True))
    return _call("inline", f"transform({text}, (e, i) -> named_struct({values}))", node.outer)
