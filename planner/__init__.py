"""Syntax to plan: binder, plan nodes, rules, explain; ``planner.lowering`` makes Spark DataFrames of plans.

For other tools there is ``Planner``. Names are imported when they are asked for: importing this package alone loads no
parser. ``Planner`` itself lives in ``sqlstream.analysis``, above this room, because it knows connectors and settings;
it is named here, where tools look for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlstream.planner.binder import bind_query, bind_statement, bind_table
    from sqlstream.planner.explain import PLANNER_STAGES
    from sqlstream.planner.explain.to_json import from_json, plan_schema, to_json
    from sqlstream.planner.rules import optimize, trace

_HOMES = {
    "PLANNER_STAGES": "sqlstream.planner.explain",
    "Planner": "sqlstream.analysis",
    "bind_query": "sqlstream.planner.binder",
    "bind_statement": "sqlstream.planner.binder",
    "bind_table": "sqlstream.planner.binder",
    "from_json": "sqlstream.planner.explain.to_json",
    "optimize": "sqlstream.planner.rules",
    "plan_schema": "sqlstream.planner.explain.to_json",
    "to_json": "sqlstream.planner.explain.to_json",
    "trace": "sqlstream.planner.rules",
}

__all__ = [
    "PLANNER_STAGES", "Planner", "bind_query", "bind_statement", "bind_table", "from_json", "optimize",
    "plan_schema", "to_json", "trace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
