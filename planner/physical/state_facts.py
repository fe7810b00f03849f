"""The facts on which the state of operators depends. A checkpoint stores them, to be compared with those of a
changed query.

Expressions are traced down to the columns of tables (``meanings``), so that a renamed field, one more column or a
filter change nothing here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.meanings import Names, names_of
from sqlstream.planner.nodes import Node, Schema


@singledispatch
def title_of(node: Node) -> tuple[str, str]:
    """The kind of an operator, and what messages call it."""
    return type(node).__name__, type(node).__name__


@singledispatch
def function_with_state(node: Node) -> str | None:
    """The function of the user that declares what the operator keeps; None where it is none of a user."""
    return None


@singledispatch
def shapes_state(node: Node) -> bool:
    """True for nodes without state whose facts that of operators above depends on, which read their windows."""
    return False


@singledispatch
def reads_windows(node: Node, above: bool) -> bool:
    """True where the node, or one ``above`` that the node leaves this to, reads the windows of its input."""
    return above


@singledispatch
def state_facts(node: Node) -> Iterator[tuple[str, str]]:
    """The facts on which the state of an operator depends, as names with texts; by default all that describes the
    operator."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if not isinstance(value, Node) and not (isinstance(value, tuple) and value and isinstance(value[0], Node)):
            yield field.name.replace("_", " "), _text(value)


def keys_fact(rows: Node, keys: tuple[str, ...], names: Names) -> str:
    """Keys among the fields of ``rows``, which have these meanings, with their types."""
    types = {f.name: f.type for f in rows.schema}
    return ", ".join(f"{names[k]} {types[k]}" for k in keys) or "none"


def rows_fact(node: Node) -> str:
    """The rows that state holds whole, by position."""
    return fields_fact(node.schema, names_of(node))


def fields_fact(fields: Schema, names: Names) -> str:
    """The columns of rows that state holds, by position."""
    return ", ".join(f"{names[f.name]} {f.type}" for f in fields)


def _text(value: object) -> str:
    if isinstance(value, exp.Expression):
        return value.sql(dialect="spark")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if dataclasses.is_dataclass(value):
        return f"({', '.join(_text(getattr(value, f.name)) for f in dataclasses.fields(value))})"
    return str(value)
