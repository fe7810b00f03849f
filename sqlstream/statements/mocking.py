"""Tables that a test feeds in place of those of a script, and what EXECUTE UNIT TEST runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream import connectors
from sqlstream.connectors.test import TAKES
from sqlstream.errors import BindError, Diagnostic, ExecutionError, Span, SqlStreamError
from sqlstream.grammar import nodes, parse_query
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.catalog import ONE_ROW, Column, Table, TimeDomain, View, Watermark
from sqlstream.planner.nodes import Output
from sqlstream.planner.properties import changelog_text
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.plans import bound_plan, looked_up_tables, scanned_tables
from sqlstream.results import Rows
from sqlstream.statements.statement import Execution, StatementType
from sqlstream.types import DataType, from_sqlglot
from sqlstream.workspace import Workspace

WRONG_COLUMN = "SS297"
NOT_MOCKED = "SS298"
WRONG_TIME = "SS299"
FAILED_TEST = "SS498"

_TEST = "test"


def mocked(table: Table) -> Table:
    """Returns the table with the connector ``test`` instead of its own, and the same columns, keys, changes and event
    time.

    Its METADATA columns become plain columns of the mocked rows. A lookup table remains one, and INSERT may write the
    kinds of rows that the real table accepts.
    """
    kind = connectors.connector(table.connector)
    if kind.name == _TEST:
        return table
    columns = tuple(replace(c, metadata_key=None) if isinstance(kind, connectors.Source) else c for c in table.columns)
    role = (("role", "lookup"),) if connectors.answers_lookups(table) else ()
    is_sink = isinstance(kind, connectors.Sink)
    takes = ((TAKES, changelog_text(connectors.row_kinds_taken(table))),) if is_sink and not role else ()
    return replace(table, columns=columns, connector=_TEST, options=(*role, *takes), bounded=False, streamed=not role)


def table_in_place_of(view: View, workspace: Workspace) -> Table:
    """A table that replaces a view in a unit test that mocks the view: with the same columns, and with a watermark
    (without delay) on the view's first event-time column.
    """
    plan = _plan_over(view.name, workspace)
    columns = tuple(Column(name, f.type, f.nullable) for name, f in zip(plan.names, plan.schema, strict=True))
    times = [c.name for c, f in zip(columns, plan.schema, strict=True) if f.time is TimeDomain.EVENT]
    watermark = Watermark(times[0], 0) if times else None
    columns = tuple(replace(c, time=TimeDomain.EVENT) if c.name in times[:1] else c for c in columns)
    return Table(view.name, columns, _TEST, watermark=watermark, streamed=True)


def _plan_over(name: str, workspace: Workspace) -> Output:
    plan = bound_plan(nodes.Query(query_of(name)), workspace)  # rules drop watermarks that nobody above waits for
    assert isinstance(plan, Output)
    return plan


def query_of(name: str) -> exp.Expression:
    """The parsed query ``SELECT * FROM name``, which returns all rows of the view ``name``."""
    return parse_query(f"SELECT * FROM {quote_name(name)}")


# --- EXECUTE UNIT TEST ----------------------------------------------------------------------------------------

Typed = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class MockedRows:
    """The rows that MOCK or EXPECTED gives in a unit test: the ``query`` that computes them, and their columns. For
    MOCK, ``table`` is the mocked table; for EXPECTED it is None.
    """

    query: exp.Expression
    columns: Typed
    table: Table | None = None


@dataclass(frozen=True)
class BoundUnitTest:
    """A unit test with its names resolved. In its ``workspace`` mocks have replaced the tables and views that they
    stand for.
    """

    name: str
    view: str
    workspace: Workspace
    mocks: tuple[MockedRows, ...]
    expected: MockedRows
    at: str | None


class UnitTest(StatementType[nodes.UnitTest]):
    """Carries out EXECUTE UNIT TEST, which runs a view on mocked tables. ExecutionError SS498 where the view has other
    rows than the test expects.
    """

    def check(self, statement: nodes.UnitTest, scratch: Workspace, text: str) -> bool:
        """Binds the mocks, the view and the expected rows, which finds mistakes, without running the test."""
        bind_unit_test(statement, scratch)
        return True

    def run(self, statement: nodes.UnitTest, execution: Execution) -> Rows:
        """Runs the test and returns a row with its name and PASS. Raises ExecutionError SS498 with the difference if
        the view has other rows than expected.
        """
        difference = execution.unit_test(statement)
        if difference is not None:
            message = f'unit test "{statement.name}" of view "{statement.view}" fails'
            raise ExecutionError(FAILED_TEST, message, statement.name.span, detail=difference)
        return Rows.of_text(("test", "result"), ((str(statement.name), "PASS"),))

    def needs_spark(self, statement: nodes.UnitTest) -> bool:
        """Whether the statement always needs Spark: a unit test does."""
        return True


def bind_unit_test(test: nodes.UnitTest, workspace: Workspace) -> BoundUnitTest:
    """The unit test with its names resolved.

    BindErrors: SS202 for an unknown object, SS297 for columns that do not fit, SS298 for a table that is read and not
    mocked, SS299 for an invalid time.
    """
    scratch = workspace.copy()
    mocks = tuple(_mocks(test, scratch))
    view = workspace.catalog.required(test.view).name
    plan = _plan_over(view, scratch)
    _require_mocks(plan, {mock.table.name for mock in mocks if mock.table is not None}, test.view.span)
    fields = tuple((name, f.type) for name, f in zip(plan.names, plan.schema, strict=True))
    expected = MockedRows(test.expected.query, _columns(test.expected, fields, f'view "{view}"'))
    return BoundUnitTest(str(test.name), view, scratch, mocks, expected, _moment(test))


def _require_mocks(plan: Output, mocks: set[str], span: Span) -> None:
    read = [table.name for table in (*scanned_tables(plan), *looked_up_tables(plan)) if table != ONE_ROW]
    unmocked = sorted(name for name in read if name not in mocks)
    if unmocked:
        message = f'table "{unmocked[0]}" is read and not mocked'
        hint = f"Add MOCK {quote_name(unmocked[0])} AS (VALUES (…)), or mock the view that reads it."
        raise BindError(NOT_MOCKED, message, span, hint=hint)


def _mocks(test: nodes.UnitTest, scratch: Workspace) -> Iterator[MockedRows]:
    for mock in test.mocks:
        assert mock.name is not None
        relation = scratch.catalog.required(mock.name)
        is_view = isinstance(relation, View)
        table = table_in_place_of(relation, scratch) if isinstance(relation, View) else mocked(relation)
        if scratch.catalog.is_temporary("relation", scratch.catalog.path(mock.name)):
            scratch.catalog.drop("VIEW" if is_view else "TABLE", mock.name, temporary=True)
        scratch.catalog.create(mock.name, table, temporary=True)
        fields = tuple((c.name, c.type) for c in table.physical_columns)
        what = f'{"view" if is_view else "table"} "{table.name}"'
        yield MockedRows(mock.query, _columns(mock, fields, what), table)


def _columns(rows: nodes.UnitRows, fields: Typed, what: str) -> Typed:
    """The declared columns as the table spells them; all of it where none is declared."""
    wanted = len(rows.columns or fields)
    for width in set(_widths(rows.query)) - {wanted}:
        message = f"{'EXPECTED' if rows.name is None else 'MOCK'} has rows of {width} values for {wanted} columns"
        raise BindError(WRONG_COLUMN, message, rows.span, hint="Declare the columns that have values: (name TYPE, …).")
    if not rows.columns:
        return fields
    by_name = {name.casefold(): (name, type_) for name, type_ in fields}
    wrong = list(_wrong(rows.columns, by_name, what))
    if wrong:
        raise SqlStreamError.of(wrong)
    return tuple(by_name[column.name.casefold()] for column in rows.columns)


def _widths(query: exp.Expression) -> Iterator[int]:
    """How many values rows have, as far as the text tells."""
    match query.unnest():
        case exp.Values() as values:
            yield from (len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in values.expressions)
        case exp.Select(is_star=False) as select:
            yield len(select.expressions)


def _wrong(
    columns: Sequence[nodes.PhysicalColumn], by_name: dict[str, tuple[str, DataType]], what: str
) -> Iterator[Diagnostic]:
    for column in columns:
        there = by_name.get(column.name.casefold())
        if there is None:
            hint = did_you_mean(column.name, [name for name, _ in by_name.values()])
            yield Diagnostic(WRONG_COLUMN, f'{what} has no column "{column.name}"', column.span, hint=hint)
        elif not there[1].is_unknown and there[1] != from_sqlglot(column.type):
            message = f'column "{column.name}" of {what} is {there[1]}, not {from_sqlglot(column.type)}'
            yield Diagnostic(WRONG_COLUMN, message, column.span, hint=f"Write {there[1].declaration()}.")


def _moment(test: nodes.UnitTest) -> str | None:
    value = test.at.this if isinstance(test.at, exp.Cast) else test.at
    if value is None:
        return None
    if not isinstance(value, exp.Literal) or not value.is_string:
        hint = "Write AT TIME '2026-01-31 12:00:00'."
        raise BindError(WRONG_TIME, "AT TIME takes a time as text", test.span, hint=hint)
    return str(value.this)
