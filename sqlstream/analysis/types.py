"""Types of expressions of a query that has been parsed and not bound."""

from __future__ import annotations

from contextlib import suppress

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.planner.binder import bind_query
from sqlstream.planner.catalog import Catalog
from sqlstream.types import UNKNOWN, DataType

_RELATIONS = ("with_", "from_", "joins", "laterals")


def type_of(expression: exp.Expr, catalog: Catalog) -> DataType:
    """The type of an expression in the SELECT around it, which is bound with nothing else to compute. UNKNOWN where
    that cannot be."""
    around = expression.find_ancestor(exp.Select)
    probe = exp.Select(expressions=[exp.Alias(this=expression.copy(), alias=exp.to_identifier("probed"))])
    if around is not None:
        for key in _RELATIONS:
            value = around.args.get(key)
            probe.set(key, [one.copy() for one in value] if isinstance(value, list) else value and value.copy())
        outer = around.root().args.get("with_")
        if probe.args.get("with_") is None and outer is not None:
            probe.set("with_", outer.copy())
    with suppress(SqlStreamError):
        return bind_query(probe, catalog).schema[0].type
    return UNKNOWN
