"""From plan nodes to DataFrames: the registry and what its functions share.

Each module of this package registers its operators with ``lower_node``; a node without a lowering is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.functions import with_registered_functions
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import AssignWindows, Node, Session, WindowAggregate


@dataclass(frozen=True)
class Context:
    """``domains`` are those whose watermark closes windows of the plan; the others need none."""

    runtime: Runtime
    domains: frozenset[TimeDomain]

    def lower(self, node: Node) -> DataFrame:
        return lower_node(node, self)

    def sql(self, expression: exp.Expression) -> str:
        """The expression as Spark reads it, with Python functions registered under the names it mentions."""
        return with_registered_functions(expression, self.runtime).sql(dialect="spark")

    def column(self, expression: exp.Expression) -> Column:
        return F.expr(self.sql(expression))


@singledispatch
def lower_node(node: Node, context: Context) -> DataFrame:
    raise UnsupportedError("SS390", f'"{type(node).__name__}" is not executed on Spark\'s native operators')


def stateful_domains(plan: Node) -> frozenset[TimeDomain]:
    """The time domains whose watermark some operator of the plan waits for."""
    return frozenset(
        node.domain
        for node in plan.walk()
        if isinstance(node, WindowAggregate) or (isinstance(node, AssignWindows) and isinstance(node.window, Session))
    )
