"""Makes DataFrames of the steps of a physical plan: the two tables from node to lowering function, and the entry.

A new operator adds its function here. A step without a function is an error.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.planner.lowering.aggregates import lower_window_aggregate
from sqlstream.planner.lowering.columnar.groups import run_group_aggregate
from sqlstream.planner.lowering.columnar.joins import (
    run_asof_join,
    run_interval_join,
    run_regular_join,
    run_temporal_join,
    run_window_join,
)
from sqlstream.planner.lowering.columnar.over import run_match_recognize, run_over, run_updating_over
from sqlstream.planner.lowering.columnar.process import lower_process_table, run_process_table
from sqlstream.planner.lowering.columnar.ranked import (
    run_current_watermark,
    run_deduplicate,
    run_normalize,
    run_set_operation,
    run_temporal_sort,
    run_top_n,
)
from sqlstream.planner.lowering.columnar.waiting import run_align_barriers, run_lookup
from sqlstream.planner.lowering.columnar.windows import lower_assign_windows, run_assign_windows, run_window_aggregate
from sqlstream.planner.lowering.context import Context, too_deep_for_spark
from sqlstream.planner.lowering.lookups import lower_lookup
from sqlstream.planner.lowering.outputs import lower_statement_set
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.stateless import (
    lower_correlate,
    lower_filter,
    lower_from_changelog,
    lower_insert,
    lower_output,
    lower_project,
    lower_scan,
    lower_to_changelog,
    lower_union,
)
from sqlstream.planner.lowering.time import lower_assign_time
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Insert, Output, Project, Scan, StatementSet, Union
from sqlstream.planner.operators.asof_join import AsofJoin
from sqlstream.planner.operators.barriers import AlignBarriers
from sqlstream.planner.operators.changelogs import FromChangelog, ToChangelog
from sqlstream.planner.operators.current_watermark import CurrentWatermark
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.interval_join import IntervalJoin
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.match_recognize import MatchRecognize
from sqlstream.planner.operators.normalize import Normalize
from sqlstream.planner.operators.over import Over
from sqlstream.planner.operators.process_table import ProcessTable
from sqlstream.planner.operators.regular_join import RegularJoin
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.operators.temporal_join import TemporalJoin
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.operators.updating_over import UpdatingOver
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_join import WindowJoin
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import Operator, Step

Lowering = Callable[[Any, Any, Context], DataFrame]
"""From a node, its step and the context to the rows of the step."""

WITHOUT_KERNEL: Mapping[type[Node], Lowering] = {
    AssignTime: lower_assign_time,
    AssignWindows: lower_assign_windows,
    Correlate: lower_correlate,
    Filter: lower_filter,
    FromChangelog: lower_from_changelog,
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

WITH_KERNEL: Mapping[type[Node], Lowering] = {
    AlignBarriers: run_align_barriers,
    AsofJoin: run_asof_join,
    AssignWindows: run_assign_windows,
    CurrentWatermark: run_current_watermark,
    Deduplicate: run_deduplicate,
    GroupAggregate: run_group_aggregate,
    IntervalJoin: run_interval_join,
    Lookup: run_lookup,
    MatchRecognize: run_match_recognize,
    Normalize: run_normalize,
    Over: run_over,
    ProcessTable: run_process_table,
    RegularJoin: run_regular_join,
    SetOperation: run_set_operation,
    TemporalJoin: run_temporal_join,
    TemporalSort: run_temporal_sort,
    TopN: run_top_n,
    UpdatingOver: run_updating_over,
    WindowAggregate: run_window_aggregate,
    WindowJoin: run_window_join,
}
"""Operators with state as kernels per key group."""


def lower_step(step: Step, context: Context) -> DataFrame:
    """The rows of a step. UnsupportedError SS390 where its node has no lowering."""
    lowering = (WITH_KERNEL if isinstance(step, Operator) else WITHOUT_KERNEL).get(type(step.node))
    if lowering is None:
        raise UnsupportedError("SS390", f'"{type(step.node).__name__}" is not executed')
    return lowering(step.node, step, context)


def lower(plan: PhysicalPlan, runtime: Runtime) -> DataFrame:
    """The streaming DataFrame of a plan, with the fields of its schema (of the table, for an Insert) as columns.

    UnsupportedError SS39x for what Spark cannot run, BindError SS290 for what only Spark could tell to be wrong, such
    as a type that sqlglot does not infer; SS284 for what is too deep for Spark's stack.
    """
    try:
        return Context(runtime, plan, lower_step).lower(plan.root)
    except (AnalysisException, ParseException, Py4JError) as error:
        deep = too_deep_for_spark(str(error))
        if deep is not None:
            raise SqlStreamError.of([deep]) from error
        if isinstance(error, Py4JError):
            raise
        message = str(error).strip().splitlines()[0].rstrip(".")
        raise BindError("SS290", f"Spark refuses the query: {message}") from error


def explain_spark(plan: PhysicalPlan, runtime: Runtime) -> str:
    """Spark's own explanation of the plan, from parsed to physical."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        lower(plan, runtime).explain("extended")
    return printed.getvalue().strip()
