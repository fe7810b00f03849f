"""Printing entry points."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.grammar import print_match, print_statements, print_tables  # noqa: F401  (they register their nodes)
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.nodes import Node
from sqlstream.grammar.printer import print_node


@with_room
def to_sql(node: Node | exp.Expression) -> str:
    """A statement, clause, query or expression in canonical form on one line; parsing it gives an equal tree."""
    return print_node(node, expression_sql) if isinstance(node, Node) else expression_sql(node)


def expression_sql(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, comments=False, normalize_functions=False)
