"""Makes DataFrames of the steps of a physical plan: the registries and what their functions share.

Each module of this package registers its nodes: with ``lower_node`` those without a kernel, with ``lower_operator``
those with one. A step without a lowering is an error.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field, replace
from functools import singledispatch

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.lowering.counted import Counted
from sqlstream.planner.lowering.functions import with_registered_functions
from sqlstream.planner.lowering.hidden import passing, without_before
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.too_deep import too_deep_for_spark
from sqlstream.planner.node import Node
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import Operator, Step


@dataclass(frozen=True)
class Context:
    """``counted``: whose bad rows are metrics of the query. ``functions``: what happens to rows for which a scalar
    function raises an exception.
    """

    runtime: Runtime
    plan: PhysicalPlan
    counted: Counted = field(default_factory=Counted)
    functions: OnError = FAIL

    def lower(self, step: Step) -> DataFrame:
        if isinstance(step, Operator):
            rows = lower_operator(step.node, step, self)
        else:
            rows = lower_node(step.node, step, self)
        return without_before(rows) if step.drops_before else rows

    def with_functions(self, functions: OnError) -> Context:
        return replace(self, functions=functions)

    def sql(self, expression: exp.Expression, rows: DataFrame | None = None) -> str:
        """The expression as Spark reads it, with Python functions registered under the names it mentions.

        Scalar functions are not called for those of ``rows`` that pass by.
        """
        skipped = None if rows is None else passing(rows)
        return _spark_sql(with_registered_functions(expression, self.runtime, skipped))

    def column(self, expression: exp.Expression, rows: DataFrame | None = None) -> Column:
        return F.expr(self.sql(expression, rows))


@with_room
def _spark_sql(expression: exp.Expr) -> str:
    return expression.sql(dialect=SparkWithTime, comments=False)


@singledispatch
def lower_node(node: Node, step: Step, context: Context) -> DataFrame:
    """The rows of a step without a kernel."""
    raise UnsupportedError("SS390", f'"{type(node).__name__}" is not executed')


@singledispatch
def lower_operator(node: Node, step: Operator, context: Context) -> DataFrame:
    """The rows of an operator with state on the columnar gear."""
    raise UnsupportedError("SS390", f'"{type(node).__name__}" is not executed')


def lower(plan: PhysicalPlan, runtime: Runtime) -> DataFrame:
    """The streaming DataFrame of a plan, with the fields of its schema (of the table, for an Insert) as columns.

    UnsupportedError SS39x for what Spark cannot run, BindError SS290 for what only Spark could tell to be wrong, such
    as a type that sqlglot does not infer; SS284 for what is too deep for Spark's stack.
    """
    try:
        return Context(runtime, plan).lower(plan.root)
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
