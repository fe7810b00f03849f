"""Answers to lookups become columns: one row per answer, where the rest of ON holds; all of it in Catalyst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.expressions import columns_of, substituted
from sqlstream.planner.lowering.columns import column, quoted, string
from sqlstream.planner.lowering.functions import called_function
from sqlstream.planner.lowering.hidden import passes_by
from sqlstream.planner.lowering.lower import Context
from sqlstream.planner.lowering.side_outputs import struct_of, with_side_columns
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, FailedRows, Lookup
from sqlstream.udfs.exchange import LATE_TABLE

PYTHON_IN_OUTER_CONDITION = "SS380"

_ANSWER = "__lookup_answer"
_POSITION = "__lookup_position"


def with_answers(rows: DataFrame, node: Lookup, answers: str, context: Context) -> DataFrame:
    """The rows once per answer, with the outputs of the lookup in place of ``answers``, an ARRAY of what was read."""
    passing = passes_by(rows)
    kept = [column(name) for name in rows.columns if name != answers]
    chosen = _chosen(node, answers, passing, context)
    if not node.outer and passing is None:
        rows = rows.select(*kept, F.explode(chosen).alias(_ANSWER)).select(*kept, *_outputs(node, None, context))
        return rows if node.condition is None else rows.where(context.column(node.condition))
    answered = column(_POSITION).isNotNull()
    rows = rows.select(*kept, F.posexplode_outer(chosen).alias(_POSITION, _ANSWER))
    rows = rows.select(*kept, *_outputs(node, answered, context), _POSITION)
    if not node.outer:
        assert passing is not None
        condition = answered if node.condition is None else answered & context.column(node.condition, rows)
        rows = rows.where(passing | condition)
    return rows.drop(_POSITION)


def _chosen(node: Lookup, answers: str, passing: Column | None, context: Context) -> Column:
    """The answers that count: none in rows that pass by."""
    text = quoted(answers)
    if node.outer and node.condition is not None:
        condition = substituted(node.condition, {o.name: _of_answer(o.expression, node) for o in node.outputs})
        text = f"filter({text}, {_ANSWER} -> {context.sql(condition)})"
    return F.expr(text) if passing is None else F.when(~passing, F.expr(text))


def _outputs(node: Lookup, answered: Column | None, context: Context) -> list[Column]:
    """The values that were read, or computed of these; NULL where nothing was found, if that may be."""
    values = []
    for output in node.outputs:
        value = context.column(_of_answer(output.expression, node))
        if answered is not None and not isinstance(output.expression, exp.Column):
            value = F.when(answered, value)  # a member of no answer is NULL by itself
        values.append(value.alias(output.name))
    return values


def _of_answer(expression: exp.Expression, node: Lookup) -> exp.Expression:
    """An expression over what was read, as one over a member of the answers."""
    members: Mapping[str, exp.Expression] = {
        f.name: exp.column(exp.to_identifier(f.name, quoted=True), table=exp.to_identifier(_ANSWER)) for f in node.read
    }
    return substituted(expression, members)


def require_array_functions(node: Lookup, context: Context) -> None:
    """UnsupportedError SS380 for Python functions in what decides, per answer, about rows that stay without any."""
    if not node.outer or node.condition is None:
        return
    read = columns_of(node.condition)
    deciding = [node.condition, *(o.expression for o in node.outputs if o.name in read)]
    for expression in deciding:
        for call in expression.find_all(exp.Anonymous):
            if called_function(call, context.runtime) is not None:
                message = f'Python function "{call.name}" in the condition of a LEFT lookup join is not executed'
                hint = "Leave it out of ON, and use it above the join: CASE WHEN f(c.x) THEN c.x END."
                raise UnsupportedError(PYTHON_IN_OUTER_CONDITION, message, hint=hint)


# --- failed rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """Names of columns, ``error``, which says what went wrong, and ``values``, which gets those of the failed rows.

    ``table`` is what LATE_TABLE says of them.
    """

    error: str
    values: str
    table: str


def with_failures(rows: DataFrame, failed: FailedRows, marks: Marks, context: Context) -> DataFrame:
    """Rows with an error are on their way to a table from here on; their values stand ready for it."""
    rows = with_side_columns(rows.withColumnRenamed(marks.error, LOOKUP_ERROR))
    fails = f"{LATE_TABLE} IS NULL AND {LOOKUP_ERROR} IS NOT NULL"
    values = struct_of(failed.table, [context.sql(value) for value in failed.values])
    rows = rows.select("*", F.when(F.expr(fails), values).alias(marks.values))
    table = F.expr(f"IF({fails}, {string(marks.table)}, {LATE_TABLE})")
    return rows.withColumn(LATE_TABLE, table).drop(LOOKUP_ERROR)
