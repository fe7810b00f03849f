"""EXPLAIN PHYSICAL: each step of a physical plan in a line, which says what runs."""

from __future__ import annotations

from functools import singledispatch

from sqlglot import exp

from sqlstream.grammar.depth import with_room
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.text import tree
from sqlstream.planner.nodes import Correlate, Filter, Insert, Node, Output, Project, StatementSet, Union
from sqlstream.planner.physical.steps import Compute, Mark, NativeState, Operator, PhysicalPlan, Read, Step, Told, Write


@with_room
def explain_physical(plan: PhysicalPlan) -> str:
    """The steps as a tree, the root first."""
    return tree(plan.root, lambda step: f"{label(step)}: {runs(step)}{_dropped(step)}")


def _dropped(step: Step) -> str:
    return ", then a filter that drops -U, which nobody above reads" if step.drops_before else ""


@singledispatch
def label(step: Step) -> str:
    """The node that the step carries out, or the nodes."""
    return describe(step.node)


@singledispatch
def runs(step: Step) -> str:
    """The step in a few words."""
    raise TypeError(f"no description for {type(step).__name__}")


@runs.register
def _(step: Read) -> str:
    if step.by_exchange:
        return "Spark lists the files, the exchange above reads their columns"
    filters = ", filters above it that Catalyst may push into the source" if step.node.predicates else ""
    return f'stream of connector "{step.node.table.connector}"{filters}'


@runs.register
def _(step: Mark) -> str:
    node, delay = step.node, readable(step.node.delay_ms)
    if step.told is Told.BY_BLOBS:
        told = "the exchange above tells the newest time of its rows, and control rows join them there"
        return f"nothing here, {told} (withWatermark, delay {delay})"
    if step.told is Told.BY_TICKS:
        return "a column with the clock, which ticks tell the operators above"
    if step.told is Told.NOT:
        return "nothing, no window waits for this watermark"
    clock = "the time column" if node.domain is TimeDomain.EVENT else "the clock of the batch"
    return (
        f'union with the control rows of "{node.table}", withWatermark on {clock} '
        f"(delay {delay}), then a filter that takes the control rows out"
    )


@runs.register
def _(step: Compute) -> str:
    if step.skipped:
        return "nothing, the operator above reads what it needs"
    return computed(step.node)


@runs.register
def _(step: NativeState) -> str:
    return native_state(step.node)


@runs.register
def _(step: Operator) -> str:
    before, behind = before_exchange(step.node), behind_kernel(step.node)
    late = f", watermark {readable(step.held_back_ms)} behind" if step.held_back_ms else ""
    parts = (before, _exchange(step), f"kernel {kernel(step.node)}{late}", "state in RocksDB", behind)
    apart = f" (not in the call of the operator below: {step.apart})" if step.apart is not None else ""
    return f"{', '.join(text for text in parts if text is not None)}{apart}"


def _exchange(step: Operator) -> str:
    if step.link is not None:
        return "in the call of the operator below"
    how = "exchange by key group" if step.keyed else "exchange to one key group"
    return how if len(step.ports) == 1 else f"{how} of each input"


@singledispatch
def before_exchange(node: Node) -> str | None:
    """The step before the exchange of an operator with state, in words; None where there is none."""
    return None


@singledispatch
def behind_kernel(node: Node) -> str | None:
    """The step behind the kernel of an operator, in words; None where there is none."""
    return None


@runs.register
def _(step: Write) -> str:
    match step.node:
        case Insert(table=table):
            return f'sink of connector "{table.connector}", idempotent by batch'
        case StatementSet(inserts=inserts):
            return f"union of {len(inserts)} inserts in one query, a micro-batch is one epoch of all tables"
    assert isinstance(step.node, Output), step.node
    return "rows to the caller, once per micro-batch"


# --- kernels --------------------------------------------------------------------------------------------------


@singledispatch
def kernel(node: Node) -> str:
    """The kernel of an operator, in the words that follow "kernel"."""
    raise TypeError(f"no description of the kernel of {type(node).__name__}")


# --- without kernels ------------------------------------------------------------------------------------------


@singledispatch
def computed(node: Node) -> str:
    """A step without state, in words."""
    raise TypeError(f"no description for {type(node).__name__}")


@computed.register
def _(node: Project) -> str:
    return "projection"


@computed.register
def _(node: Filter) -> str:
    return "filter"


@computed.register
def _(node: Union) -> str:
    return f"union of {len(node.branches)} streams; the slowest watermark counts"


@computed.register
def _(node: Correlate) -> str:
    name = "explode or inline" if isinstance(node.function, exp.Unnest) else "generator"
    return f"{name}{', outer' if node.outer else ''}"


@singledispatch
def native_state(node: Node) -> str:
    """An operator with state of Spark's own, in words."""
    raise TypeError(f"Spark has no operator for {type(node).__name__}")
