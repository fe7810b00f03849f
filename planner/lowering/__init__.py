"""Physical plan to Spark: one lowering function per node (``functools.singledispatch``)."""

from __future__ import annotations

from sqlstream.planner.lowering import aggregate, correlate, lookup, project, scan, statement_set, union  # noqa: F401 - fill the registry
from sqlstream.planner.lowering.columnar import assign_windows, barriers, deferred, over, process, window_aggregate  # noqa: F401
from sqlstream.planner.lowering.lower import explain_spark, lower
from sqlstream.planner.lowering.runtime import Runtime

__all__ = ["Runtime", "explain_spark", "lower"]
