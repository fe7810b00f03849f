"""From plan nodes to DataFrames: the registry and what its functions share.

Each module of this package registers its operators with ``lower_node``; a node without a lowering is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import singledispatch
from itertools import count

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar.depth import with_room
from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.counted import Counted
from sqlstream.planner.lowering.functions import with_registered_functions
from sqlstream.planner.lowering.gears import Gear, gear_of
from sqlstream.planner.lowering.hidden import passing
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.too_deep import too_deep_for_spark
from sqlstream.planner.nodes import AssignTime, Node, StatementSet, Unary
from sqlstream.planner.properties import awaited_by, keeps_state


@dataclass(frozen=True)
class Context:
    """``awaited`` are the time domains whose watermark an operator above waits for; the others need none.

    ``observed``: the watermark of each source is a metric of the query. ``above`` are the nodes that keep
    state above, innermost last. ``in_order``: an operator above looks at the order in which rows arrived.
    ``told_by_blobs``: the time attribute whose watermark the exchange above tells Spark. ``counted``: whose bad rows
    are metrics of the query. ``functions``: what happens to rows for which a scalar function raises an exception.
    """

    runtime: Runtime
    plan: Node
    gear: Gear
    awaited: frozenset[TimeDomain] = frozenset()
    observed: Iterator[int] | None = None
    above: tuple[Node, ...] = ()
    in_order: bool = False
    told_by_blobs: AssignTime | None = None
    counted: Counted = field(default_factory=Counted)
    functions: OnError = FAIL

    def lower(self, node: Node) -> DataFrame:
        return (lower_columnar if self.gear is Gear.COLUMNAR else lower_node)(node, self)

    @property
    def below_native_state(self) -> bool:
        """True where one of Spark's own operators with state is above, which rows of other kinds cannot pass."""
        return self.gear is Gear.NATIVE and any(map(keeps_state, self.above))

    def awaits(self, domain: TimeDomain) -> bool:
        """True where a watermark of ``domain`` is Spark's: that of processing time only where no other is awaited."""
        if domain is TimeDomain.PROCESSING and self.gear is Gear.COLUMNAR:
            return domain in self.awaited and domains_of_watermarks(self.plan) == {domain}
        return domain in self.awaited

    def lower_input(self, node: Unary, *, in_order: bool = False, told_by_blobs: AssignTime | None = None) -> DataFrame:
        """The rows below an operator that may wait for the watermark of its domain and look at order of arrival."""
        return replace(self.below(node, in_order=in_order), told_by_blobs=told_by_blobs).lower(node.input)

    def below(self, node: Node, *, in_order: bool = False) -> Context:
        """Where what is below the operator is lowered."""
        awaited = self.awaited | awaited_by(node)
        return replace(self, awaited=awaited, above=(*self.above, node), in_order=self.in_order or in_order)

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
    return expression.sql(dialect="spark", comments=False)


@singledispatch
def lower_node(node: Node, context: Context) -> DataFrame:
    raise UnsupportedError("SS390", f'"{type(node).__name__}" is not executed')


@singledispatch
def lower_columnar(node: Node, context: Context) -> DataFrame:
    """On the columnar gear; what keeps no state is the same on both."""
    return lower_node(node, context)


def lower(plan: Node, runtime: Runtime) -> DataFrame:
    """The streaming DataFrame of a plan, with the fields of its schema (of the table, for an Insert) as columns.

    UnsupportedError SS39x for what Spark's native operators cannot run, BindError SS290 for what only Spark could
    tell to be wrong, such as a type that sqlglot does not infer; SS284 for what is too deep for Spark's stack.
    """
    gear = gear_of(plan, runtime.gear)
    if gear is Gear.NATIVE:
        _require_one_clock(plan)
    try:
        return Context(runtime, plan, gear, observed=count() if observes_watermarks(plan) else None).lower(plan)
    except (AnalysisException, ParseException, Py4JError) as error:
        deep = too_deep_for_spark(str(error))
        if deep is not None:
            raise SqlStreamError.of([deep]) from error
        if isinstance(error, Py4JError):
            raise
        message = str(error).strip().splitlines()[0].rstrip(".")
        raise BindError("SS290", f"Spark refuses the query: {message}") from error


# --- watermarks -----------------------------------------------------------------------------------------------


def watermarked_nodes(plan: Node, awaited: frozenset[TimeDomain] = frozenset()) -> Iterator[AssignTime]:
    """The time attributes that get a watermark: those that a window above waits for."""
    waiting = [(plan, awaited)]
    while waiting:
        node, domains = waiting.pop()
        if isinstance(node, AssignTime) and node.domain in domains:
            yield node
        below = domains | awaited_by(node)
        waiting += ((child, below) for child in reversed(node.inputs))


def observes_watermarks(plan: Node) -> bool:
    """True where several watermarks make one: Spark's checkpoint then holds the least of them only.

    The queries of a statement set read each table as one source, so that all its watermarks are the same.
    """
    nodes = list(watermarked_nodes(plan))
    return len({node.table for node in nodes} if isinstance(plan, StatementSet) else nodes) > 1


def domains_of_watermarks(plan: Node) -> set[TimeDomain]:
    return {node.domain for node in watermarked_nodes(plan)}


def _require_one_clock(plan: Node) -> None:
    domains = domains_of_watermarks(plan)
    if TimeDomain.PROCESSING in domains and len(domains) > 1:
        raise UnsupportedError(
            "SS393",
            "windows on event time and on processing time in one query are not executed",
            hint="Write two queries, one per kind of time: Spark has one watermark per query.",
        )
