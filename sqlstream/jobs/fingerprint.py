"""What of a plan its state depends on, as text: one line per node, indented by depth.

Options of tables are left out: a path or a rate may change between two runs of a job, a key or a window may not.
"""

from __future__ import annotations

import dataclasses
from enum import Enum

from sqlglot import exp

from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Lookup, Node


def fingerprint(plan: Node, depth: int = 0) -> str:
    """The lines of the plan, ending with a newline each."""
    own = _of_lookup(plan) if isinstance(plan, Lookup) else _of_node(plan)
    line = f"{type(plan).__name__}({', '.join(f'{name}={_text(value)}' for name, value in own.items())})"
    return "  " * depth + line + "\n" + "".join(fingerprint(child, depth + 1) for child in plan.inputs)


def _of_node(plan: Node) -> dict[str, object]:
    found = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    return {name: value for name, value in found.items() if not _holds_nodes(value)}


def _of_lookup(plan: Lookup) -> dict[str, object]:
    """Only DEFER keeps rows, by their keys and in their order; how a lookup asks may change between two runs."""
    added = plan.schema[len(plan.input.schema) :]
    if not plan.options.defers:
        return {"outputs": added}
    name, order = plan.source.name, plan.options.order
    return {"source": name, "keys": plan.keys, "read": plan.read, "outputs": added, "order": order, "defer": True}


def first_difference(stored: str, current: str) -> tuple[str, str]:
    """The first lines that differ, '' where one of the texts has ended."""
    left, right = stored.splitlines(), current.splitlines()
    longest = max(len(left), len(right))
    pairs = zip(left + [""] * (longest - len(left)), right + [""] * (longest - len(right)), strict=True)
    return next((a.strip(), b.strip()) for a, b in pairs if a != b)


def _holds_nodes(value: object) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and bool(value) and isinstance(value[0], Node))


def _text(value: object) -> str:
    if isinstance(value, exp.Expression):
        return value.sql(dialect="spark")
    if isinstance(value, Table):
        return f"{value.name}({', '.join(f'{c.name} {c.type}' for c in value.columns)})"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(_text(v) for v in value)}]"
    if dataclasses.is_dataclass(value):
        members = ", ".join(_text(getattr(value, f.name)) for f in dataclasses.fields(value))
        return f"{type(value).__name__}({members})"
    return str(value)
