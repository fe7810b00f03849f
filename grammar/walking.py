"""All SQL expressions of a statement, those inside streaming clauses too, which sqlglot's own walks do not reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from sqlglot import exp

from sqlstream.grammar.carrier import Carrier
from sqlstream.grammar.nodes import Node


def walk(node: Node) -> Iterator[exp.Expr]:
    """Each expression of the node and of the nodes in it, parents first."""
    for field in fields(node):
        yield from _walk(getattr(node, field.name))


def _walk(value: object) -> Iterator[exp.Expr]:
    match value:
        case Node():
            yield from walk(value)
        case tuple():
            for member in value:
                yield from _walk(member)
        case exp.Expr():
            for expression in value.walk():
                yield expression
                if isinstance(expression, Carrier):
                    yield from _walk(expression.this)
