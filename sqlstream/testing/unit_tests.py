"""EXECUTE UNIT TEST: the rows of a view over mocked tables, beside those that are expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.grammar.script import pieces
from sqlstream.planner.catalog import Table
from sqlstream.statements.mocking import BoundUnitTest, MockedRows, bind_unit_test, query_of
from sqlstream.testing.changelog import Row, merge
from sqlstream.testing.failure_text import failure_text
from sqlstream.testing.golden_stream import Outcome, StepOutcome
from sqlstream.testing.line_rows import LineComparison
from sqlstream.testing.mock_rows import rows_of_mock, values_text
from sqlstream.testing.spelling import spell_row
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.tested_session import SessionUnderTest, define_mocked
from sqlstream.types import DataType

_SCRIPT = "-- script "


@dataclass(frozen=True)
class UnitOutcome:
    """``difference`` as text, None where the rows are those that are expected. ``rows`` have the columns of EXPECTED,
    of ``types``."""

    difference: str | None
    rows: tuple[Row, ...]
    types: tuple[DataType, ...]


def run_unit_test(test: nodes.UnitTest, session: SessionUnderTest, *, streaming: bool = False) -> UnitOutcome:
    """What comes of a unit test.

    All rows of a mock come together, tables that lookups ask first, and then the input ends.
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
    """Columns that the mock leaves out are NULL."""
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
    """The unit tests of a file: the number of the statement, the line, the name."""
    text = path.read_text(encoding="utf-8")
    statements = enumerate(parse_script(text))
    tests = [(index, test) for index, test in statements if isinstance(test, nodes.UnitTest)]
    return [(index, text.count("\n", 0, test.span.start) + 1, str(test.name)) for index, test in tests]


def scripts_of(path: Path) -> list[Path]:
    """The files whose definitions a file with tests needs: those of its lines ``-- script FILE``, relative to it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [path.parent / line[len(_SCRIPT) :].strip() for line in lines if line.startswith(_SCRIPT)]


def run_test_of_file(path: Path, index: int, session: SessionUnderTest, *, streaming: bool = False) -> UnitOutcome:
    """Statement ``index`` of the file, after the definitions of all files that it needs, with mocked tables."""
    text = path.read_text(encoding="utf-8")
    for script in scripts_of(path):
        define_mocked(script.read_text(encoding="utf-8"), session)
    define_mocked(text, session)
    try:
        return run_unit_test(_test_of(text, index), session, streaming=streaming)
    except SqlStreamError as error:
        raise error.with_source(text) from error.__cause__


def bless_test_of_file(path: Path, index: int, outcome: UnitOutcome) -> None:
    """Write the rows that came into EXPECTED. ValueError where a value has no literal."""
    text = path.read_text(encoding="utf-8")
    expected = _test_of(text, index).expected
    begin, end = _bracketed(text, expected.span)
    path.write_text(f"{text[:begin]}{values_text(outcome.rows, outcome.types)}{text[end:]}", encoding="utf-8")


def _test_of(text: str, index: int) -> nodes.UnitTest:
    test = parse_script(text)[index]
    assert isinstance(test, nodes.UnitTest)
    return test


def _bracketed(text: str, span: Span) -> tuple[int, int]:
    """What stands between the brackets behind AS, in ``EXPECTED (…) AS (…)``."""
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
