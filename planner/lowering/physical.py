"""EXPLAIN PHYSICAL and EXPLAIN SPARK: what each node becomes, in words, and what Spark makes of the whole."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator
from functools import singledispatch
from typing import Any

from pyspark.sql import DataFrame
from sqlglot import exp

from sqlstream.grammar.depth import with_room
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.text import tree
from sqlstream.planner.lowering.columnar.chaining import link_of, why_apart
from sqlstream.planner.lowering.columnar.from_files import scan_below
from sqlstream.planner.lowering.columnar.kernels import kind_of
from sqlstream.planner.lowering.columnar.watermarks import blob_watermark
from sqlstream.planner.lowering.gears import Gear, gear_of
from sqlstream.planner.lowering.lookup import together
from sqlstream.planner.lowering.lower import lower, watermarked_nodes
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.nodes import (
    AlignBarriers,
    AssignTime,
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
    Scan,
    Session,
    StatementSet,
    Tumble,
    Union,
    WindowAggregate,
)
from sqlstream.planner.operators.over import Over
from sqlstream.planner.properties import keeps_rows, keeps_state


@with_room
def explain_physical(
    plan: Node, gear: str = "auto", *, chains: bool = True, read_by_exchanges: Collection[Scan] = ()
) -> str:
    """The tree of an optimized plan; each line says what the node lowers to on a setting of the gear. Needs no JVM.

    ``chains``: operators on the same keys run in one call. ``read_by_exchanges``: what ``scans_of_exchanges`` says of
    plans for which ``may_read_in_exchanges``.
    """
    waited_for = set(map(id, watermarked_nodes(plan)))
    asked_above = set(map(id, _asked_with_others(plan)))
    columnar = gear_of(plan, gear) is Gear.COLUMNAR
    told_above = set(map(id, _told_by_exchanges(plan))) if columnar else set()
    passed_over = set(map(id, _between(plan, read_by_exchanges)))

    def label(node: Node) -> str:
        if isinstance(node, Scan) and node in read_by_exchanges:
            return f"{describe(node)}: {_LISTED}"
        if isinstance(node, AssignTime) and id(node) not in waited_for:
            return f"{describe(node)}: nothing, no window waits for this watermark"
        if id(node) in told_above:
            return f"{describe(node)}: {_TOLD.format(delay=readable(node.delay_ms))}"  # type: ignore[attr-defined]
        if id(node) in passed_over:
            return f"{describe(node)}: nothing, the exchange above reads what it needs"
        if columnar and isinstance(node, (AssignWindows, WindowAggregate)) and keeps_state(node):
            chained = chains and link_of(node, plan) is not None
            return f"{describe(node)}: {kernel_text(node, chained=chained)}{apart(node)}"
        if id(node) in asked_above:
            return f"{describe(node)}: asked together with the lookup above"
        return f"{describe(node)}: {physical(node)}"

    def apart(node: Node) -> str:
        reason = why_apart(node, plan) if chains else None
        return f" (not in the call of the operator below: {reason})" if reason is not None else ""

    return tree(plan, label)


_LISTED = "Spark lists the files, the exchange above reads their columns"
_TOLD = (
    "nothing here, the exchange above tells the newest time of its rows, and control rows join them there "
    "(withWatermark, delay {delay})"
)


def may_read_in_exchanges(plan: Node) -> bool:
    """True where only lowering the plan shows whether an exchange reads files itself."""
    return any(
        isinstance(node, AssignWindows | WindowAggregate) and scan_below(node) is not None and keeps_state(node)
        for node in plan.walk()
    )


def scans_of_exchanges(plan: Node, runtime: Runtime) -> tuple[Scan, ...]:
    """The scans whose files the exchanges above them read, found by lowering the plan."""
    recording = _Recording(runtime)
    lower(plan, recording)
    return tuple(recording.scans)


class _Recording:
    """A ``Runtime`` that notes the scans whose places are asked for and told."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.scans: list[Scan] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame | None:
        found = self._runtime.places(scan, in_order=in_order)
        if found is not None:
            self.scans.append(scan)
        return found


def _told_by_exchanges(plan: Node) -> Iterator[AssignTime]:
    """The watermarks that the exchange of a window tells Spark."""
    for node in plan.walk():
        if isinstance(node, AssignWindows | WindowAggregate) and keeps_state(node):
            told = blob_watermark(node, plan)
            if told is not None:
                yield told.source


def _between(plan: Node, scans: Collection[Scan]) -> Iterator[Node]:
    """What stands between the scans and the windows whose exchanges read them."""
    for node in plan.walk():
        if isinstance(node, AssignWindows | WindowAggregate) and scan_below(node) in scans:
            below = node.input
            while isinstance(below, Project | AssignTime):
                yield below
                below = below.input


def _asked_with_others(plan: Node) -> Iterator[Lookup]:
    """The lookups that go with one above them."""
    found: set[int] = set()
    for node in plan.walk():
        if isinstance(node, Lookup) and id(node) not in found:
            below = together(node)[:-1]
            found |= set(map(id, below))
            yield from below


def kernel_text(node: AssignWindows | WindowAggregate, *, chained: bool = False) -> str:
    """The kernel of a window on the columnar gear; ``chained`` where it runs in the call of the operator below."""
    reason = keeps_rows(node)
    contents = f"rows kept ({reason})" if reason else "aggregates of the rows kept"
    sets = isinstance(node, WindowAggregate) and node.grouping_sets is not None
    expanded = "explode of the grouping sets, " if sets else ""
    way = "in the call of the operator below" if chained else "exchange by key group"
    return f"{expanded}{way}, kernel of {kind_of(node).value}, {contents}, state in RocksDB"


def explain_spark(plan: Node, runtime: Runtime) -> str:
    """Spark's own explanation of the plan, from parsed to physical."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        lower(plan, runtime).explain("extended")
    return printed.getvalue().strip()


@singledispatch
def physical(node: Node) -> str:
    """What Spark runs for a node, in a few words."""
    raise TypeError(f"no description for {type(node).__name__}")


@physical.register
def _(node: Scan) -> str:
    filters = ", filters above it that Catalyst may push into the source" if node.predicates else ""
    return f'stream of connector "{node.table.connector}"{filters}'


@physical.register
def _(node: AssignTime) -> str:
    clock = "the time column" if node.domain is TimeDomain.EVENT else "the clock of the batch"
    return (
        f'union with the control rows of "{node.table}", withWatermark on {clock} '
        f"(delay {readable(node.delay_ms)}), then a filter that takes the control rows out"
    )


@physical.register
def _(node: Project) -> str:
    return "projection"


@physical.register
def _(node: Filter) -> str:
    return "filter"


@physical.register
def _(node: Union) -> str:
    return f"union of {len(node.branches)} streams; the slowest watermark counts"


@physical.register
def _(node: Correlate) -> str:
    name = "explode or inline" if isinstance(node.function, exp.Unnest) else "generator"
    return f"{name}{', outer' if node.outer else ''}"


@physical.register
def _(node: Lookup) -> str:
    options = node.options
    how = f"up to {options.capacity} at the same time per task" if options.asynchronous else "one after the other"
    waiting = "exchange by key group, kernel that keeps rows until they are answered, state in RocksDB, "
    kept = waiting if options.defers else ""
    asked = f"keys, mapInArrow that asks for them {how}, {kept}explode of the answers"
    return f"{asked}, failed rows aside" if node.failed is not None else asked


@physical.register
def _(node: AlignBarriers) -> str:
    held = "counts the markers" if node.at_least_once else f"holds up to {node.most_held:,} rows of channels that wait"
    return f"exchange to one key group, kernel that {held}, state in RocksDB"


@physical.register
def _(node: AssignWindows) -> str:
    match node.window:
        case Tumble():
            return "projection, one window per row"
        case Hop(slide_ms=slide, size_ms=size):
            return f"explode of up to {-(-size // slide)} windows per row"
        case Cumulate(step_ms=step, size_ms=size):
            return f"explode of up to {size // step} windows per row"
        case Session():
            return "streaming aggregation by session_window that keeps all rows until the session closes, then inline"
        case _:
            return "rows per key in state, given out when the window fires"


@physical.register
def _(node: WindowAggregate) -> str:
    sets = f"explode of {len(node.grouping_sets)} grouping sets, " if node.grouping_sets is not None else ""
    window = "session_window" if isinstance(node.window, Session) else "window"
    keys = ", ".join([*node.keys, window])
    collected = (
        ", DISTINCT values kept as sets" if any(a.expression.find(exp.Distinct) for a in node.aggregates) else ""
    )
    return f"{sets}streaming aggregation by {keys} in append mode, state in RocksDB{collected}"


@physical.register
def _(node: Over) -> str:
    exchange = "exchange by key group" if node.keys else "exchange to one key group"
    return f"{exchange}, kernel of rows in order of time, state in RocksDB"


@physical.register
def _(node: ProcessTable) -> str:
    if not node.keys:
        return "mapInArrow that calls the function row by row"
    united = f"union of {len(node.tables)} tables, " if len(node.tables) > 1 else ""
    order = ", rows kept until the watermark passes them" if node.in_order else ""
    return f"{united}exchange by key group, kernel that calls the function row by row{order}, state in RocksDB"


@physical.register
def _(node: Output) -> str:
    return "rows to the caller, once per micro-batch"


@physical.register
def _(node: Insert) -> str:
    return f'sink of connector "{node.table.connector}", idempotent by batch'


@physical.register
def _(node: StatementSet) -> str:
    return f"union of {len(node.inserts)} inserts in one query, a micro-batch is one epoch of all tables"
