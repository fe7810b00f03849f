"""What the fields of plan nodes mean: expressions over columns of tables, whatever they are called on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.nodes import Correlate, Node, Project, Scan, Union

Names = Mapping[str, str]
"""The meaning of each field by its name."""

_PLAIN = re.compile(r"[\w.]+(\([^()]*\))?")


def meaning(expression: exp.Expr, names: Names) -> str:
    """The text of an expression over fields with these meanings."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in names:
            return node
        text = names[node.name]
        return exp.Var(this=text if _PLAIN.fullmatch(text) else f"({text})")

    expanded = expression.copy().transform(replaced)
    return sql(expanded)


_with_tables: ContextVar[bool] = ContextVar("with_tables", default=False)


@contextmanager
def tables_named() -> Iterator[None]:
    """Meanings name the tables of columns in the block. Fingerprints of checkpoints go without."""
    token = _with_tables.set(True)
    try:
        yield
    finally:
        _with_tables.reset(token)


def names_tables() -> bool:
    """Whether meanings name the tables of columns right now."""
    return _with_tables.get()


def _in_order(node: Node) -> list[str]:
    names = node.column_provenance
    return [names[f.name] for f in node.schema]
