"""Plans of statements: bound, optimized, and checked against what the connectors of their tables support."""

from __future__ import annotations

from sqlstream.plans.checks import calls_not_executed, missing_sources, not_read, require_sources
from sqlstream.plans.former import FormerPlan, former_plans
from sqlstream.plans.plan import Planned, Root, bound_plan, job_name_of, plan_of, unchecked_plan
from sqlstream.plans.planner_settings import RULES, binder_settings, engine_settings_of, reuse_of, rules_of
from sqlstream.plans.tables import ends, is_read, is_source, looked_up_tables, read_columns, scanned_tables, side_tables

__all__ = [
    "RULES",
    "FormerPlan",
    "Planned",
    "Root",
    "binder_settings",
    "bound_plan",
    "calls_not_executed",
    "ends",
    "engine_settings_of",
    "former_plans",
    "is_read",
    "is_source",
    "job_name_of",
    "looked_up_tables",
    "missing_sources",
    "not_read",
    "plan_of",
    "read_columns",
    "require_sources",
    "reuse_of",
    "rules_of",
    "scanned_tables",
    "side_tables",
    "unchecked_plan",
]
