"""A parsed statement as text, for ``parse`` blocks: its SQL on one line, then its streaming clauses as nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum

from sqlglot import exp

from sqlstream.grammar import clauses_of, parse_script, table_clauses_of, table_function_of, to_sql
from sqlstream.grammar.nodes import Node


def syntax_lines(sql: str) -> tuple[str, ...]:
    """For each statement of a script its SQL and, in the order of the text, its nodes without what is left out."""
    return tuple(line for statement in parse_script(sql) for line in (to_sql(statement), *_nodes(statement)))


def _nodes(statement: Node) -> Iterator[str]:
    queries = list(_queries(statement))
    if not queries:
        yield describe(statement)
    for query in queries:
        for select in query.find_all(exp.Select, bfs=False):
            yield from _described(clauses_of(select))
        for table in query.find_all(exp.Table, bfs=False):
            yield from _described(table_function_of(table))
            yield from _described(table_clauses_of(table))


def _queries(node: object) -> Iterator[exp.Expression]:
    """The queries of a statement, those of the statements within it too."""
    if isinstance(node, exp.Expression) and isinstance(node, exp.Query):
        yield node
    elif isinstance(node, tuple):
        for member in node:
            yield from _queries(member)
    elif isinstance(node, Node):
        for field in dataclasses.fields(node):
            yield from _queries(getattr(node, field.name))


def _described(node: Node | None) -> Iterator[str]:
    text = "" if node is None else describe(node)
    if not text.endswith("()") and text:
        yield text


def describe(value: object) -> str:
    """A node as a call of its class with the fields that differ from their defaults; expressions as SQL."""
    match value:
        case exp.Expression():
            return f"`{to_sql(value)}`"
        case Enum():
            return value.name
        case tuple():
            return f"[{', '.join(describe(v) for v in value)}]"
        case Node():
            return f"{type(value).__name__}({', '.join(_fields(value))})"
        case _:
            return repr(value)


def _fields(node: Node) -> Iterator[str]:
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.name != "span" and value is not None and value != field.default:
            yield f"{field.name}={describe(value)}"
