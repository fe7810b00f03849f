"""Nodes without state: scans, projections, filters, table functions, changelogs, and the roots of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType
from sqlglot import exp

from sqlstream.errors import UnsupportedError, repeating
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.bad_rows import columns_to_read, computed_event_time, required_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import FunctionKind, RowKind, Table, TimeDomain
from sqlstream.planner.expressions import columns_of, conjunction, conjuncts, folded, is_repeatable
from sqlstream.planner.fields import field_of
from sqlstream.planner.lowering.bad_rows import (
    Letter,
    bad_column,
    file_of,
    lacks,
    must_have,
    parted,
    with_calls,
    with_failures,
    with_required,
)
from sqlstream.planner.lowering.column_queries import lower_column_query, taken_rows
from sqlstream.planner.lowering.context import Context, RequiredTime
from sqlstream.planner.lowering.functions import called_function
from sqlstream.planner.lowering.hidden_columns import (
    aligned,
    column,
    hidden,
    hidden_names,
    hidden_results,
    passes_by,
    passing,
    quoted,
    string,
)
from sqlstream.planner.lowering.time import time_error, time_name
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Correlate, Filter, Insert, Output, Project, Scan
from sqlstream.planner.operators.changelogs import FromChangelog, ToChangelog
from sqlstream.planner.physical.steps import Read, Step, Write, read_below
from sqlstream.udfs.exchange import HOLD, LATE_TABLE
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.operator import WholeTable
from sqlstream.udfs.lookup.source import LookupSource

# --- conditions of a filter, all of which must hold --------------------------------------------------------------


MOST_TOGETHER = 50
"""So many conditions AND joins."""


def where_all(rows: DataFrame, conditions: Sequence[exp.Expression], context: Context) -> DataFrame:
    """Filters the rows by all conditions, evaluated in their order. Control rows are kept."""
    passing, condition = passes_by(rows), all_hold(conditions, context, rows)
    return rows.where(condition if passing is None else passing | condition)


def all_hold(conditions: Sequence[exp.Expression], context: Context, rows: DataFrame) -> Column:
    """The condition that all of the conditions hold, evaluated in their order.

    Spark's optimizer takes time cubic in the number of conditions joined by AND: 6 s for 1,000, 80 s for 3,000. So
    further ones become branches of a CASE, which it does not analyse (1 s for 3,000).
    """
    parts = [conjunction([*conditions[i : i + MOST_TOGETHER]]) for i in range(0, len(conditions), MOST_TOGETHER)]
    if len(parts) == 1:
        return context.column(parts[0], rows)
    return _none_fails([context.sql(conjunct, rows) for conjunct in parts])


def _none_fails(conditions: Sequence[str]) -> Column:
    branches = " ".join(f"WHEN NOT coalesce({condition}, false) THEN false" for condition in conditions)
    return F.expr(f"CASE {branches} ELSE true END")


def lower_project(node: Project, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of a projection: expressions over the fields of the input."""
    computed = [item.expression for item in node.items]
    below = _reading(node.input, computed, context)
    given = below.lower(step.input)
    rows, expressions = with_calls(given, [_with_time(e, given, below.required_time) for e in computed], context)
    passing = passes_by(rows)
    values = [context.column(expression, rows) for expression in expressions]
    if passing is not None:
        values = [F.when(~passing, value) for value in values]
    items = [value.alias(item.name) for item, value in zip(node.items, values, strict=True)]
    return rows.select(*items, *hidden(rows))


def lower_filter(node: Filter, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of the rows for which a condition is TRUE."""
    given = context.lower(step.input)
    rows, (condition,) = with_calls(given, [node.condition], context)
    kept = where_all(rows, conjuncts(condition), context)
    return kept if rows is given else kept.select(*(column(f.name) for f in node.schema), *hidden(kept))


def lower_output(node: Output, step: Write, context: Context) -> DataFrame:
    """Builds the DataFrame of a query's result, with its columns in order."""
    if step.columns is not None:
        return lower_column_query(step.columns, read_below(step), context, discards=step.discards)
    rows = _all_read(node, step, context)
    return rows.select(*(column(f.name) for f in node.input.schema), *hidden_results(rows))


def lower_insert(node: Insert, step: Write, context: Context) -> DataFrame:
    """Builds the DataFrame of an INSERT, with the table's names of the columns."""
    names = [c.name for c in node.table.physical_columns]
    fields = node.input.schema
    assert len(names) == len(fields), (names, fields)
    columns = (column(f.name).alias(name) for f, name in zip(fields, names, strict=True))
    if step.columns is not None:
        rows = lower_column_query(step.columns, read_below(step), context, discards=step.discards)
        return rows.select(*columns, *hidden_results(rows))
    rows = _all_read(node, step, context)
    return rows.select(*columns, *hidden_results(rows))


# --- tables: rows of the connector without bad rows, filtered by pushed predicates ----------------------------


def lower_scan(node: Scan, step: Read, context: Context) -> DataFrame:
    """Builds the DataFrame of a table's rows, without bad rows and without rows for which a pushed-down predicate is
    not true.
    """
    time = context.required_time or _read_time(node, node.predicates)
    rows = _tolerant(step, context) if node.on_error.tolerates else _strict(step, time, context)
    predicates = [_with_time(predicate, rows, time) for predicate in node.predicates]
    if not context.functions.tolerates:
        return where_all(rows, predicates, context) if predicates else rows
    for predicate in predicates:
        rows, conditions = with_calls(rows, [predicate], context)
        rows = where_all(rows, conditions, context)
    return rows.select(*map(column, node.columns), *hidden(rows), *_computed(rows)) if predicates else rows


def _strict(step: Read, time: RequiredTime | None, context: Context) -> DataFrame:
    node = step.node
    if step.shared is not None:
        return taken_rows(step, context)
    rows = context.runtime.read(node, in_order=step.in_order, located=_is_checked_here(time, node.table))
    if time is None:
        return with_required(rows, node.table, node.columns)
    rows, error = _with_time_error(rows, time, context)
    checked = with_required(rows, node.table, node.columns, error)
    return checked.select(*map(column, node.columns), *hidden(checked), *_computed(checked))


def _tolerant(step: Read, context: Context) -> DataFrame:
    node = step.node
    time, errors = context.required_time or _computed_time(node.table), _missing(node.table)
    read = columns_to_read(node.table, node.columns, node.on_error, checked=time is not None)
    source = replace(node, columns=read)
    rows = context.runtime.read(source, in_order=step.in_order, located=_is_checked_here(time, node.table))
    if time is not None and not _is_among(time.expression, required_columns(node.table)):
        rows, error = _with_time_error(rows, time, context)
        errors = [*errors, F.substring_index(error, "\n", 1)]
    first = context.counted.first(node.table.name)
    letter = _letter(node.table, read, rows, errors)
    parts = parted(rows, letter, node.on_error, context.counted.metric if first else None)
    return parts.select(*map(column, node.columns), *hidden(parts), *_computed(parts))


def _letter(table: Table, read: tuple[str, ...], rows: DataFrame, errors: Sequence[Column]) -> Letter:
    record, error, location = (bad_column(rows, member) for member in ("record", "error", "place"))
    named = [column(c.name) for c in table.physical_columns if c.name in read]
    values = F.to_json(F.struct(*named), {"ignoreNullFields": "false"}).cast("BINARY") if named else F.lit(None)
    return Letter(
        table.name,
        values if record is None else F.coalesce(record, values),
        F.coalesce(*([] if error is None else [error]), *errors, F.lit(None).cast("STRING")),
        file_of(rows) if location is None else location,
    )


def _missing(table: Table) -> list[Column]:
    """An error for each event time that is out of range, and for each column, or field of one, that must not be NULL
    and is."""
    times = [c for c in required_columns(table) if c.time is TimeDomain.EVENT]
    return [
        *(F.when(must_have(table, c.name), F.expr(time_error(time_name(c.name, table.name), c.name))) for c in times),
        *(F.when(condition, F.lit(text)) for condition, text in lacks(table)),
    ]


# --- event times that are computed: checked where the row is read, because only there it is known from where ------


_TIME = "__required_time"
"""The hidden column of the time, which projections above the scan take where they must not compute it once more."""

_CHECKED = "__checked_time"

_RETRACTIONS = [RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value]


def _with_time_error(rows: DataFrame, time: RequiredTime, context: Context) -> tuple[DataFrame, Column]:
    """The rows with a column of the time, and the error of a row whose time is NULL or out of range, or computed by a
    function that fails.
    """
    repeatable = is_repeatable(time.expression)
    rows, (expression,) = with_calls(rows, [time.expression], context)
    rows, expression, failures = with_failures(rows, expression, context)
    name = _CHECKED if repeatable else _TIME
    rows = rows.select("*", context.column(expression, rows).alias(name))
    error = F.coalesce(*failures, F.expr(time_error(time.name, name)))
    unchecked = passes_by(rows)
    if ROW_KIND in rows.columns and not time.of_retractions:
        retracted = F.coalesce(column(ROW_KIND).isin(_RETRACTIONS), F.lit(False))
        unchecked = retracted if unchecked is None else unchecked | retracted
    return rows, error if unchecked is None else F.when(~unchecked, error)


def _is_checked_here(time: RequiredTime | None, table: Table) -> bool:
    """False for a column that the source knows to be the event time, and may check itself."""
    own = table.watermark.column if table.watermark is not None else None
    return time is not None and not (isinstance(time.expression, exp.Column) and time.expression.name == own)


def _computed(rows: DataFrame) -> list[Column]:
    return [column(_TIME)] if _TIME in rows.columns else []


def _with_time(expression: exp.Expression, rows: DataFrame, time: RequiredTime | None) -> exp.Expression:
    """The expression with the column of the time in place of what computes it, if the rows have that column."""
    if time is None or _TIME not in rows.columns:
        return expression
    sought = (time.expression, folded(time.expression))
    given = exp.column(_TIME, quoted=True)
    if expression in sought:
        return given
    changed = expression.copy()
    kinds = tuple(type(expression) for expression in sought)
    found = [part for part in changed.find_all(*kinds) if part in sought]
    for part in found:
        part.replace(given.copy())
    return changed


def _computed_time(table: Table) -> RequiredTime | None:
    """The table's computed event time. Retracted rows may be their key alone, and so have none."""
    time = computed_event_time(table)
    if time is None or time.expression is None:
        return None
    return RequiredTime(time_name(time.name, table.name), time.expression, of_retractions=False)


def _all_read(node: Output | Insert, step: Step, context: Context) -> DataFrame:
    """The rows of the input of a root, which reads all of its fields."""
    fields = [field_of(f.name) for f in node.input.schema]
    return _reading(node.input, fields, context).with_functions(node.functions).lower(step.input)


def _reading(below: Node, expressions: Sequence[exp.Expression], context: Context) -> Context:
    """The context for a scan ``below`` whose event time is read by one of the expressions above it."""
    if not isinstance(below, Scan) or context.required_time is not None:
        return context
    return context.requiring(_read_time(below, expressions))


def _read_time(node: Scan, expressions: Sequence[exp.Expression]) -> RequiredTime | None:
    """The event time of the table if one of the expressions reads it, or computes it; else None."""
    table = node.table
    time = _computed_time(table)
    if time is not None:
        sought = (time.expression, folded(time.expression))
        kinds = tuple(type(expression) for expression in sought)
        return time if any(e in sought for whole in expressions for e in whole.find_all(*kinds)) else None
    name = table.watermark.column if table.watermark is not None else None
    if name is None or not any(name in columns_of(expression) for expression in expressions):
        return None
    return RequiredTime(time_name(name, table.name), field_of(name), of_retractions=False)


def _is_among(expression: exp.Expression, columns: Sequence[TableColumn]) -> bool:
    return isinstance(expression, exp.Column) and expression.name in (c.name for c in columns)


# --- lookup tables read whole, by one task --------------------------------------------------------------------


def whole_table(spark: SparkSession, source: LookupSource) -> DataFrame:
    """A DataFrame of all rows of a lookup table, with the columns that the source's request names."""
    schema = ", ".join(f"{quoted(name)} {type_.ddl()}" for name, type_ in source.request.columns)
    return spark.range(1, numPartitions=1).mapInArrow(WholeTable(source).rows, schema)


# --- table functions over each row: Spark's generators, UNNEST and Python table functions ------------------------


_ABOVE_DEFER = repeating("SS435")

_OUTER = {"explode", "posexplode", "inline"}
"""Generators that may give no row; each has a twin ``…_outer`` that then gives one of NULLs."""


def lower_correlate(node: Correlate, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of a lateral join: each row once per row of a table function, UNNEST or generator."""
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


# --- TO_CHANGELOG and FROM_CHANGELOG: the hidden column with the kinds of rows becomes a field, or is made of one


def lower_to_changelog(node: ToChangelog, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of TO_CHANGELOG, in which the kind of a row is an ordinary column."""
    rows = context.lower(step.input)
    kind = column(ROW_KIND) if ROW_KIND in rows.columns else F.lit(RowKind.INSERT.value)
    code = F.lit(None).cast("string")
    for row_kind, text in node.codes:
        code = F.when(kind.eqNullSafe(F.lit(row_kind.value)), F.lit(text)).otherwise(code)
    passing = passes_by(rows)
    code = code if passing is None else F.when(~passing, code)
    kept = rows.withColumn(node.op, code).where(_either(column(node.op).isNotNull(), passing))
    hidden = [column(name) for name in hidden_names(rows) if name != ROW_KIND]
    return kept.select(*(column(f.name) for f in node.schema), *hidden)


def lower_from_changelog(node: FromChangelog, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of FROM_CHANGELOG, in which an ordinary column has become the kind of the row."""
    rows = context.lower(step.input)
    passing = passes_by(rows)
    kind = F.lit(None).cast("string")
    for row_kind, text in node.codes:
        kind = F.when(column(node.op).eqNullSafe(F.lit(text)), F.lit(row_kind.value)).otherwise(kind)
    if not node.skips:
        kind = F.coalesce(kind, F.raise_error(_unknown(node)).cast("string"))
    kind = kind if passing is None else F.when(~passing, kind)
    changed = rows.withColumn(ROW_KIND, kind)
    if node.skips:
        changed = changed.where(_either(column(ROW_KIND).isNotNull(), passing))
    fields = (column(f.name) for f in node.schema)
    return changed.select(*fields, *aligned(changed, {*hidden_names(rows), ROW_KIND}))


def _unknown(node: FromChangelog) -> Column:
    codes = ", ".join(sorted({text for _, text in node.codes}))
    code = F.coalesce(column(node.op), F.lit("NULL"))
    return F.concat(F.lit('FROM_CHANGELOG does not know the operation "'), code, F.lit(f'"; it knows {codes}'))


def _either(condition: Column, passing: Column | None) -> Column:
    return condition if passing is None else condition | passing
