"""What is in a query, to be counted."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.grammar.nodes import TableFunction
from sqlstream.grammar.trees import Carrier

_NAMES: dict[type[exp.Expr], str] = {
    exp.Any: "ANY subquery", exp.All: "ALL subquery", exp.Exists: "EXISTS", exp.Filter: "FILTER",
    exp.Distinct: "DISTINCT", exp.Case: "CASE", exp.Limit: "LIMIT", exp.Qualify: "QUALIFY", exp.With: "WITH",
    exp.Values: "VALUES", exp.Cube: "CUBE", exp.Rollup: "ROLLUP", exp.GroupingSets: "GROUPING SETS",
}  # fmt: skip


def kinds_of(text: str) -> Iterator[str]:
    """Each once."""
    yield from dict.fromkeys(kind for node in parse_query(text).walk() if (kind := _kind(node)) is not None)


def _kind(node: exp.Expr) -> str | None:
    match node:
        case exp.Join():
            return " ".join(word for word in (node.method, node.side, node.kind, "JOIN") if word)
        case exp.SetOperation():
            return f"{node.key.upper()}{'' if node.args.get('distinct') else ' ALL'}"
        case exp.In() if node.args.get("query") is not None:
            return "IN subquery"
        case exp.Subquery() if not isinstance(node.parent, exp.From | exp.Join | exp.In):
            return "scalar subquery"
        case exp.Group():
            return None if node.find(exp.Cube, exp.Rollup, exp.GroupingSets) else "GROUP BY"
        case exp.Window():
            call = node.this
            return f"{call.name.upper() if isinstance(call, exp.Anonymous) else call.sql_name()} OVER"
        case Carrier() if isinstance(node.this, TableFunction):
            return node.this.name.upper()
    return _NAMES.get(type(node))
