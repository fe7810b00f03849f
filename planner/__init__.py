"""Syntax to plan: binder, plan nodes, rules, explain; ``planner.lowering`` makes Spark DataFrames of plans."""

from sqlstream.planner.binder import bind_query, bind_statement, bind_table
from sqlstream.planner.explain import PLANNER_STAGES, explain, from_json, to_json
from sqlstream.planner.rules import optimize, trace

__all__ = [
    "PLANNER_STAGES", "bind_query", "bind_statement", "bind_table", "explain", "from_json", "optimize",
    "to_json", "trace",
]  # fmt: skip
