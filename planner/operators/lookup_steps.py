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


@stateless_step.register
def _(node: Lookup, above: Above) -> Step:
    group = together(node)
    for lookup in group:
        require_passage("ON ERROR TO", side_table(lookup), above.native_state)
    numbered = [NumberedLookup(next(above.whole.lookups), lookup) for lookup in reversed(group)]
    return Ask(node, above.below(group[0]), tuple(reversed(numbered)))


def together(node: Lookup) -> tuple[Lookup, ...]:
    """The lookups that are asked with ``node``, from the lowest up to it: adjacent ones, of which none needs what
    another one adds. One with state is alone."""
    group, read = [node], _read(node)
    while not keeps_state(node) and isinstance(below := group[-1].input, Lookup) and not keeps_state(below):
        if not read.isdisjoint(output.name for output in below.outputs):
            break
        group.append(below)
        read |= _read(below)
    return tuple(reversed(group))


def _read(lookup: Lookup) -> set[str]:
    return set().union(*(columns_of(key.expression) for key in lookup.keys))


def lookup_nodes(plan: Node) -> Iterator[Lookup]:
    """The lookups of a plan, top down."""
    return (node for node in plan.walk() if isinstance(node, Lookup))


def failed_marker(table: Table, number: int) -> str:
    """What LATE_TABLE says of the failed rows of the lookup with a number."""
    return f"lookup/{number}/{table.name}"


# --- texts ----------------------------------------------------------------------------------------------------


@label.register
def _(step: Ask) -> str:
    return " and ".join(describe(lookup.node) for lookup in reversed(step.lookups))


@runs.register
def _(step: Ask) -> str:
    (first, *rest) = step.lookups
    together = f"{1 + len(rest)} lookups asked together: " if rest else ""
    return f"{together}{_asked(first.node)}, {_joined(*(lookup.node for lookup in step.lookups))}"


def _asked(node: Lookup) -> str:
    options = node.options
    how = f"up to {options.capacity} at the same time per task" if options.asynchronous else "one after the other"
    return f"keys, mapInArrow that asks for them {how}"


def _joined(*nodes: Lookup) -> str:
    aside = any(node.failed is not None for node in nodes)
    return f"explode of the answers{', failed rows aside' if aside else ''}"


# --- those with state -----------------------------------------------------------------------------------------


@asks_outside.register
def _(node: Lookup) -> bool:
    return True


@waiting_for.register
def _(node: Lookup) -> WaitsFor | None:
    return WaitsFor.ANSWERS if node.options.defers else None


@keys_of.register
def _(node: Lookup) -> tuple[str, ...]:
    """Rows in order wait for each other, whatever their keys; changes are in order by row."""
    if remembers(node):
        return remembered_by(node)
    return () if node.options.order is Order.ORDERED else tuple(key.name for key in node.keys)


@sees_arrival.register
def _(node: Lookup) -> bool:
    return node.options.order is Order.ORDERED or remembers(node)


@only_columnar.register
def _(node: Lookup) -> str | None:
    return "ON TIMEOUT DEFER" if node.options.defers else "a lookup for rows that are retracted"


@before_exchange.register
def _(node: Lookup) -> str | None:
    return _asked(node)


@kernel.register
def _(node: Lookup) -> str:
    waits = "keeps rows until they are answered" if node.options.defers else ""
    keeps = "remembers the answers of rows that may be retracted" if remembers(node) else ""
    return f"that {' and '.join(filter(None, (waits, keeps)))}"


@behind_kernel.register
def _(node: Lookup) -> str | None:
    return _joined(node)
