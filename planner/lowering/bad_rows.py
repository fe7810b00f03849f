"""Bad rows: where they are found, they are counted, and dropped or sent to a table.

Three places find them: a scan whose source reports a record that it cannot read, a column that lacks a required value,
and a scalar function that raises. A dead letter leaves the query as a side output (``outputs``), as JSON in LATE, so
that no Python is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.bad_rows import NULL_IN_COLUMN, OnError, computed_event_time, required_columns
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.catalog import Function, RowKind, Table, TimeDomain
from sqlstream.planner.changes import is_upsert
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.functions import called_function, cast_arguments, register_tolerant
from sqlstream.planner.lowering.hidden_columns import column, passes_by, present, quoted
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD, READ_FROM, READ_LINE
from sqlstream.udfs.event_times import HINT, OUT_OF_RANGE
from sqlstream.udfs.exchange import LATE, LATE_TABLE
from sqlstream.udfs.kernel import ROW_KIND

_CALLED = "__called"
_LETTER = "source STRING, record BINARY, error STRING, place STRING"
_ERROR = "__bad_error"


@dataclass(frozen=True)
class Letter:
    """The parts of a row's dead letter: the name of the source, the record as it was read, the error, and where it was
    read (file or offset). ``error`` is NULL for good rows.
    """

    source: str
    record: Column
    error: Column
    place: Column

    @property
    def bytes(self) -> Column:
        named = (F.lit(self.source).alias("source"), self.record.cast("BINARY").alias("record"))
        letter = F.struct(*named, column(_ERROR).alias("error"), self.place.cast("STRING").alias("place"))
        return F.encode(F.to_json(letter), "UTF-8")


def parted(rows: DataFrame, letter: Letter, on_error: OnError, counted: str | None) -> DataFrame:
    """Separates good rows from bad ones, for which ``letter.error`` is not NULL. Without a dead letter table bad rows
    are dropped. Otherwise they remain in the returned DataFrame as rows of a side output: its hidden columns hold the
    dead letter, and all others are NULL.

    ``counted`` is the name of the metric that counts bad rows. None: another reader of the same rows counts and writes
    them, so they are dropped.
    """
    rows = rows.select("*", letter.error.alias(_ERROR))
    bad = column(_ERROR).isNotNull()
    if counted is not None:
        rows = rows.observe(counted, F.count_if(bad).alias("rows"))
    if counted is None or on_error.table is None:
        return rows.where(~bad).drop(_ERROR)
    side = {LATE_TABLE: F.lit(marker(on_error.table)), LATE: letter.bytes}
    columns = rows.columns
    values = [
        F.when(bad, side[name]).otherwise(column(name)) if name in side else F.when(~bad, column(name))
        for name in columns
    ]
    named = [value.alias(name) for value, name in zip(values, columns, strict=True) if name != _ERROR]
    missing = [F.when(bad, value).alias(name) for name, value in side.items() if name not in columns]
    return rows.select(*named, *missing)


def with_letters(rows: DataFrame, table: Table, on_error: OnError) -> DataFrame:
    """Makes rows of the side output of those with an error in BAD, of records that could not be read. All of their
    other columns are NULL.
    """
    letter = Letter(table.name, *(F.col(f"{BAD}.{member}") for member in ("record", "error", "place")))
    assert on_error.table is not None
    bad = letter.error.isNotNull()
    rows = rows.select("*", letter.error.alias(_ERROR))
    side = {LATE_TABLE: F.lit(marker(on_error.table)), LATE: letter.bytes}
    return rows.select("*", *(F.when(bad, value).alias(name) for name, value in side.items())).drop(_ERROR, BAD)


def marker(table: Table) -> str:
    """The value of the hidden column LATE_TABLE in rows that are dead letters for this table."""
    return f"dead-letter/{table.name}"


def letters_for(table: Table, rows: DataFrame) -> DataFrame:
    """Selects the dead letters for a table from a micro-batch, as rows with the columns of that table."""
    bad = rows.where(column(LATE_TABLE) == F.lit(marker(table)))
    letters = bad.select(F.from_json(F.decode(column(LATE), "UTF-8"), _LETTER).alias("letter")).select("letter.*")
    letters = letters.withColumn("failed_at", F.current_timestamp())
    return letters.select(*(_in_letter(c).alias(c.name) for c in table.physical_columns))


def _in_letter(table_column: TableColumn) -> Column:
    """The column of a table of dead letters. What is no UTF-8 in a record becomes U+FFFD in a STRING."""
    value = F.col(quoted(table_column.name.lower())).cast(table_column.type.ddl())
    return F.make_valid_utf8(value) if table_column.type.name == "STRING" else value


def bad_column(rows: DataFrame, member: str) -> Column | None:
    """Returns one member of the hidden STRUCT column BAD, with which a source describes a row that it could not read.
    None if the rows have no such column.
    """
    return F.col(f"{BAD}.{member}") if BAD in rows.columns else None


# --- the origin of a row for messages, computed only for bad rows ---------------------------------------------


def without_rows(rows: DataFrame, kept: Callable[[Column], Column]) -> DataFrame:
    """Filters rows by a condition that raises an error for bad rows. Spark's optimizer may move other conditions above
    or below a filter; it moves none across this one.

    ``kept`` returns the condition, given a text for its message such as `` of file "/data/a.json"``, which is empty for
    rows that are not from files. On a stream Spark does not move the condition because the text calls
    ``input_file_name``, or another function that Spark does not move. Over finished data Spark SQL refuses such calls
    below some subqueries; there the text reads the column READ_FROM, and a metric that nobody reads keeps other
    conditions above this one.
    """
    name = _url_of_file(rows)
    if rows.isStreaming:
        return rows.where(kept(_of_file(name)))
    checked = rows.where(kept(_of_file(name)))
    return checked.observe(f"checked_{uuid4().hex}", F.count(F.lit(1)).alias("rows"))


def _url_of_file(rows: DataFrame) -> Column:
    """The URL of the file from which a row was read; empty for rows that are not from files."""
    from_files = READ_FROM in rows.columns
    if rows.isStreaming:
        always = F.spark_partition_id() >= 0  # Spark does not move this function either
        return F.when(always, column(READ_FROM)) if from_files else F.input_file_name()
    return column(READ_FROM) if from_files else F.lit("")


def file_of(rows: DataFrame) -> Column:
    """The path of the file from which a row was read; NULL for rows that are not from files."""
    return path_of(F.nullif(_url_of_file(rows), F.lit("")))


def _of_file(name: Column) -> Column:
    return F.when(name == "", "").otherwise(F.concat(F.lit(' of file "'), path_of(name), F.lit('"')))


def path_of(name: Column) -> Column:
    """A file path as users write it, from a column with URLs of Spark's such as ``file:///data/a%20b.json``."""
    return F.url_decode(F.regexp_replace(F.regexp_replace(name, "^file:/+", "/"), r"\+", "%2B"))


# --- columns that are NOT NULL, and fields within them: where a row lacks a value, and what that is called -------


_SHOWN = 100
_HINT = "Correct the row, or let the option on-error of its table skip it."

Lack = tuple[Column, str]
"""A condition that is true of rows that lack a value, and the error with its code."""


def lacks(table: Table) -> list[Lack]:
    """The NOT NULL checks of a table, as pairs: a condition that is true where the value is missing, and the error's
    text. There is one for each NOT NULL column, and for each NOT NULL field inside a column.
    """
    required = {c.name for c in required_columns(table)}
    return [lack for c in table.physical_columns for lack in _of_column(table, c, c.name in required)]


def has_checks(table: Table, names: Collection[str]) -> bool:
    """True if rows with the columns ``names`` are checked one by one: for NULL, or for the table's event time."""
    return any(has_required(table, name) for name in names) or has_event_time(table, names)


def has_event_time(table: Table, names: Collection[str]) -> bool:
    """True if the event time of the table is one of the columns ``names``, or is computed from them."""
    time = table.watermark.column if table.watermark is not None else None
    computed = computed_event_time(table)
    if computed is not None and computed.expression is not None:
        return columns_of(computed.expression) <= set(names)
    return time in names


def has_required(table: Table, name: str) -> bool:
    """True if the column of this name, or a field within it, is NOT NULL."""
    return any(c.name == name and (not c.nullable or any(inner_lacks(c))) for c in table.physical_columns)


def must_have(table: Table, name: str) -> Column:
    """Which rows must have a value where the column of this name is required: one that an upsert deletes may be its key
    alone.
    """
    if not is_upsert(table) or name in table.primary_key:
        return F.lit(True)
    return F.expr(f"{ROW_KIND} IS DISTINCT FROM '{RowKind.DELETE.value}'")


def _of_column(table: Table, table_column: TableColumn, required: bool) -> Iterator[Lack]:
    must = must_have(table, table_column.name)
    yield from ((must & lack, text) for lack, text in _of_any(table, table_column, required))


def _of_any(table: Table, table_column: TableColumn, required: bool) -> Iterator[Lack]:
    value = column(table_column.name)
    if required and table_column.time is TimeDomain.EVENT:
        yield value.isNull(), f'SS401: event time "{table_column.name}" of table "{table.name}" is NULL'
    elif required:
        yield value.isNull(), null_text(table, table_column.name)
    for condition, path in inner_lacks(table_column):
        yield condition, null_text(table, path)


def null_text(table: Table, path: str) -> str:
    """The message of SS403 for a NULL in a column or field of a table."""
    return f'{NULL_IN_COLUMN}: column "{path}" of table "{table.name}" is NOT NULL and got NULL'


def inner_lacks(table_column: TableColumn) -> list[Lack]:
    """The NOT NULL checks of the fields inside a column, as pairs: a condition that is true where the value is missing,
    and the field's path, as in ``place.city`` or ``visits[].at``.
    """
    return _inside(table_column.type, column(table_column.name), table_column.name)


def _inside(kind: DataType, value: Column, path: str) -> list[Lack]:
    lacks: list[Lack] = []
    match kind.name:
        case "STRUCT":
            for name, member in kind.fields():
                field, inner = value.getField(name), f"{path}.{name}"
                lacks += [] if member.nullable else [(value.isNotNull() & field.isNull(), inner)]
                lacks += _inside(member, field, inner)
        case "ARRAY":
            lacks += _in_list(kind.args[0], value, f"{path}[]")
        case "MAP":
            lacks += _in_list(kind.args[1], F.map_values(value), f"{path}{{}}")
    return lacks


def _in_list(member: object, elements: Column, path: str) -> Iterator[Lack]:
    assert isinstance(member, DataType)

    def nth(number: int) -> Callable[[Column], Column]:
        return lambda element: _inside(member, element, path)[number][0]

    if not member.nullable:
        yield F.coalesce(F.exists(elements, lambda element: element.isNull()), F.lit(False)), path
    for number, (_, inner) in enumerate(_inside(member, F.lit(None).cast(member.ddl()), path)):
        yield F.coalesce(F.exists(elements, nth(number)), F.lit(False)), inner


def with_required(rows: DataFrame, table: Table, names: tuple[str, ...], time_error: Column | None = None) -> DataFrame:
    """Adds a check to the rows: the job fails at a row with NULL in one of the columns ``names`` that the table
    declares NOT NULL, or with a ``time_error``. The message names the row's file, and its line where that is known.

    Spark does not move the check (see ``without_rows``).
    """
    checked = [c for c in table.physical_columns if c.name in names and has_required(table, c.name)]
    lacks = [lack for c in checked for lack in _of_column(table, c, not c.nullable)]
    if lacks or time_error is not None:
        rows = without_rows(rows, lambda of_file: _complete(rows, names, lacks, time_error, of_file))
    places = present(rows, (READ_FROM, READ_LINE))
    return rows.drop(*places) if places else rows


def _complete(
    rows: DataFrame, names: tuple[str, ...], lacks: Sequence[Lack], time_error: Column | None, of_file: Column
) -> Column:
    """True for rows that have all that they must have; others raise the error that says what is missing, and where."""
    where = F.regexp_replace(of_file, "^(?=.)", " in a row")
    if READ_LINE in rows.columns:
        where = F.coalesce(F.concat(F.lit(" in line "), column(READ_LINE), of_file), where)
    record = F.left(F.to_json(F.struct(*map(column, names)), {"ignoreNullFields": "false"}), F.lit(_SHOWN))
    of_time = [] if time_error is None else [time_error]
    # One call makes the error of all columns: Java would interpret, not compile, the code of a call for each.
    text = F.coalesce(*(F.when(condition, F.lit(text)) for condition, text in lacks), *of_time)
    lacking = reduce(or_, (*(condition for condition, _ in lacks), *(error.isNotNull() for error in of_time)))
    hint = F.lit(_HINT) if time_error is None else F.when(text.startswith(OUT_OF_RANGE), HINT).otherwise(_HINT)
    message = F.substring_index(text, "\n", 1)
    detail = F.substr(text, F.length(message) + 1)
    error = F.concat(message, where, F.lit(": "), record, detail, F.lit("\nHINT: "), hint)
    return F.when(lacking, F.raise_error(error)).otherwise(F.lit(True))


# --- calls of scalar functions under ``'sqlstream.functions.on-error'`` ------------------------------------------
# They are computed below an operator, so that rows for which one raises an exception part from the others there.


def with_calls(
    rows: DataFrame, expressions: Sequence[exp.Expression], context: Context
) -> tuple[DataFrame, list[exp.Expression]]:
    """Computes all calls of users' functions in ``expressions`` as columns. A row for which a call fails is dropped or
    becomes a dead letter.

    Returns a pair: the rows with these columns, and the expressions, which read the columns instead of calling.
    """
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


def with_failures(
    rows: DataFrame, expression: exp.Expression, context: Context
) -> tuple[DataFrame, exp.Expression, list[Column]]:
    """Computes all calls of users' functions in ``expression`` as columns, whatever is to happen to rows for which one
    fails.

    Returns three things: the rows with these columns, the expression, which reads the columns instead of calling, and
    the errors of the calls, in the order in which they are called: code and message, and a second line with the place
    in the code; NULL where a call does not fail.
    """
    failures: list[Column] = []
    rest = expression.copy()
    while (call := _innermost(rest, context)) is not None:
        result, given = f"__failed_{len(failures)}", rows.columns
        rows, _ = _with_result(rows, call, _CALLED, context)
        # Spark calls the function once for each expression that reads the result, but moves none through an explosion.
        rows = rows.select(*map(column, given), F.explode(F.array(F.col(_CALLED))).alias(result))
        detail = F.concat(F.lit("\nDETAIL: The function failed at "), F.col(f"{result}.place"), F.lit("."))
        failures.append(F.concat(F.col(f"{result}.error"), F.coalesce(detail, F.lit(""))))
        value = exp.column("value", table=result, quoted=True)
        rest = value if call is rest else _replaced(rest, call, value)
    return rows, rest, failures


def _with_result(
    rows: DataFrame, call: exp.Expression, result: str, context: Context
) -> tuple[DataFrame, tuple[Function, list[str]]]:
    """The rows with the column ``result`` of what the call returns or fails with; the function, and its arguments."""
    function = called_function(call, context.runtime)
    assert function is not None
    arguments = cast_arguments(call, function)
    texts = [argument.sql(dialect=SparkWithTime, comments=False) for argument in arguments]
    passing = passes_by(rows)
    skipped = "__skipped"
    rows = rows.select("*", (F.lit(False) if passing is None else passing).alias(skipped))
    name = register_tolerant(function, context.runtime, len(arguments))
    rows = rows.select("*", F.expr(f"{name}({', '.join([skipped, *texts])})").alias(result)).drop(skipped)
    return rows, (function, texts)


def _with_call(rows: DataFrame, call: exp.Expression, context: Context) -> tuple[DataFrame, exp.Expression]:
    result = f"__call_{len(context.counted.sources)}"
    rows, (function, texts) = _with_result(rows, call, result, context)
    names = [parameter for parameter, _ in function.parameters]
    keys = [*names, *(f"argument_{i + 1}" for i in range(len(names), len(texts)))]
    values = [F.expr(text).alias(key) for text, key in zip(texts, keys, strict=False)]
    record = F.to_json(F.struct(*values), {"ignoreNullFields": "false"}) if values else F.lit("{}")
    letter = Letter(function.name, record, F.col(f"{result}.error"), F.col(f"{result}.place"))
    context.counted.first(function.name, result)
    rows = parted(rows, letter, context.functions, context.counted.metric)
    return rows, exp.column("value", table=result, quoted=True)
