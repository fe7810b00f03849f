"""Which engine runs a plan, with which settings, and the clocks that the plan needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, StatementSet
from sqlstream.planner.physical.sources import PlannedSources, ThroughSpark
from sqlstream.planner.properties import WaitsFor
from sqlstream.udfs.spark import Watermark

# --- clocks ----------------------------------------------------------------------------------------------------
# Spark has one watermark per query. Where windows wait for event time, processing time arrives as ticks, rows that
# reach every key group; otherwise the clock itself is Spark's watermark. Ticks also make the micro-batches in which
# lookups are asked again for deferred rows, and in which barriers say which rows they hold.


@dataclass(frozen=True)
class PlanClocks:
    """How the operators of a plan learn of the progress of time.

    ``watermark`` says which clock Spark's only watermark stands for. ``ticks``: processing time arrives as control rows
    (ticks), because Spark cannot derive it from the rows. ``waiting``: the events, other than time, for which stored
    rows may wait. ``ends_by_tick``: a tick reports the end of a bounded input, because no table has a watermark. On the
    native engine the watermark is the only clock.
    """

    watermark: Watermark = Watermark.NONE
    ticks: bool = False
    waiting: frozenset[WaitsFor] = frozenset()
    ends_by_tick: bool = False

    @property
    def rows_wait(self) -> bool:
        """True if some operator may store rows and hold back the watermark meanwhile."""
        return bool(self.waiting)

    @property
    def needs_ticks(self) -> bool:
        """True if the plan needs ticks, for processing time or to call operators that store waiting rows."""
        return self.ticks or self.rows_wait


def clocks_of(plan: Node, marks: tuple[AssignTime, ...]) -> PlanClocks:
    """Returns how the operators of a plan learn of the progress of time on the columnar engine. ``marks`` are the nodes
    of its time attributes with a watermark.
    """
    stateful = list(stateful_nodes(plan))
    by_clock = any(each.uses_processing_time for each in stateful)
    event_time = any(mark.domain is not TimeDomain.PROCESSING for mark in marks)
    ticks = by_clock and (event_time or not marks)
    by_time = Watermark.CLOCK if by_clock else Watermark.NONE
    return PlanClocks(
        Watermark.EVENT_TIME if event_time else by_time,
        ticks,
        frozenset(domain for node in stateful if (domain := node.waits_for) is not None),
        ends_by_tick=ticks and not marks,
    )


def stateful_nodes(plan: Node) -> Iterator[Node]:
    """The nodes that keep state, in depth-first order from the root."""
    return (node for node in plan.walk() if node.keeps_state)


def watermarked_nodes(plan: Node, awaited: frozenset[TimeDomain] = frozenset()) -> Iterator[AssignTime]:
    """The nodes of time attributes that need a watermark, because some downstream operator waits for it. ``awaited``
    are the time domains for which operators above ``plan`` wait.
    """
    waiting = [(plan, awaited)]
    while waiting:
        node, domains = waiting.pop()
        if isinstance(node, AssignTime) and node.domain in domains:
            yield node
        below = domains | node.awaited_domains
        waiting += ((child, below) for child in reversed(node.inputs))


def observes_watermarks(plan: Node) -> bool:
    """True if Spark must report each watermark of the plan as a metric, because it combines several to their minimum.

    The queries of a statement set read each table as one source, so that all its watermarks are the same.
    """
    nodes = list(watermarked_nodes(plan))
    return len({node.table for node in nodes} if isinstance(plan, StatementSet) else nodes) > 1


# --- settings --------------------------------------------------------------------------------------------------

AUTO = "auto"


@dataclass(frozen=True)
class Reuse:
    """What runs once that a plan has several times. A checkpoint keeps it, because sources and state depend on it.

    ``reads``: the scans of a table have one source, which tasks read and decode once where they can. ``operators``:
    equal operators with state run once. ``in_queries``: also within a query; if False only what several queries of a
    statement set have in common.
    """

    reads: bool = True
    operators: bool = True
    in_queries: bool = True


REUSES_ALL = Reuse()


@dataclass(frozen=True)
class EngineSettings:
    """The settings on which physical planning depends.

    ``engine``: ``auto``, ``columnar`` or ``native``. ``chains``: operators with the same keys may be chained, without
    an exchange between them. ``at_once``: windows fire in the micro-batch whose rows close them, where an exchange can
    tell its operator so.
    """

    engine: str = AUTO
    chains: bool = True
    reuse: Reuse = REUSES_ALL
    sources: PlannedSources = field(default_factory=ThroughSpark, compare=False)
    at_once: bool = False


class Engine(Enum):
    """The engine that executes stateful operators: sqlstream's kernels over columns, or Spark's own operators."""

    COLUMNAR = "columnar"
    NATIVE = "native"
    REAL_TIME = "real-time"
    """Spark's own operators row by row, which update results at once. Micro-batches cannot go on with their state."""

    @property
    def is_of_spark(self) -> bool:
        """True for Spark's own operators."""
        return self is not Engine.COLUMNAR


def engine_of(plan: Node, setting: str) -> Engine:
    """The engine on which a plan runs. ``setting`` is ``auto``, ``columnar``, ``native`` or ``real-time``.

    Plans without state run on Spark's own operators, which all engines share, with ``auto`` and ``real-time``; others
    on kernels with ``auto``.
    """
    if setting == AUTO:
        return Engine.COLUMNAR if any(n.keeps_state or n.needs_columnar for n in plan.walk()) else Engine.NATIVE
    if setting == Engine.REAL_TIME.value and not any(n.keeps_state for n in plan.walk()):
        return Engine.NATIVE
    return Engine(setting)
