"""Physical plans of updating queries without Spark: kernels in the harness, DuckDB for what keeps no state.

What Catalyst computes below and above a kernel is written down here a second time, in DuckDB's SQL and Arrow: so a plan
of a few operators takes milliseconds for a micro-batch. The lowering itself is compared on Spark.
"""

from __future__ import annotations

from tests.differential.without_spark import groups, joins, over, ranked, stateless
from tests.differential.without_spark.columns import NotHere
from tests.differential.without_spark.harness import PlanHarness, in_duckdb

__all__ = ["NotHere", "PlanHarness", "in_duckdb"]

_STEPS = (groups, joins, over, ranked, stateless)
"""They register what runs of each node."""
