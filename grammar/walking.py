"""All SQL expressions of a statement, those inside streaming clauses too, which sqlglot's own walks do not reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from sqlglot import exp

from sqlstream.grammar.carrier import Carrier
from sqlstream.grammar.nodes import Node


def walk(node: Node) -> Iterator[exp.Expr]:
    """Each expression of the node and of the nodes in it, parents first."""
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
