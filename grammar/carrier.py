"""How streaming syntax hangs on sqlglot's trees: a ``Carrier`` expression whose ``this`` is a frozen node.

sqlglot copies, compares, walks and transforms a carrier like any expression; the node inside is shared, because it
is immutable. Expressions inside the node are out of reach of sqlglot's walks: the binder visits them itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from sqlglot import exp

from sqlstream.grammar.nodes import MatchRecognize, Node, StreamClauses, TableClauses, TableFunction

ARG = "stream"


class Carrier(exp.Expression):
    """``this`` is a node; ``alias`` that of MATCH_RECOGNIZE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False}


def clauses_of(query: exp.Expr) -> StreamClauses:
    """The streaming clauses of a SELECT; of a set operation or subquery its EMIT. Empty where there are none."""
    clauses = _carried(query.args.get(ARG))
    return clauses if isinstance(clauses, StreamClauses) else StreamClauses()


def table_clauses_of(table: exp.Expr) -> TableClauses:
    """What stands behind a table, subquery, table function or LATERAL. Empty where nothing does."""
    clauses = _carried(table.args.get(ARG))
    return clauses if isinstance(clauses, TableClauses) else TableClauses()


def table_function_of(table: exp.Expr) -> TableFunction | None:
    """The table function that an ``exp.Table`` stands for; None for a plain table."""
    function = _carried(table.args.get("this"))
    return function if isinstance(function, TableFunction) else None


def match_recognize_of(select: exp.Expr) -> MatchRecognize | None:
    """MATCH_RECOGNIZE of a SELECT."""
    clause = _carried(select.args.get("match"))
    return clause if isinstance(clause, MatchRecognize) else None


def add_clause(owner: exp.Expr, kind: type[StreamClauses] | type[TableClauses], field: str, node: Node) -> None:
    """Put one more clause on a tree under construction."""
    present = _carried(owner.args.get(ARG))
    clauses = present if isinstance(present, kind) else kind(span=node.span)
    changes: dict[str, Any] = {field: node, "span": clauses.span.to(node.span)}
    owner.set(ARG, Carrier(this=replace(clauses, **changes)))


def _carried(value: object) -> object:
    return value.this if isinstance(value, Carrier) else None
