"""Checks of whole scripts, without running them: all mistakes, warnings, and what Flink does differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import Diagnostic, Span, SqlStreamError
from sqlstream.grammar import nodes, parse_script_recovering
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.spans import span_of
from sqlstream.partial_inserts import partial_insert_warnings
from sqlstream.planner.binder.hints import without_effect as hints_without_effect
from sqlstream.planner.catalog import WRITTEN_METADATA
from sqlstream.planner.functions.patterns import warnings_of
from sqlstream.settings import without_effect
from sqlstream.statements.registry import statement_type
from sqlstream.workspace import Workspace

_NAMED = nodes.CreateTable | nodes.CreateView | nodes.CreateMaterializedView | nodes.CreateFunction


@dataclass(frozen=True)
class CheckedScript:
    """The result of checking a script without running it: the statements that parse, the mistakes and the warnings."""

    statements: tuple[nodes.Statement, ...]
    mistakes: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def check_script(text: str, workspace: Workspace) -> tuple[Diagnostic, ...]:
    """Checks a script and returns its mistakes in the order of the text. The workspace is not changed."""
    return checked_script(text, workspace).mistakes


@on_deep_stack
def checked_script(text: str, workspace: Workspace) -> CheckedScript:
    """Checks a script. Its statements, mistakes and warnings are in the order of the text.

    The workspace is not changed. If a CREATE has mistakes, later statements that use its object are not reported for
    that.
    """
    statements, errors = parse_script_recovering(text)
    scratch, broken = workspace.copy(), set[str]()
    mistakes = [d for error in errors for d in error.diagnostics]
    partial: list[Diagnostic] = []
    for statement in statements:
        try:
            partial += partial_insert_warnings(statement, scratch)
            defined = statement_type(statement).check(statement, scratch, text)
        except SqlStreamError as error:
            mistakes += [d for d in error.diagnostics if not any(name in d.message.casefold() for name in broken)]
            defined = False
        if not defined and isinstance(statement, _NAMED):
            broken.add(f'"{statement.name}" does not exist'.casefold())
    attached = [d if d.source is not None else replace(d, source=text) for d in mistakes]
    in_order = sorted(attached, key=lambda d: d.span.start if d.span and d.source == text else len(text))
    warnings = (*warnings_of_script(statements, text), *(replace(warning, source=text) for warning in partial))
    return CheckedScript(statements, tuple(in_order), warnings)


@on_deep_stack
def script_warnings(text: str) -> tuple[Diagnostic, ...]:
    """Warnings about parts of a script that are valid but probably mistakes. Statements that do not parse are left
    out.
    """
    return warnings_of_script(parse_script_recovering(text)[0], text)


@on_deep_stack
def warnings_of_script(statements: Iterable[nodes.Statement], text: str) -> tuple[Diagnostic, ...]:
    """Like ``script_warnings``, for statements that are parsed already; ``text`` is their script."""
    return tuple(replace(warning, source=text) for statement in statements for warning in warnings_of(statement))


# --- scripts of Flink -----------------------------------------------------------------------------------------


DIFFERENT = "SS379"

_ZONED = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATETIME)


@on_deep_stack
def changes_from_flink(text: str) -> tuple[Diagnostic, ...]:
    """A warning for each part of a script that works differently from Flink, in the order of the text."""
    statements, _ = parse_script_recovering(text)
    changes = (change for statement in statements for change in _changes(statement))
    return tuple(replace(change, source=text) for change in changes)


def _changes(statement: nodes.Statement) -> Iterator[Diagnostic]:
    match statement:
        case nodes.Set(key=str() as key) if (why := without_effect(key)) is not None:
            yield _change(f'setting "{key}" changes nothing here', statement.span, why)
        case nodes.CreateTable():
            yield from _of_table(statement)
            if statement.query is not None:
                yield from _of_query(statement.query, statement.span)
        case nodes.Query() | nodes.Insert() | nodes.CreateView():
            yield from _of_query(statement.query, statement.span)
        case nodes.StatementSet():
            for insert in statement.inserts:
                yield from _of_query(insert.query, insert.span)
        case nodes.Explain() if "ESTIMATED_COST" in (statement.stage, *statement.more):
            yield _change("costs are not estimated", statement.span)


def _of_table(create: nodes.CreateTable) -> Iterator[Diagnostic]:
    times = [c for c in create.columns if isinstance(c, nodes.PhysicalColumn) and c.type.this in _ZONED]
    if times:
        names = ", ".join(f'"{column.name}"' for column in times)
        detail = "In Flink it has no time zone. Declare TIMESTAMP_NTZ for that, or set table.local-time-zone."
        message = f"a TIMESTAMP is an instant, read and shown in the zone of the session: {names}"
        yield _change(message, times[0].span, detail)
    written = WRITTEN_METADATA.get(next((o.value for o in create.options if o.key == "connector"), ""), frozenset())
    for column in create.columns:
        if (
            isinstance(column, nodes.MetadataColumn)
            and not column.virtual
            and (column.key or column.name) not in written
        ):
            detail = "INSERT INTO has no value for it, as if it were VIRTUAL."
            yield _change(f'METADATA column "{column.name}" is read and never written', column.span, detail)
        if isinstance(column, nodes.ComputedColumn) and _is_processing_time(column.expression):
            detail = "In Flink they are lost. SET 'execution.end-of-input' = 'pause' keeps them for the next run."
            yield _change("windows on processing time that are open when bounded input ends fire", column.span, detail)


def _is_processing_time(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Anonymous) and expression.name.upper() == "PROCTIME"


def _of_query(query: exp.Expr, span: Span) -> Iterator[Diagnostic]:
    for name in hints_without_effect(query):
        yield _change(f"the hint {name} changes nothing on a stream", span, "Over finished data it goes to Spark.")
    for cast in query.find_all(exp.Cast):
        if cast.to.this in _ZONED and not isinstance(cast.this, exp.Literal):
            detail = "In Flink it has no time zone; CAST(… AS TIMESTAMP_NTZ) has none here."
            yield _change("a TIMESTAMP is an instant", span_of(cast), detail)


def _change(message: str, span: Span | None, detail: str | None = None) -> Diagnostic:
    return Diagnostic(DIFFERENT, message, span, detail, warning=True)
