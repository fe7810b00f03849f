"""What the language adds to sqlglot's trees: carriers of streaming clauses, rounded times, balanced AND and OR.

A ``Carrier`` is an sqlglot expression whose ``this`` is a frozen syntax node. sqlglot copies, compares, walks and
transforms a carrier like any expression; the node inside is shared, because it is immutable. sqlglot's own walks do not
reach the expressions inside the node: ``walk`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

from sqlglot import exp

from sqlstream.grammar.nodes import MatchRecognize, Node, StreamClauses, TableClauses, TableFunction

ARG = "stream"


class Carrier(exp.Expression):
    """An expression of sqlglot that wraps a syntax node of this dialect (``this``), so that the node can be part of
    sqlglot's trees. ``alias`` is the alias of a MATCH_RECOGNIZE, None for other nodes.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False}


def clauses_of(query: exp.Expr) -> StreamClauses:
    """The streaming clauses of a query: of a SELECT all of them, of a set operation or subquery only EMIT. A
    ``StreamClauses`` without values if there are none.
    """
    clauses = _carried(query.args.get(ARG))
    return clauses if isinstance(clauses, StreamClauses) else StreamClauses()


def table_clauses_of(table: exp.Expr) -> TableClauses:
    """The clauses after a table, subquery, table function or LATERAL. A ``TableClauses`` without values if there are
    none.
    """
    clauses = _carried(table.args.get(ARG))
    return clauses if isinstance(clauses, TableClauses) else TableClauses()


def table_function_of(table: exp.Expr) -> TableFunction | None:
    """The table function that an ``exp.Table`` stands for; None for a plain table."""
    function = _carried(table.args.get("this"))
    return function if isinstance(function, TableFunction) else None


def match_recognize_of(select: exp.Expr) -> MatchRecognize | None:
    """The MATCH_RECOGNIZE clause of a SELECT; None without one."""
    clause = _carried(select.args.get("match"))
    return clause if isinstance(clause, MatchRecognize) else None


def add_clause(owner: exp.Expr, kind: type[StreamClauses] | type[TableClauses], field: str, node: Node) -> None:
    """Adds a parsed clause to the query or table ``owner``: sets the ``field`` of its StreamClauses or TableClauses
    (``kind``) to ``node``.
    """
    present = _carried(owner.args.get(ARG))
    clauses = present if isinstance(present, kind) else kind(span=node.span)
    changes: dict[str, Any] = {field: node, "span": clauses.span.to(node.span)}
    owner.set(ARG, Carrier(this=replace(clauses, **changes)))


def _carried(value: object) -> object:
    return value.this if isinstance(value, Carrier) else None


# --- all SQL expressions of a statement, those inside streaming clauses too, which sqlglot's own walks do not reach


def walk(node: Node) -> Iterator[exp.Expr]:
    """Yields each expression of the node and of the nodes in it, parents first."""
    waiting: list[object] = [node]
    while waiting:
        match waiting.pop():
            case Node() as found:
                waiting += (getattr(found, field.name) for field in reversed(fields(found)))
            case tuple() as members:
                waiting += reversed(members)
            case exp.Expr() as expression:
                yield expression
                waiting += expression.iter_expressions(reverse=True)
                if isinstance(expression, Carrier):
                    waiting.append(expression.this)


# --- FLOOR and CEIL of a time to a unit: ``FLOOR(ts TO HOUR)`` ---------------------------------------------------


ROUNDED_TO = (
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE",
    "CENTURY", "MILLENNIUM",
)  # fmt: skip


class RoundedTime(exp.Expression, exp.Condition):
    """``FLOOR(time TO unit)`` or ``CEIL(time TO unit)``. ``name`` is FLOOR or CEIL, ``this`` the time, ``unit`` one of
    ``ROUNDED_TO``.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "name": True, "unit": True}


# --- long chains of AND and OR as balanced trees: a hundred thousand operands are then seventeen levels ----------


def balanced(kind: type[exp.Connector], operands: Sequence[exp.Expr]) -> exp.Expr:
    """Connects one or more operands by ``kind`` (AND or OR) to a tree that is as flat as possible, with the longer half
    on the left.

    AND and OR are associative for NULL as well, and the tree prints as the chain ``a AND b AND c``.
    """
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return kind(this=balanced(kind, operands[:middle]), expression=balanced(kind, operands[middle:]))


def rebalanced(chain: exp.Expr | None) -> exp.Expr | None:
    """Turns a chain of AND or OR, which the parser nests to the left, into a balanced tree. Other expressions are
    unchanged.
    """
    if not isinstance(chain, exp.And | exp.Or):
        return chain
    kind, operands = type(chain), list[exp.Expr]()
    left: exp.Expr = chain
    while type(left) is kind:
        operands.append(left.right)
        left = left.left
    operands.append(left)
    return balanced(kind, operands[::-1]) if len(operands) > 3 else chain
