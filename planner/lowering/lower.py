"""Makes DataFrames of the steps of a physical plan: the two tables from node to lowering function, and the entry.

A new operator with a kernel adds its function to ``KERNELS`` of a module in ``columnar/``, one without to
``WITHOUT_KERNEL``. A step without a function is an error.
"""

from __future__ import annotations

import contextlib
import io

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.planner.lowering.aggregates import lower_group_aggregate, lower_window_aggregate
from sqlstream.planner.lowering.branches import lower_union
from sqlstream.planner.lowering.columnar import groups, joins, over, process, ranked, waiting, windows
from sqlstream.planner.lowering.columnar.process import lower_process_table
from sqlstream.planner.lowering.columnar.windows import lower_assign_windows
from sqlstream.planner.lowering.context import Context, Lowerings, too_deep_for_spark
from sqlstream.planner.lowering.lookups import lower_lookup
from sqlstream.planner.lowering.outputs import lower_statement_set
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.shared_sources import SharedSources
from sqlstream.planner.lowering.stateless import (
    lower_correlate,
    lower_filter,
    lower_from_changelog,
    lower_insert,
    lower_output,
    lower_project,
    lower_scan,
    lower_to_changelog,
)
from sqlstream.planner.lowering.time import lower_assign_time
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Insert, Output, Project, Scan, StatementSet, Union
from sqlstream.planner.operators.changelogs import FromChangelog, ToChangelog
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.process_table import ProcessTable
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import Operator, Step

WITHOUT_KERNEL: Lowerings = {
    AssignTime: lower_assign_time,
    AssignWindows: lower_assign_windows,
    Correlate: lower_correlate,
    Filter: lower_filter,
    FromChangelog: lower_from_changelog,
    GroupAggregate: lower_group_aggregate,
    Insert: lower_insert,
    Lookup: lower_lookup,
    Output: lower_output,
    ProcessTable: lower_process_table,
    Project: lower_project,
    Scan: lower_scan,
    StatementSet: lower_statement_set,
    ToChangelog: lower_to_changelog,
    Union: lower_union,
    WindowAggregate: lower_window_aggregate,
}
"""Stateless nodes, and those with state as Spark's own operators run them."""

WITH_KERNEL: Lowerings = {
    **groups.KERNELS,
    **joins.KERNELS,
    **over.KERNELS,
    **process.KERNELS,
    **ranked.KERNELS,
    **waiting.KERNELS,
    **windows.KERNELS,
}
"""Operators with state as kernels per key group."""


def lower_step(step: Step, context: Context) -> DataFrame:
    """The DataFrame with the rows of a step. UnsupportedError SS390 if there is no lowering function for its node."""
    lowering = (WITH_KERNEL if isinstance(step, Operator) else WITHOUT_KERNEL).get(type(step.node))
    if lowering is None:
        raise UnsupportedError("SS390", f'"{type(step.node).__name__}" is not executed')
    return lowering(step.node, step, context)


def lower(plan: PhysicalPlan, runtime: Runtime) -> DataFrame:
    """The streaming DataFrame of a plan, whose columns are the fields of the plan's schema (for an Insert, the table's
    columns).

    UnsupportedError SS39x for plans that Spark cannot run, BindError SS290 for mistakes that only Spark finds, such as
    in a type that sqlglot does not infer; SS284 for expressions too deep for Spark's stack.
    """
    try:
        if not plan.shared_sources:
            return Context(runtime, plan, lower_step).lower(plan.root)
        sources = SharedSources(runtime, plan.root, plan.shared_sources)
        return sources.after_control_rows(Context(sources, plan, lower_step).lower(plan.root))
    except (AnalysisException, ParseException, Py4JError) as error:
        deep = too_deep_for_spark(str(error))
        if deep is not None:
            raise SqlStreamError.of([deep]) from error
        if isinstance(error, Py4JError):
            raise
        message = str(error).strip().splitlines()[0].rstrip(".")
        raise BindError("SS290", f"Spark refuses the query: {message}") from error


def explain_spark(plan: PhysicalPlan, runtime: Runtime) -> str:
    """Spark's EXPLAIN of the plan's DataFrame: its parsed, analysed, optimized and physical plans."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        lower(plan, runtime).explain("extended")
    return printed.getvalue().strip()
