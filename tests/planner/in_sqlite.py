"""Plans of stateless nodes, joins and groups as queries of SQLite, which says what rows they stand for in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Correlate, Filter, Output, Project, Scan, Union
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.join import RegularJoin
from sqlstream.udfs.joins import JoinKind


def query(node: Node) -> str:
    """The query of a plan. TypeError for nodes that SQLite does not run."""
    made = _QUERIES.get(type(node))
    if made is None:
        raise TypeError(f"{type(node).__name__} has no query")
    return made(node)


def _query_of_output(node: Output) -> str:
    return query(node.input)


def _query_of_scan(node: Scan) -> str:
    where = " AND ".join(f"({_text(p)})" for p in node.predicates) or "TRUE"
    return f"SELECT {_names(node)} FROM {node.table.name} WHERE {where}"


def _query_of_correlate(node: Correlate) -> str:
    """Of VALUES."""
    rows = [struct.expressions[1::2] for struct in node.function.this.expressions]
    names = [field.name for field in node.outputs]
    return " UNION ALL ".join(
        "SELECT " + ", ".join(f'{_text(value)} AS "{name}"' for value, name in zip(row, names, strict=True))
        for row in rows
    )


def _query_of_project(node: Project) -> str:
    items = ", ".join(f'{_text(item.expression)} AS "{item.name}"' for item in node.items)
    return f"SELECT {items} FROM ({query(node.input)})"


def _query_of_filter(node: Filter) -> str:
    return f"SELECT * FROM ({query(node.input)}) WHERE {_text(node.condition)}"


def _query_of_union(node: Union) -> str:
    return " UNION ALL ".join(f"SELECT * FROM ({query(branch)})" for branch in node.branches)


def _query_of_group_aggregate(node: GroupAggregate) -> str:
    """Without keys there is a row once there are rows."""
    aggregates = [f'{_text(item.expression)} AS "{item.name}"' for item in node.aggregates]
    keys = [f'"{key}"' for key in node.keys]
    groups = f"GROUP BY {', '.join(keys)}" if keys else "HAVING COUNT(*) > 0"
    return f"SELECT {', '.join([*keys, *aggregates])} FROM ({query(node.input)}) {groups}"


def _query_of_regular_join(node: RegularJoin) -> str:
    equal = [f"{_text(e.left)} {'IS' if e.null_safe else '='} {_text(e.right)}" for e in node.equal]
    on = " AND ".join([*equal, *([f"({_text(node.condition)})"] if node.condition is not None else [])]) or "TRUE"
    left, right = (f"({query(side)})" for side in node.inputs)
    if node.kind.pairs:
        return f"SELECT {_names(node)} FROM {left} {node.kind.value} JOIN {right} ON {on}"
    no = "" if node.kind is JoinKind.SEMI else "NOT "
    return f"SELECT {_names(node)} FROM {left} WHERE {no}EXISTS (SELECT 1 FROM {right} WHERE {on})"


def _names(node: Node) -> str:
    return ", ".join(f'"{field.name}"' for field in node.schema)


def _text(expression: exp.Expression) -> str:
    return expression.sql("sqlite")


_QUERIES: Mapping[type[Node], Callable[[Any], str]] = {
    Output: _query_of_output,
    Scan: _query_of_scan,
    Correlate: _query_of_correlate,
    Project: _query_of_project,
    Filter: _query_of_filter,
    Union: _query_of_union,
    GroupAggregate: _query_of_group_aggregate,
    RegularJoin: _query_of_regular_join,
}
