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


@singledispatch
def names_of(node: Node) -> Names:
    """The meaning of each field of a node's schema."""
    return {f.name: f.name for f in node.schema} | {n: t for child in node.inputs for n, t in names_of(child).items()}


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


@names_of.register
def _(node: Scan) -> Names:
    table = f"{node.table.name}." if names_tables() else ""
    return {f.name: f"{table}{f.name}" for f in node.schema}


@names_of.register
def _(node: Project) -> Names:
    below = names_of(node.input)
    return {item.name: meaning(item.expression, below) for item in node.items}


@names_of.register
def _(node: Union) -> Names:
    branches = [tuple(_in_order(branch)) for branch in node.branches]
    together = (" or ".join(dict.fromkeys(texts)) for texts in zip(*branches, strict=True))
    return dict(zip((f.name for f in node.schema), together, strict=True))


def _in_order(node: Node) -> list[str]:
    names = names_of(node)
    return [names[f.name] for f in node.schema]


@names_of.register
def _(node: Correlate) -> Names:
    below = names_of(node.input)
    call = meaning(node.function, below)
    return {**below, **{f.name: f"{call}.{i}" for i, f in enumerate(node.outputs)}}
