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


def keys_fact(rows: Node, keys: tuple[str, ...], names: Names) -> str:
    """Keys among the fields of ``rows``, which have these meanings, with their types."""
    types = {f.name: f.type for f in rows.schema}
    return ", ".join(f"{names[k]} {types[k]}" for k in keys) or "none"


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
