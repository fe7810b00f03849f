"""EXECUTE UNIT TEST: compares the rows of a view over mocked tables with the expected ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.grammar.quoting import quote_name, quote_string
from sqlstream.grammar.script import pieces
from sqlstream.planner.catalog import Table
from sqlstream.statements.mocking import BoundUnitTest, MockedRows, Typed, bind_unit_test, query_of
from sqlstream.testing.golden_rows import LineComparison
from sqlstream.testing.golden_stream import Outcome, StepOutcome, failure_text
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.tested_session import SessionUnderTest, define_mocked
from sqlstream.testing.values import Row, from_arrow, merge, spell_row, to_arrow
from sqlstream.types import DataType

# --- Rows of MOCK and EXPECTED: literals are read here, all other queries by Spark -----------------------------


_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


class _Other(Exception):
    """Raised for an expression that is not a literal of the type of its column."""


def rows_of_mock(mock: MockedRows, session: SessionUnderTest) -> list[Row]:
    """The rows that MOCK or EXPECTED of a unit test gives, with values as a job would return them. Starts Spark only if
    they are not all literals.
    """
    try:
        rows = _literal_rows(mock, utc=session.workspace.settings["table.local-time-zone"] == "UTC")
    except _Other:
        return _rows_of_spark(mock, session)
    return _canonical(rows, mock.columns)


def _canonical(rows: list[Row], columns: Typed) -> list[Row]:
    by_column = []
    for i, (_, type_) in enumerate(columns):
        values = pa.array([to_arrow(row[i], type_) for row in rows], type_.to_arrow())
        by_column.append([from_arrow(value, type_) for value in values.to_pylist()])
    return list(zip(*by_column, strict=True))


def _literal_rows(mock: MockedRows, *, utc: bool) -> list[Row]:
    values = _values_of(mock.query)
    width = len(mock.columns)
    rows = []
    for row in values.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
        if len(cells) != width:
            raise _Other
        rows.append(tuple(_literal(c, type_, utc=utc) for c, (_, type_) in zip(cells, mock.columns, strict=True)))
    return rows


def _values_of(query: exp.Expression) -> exp.Values:
    """The VALUES of ``VALUES …`` and of ``SELECT * FROM VALUES …`` without anything else."""
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    if isinstance(query, exp.Select) and query.is_star and len(query.expressions) == 1:
        clauses = {key for key, value in query.args.items() if value and key not in ("expressions", "from_", "kind")}
        source = query.args.get("from_")
        query = source.this if source is not None and not clauses else query
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
    if not isinstance(query, exp.Values) or any(value for key, value in query.args.items() if key != "expressions"):
        raise _Other
    return query


def _literal(cell: exp.Expression, type_: DataType, *, utc: bool) -> Any:
    sign = 1
    if isinstance(cell, exp.Neg):
        sign, cell = -1, cell.this
    match cell:
        case exp.Null():
            return None
        case exp.Boolean() if type_.name == "BOOLEAN":
            return bool(cell.this)
        case exp.Literal(is_string=True) if type_.name == "STRING":
            return str(cell.this)
        case exp.Literal(is_string=False):
            return _number(str(cell.this), sign, type_)
        case exp.Literal() | exp.Cast(this=exp.Literal(is_string=True)) if type_.name in _TIMES and utc:
            text = str(cell.this if isinstance(cell, exp.Literal) else cell.this.this)
            return _time(text, type_)
    raise _Other


def _number(text: str, sign: int, type_: DataType) -> Any:
    if not set(text) <= set("0123456789.") or text.count(".") > 1:
        raise _Other
    match type_.name:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" if text.isdigit():
            return sign * int(text)
        case "FLOAT" | "DOUBLE":
            return sign * float(text)
        case "DECIMAL" if len(text.partition(".")[2]) <= _scale(type_):
            return sign * Decimal(text)
    raise _Other


def _scale(type_: DataType) -> int:
    scale = type_.args[1]
    assert isinstance(scale, int)
    return scale


def _time(text: str, type_: DataType) -> str:
    try:
        to_arrow(text, type_)
    except (TypeError, ValueError) as error:
        raise _Other from error
    return text


def values_text(rows: Sequence[Row], types: Sequence[DataType]) -> str:
    """The SQL of a query that gives these rows, as EXPECTED contains it. ValueError if a value has no literal."""
    if not rows:
        return f"SELECT {', '.join('NULL' for _ in types)} WHERE FALSE"
    shown = (f"({', '.join(map(_literal_text, row, types))})" for row in rows)
    return f"VALUES {', '.join(shown)}"


def _literal_text(value: Any, type_: DataType) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS {type_.ddl()})"
        case int() | float() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else repr(value)
        case str() if type_.name == "STRING":
            return quote_string(value)
        case datetime() | date():
            return quote_string(spell_row([value], [type_]).strip('"'))
    raise ValueError(f"there is no literal of type {type_}: write what is expected by hand")


def _rows_of_spark(mock: MockedRows, session: SessionUnderTest) -> list[Row]:
    asking = session.fork()
    asking.workspace.settings.reset("execution.runtime-mode")
    names = [quote_name(name) for name, _ in mock.columns]
    casts = [f"CAST({name} AS {type_.ddl()}) AS {name}" for name, (_, type_) in zip(names, mock.columns, strict=True)]
    text = f"SELECT {', '.join(casts)} FROM ({to_sql(mock.query)}) AS mocked ({', '.join(names)})"
    table = asking.dataframe(text).toArrow()
    columns = [
        [from_arrow(value, type_) for value in column.to_pylist()]
        for column, (_, type_) in zip(table.columns, mock.columns, strict=True)
    ]
    return list(zip(*columns, strict=True))


_SCRIPT = "-- script "


@dataclass(frozen=True)
class UnitOutcome:
    """The outcome of a unit test.

    ``difference`` is a text, None if the rows are as expected. ``rows`` are the actual rows in the columns of EXPECTED;
    ``types`` are the types of these columns.
    """

    difference: str | None
    rows: tuple[Row, ...]
    types: tuple[DataType, ...]


def run_unit_test(test: nodes.UnitTest, session: SessionUnderTest, *, streaming: bool = False) -> UnitOutcome:
    """Runs a unit test and returns its outcome. All rows of a mock arrive together, those of lookup tables first; then
    the input ends.
    """
    bound = bind_unit_test(test, session.workspace)
    running = session.fork()
    running.workspace = bound.workspace
    steps: list[StepOutcome] = []
    with StreamTest(to_sql(query_of(bound.view)), running, streaming=streaming) as stream:
        if bound.at is not None:
            stream.processing_time(bound.at)
        tables = [(mock.table, mock) for mock in bound.mocks if mock.table is not None]
        for table, mock in sorted(tables, key=lambda pair: pair[0].streamed):
            steps.append(_feed(table, mock, stream, running))
        stream.finish()
        rows = merge(stream.output(), stream.output_key)
        names, types = stream.output_names, stream.output_types
    return _difference(bound, rows_of_mock(bound.expected, running), rows, names, types, steps)


def _feed(table: Table, mock: MockedRows, stream: StreamTest, session: SessionUnderTest) -> StepOutcome:
    """Feed the rows of a mock; columns that it leaves out are NULL."""
    types = [column.type for column in table.physical_columns]
    positions = {name: i for i, (name, _) in enumerate(mock.columns)}
    chosen = [positions.get(column.name) for column in table.physical_columns]
    rows = [tuple(None if i is None else row[i] for i in chosen) for row in rows_of_mock(mock, session)]
    stream.rows(table.name, rows)
    return StepOutcome(table.name, inputs=tuple(f"{table.name}  {spell_row(row, types)}" for row in rows))


def _difference(
    bound: BoundUnitTest,
    expected: Sequence[Row],
    rows: Sequence[Row],
    names: Sequence[str],
    types: Sequence[DataType],
    steps: Sequence[StepOutcome],
) -> UnitOutcome:
    columns = [names.index(name) for name, _ in bound.expected.columns]
    shown_types = [types[i] for i in columns]
    chosen = tuple(tuple(row[i] for i in columns) for row in rows)
    actual = [spell_row(row, shown_types).rstrip() for row in chosen]
    wanted = [spell_row(row, shown_types).rstrip() for row in expected]
    comparison = LineComparison({"": shown_types}, unordered=True)
    if comparison.same(wanted, actual):
        return UnitOutcome(None, chosen, tuple(shown_types))
    last = StepOutcome("finish", tuple(wanted), tuple(actual), False)
    shown = tuple(names[i] for i in columns)
    difference = failure_text(Outcome((), False, (), (*steps, last), comparison, shown))
    return UnitOutcome(difference, chosen, tuple(shown_types))


# --- files ----------------------------------------------------------------------------------------------------


def names_of(path: Path) -> list[tuple[int, int, str]]:
    """The unit tests of a file, each as a triple: the index of its statement, from 0; its line, from 1; its name."""
    text = path.read_text(encoding="utf-8")
    statements = enumerate(parse_script(text))
    tests = [(index, test) for index, test in statements if isinstance(test, nodes.UnitTest)]
    return [(index, text.count("\n", 0, test.span.start) + 1, str(test.name)) for index, test in tests]


def scripts_of(path: Path) -> list[Path]:
    """The files with definitions that a file of tests needs: those named by its lines ``-- script FILE``, relative to
    it.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [path.parent / line[len(_SCRIPT) :].strip() for line in lines if line.startswith(_SCRIPT)]


def run_test_of_file(path: Path, index: int, session: SessionUnderTest, *, streaming: bool = False) -> UnitOutcome:
    """Run statement ``index`` of the file, after the definitions of all files that it needs, with mocked tables."""
    text = path.read_text(encoding="utf-8")
    for script in scripts_of(path):
        define_mocked(script.read_text(encoding="utf-8"), session)
    define_mocked(text, session)
    try:
        return run_unit_test(_test_of(text, index), session, streaming=streaming)
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def bless_test_of_file(path: Path, index: int, outcome: UnitOutcome) -> None:
    """Write the actual rows into EXPECTED. ValueError for a value without a literal."""
    text = path.read_text(encoding="utf-8")
    expected = _test_of(text, index).expected
    begin, end = _bracketed(text, expected.span)
    path.write_text(f"{text[:begin]}{values_text(outcome.rows, outcome.types)}{text[end:]}", encoding="utf-8")


def _test_of(text: str, index: int) -> nodes.UnitTest:
    test = parse_script(text)[index]
    assert isinstance(test, nodes.UnitTest)
    return test


def _bracketed(text: str, span: Span) -> tuple[int, int]:
    """The range between the parentheses after AS, in ``EXPECTED (…) AS (…)``."""
    depth, begin = 0, span.start
    is_query = False
    for piece in pieces(text[: span.end], span.start):
        if piece.text == "(":
            depth += 1
            begin = piece.end if depth == 1 and is_query else begin
        elif piece.text == ")":
            depth -= 1
            if depth == 0 and is_query:
                return begin, piece.start
        elif depth == 0 and piece.text.upper() == "AS":
            is_query = True
    raise AssertionError("EXPECTED has its rows in brackets")
