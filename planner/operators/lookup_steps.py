"""What runs of lookups: requests that are made together, and the kernel of those that defer rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlstream.planner.catalog import Table
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.nodes import Node
from sqlstream.planner.operators.lookup import Lookup, remembered_by, remembers
from sqlstream.planner.physical.clocks import WaitsFor, waiting_for
from sqlstream.planner.physical.kernels import asks_outside, keys_of, sees_arrival
from sqlstream.planner.physical.native import only_columnar, require_passage
from sqlstream.planner.physical.planning import Above, stateless_step
from sqlstream.planner.physical.steps import Step
from sqlstream.planner.physical.text import before_exchange, behind_kernel, kernel, label, runs
from sqlstream.planner.properties import keeps_state, side_table
from sqlstream.planner.rewriting import columns_of
from sqlstream.udfs.lookup.options import Order


@dataclass(frozen=True)
class NumberedLookup:
    """A lookup with its number in the plan, counted from the top."""

    number: int
    node: Lookup


@dataclass(frozen=True)
class Ask(Step):
    """Lookups that are asked at the same time, from the lowest to that of ``node``."""

    node: Lookup
    lookups: tuple[NumberedLookup, ...] = ()

    # --- texts ------------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        return " and ".join(lookup.node.describe() for lookup in reversed(self.lookups))

    @property
    def runs(self) -> str:
        (first, *rest) = self.lookups
        together = f"{1 + len(rest)} lookups asked together: " if rest else ""
        return f"{together}{first.node._request_text}, {_joined(*(lookup.node for lookup in self.lookups))}"


@stateless_step.register
def _(node: Lookup, above: Above) -> Step:
    group = node.asked_together
    for lookup in group:
        require_passage("ON ERROR TO", lookup.side_table, above.native_state)
    numbered = [NumberedLookup(next(above.whole.lookups), lookup) for lookup in reversed(group)]
    return Ask(node, above.below(group[0]), tuple(reversed(numbered)))


def lookup_nodes(plan: Node) -> Iterator[Lookup]:
    """The lookups of a plan, top down."""
    return (node for node in plan.walk() if isinstance(node, Lookup))


def failed_marker(table: Table, number: int) -> str:
    """What LATE_TABLE says of the failed rows of the lookup with a number."""
    return f"lookup/{number}/{table.name}"


def _joined(*nodes: Lookup) -> str:
    aside = any(node.failed is not None for node in nodes)
    return f"explode of the answers{', failed rows aside' if aside else ''}"
