"""Queries rewritten as tools need them: filtered, limited, cut to a range of times, as a subquery."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from sqlglot import exp

from sqlstream.analysis.answers import Pushed
from sqlstream.arguments import literal
from sqlstream.errors import Span, UnsupportedError
from sqlstream.grammar import nodes, parse_query, parse_script
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.formatting import pretty
from sqlstream.grammar.quoting import quote_name
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import as_expression, conjuncts, sql
from sqlstream.planner.nodes import Filter, Output, Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.plans import plan_of
from sqlstream.workspace import Workspace

NOT_REWRITTEN = "SS382"

Moment = datetime | date | str
"""A time, or a text that SQL reads as one."""

_ALIAS = "q"


def query_of(text: str) -> nodes.Query:
    """The one query of a text. SS382 where it is anything else."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], nodes.Query):
        span = statements[0].span if statements else Span(0, len(text))
        raise UnsupportedError(
            NOT_REWRITTEN, "only one query can be rewritten", span, hint="Give a text that is one SELECT."
        ).with_source(text)
    return statements[0]


@with_room
def as_subquery(text: str, alias: str = _ALIAS) -> str:
    """``SELECT * FROM (text) AS alias``."""
    return _text(_around(query_of(text).query, alias))


@with_room
def filtered(text: str, conditions: Sequence[str], workspace: Workspace) -> str:
    """The rows of the query that meet all conditions over its columns."""
    query = query_of(text).query
    parsed = [_condition(condition) for condition in conditions]
    outer = query.copy() if _is_plain_shell(query) else _around(query, _ALIAS)
    assert isinstance(outer, exp.Select)
    if parsed:
        outer = outer.where(*[exp.Paren(this=c) if isinstance(c, exp.Or) else c for c in parsed], copy=False)
    plan_of(nodes.Query(outer), workspace)  # what is wrong with the conditions shows here
    return _text(outer)


@with_room
def limited(text: str, rows: int) -> str:
    """The query with at most so many rows; a smaller LIMIT of its own stays."""
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


@with_room
def in_range(text: str, workspace: Workspace, *, start: Moment | None, end: Moment | None, column: str | None) -> str:
    """The rows of the query whose time is from ``start`` on and before ``end``."""
    name = quote_name(column if column is not None else _time_column(text, workspace))
    bounds = [f"{name} {operator} {_moment(at)}" for operator, at in ((">=", start), ("<", end)) if at is not None]
    return filtered(text, bounds, workspace)


@with_room
def pushed(text: str, conditions: Sequence[str], workspace: Workspace) -> Pushed:
    """The filtered query, and where its conditions are checked."""
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
