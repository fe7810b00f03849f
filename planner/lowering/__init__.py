"""Plan to Spark: one lowering function per plan node (``functools.singledispatch``)."""

from __future__ import annotations

from sqlstream.planner.lowering import aggregate, correlate, lookup, project, scan, statement_set, union  # noqa: F401 - fill the registry
from sqlstream.planner.lowering.columnar import assign_windows, barriers, deferred, over, process, window_aggregate  # noqa: F401
from sqlstream.planner.lowering.lower import lower
from sqlstream.planner.lowering.physical import (
    explain_physical,
    explain_spark,
    may_read_in_exchanges,
    scans_of_exchanges,
)
from sqlstream.planner.lowering.runtime import Runtime

__all__ = ["Runtime", "explain_physical", "explain_spark", "lower", "may_read_in_exchanges", "scans_of_exchanges"]
