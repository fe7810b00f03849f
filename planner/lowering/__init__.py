"""Physical plan to Spark: ``lower`` makes the DataFrame of a plan, with the functions that ``lower.py`` lists."""

from sqlstream.planner.lowering.lower import explain_spark, lower
from sqlstream.planner.lowering.runtime import Runtime

__all__ = ["Runtime", "explain_spark", "lower"]
