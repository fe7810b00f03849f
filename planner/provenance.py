"""Column provenance: what the fields of plan nodes are computed from, as expressions over columns of tables.

Fingerprints of checkpoints compare it, so that a renamed field changes nothing there; lineage shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from sqlglot import exp

from sqlstream.planner.fields import Schema
from sqlstream.planner.rewriting import sql

Provenance = Mapping[str, str]
"""By the name of a field, the SQL text of what it is computed from."""

_NEEDS_NO_PARENTHESES = re.compile(r"[\w.]+(\([^()]*\))?")
_with_tables: ContextVar[bool] = ContextVar("with_tables", default=False)


def traced(expression: exp.Expr, provenance: Provenance) -> str:
    """The text of an expression in which each field is replaced by its provenance."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in provenance:
            return node
        text = provenance[node.name]
        return exp.Var(this=text if _NEEDS_NO_PARENTHESES.fullmatch(text) else f"({text})")

    return sql(expression.copy().transform(replaced))


@contextmanager
def qualified_by_tables() -> Iterator[None]:
    """Within the block, provenance qualifies columns by their tables. Fingerprints of checkpoints do not."""
    token = _with_tables.set(True)
    try:
        yield
    finally:
        _with_tables.reset(token)


def is_qualified_by_tables() -> bool:
    """Whether provenance currently qualifies columns by their tables."""
    return _with_tables.get()


# --- facts of checkpoints -------------------------------------------------------------------------------------


def keys_fact(rows: Schema, keys: tuple[str, ...], provenance: Provenance) -> str:
    """The provenance and types of the ``keys`` of rows, as a fact that state depends on."""
    types = {f.name: f.type for f in rows}
    return ", ".join(f"{provenance[k]} {types[k]}" for k in keys) or "none"


def fields_fact(fields: Schema, provenance: Provenance) -> str:
    """The provenance and types of the columns of stored rows, by position."""
    return ", ".join(f"{provenance[f.name]} {f.type}" for f in fields)
