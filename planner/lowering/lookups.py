"""Lookups: Catalyst computes keys, Python asks, Catalyst joins the answers.

Adjacent lookups, of which none needs what another one adds, are a group: they are asked at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.expressions import columns_of, substituted
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.functions import called_function
from sqlstream.planner.lowering.hidden_columns import column, hidden, passes_by, quoted, string
from sqlstream.planner.lowering.outputs import sent_aside, struct_of, with_side_columns
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, FailedRows, Lookup, failed_marker
from sqlstream.planner.physical.steps import Ask
from sqlstream.udfs.exchange import LATE_TABLE
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.metrics import MAX_IN_FLIGHT, METRICS, NAMES, metric_key
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep

# --- answers to lookups become columns: one row per answer, where the rest of ON holds; all of it in Catalyst ----


PYTHON_IN_OUTER_CONDITION = "SS380"

_ANSWER = "__lookup_answer"
_POSITION = "__lookup_position"


def with_answers(rows: DataFrame, node: Lookup, answers: str, context: Context) -> DataFrame:
    """Joins each row with the rows that a lookup returned for it. ``answers`` is the name of the ARRAY column that has
    them; the lookup's output columns replace it.
    """
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
    """Raises UnsupportedError SS380 if a condition that decides whether a row has any answer calls a Python
    function.
    """
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
class FailureColumns:
    """The names of the hidden columns for rows whose lookup failed: ``error`` has the cause, ``values`` the row for the
    side output.

    ``table`` is the value of the hidden column LATE_TABLE that directs such rows to their table.
    """

    error: str
    values: str
    table: str


def with_failures(rows: DataFrame, failed: FailedRows, marks: FailureColumns, context: Context) -> DataFrame:
    """Turns rows whose lookup failed into rows of the side output ``failed``; other rows are unchanged. ``marks`` names
    the hidden columns with the cause and the row for the side output.
    """
    rows = with_side_columns(rows.withColumnRenamed(marks.error, LOOKUP_ERROR))
    fails = f"{LATE_TABLE} IS NULL AND {LOOKUP_ERROR} IS NOT NULL"
    values = struct_of(failed.table, [context.sql(value) for value in failed.values])
    rows = rows.select("*", F.when(F.expr(fails), values).alias(marks.values))
    table = F.expr(f"IF({fails}, {string(marks.table)}, {LATE_TABLE})")
    return rows.withColumn(LATE_TABLE, table).drop(LOOKUP_ERROR)


METRIC = "lookup"
"""What the names of the metrics of lookups begin with; the number of the lookup ends them."""


@dataclass(frozen=True)
class NumberedLookup:
    """A lookup with its number in the plan, and unique names for its hidden columns."""

    number: int
    node: Lookup

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"__lookup_key_{self.number}_{i}" for i in range(len(self.node.keys)))

    @property
    def answers(self) -> str:
        return f"__lookup_answers_{self.number}"

    @property
    def error(self) -> str | None:
        return f"__lookup_error_{self.number}" if self.node.failed is not None else None

    @property
    def deferred(self) -> str | None:
        return f"__lookup_deferred_{self.number}" if self.node.options.defers else None

    @property
    def failed(self) -> str:
        return f"__lookup_failed_{self.number}"


def lower_lookup(node: Lookup, step: Ask, context: Context) -> DataFrame:
    """Builds the DataFrame of a group of stateless lookups, whose requests are sent at the same time."""
    group = tuple(NumberedLookup(number, lookup) for number, lookup in step.lookups if isinstance(lookup, Lookup))
    for lookup in group:
        require_array_functions(lookup.node, context)
    return joined(asked(context.lower(step.input), group, context), group, context)


# --- asking ---------------------------------------------------------------------------------------------------


def asked(rows: DataFrame, group: Sequence[NumberedLookup], context: Context, *, with_keys: bool = False) -> DataFrame:
    """Returns the rows with one more ARRAY column per lookup of the group, which has the rows that its source returned,
    and where used with columns for errors and deferred rows. The requests are sent when the query runs. ``with_keys``:
    the hidden columns with the requested keys remain.
    """
    keys = [key for lookup in group for key in _keys(lookup, rows, context)]
    fields = (column(f.name) for f in group[0].node.input.schema)
    given = rows.select(*fields, *hidden(rows), *keys)
    steps = tuple(step_of(lookup, context) for lookup in group)
    schema = [StructField(f.name, f.dataType, True) for f in given.schema]
    schema += [f for lookup in group for f in answer_fields(lookup)]
    schema += _fields([f"{METRICS} MAP<STRING, BIGINT>"])
    out = _observed(given.mapInArrow(LookupRows(steps).rows, StructType(schema)), group)
    return out if with_keys else out.drop(*(name for lookup in group for name in lookup.keys))


def _keys(lookup: NumberedLookup, rows: DataFrame, context: Context) -> list[Column]:
    """NULL, so that nothing is asked, in rows on their way to something else and in those that retract others."""
    passing = _asks_nothing(lookup.node, rows)
    items = zip(lookup.keys, lookup.node.keys, strict=True)
    values = [(name, context.column(key.expression, rows).cast(key.type.ddl())) for name, key in items]
    return [(value if passing is None else F.when(~passing, value)).alias(name) for name, value in values]


def _asks_nothing(node: Lookup, rows: DataFrame) -> Column | None:
    passing = passes_by(rows)
    if not node.remembers_answers:
        return passing
    retracts = F.expr(f"coalesce({ROW_KIND} IN ('-U', '-D'), false)")
    return retracts if passing is None else passing | retracts


def step_of(lookup: NumberedLookup, context: Context) -> LookupStep:
    """Returns the configuration of a lookup for the operator that sends its requests (``udfs.lookup``)."""
    source = context.runtime.lookup(lookup.node)
    asked = (lookup.keys, lookup.answers, lookup.node.options, lookup.error, lookup.deferred)
    return LookupStep(lookup.number, source, *asked, context.runtime.run_id)


def answer_fields(lookup: NumberedLookup) -> list[StructField]:
    """The hidden columns that a lookup fills: the answers as an ARRAY, and where used the error's text and whether the
    lookup was deferred.
    """
    members = ", ".join(f"{quoted(f.name)}: {f.type.ddl()}" for f in lookup.node.read)
    fields = [f"{lookup.answers} ARRAY<STRUCT<{members}>>"]
    fields += [f"{lookup.error} STRING"] if lookup.error is not None else []
    fields += [f"{lookup.deferred} BOOLEAN"] if lookup.deferred is not None else []
    return _fields(fields)


def _fields(texts: Sequence[str]) -> list[StructField]:
    struct = StructType.fromDDL(", ".join(texts))
    assert isinstance(struct, StructType)
    return list(struct)


# --- joining --------------------------------------------------------------------------------------------------


def joined(rows: DataFrame, group: Sequence[NumberedLookup], context: Context) -> DataFrame:
    """Joins rows with the answers of each lookup of a group, and returns the rows with the lookups' output columns.
    Rows whose lookup failed become rows of side outputs.
    """
    markers: dict[str, str] = {}
    for lookup in group:
        failed = lookup.node.failed
        if failed is not None and lookup.error is not None:
            marker = markers[lookup.failed] = failed_marker(failed.table, lookup.number)
            rows = with_failures(rows, failed, FailureColumns(lookup.error, lookup.failed, marker), context)
        rows = with_answers(rows, lookup.node, lookup.answers, context)
    return sent_aside(rows, markers) if markers else rows


# --- counting -------------------------------------------------------------------------------------------------


def _observed(rows: DataFrame, group: Sequence[NumberedLookup]) -> DataFrame:
    """The rows without those that hold counts, which are metrics of the query under the number of each lookup."""
    for lookup in group:
        rows = rows.observe(f"{METRIC}/{lookup.number}", *(_metric(lookup.number, name) for name in NAMES))
    return rows.where(column(METRICS).isNull()).drop(METRICS)


def _metric(number: int, name: str) -> Column:
    value = F.expr(f"try_element_at({METRICS}, {string(metric_key(number, name))})")
    return (F.max(value) if name == MAX_IN_FLIGHT else F.sum(value)).alias(name)
