"""What lowering functions share: the context of a query, and expressions as Spark reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.errors import Diagnostic
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.lowering.functions import with_registered_functions
from sqlstream.planner.lowering.hidden_columns import passing, without_before
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.node import Node
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import Step

# --- which sources and functions a query counts the bad rows of --------------------------------------------------


METRIC = "bad"
"""What the names of metrics that count bad rows begin with; a number and the name of the source end them."""


@dataclass
class Counted:
    """Remembers which sources of a query already have a metric for bad rows, so that a source that is read twice is
    counted once.
    """

    sources: list[tuple[str, str]] = field(default_factory=list)

    def first(self, source: str, what: str = "") -> bool:
        """True at the first call with this source and ``what`` (the kind of rows counted), False at later ones."""
        is_first = (source, what) not in self.sources
        self.sources.append((source, what))
        return is_first

    @property
    def metric(self) -> str:
        """The name of the metric for the source of the last call of ``first``."""
        return f"{METRIC}/{len(self.sources)}/{quote(self.sources[-1][0], safe='')}"


class Places(NamedTuple):
    """What tasks read: the places of files or messages, or rows that are read for several steps. ``parts``: the hidden
    columns that order rows of files (``udfs.exchange.PARTS``). ``lifts``: as of the reader that has read the rows.
    """

    rows: DataFrame
    parts: tuple[pa.Field, ...]
    lifts: bool = False


@dataclass(frozen=True)
class RequiredTime:
    """An event time that every row of a scan must have. ``name``: as messages show it. ``expression``: over the columns
    of the scan. ``of_retractions``: rows of the kinds -U and -D must have it, too.
    """

    name: str
    expression: exp.Expression
    of_retractions: bool = True


@dataclass(frozen=True)
class Context:
    """What lowering functions share while a plan is lowered.

    ``lower_step`` is the function that returns the rows of a step, -U rows included. ``counted`` remembers the sources
    whose bad rows the query already counts as a metric. ``shared`` has the rows that are read once for several steps,
    by the numbers of their reads (``SharedRead``). ``functions`` says what happens to rows for which a scalar
    function raises an exception. ``required_time``: the event time that operators above need of the scan below, None
    if none do.
    """

    runtime: Runtime
    plan: PhysicalPlan
    lower_step: Callable[[Step, Context], DataFrame]
    counted: Counted = field(default_factory=Counted)
    shared: dict[int, Places] = field(default_factory=dict)
    functions: OnError = FAIL
    required_time: RequiredTime | None = None

    def lower(self, step: Step) -> DataFrame:
        """The DataFrame with the rows of a step."""
        rows = self.lower_step(step, self)
        return without_before(rows) if step.drops_before else rows

    def with_functions(self, functions: OnError) -> Context:
        """This context for a part of the plan in which failures of functions are handled as ``functions`` says."""
        return replace(self, functions=functions)

    def requiring(self, time: RequiredTime | None) -> Context:
        """Returns this context for a part of the plan whose operators need the event time ``time``. Where it is NULL,
        the scan below treats the row as a bad one: the job fails, or ``on-error`` says where the row goes. With None
        the scan does not check.
        """
        return replace(self, required_time=time)

    def sql(self, expression: exp.Expression, rows: DataFrame | None = None) -> str:
        """Returns the expression as text of Spark SQL. Python functions that it calls are registered in the session
        under the names that the text uses.

        They are not called for control rows and side outputs among ``rows``.
        """
        skipped = None if rows is None else passing(rows)
        return _spark_sql(with_registered_functions(expression, self.runtime, skipped))

    def column(self, expression: exp.Expression, rows: DataFrame | None = None) -> Column:
        """The expression as a column of Spark. Functions are not called for control rows among ``rows``, as in
        ``sql``.
        """
        return F.expr(self.sql(expression, rows))


Lowerings = Mapping[type[Node], Callable[[Any, Any, Context], DataFrame]]
"""By the class of a node: the function from a node, its step and the context to the rows of the step."""


@on_deep_stack
def _spark_sql(expression: exp.Expr) -> str:
    return expression.sql(dialect=SparkWithTime, comments=False)


# --- expressions that are nested more deeply than the stack of Spark's threads holds -----------------------------


TOO_DEEP_FOR_SPARK = "SS284"

_MARKS = ("java.lang.StackOverflowError", "FAILED_TO_PARSE_TOO_COMPLEX")
_HINT = (
    "Split long sums and nested calls into computed columns of several queries, or give the threads of Spark's driver "
    "a larger stack: 'spark.driver.extraJavaOptions' = '-Xss64m'."
)


def too_deep_for_spark(text: str) -> Diagnostic | None:
    """The error SS284 if ``text``, that of an exception with Java's stack, shows a stack overflow; else None."""
    if not any(mark in text for mark in _MARKS):
        return None
    return Diagnostic(TOO_DEEP_FOR_SPARK, "the query is nested too deeply for Spark", hint=_HINT)
