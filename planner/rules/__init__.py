"""Rules that improve a plan without changing its result, one module each, run in named stages."""

from sqlstream.planner.rules.stages import STAGES, Stage, optimize, stages, trace

__all__ = ["STAGES", "Stage", "optimize", "stages", "trace"]
