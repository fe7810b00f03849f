"""The physical plan: what runs, operator by operator, decided once and before Spark is asked for anything.

``physical_plan`` makes it of an optimized plan. Lowering folds over its steps, ``EXPLAIN PHYSICAL`` prints them, and
checkpoints, clocks and test harnesses read them; none of these decides anything again.
"""

from __future__ import annotations

from sqlstream.planner.physical.engine import Engine, EngineSettings, engine_of
from sqlstream.planner.physical.planning import physical_plan
from sqlstream.planner.physical.steps import PhysicalPlan, explain_physical

__all__ = ["Engine", "EngineSettings", "PhysicalPlan", "engine_of", "explain_physical", "physical_plan"]
