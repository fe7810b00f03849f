"""Texts made of a query: filtered, limited, cut to a range of times, as a subquery; and with parameters filled in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlglot import exp

from sqlstream.analysis.answers import Parameter, Pushed
from sqlstream.analysis.tables import type_of
from sqlstream.arguments import literal, parameters_of
from sqlstream.errors import Span, UnsupportedError
from sqlstream.grammar import nodes, parse_each, parse_query, parse_script
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.formatting import pretty
from sqlstream.grammar.quoting import quote_name
from sqlstream.grammar.trees import walk
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.expressions import as_expression, conjuncts, sql
from sqlstream.planner.nodes import Filter, Output, Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.plans import plan_of
from sqlstream.types import BIGINT, BOOLEAN, STRING, DataType, from_sqlglot
from sqlstream.workspace import Workspace

NOT_REWRITTEN = "SS382"

Moment = datetime | date | str
"""A time, or a text that SQL reads as one."""

_ALIAS = "q"


def query_of(text: str) -> nodes.Query:
    """Parses a text that must be a single query. Raises UnsupportedError SS382 otherwise."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], nodes.Query):
        span = statements[0].span if statements else Span(0, len(text))
        raise UnsupportedError(
            NOT_REWRITTEN, "only one query can be rewritten", span, hint="Give a text that is one SELECT."
        ).with_source(text)
    return statements[0]


@on_deep_stack
def as_subquery(text: str, alias: str = _ALIAS) -> str:
    """Returns the query ``SELECT * FROM (text) AS alias``."""
    return _text(_around(query_of(text).query, alias))


@on_deep_stack
def filtered(text: str, conditions: Sequence[str], workspace: Workspace) -> str:
    """Returns a query for those rows that satisfy all conditions, which refer to the result columns of the given
    query.
    """
    query = query_of(text).query
    parsed = [_condition(condition) for condition in conditions]
    outer = query.copy() if _is_plain_shell(query) else _around(query, _ALIAS)
    assert isinstance(outer, exp.Select)
    if parsed:
        outer = outer.where(*[exp.Paren(this=c) if isinstance(c, exp.Or) else c for c in parsed], copy=False)
    plan_of(nodes.Query(outer), workspace)  # what is wrong with the conditions shows here
    return _text(outer)


@on_deep_stack
def limited(text: str, rows: int) -> str:
    """Returns a query for at most ``rows`` rows of the given query. A smaller LIMIT in it is not changed."""
    query = query_of(text).query.copy()
    assert isinstance(query, exp.Query)
    if rows < 0:
        message = f"{rows} is no number of rows"
        raise UnsupportedError(NOT_REWRITTEN, message, hint="Give 0 or more.")
    present = query.args.get("limit")
    if present is None:
        return _text(query.limit(rows, copy=False))
    own = present.expression if isinstance(present, exp.Limit) else None
    if not isinstance(own, exp.Literal) or own.is_string:
        return _text(_around(query, _ALIAS).limit(rows, copy=False))
    return _text(query.limit(min(rows, int(own.name)), copy=False))


@on_deep_stack
def in_range(text: str, workspace: Workspace, *, start: Moment | None, end: Moment | None, column: str | None) -> str:
    """Returns a query for those rows whose time column is ``start`` or later and before ``end``. ``column``: None for
    the first time column of the result.
    """
    name = quote_name(column if column is not None else _time_column(text, workspace))
    bounds = [f"{name} {operator} {_moment(at)}" for operator, at in ((">=", start), ("<", end)) if at is not None]
    return filtered(text, bounds, workspace)


@on_deep_stack
def pushed(text: str, conditions: Sequence[str], workspace: Workspace) -> Pushed:
    """Adds conditions to a query. Returns the new query, with the information which conditions sources evaluate and
    which operators do.
    """
    whole = filtered(text, conditions, workspace)
    plan = plan_of(query_of(whole), workspace)
    sources: list[tuple[str, str]] = []
    above: list[str] = []
    for node in plan.walk():
        match node:
            case Scan():
                sources += [(node.table.name, sql(predicate)) for predicate in node.predicates]
            case Lookup():
                shown = (f"{f.column} {f.operator} {literal(f.value)}" for f in node.filters)
                sources += [(node.source.name, one) for one in shown]
            case Filter():
                above += [sql(condition) for condition in conjuncts(node.condition)]
    return Pushed(whole, tuple(dict.fromkeys(sources)), tuple(above))


def _time_column(text: str, workspace: Workspace) -> str:
    """The first time attribute of the result, or else its first TIMESTAMP."""
    plan = plan_of(query_of(text), workspace)
    assert isinstance(plan, Output)
    named = [*zip(plan.names, plan.schema, strict=True)]
    timed = [name for name, field in named if field.time is TimeDomain.EVENT]
    timed += [name for name, field in named if field.type.name == "TIMESTAMP"]
    if not timed:
        message = "no column of the query is a time"
        raise UnsupportedError(NOT_REWRITTEN, message, hint="Name the column whose range is meant, or select one.")
    return timed[0]


def _moment(at: Moment) -> str:
    return f"TIMESTAMP {literal(at)}" if isinstance(at, str) else literal(at)


def _condition(text: str) -> exp.Expression:
    """SS382 where the text is anything else than one condition."""
    query = parse_query(f"SELECT 1 WHERE {text}\n")
    where = query.args.get("where")
    others = [key for key, value in query.args.items() if value and key not in ("where", "expressions", "kind")]
    if not isinstance(query, exp.Select) or where is None or others:
        raise UnsupportedError(NOT_REWRITTEN, f'"{text}" is not one condition', hint="Write what stands behind WHERE.")
    return as_expression(where.this)


def _around(query: exp.Expression, alias: str) -> exp.Select:
    inner = query.copy()
    inner = inner.this if isinstance(inner, exp.Subquery) and not inner.alias else inner
    subquery = exp.Subquery(this=inner, alias=exp.TableAlias(this=_alias(alias)))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=subquery))


def _alias(name: str) -> exp.Identifier:
    """In backquotes where it is a word of the language."""
    quoted = quote_name(name) != name
    return exp.to_identifier(name, quoted=quoted)


def _is_plain_shell(query: exp.Expression) -> bool:
    """``SELECT * FROM (…) AS q [WHERE …]``, which takes more conditions itself."""
    said = {key for key, value in query.args.items() if value}
    plain = isinstance(query, exp.Select) and said <= {"expressions", "from_", "where"}
    if not plain or [type(e) for e in query.expressions] != [exp.Star]:
        return False
    return isinstance(query.args["from_"].this, exp.Subquery) and query.args["from_"].this.alias == _ALIAS


def _text(query: exp.Expression) -> str:
    return pretty(nodes.Query(query))


# --- parameters -----------------------------------------------------------------------------------------------


_MARK = re.compile("\ue000(\\d+)\ue001")
_COUNTED = frozenset({"LIMIT", "OFFSET", "FIRST", "NEXT"})
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce)
_SAMPLES = {
    "STRING": "''", "BOOLEAN": "TRUE", "DATE": "DATE '2000-01-01'",
    "TIMESTAMP": "TIMESTAMP '2000-01-01 00:00:00'", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2000-01-01 00:00:00'",
}  # fmt: skip


@dataclass(frozen=True)
class FilledText:
    """A text in which parameters were replaced by sample values, with the mapping of its positions back to the
    original text.
    """

    text: str
    parameters: tuple[Parameter, ...] = ()
    _ends: tuple[int, ...] = ()
    _shifts: tuple[int, ...] = ()

    def back(self, span: Span) -> Span:
        return Span(self._back(span.start), self._back(span.end))

    def _back(self, position: int) -> int:
        """Places inside of a value are the end of its parameter."""
        index = bisect_right(self._ends, position)
        before = position - self._shifts[index - 1] if index else position
        following = [end - shift for end, shift in zip(self._ends[index:], self._shifts[index:], strict=True)]
        return min([before, *following[:1]])


def filled(text: str, workspace: Workspace) -> FilledText:
    """Returns the text with each parameter (``?``, ``:name``) replaced by a sample value of the type that its context
    requires. So a text with parameters can be bound and analyzed without their values.
    """
    marks = parameters_of(text) if "?" in text or ":" in text else []
    if not marks:
        return FilledText(text)
    types = _types(text, marks, workspace)
    by_name = {name: next((types[i] for i in same if i in types), None) for name, same in _same_names(marks)}
    parameters = tuple(
        Parameter(name, _type_text(by_name[name]), tuple(marks[i][1] for i in same))
        for name, same in _same_names(marks)
    )
    values = [_sample(by_name[name], before) for name, _, before in marks]
    whole, ends, shifts = _replaced(text, marks, values)
    return FilledText(whole, parameters, ends, shifts)


Mark = tuple[str, Span, str]
"""The name of a parameter, its place, and the word before it."""


def _same_names(marks: Sequence[Mark]) -> Iterator[tuple[str, list[int]]]:
    names = dict.fromkeys(name for name, _, _ in marks)
    return ((name, [i for i, mark in enumerate(marks) if mark[0] == name]) for name in names)


def _replaced(text: str, marks: Sequence[Mark], values: Sequence[str]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    pieces, ends, shifts = list[str](), list[int](), list[int]()
    position = length = 0
    for (_, span, _), value in zip(marks, values, strict=True):
        pieces += (text[position : span.start], value)
        length += span.start - position + len(value)
        position = span.end
        ends.append(length)
        shifts.append(length - position)
    return "".join([*pieces, text[position:]]), tuple(ends), tuple(shifts)


def _type_text(kind: DataType | None) -> str | None:
    return None if kind is None else str(kind)


def _sample(kind: DataType | None, before: str) -> str:
    if before in _COUNTED:
        return "1"
    if before == "INTERVAL":
        return "'1'"
    if kind is None:
        return "NULL"
    return _SAMPLES.get(kind.name) or f"CAST({'1' if kind.is_numeric else 'NULL'} AS {kind.ddl()})"


# --- types ----------------------------------------------------------------------------------------------------


def _types(text: str, marks: Sequence[Mark], workspace: Workspace) -> dict[int, DataType]:
    """By the number of a mark; none of those that nothing tells."""
    values = [
        _sample(None, before) if before in _COUNTED | {"INTERVAL"} else f"'\ue000{i}\ue001'"
        for i, (_, _, before) in enumerate(marks)
    ]
    types = {i: BIGINT for i, (_, _, before) in enumerate(marks) if before in _COUNTED}
    types |= {i: STRING for i, (_, _, before) in enumerate(marks) if before == "INTERVAL"}
    for written in parse_each(_replaced(text, marks, values)[0]):
        if written.statement is None:
            continue
        for expression in walk(written.statement):
            number = _number(expression)
            kind = _told(expression, written.statement, workspace) if number is not None else None
            if number is not None and kind is not None and not kind.is_unknown:
                types[number] = kind
    return types


def _number(expression: exp.Expr) -> int | None:
    if not isinstance(expression, exp.Literal) or not expression.is_string:
        return None
    match = _MARK.fullmatch(expression.name)
    return int(match[1]) if match is not None else None


def _told(mark: exp.Expr, statement: nodes.Statement, workspace: Workspace) -> DataType | None:
    """The type that what stands around a parameter asks for."""
    parent = mark.parent
    while isinstance(parent, exp.Paren):
        mark, parent = parent, parent.parent
    match parent:
        case exp.Cast():
            return from_sqlglot(parent.to)
        case exp.And() | exp.Or() | exp.Not() | exp.Where() | exp.Having():
            return BOOLEAN
        case exp.Like() | exp.ILike() | exp.RegexpLike() | exp.DPipe():
            return STRING
        case exp.Tuple() if isinstance(statement, nodes.Insert):
            return _of_target(mark, parent, statement, workspace)
        case exp.Between() | exp.In() | exp.Binary() | exp.Coalesce():
            beside = [child for child in parent.iter_expressions() if child is not mark and _number(child) is None]
            is_typed = isinstance(parent, (exp.Between, exp.In, *_COMPARED, *_COMPUTED))
            kinds = (type_of(child, workspace.catalog) for child in beside) if is_typed else ()
            return next((kind for kind in kinds if not kind.is_unknown and kind.name != "VOID"), None)
    return None


def _of_target(mark: exp.Expr, row: exp.Tuple, insert: nodes.Insert, workspace: Workspace) -> DataType | None:
    """The type of the column that a value of VALUES goes to."""
    table = workspace.catalog.relation(str(insert.target))
    if not isinstance(table, Table):
        return None
    table = table.target
    names = insert.columns or tuple(column.name for column in table.physical_columns)
    place = next((i for i, value in enumerate(row.expressions) if value is mark), len(names))
    kinds = {column.name.casefold(): column.type for column in table.physical_columns}
    return kinds.get(names[place].casefold()) if place < len(names) else None
