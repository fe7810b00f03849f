"""Fingerprints of what queries mean: equal for texts with the same optimized plan, whatever names it has inside.

Aliases between the tables and the result, layout, comments, views and WITH, the order of what AND joins, and on which
side of a comparison a constant stands leave no trace. Two queries with one fingerprint mean the same; two that mean the
same may have different ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlstream.connectors.secrets import without_secrets
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.explain import to_json
from sqlstream.planner.explain.to_json import encode
from sqlstream.planner.expressions import as_expression, conjunction, conjuncts
from sqlstream.planner.node import Node, bottom_up
from sqlstream.planner.nodes import Filter, Project, Scan
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate

_NAMES = frozenset({
    "name", "keys", "start", "end", "time", "column", "pane", "pane_index", "grouping_id", "partition_by", "number",
    "passed", "left_time", "right_time", "field", "ends", "follows",
})  # fmt: skip
"""Keys whose values are names of fields."""
_KEPT_APART = frozenset({"table", "names", "source", "failed"})
"""What is looked at as it is: definitions of tables, and the names of the result."""
_QUOTED = re.compile(r"('(?:[^'\\]|\\.|'')*')|`((?:[^`]|``)+)`")
_PLAIN = re.compile(r"\w+")


def fingerprint(plan: Node, more: tuple[str, ...] = ()) -> str:
    """That of an optimized plan; ``more`` are texts that count, too, such as the names of parameters."""
    document = to_json(without_secrets(_in_order(plan)))
    names = _introduced(plan) - set(_told_elsewhere(document["plan"])) - {domain.name for domain in TimeDomain}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"#{len(numbers)}") if name in names else name

    return _hashed([_renamed(document["plan"], number, ""), more])


def fingerprint_of_text(text: str, tables: Iterable[Table], more: tuple[str, ...] = ()) -> str:
    """That of a query which has no plan here: of its text in canonical form, and the definitions of its tables."""
    definitions = [encode(table) for table in sorted(tables, key=lambda table: table.name)]
    return _hashed([text, definitions, more])


def _hashed(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _in_order(plan: Node) -> Node:
    def ordered(node: Node) -> Node:
        match node:
            case Filter():
                return replace(node, condition=conjunction(_conditions(conjuncts(node.condition))))
            case Scan() if node.predicates:
                return replace(node, predicates=tuple(_conditions(node.predicates)))
            case GroupAggregate(input=Project() as below) | WindowAggregate(input=Project() as below):
                # It reads fields by their names, so their order says nothing.
                return replace(node, input=below.input) if _only_picks(below) else node
        return node

    return bottom_up(plan, ordered)


_MIRRORED: dict[type[exp.Expression], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


def _conditions(conditions: Iterable[exp.Expression]) -> list[exp.Expression]:
    return sorted(map(_facing, conditions), key=str)


def _facing(condition: exp.Expression) -> exp.Expression:
    """A comparison with a constant has it at its end: ``1 < v`` is ``v > 1``. Of two columns none comes first, whose
    names may be anything."""
    mirrored = _MIRRORED.get(type(condition))
    if mirrored is None or condition.this.find(exp.Column) or not condition.expression.find(exp.Column):
        return condition
    return as_expression(mirrored(this=condition.expression, expression=condition.this))


def _only_picks(node: Project) -> bool:
    fields = {field.name: field for field in node.input.schema}
    return all(
        isinstance(item.expression, exp.Column)
        and item.expression.name == item.name
        and item.field == fields.get(item.name)
        for item in node.items
    )


def _introduced(plan: Node) -> set[str]:
    """The names of fields that no table has."""
    fields = {field.name for node in plan.walk() for field in node.schema}
    own = {column.name for node in plan.walk() if isinstance(node, Scan) for column in node.table.columns}
    return {name for name in fields - own if _PLAIN.fullmatch(name)}


def _told_elsewhere(value: Any, key: str = "") -> Iterator[str]:
    """Texts that stand where no names of fields do: a name that is among them keeps its spelling."""
    match value:
        case dict():
            for inner_key, inner in value.items():
                if inner_key not in _KEPT_APART:
                    yield from _told_elsewhere(inner, inner_key)
        case list():
            for inner in value:
                yield from _told_elsewhere(inner, key)
        case str() if key not in _NAMES:
            yield from _PLAIN.findall(_QUOTED.sub(lambda match: match[1] or "", value))


def _renamed(value: Any, number: Callable[[str], str], key: str) -> Any:
    match value:
        case dict():
            kept = {k: v for k, v in value.items() if k in _KEPT_APART}
            return {**{k: _renamed(v, number, k) for k, v in value.items() if k not in kept}, **kept}
        case list():
            return [_renamed(inner, number, key) for inner in value]
        case str() if key in _NAMES:
            return number(value)
        case str():
            return _QUOTED.sub(lambda match: match[1] or f"`{number(match[2])}`", value)
    return value
