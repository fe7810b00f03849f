"""EXPLAIN PHYSICAL: each step of a physical plan in a line, which says what runs."""

from __future__ import annotations

from functools import singledispatch

from sqlglot import exp

from sqlstream.grammar.depth import with_room
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.text import tree
from sqlstream.planner.nodes import (
    AlignBarriers,
    AlignedWindow,
    AssignWindows,
    Correlate,
    Cumulate,
    Filter,
    Hop,
    Insert,
    Lookup,
    Node,
    Output,
    ProcessTable,
    Project,
    Session,
    StatementSet,
    Tumble,
    Union,
    WindowAggregate,
)
from sqlstream.planner.physical.kernels import kind_of
from sqlstream.planner.physical.steps import (
    Ask,
    Compute,
    Mark,
    NativeState,
    NumberedLookup,
    Operator,
    PhysicalPlan,
    Read,
    Step,
    Told,
    Write,
)
from sqlstream.planner.properties import keeps_rows


@with_room
def explain_physical(plan: PhysicalPlan) -> str:
    """The steps as a tree, the root first."""
    return tree(plan.root, lambda step: f"{_nodes(step)}: {_step(step)}")


def _nodes(step: Step) -> str:
    if isinstance(step, Ask):
        return " and ".join(describe(lookup.node) for lookup in reversed(step.lookups))
    return describe(step.node)


@singledispatch
def _step(step: Step) -> str:
    """What runs, in a few words."""
    raise TypeError(f"no description for {type(step).__name__}")


@_step.register
def _(step: Read) -> str:
    if step.by_exchange:
        return "Spark lists the files, the exchange above reads their columns"
    filters = ", filters above it that Catalyst may push into the source" if step.node.predicates else ""
    return f'stream of connector "{step.node.table.connector}"{filters}'


@_step.register
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


@_step.register
def _(step: Compute) -> str:
    if step.skipped:
        return "nothing, the operator above reads what it needs"
    return computed(step.node)


@_step.register
def _(step: Ask) -> str:
    (first, *rest) = step.lookups
    together = f"{1 + len(rest)} lookups asked together: " if rest else ""
    return f"{together}{_asked(first.node)}, explode of the answers{_aside(step.lookups)}"


def _aside(lookups: tuple[NumberedLookup, ...]) -> str:
    return ", failed rows aside" if any(lookup.node.failed is not None for lookup in lookups) else ""


def _asked(node: Lookup) -> str:
    options = node.options
    how = f"up to {options.capacity} at the same time per task" if options.asynchronous else "one after the other"
    return f"keys, mapInArrow that asks for them {how}"


@_step.register
def _(step: NativeState) -> str:
    return native_state(step.node)


@_step.register
def _(step: Operator) -> str:
    apart = f" (not in the call of the operator below: {step.apart})" if step.apart is not None else ""
    if step.lookup is not None:
        node = step.lookup.node
        waits = f"{_exchange(step)}, kernel {kernel(node)}, state in RocksDB"
        return f"{_asked(node)}, {waits}, explode of the answers{_aside((step.lookup,))}{apart}"
    before = "".join(f"{part}, " for part in _before(step.node))
    return f"{before}{_exchange(step)}, kernel {kernel(step.node)}, state in RocksDB{apart}"


def _exchange(step: Operator) -> str:
    if step.link is not None:
        return "in the call of the operator below"
    return "exchange by key group" if step.keyed else "exchange to one key group"


def _before(node: Node) -> list[str]:
    """What Catalyst does with the rows before the exchange."""
    if isinstance(node, WindowAggregate) and node.grouping_sets is not None:
        return ["explode of the grouping sets"]
    if isinstance(node, ProcessTable) and len(node.tables) > 1:
        return [f"union of {len(node.tables)} tables"]
    return []


@_step.register
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
    """What the kernel of an operator is or does, behind the word "kernel"."""
    raise TypeError(f"no description of the kernel of {type(node).__name__}")


@kernel.register(AssignWindows)
@kernel.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate) -> str:
    reason = keeps_rows(node)
    return f"of {kind_of(node).value}, {f'rows kept ({reason})' if reason else 'aggregates of the rows kept'}"


@kernel.register
def _(node: Lookup) -> str:
    return "that keeps rows until they are answered"


@kernel.register
def _(node: AlignBarriers) -> str:
    held = "counts the markers" if node.at_least_once else f"holds up to {node.most_held:,} rows of channels that wait"
    return f"that {held}"


@kernel.register
def _(node: ProcessTable) -> str:
    order = ", rows kept until the watermark passes them" if node.in_order else ""
    return f"that calls the function row by row{order}"


# --- without kernels ------------------------------------------------------------------------------------------


@singledispatch
def computed(node: Node) -> str:
    """What a node without state becomes."""
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


@computed.register
def _(node: ProcessTable) -> str:
    return "mapInArrow that calls the function row by row"


@computed.register
def _(node: AssignWindows) -> str:
    window = node.window
    assert isinstance(window, AlignedWindow), window
    if window.zone is not None:
        return f"mapInArrow that assigns windows on the clock of {window.zone}"
    match window:
        case Tumble():
            return "projection, one window per row"
        case Hop(slide_ms=slide, size_ms=size):
            return f"explode of up to {-(-size // slide)} windows per row"
        case Cumulate(step_ms=step, size_ms=size):
            return f"explode of up to {size // step} windows per row"


@singledispatch
def native_state(node: Node) -> str:
    """What an operator with state becomes that is Spark's own."""
    raise TypeError(f"Spark has no operator for {type(node).__name__}")


@native_state.register
def _(node: AssignWindows) -> str:
    return "streaming aggregation by session_window that keeps all rows until the session closes, then inline"


@native_state.register
def _(node: WindowAggregate) -> str:
    sets = f"explode of {len(node.grouping_sets)} grouping sets, " if node.grouping_sets is not None else ""
    window = "session_window" if isinstance(node.window, Session) else "window"
    keys = ", ".join([*node.keys, window])
    distinct = any(item.expression.find(exp.Distinct) for item in node.aggregates)
    collected = ", DISTINCT values kept as sets" if distinct else ""
    return f"{sets}streaming aggregation by {keys} in append mode, state in RocksDB{collected}"
