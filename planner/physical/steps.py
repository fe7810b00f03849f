"""The steps of a physical plan, frozen, each with its node and every decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.explain.text import tree
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Link, Node
from sqlstream.planner.nodes import AssignTime, Insert, Output, Scan, StatementSet
from sqlstream.planner.physical.column_queries import Selection
from sqlstream.planner.physical.engine import REUSES_ALL, Engine, PlanClocks, Reuse
from sqlstream.planner.physical.read_by_tasks import TOPICS
from sqlstream.planner.physical.sources import Source
from sqlstream.planner.tails import Taken
from sqlstream.udfs.spark import Watermark


@dataclass(frozen=True)
class Step:
    """A step of the physical plan, which executes ``node`` over the output of the steps ``inputs``.

    ``drops_before``: -U rows are dropped, because no downstream operator reads them. ``takes``: what each of several
    inputs takes of an operator that others read, too; None for one that is alone. Empty where all are.
    """

    node: Node
    inputs: tuple[Step, ...] = ()
    drops_before: bool = field(default=False, kw_only=True)
    takes: tuple[Taken | None, ...] = field(default=(), kw_only=True)

    @property
    def input(self) -> Step:
        """The step that is the only input."""
        (step,) = self.inputs
        return step

    def walk(self) -> Iterator[Step]:
        """This step and all upstream of it, depth first."""
        waiting: list[Step] = [self]
        while waiting:
            step = waiting.pop()
            yield step
            waiting.extend(reversed(step.inputs))

    @property
    def label(self) -> str:
        """The text of the step's node in EXPLAIN; of all its nodes, if it executes several."""
        return self.node.describe()

    @property
    def runs(self) -> str:
        """Says in a few words how the step is executed, for EXPLAIN PHYSICAL."""
        raise TypeError(f"no description for {type(self).__name__}")

    @property
    def line(self) -> str:
        """The step's line in EXPLAIN PHYSICAL."""
        dropped = ", then a filter that drops -U, which nobody above reads" if self.drops_before else ""
        return f"{self.label}: {self.runs}{dropped}"


@dataclass(frozen=True)
class Compute(Step):
    """A stateless step: expressions of Spark SQL, or Python in ``mapInArrow`` if ``arrow``.

    ``skipped``: the step does not run, because the downstream operator reads its fields from upstream.
    """

    arrow: bool = False
    skipped: bool = False

    @property
    def runs(self) -> str:
        if self.skipped:
            return "nothing, the operator above reads what it needs"
        return self.node.compute_text


@dataclass(frozen=True)
class Ask(Compute):
    """The step that sends the requests of several stateless lookups at the same time. It executes the lookups from the
    one nearest to the source up to ``node``; each has its number among the lookups of the plan.
    """

    lookups: tuple[tuple[int, Node], ...] = ()

    @property
    def label(self) -> str:
        return " and ".join(lookup.describe() for _, lookup in reversed(self.lookups))


@dataclass(frozen=True)
class SharedRead:
    """Files that tasks read once for several steps: the columns of ``scan``, those of all readers.

    ``times``: the columns that must hold event times, each with the time attribute and the table as messages name them.
    ``in_order``: some reader depends on the order of rows.
    """

    number: int
    scan: Scan
    times: tuple[tuple[str, str, str], ...] = ()
    in_order: bool = False


@dataclass(frozen=True)
class Read(Step):
    """The step that reads a table. ``by_exchange``: Spark only lists its files or ranges of messages, and the exchange
    downstream reads them. ``filters``, ``computes``: what it does with their columns, too. ``by_root``: the tasks of
    the root read them. ``in_order``: hidden columns number the rows in their order. ``taken``: what Spark may take of
    the rows that tasks read for other steps. ``shared``: what it reads is read once for several steps; ``reused``: an
    earlier one of the plan.
    """

    node: Scan
    in_order: bool = False
    by_exchange: bool = False
    filters: bool = False
    computes: bool = False
    by_root: bool = False
    taken: Selection | None = None
    shared: SharedRead | None = None
    reused: bool = False

    @property
    def by_tasks(self) -> bool:
        """True if tasks read the files or messages themselves."""
        return self.by_exchange or self.by_root

    @property
    def runs(self) -> str:
        listed = "ranges of messages" if self.node.table.connector == TOPICS else "files"
        if self.shared is not None:
            if self.reused:
                return f"Reused(reference_id=[{self.shared.number}])"
            reader = f"tasks read {', '.join(self.shared.scan.columns)} once for all readers"
            return f"Spark lists the {listed}, {reader}, reuse_id=[{self.shared.number}]"
        if self.by_tasks:
            reader = "exchange above reads" if self.by_exchange else "tasks of the root read"
            does = [word for word, done in (("filters", self.filters), ("computes", self.computes)) if done]
            reader += f" and {' and '.join(does)}" if does else ""
            return f"Spark lists the {listed}, the {reader} their columns"
        filters = ", filters above it that Catalyst may push into the source" if self.node.predicates else ""
        return f'stream of connector "{self.node.table.connector}"{filters}'


def read_below(step: Step) -> Read:
    """The step that reads the table, below steps with one input."""
    while not isinstance(step, Read):
        step = step.input
    return step


class WatermarkSource(Enum):
    """How a watermark is computed and passed to Spark."""

    NOT = "not"
    """No operator waits for it."""
    BY_TICKS = "by ticks"
    """Ticks report the clock to the operators that wait for it."""
    BY_ROWS = "by rows"
    """``withWatermark`` over the rows, united with control rows."""
    BY_BLOBS = "by blobs"
    """The exchange above reports the newest time of its blobs, which are united with control rows."""


@dataclass(frozen=True)
class Mark(Step):
    """The step that makes a column a time attribute and computes its watermark. ``metric`` is the number of the metric
    by which Spark reports the watermark, None if it does not.
    """

    node: AssignTime
    watermark_source: WatermarkSource = WatermarkSource.NOT
    metric: int | None = None

    @property
    def runs(self) -> str:
        node, delay = self.node, readable(self.node.delay_ms)
        if self.watermark_source is WatermarkSource.BY_BLOBS:
            reported = "the exchange above tells the newest time of its rows, and control rows join them there"
            return f"nothing here, {reported} (withWatermark, delay {delay})"
        if self.watermark_source is WatermarkSource.BY_TICKS:
            return "a column with the clock, which ticks tell the operators above"
        if self.watermark_source is WatermarkSource.NOT:
            return "nothing, no window waits for this watermark"
        clock = "the time column" if node.domain is TimeDomain.EVENT else "the clock of the batch"
        return (
            f'union with the control rows of "{node.table}", withWatermark on {clock} '
            f"(delay {delay}), then a filter that takes the control rows out"
        )


@dataclass(frozen=True)
class NativeState(Step):
    """A stateful operator that Spark's own streaming operators execute."""

    @property
    def runs(self) -> str:
        return self.node.native_state_text


@dataclass(frozen=True)
class BlobWatermark:
    """The watermark of the time attribute ``source``, if an exchange computes it while it packs rows as bytes (blobs),
    and sends it along with them. ``time`` is the field of the operator's input. ``metric`` is the number of the metric
    by which Spark reports the watermark, None if it does not. ``at_once``: the exchange also tells every key group the
    newest time, so that windows which the rows of a micro-batch close fire in it, not in the next one.
    """

    source: AssignTime
    time: str
    metric: int | None = None
    at_once: bool = False


@dataclass(frozen=True)
class Port:
    """One input of an operator, with its exchange. ``watermark``: the watermark that the exchange reports to Spark.
    ``files``: the files that it reads instead of Spark.
    """

    watermark: BlobWatermark | None = None
    files: Selection | None = None


@dataclass(frozen=True)
class Operator(Step):
    """A stateful operator on the columnar engine: an exchange by key group for each input, and a kernel.

    ``number``: its number among the stateful operators of the plan, counted from the root. ``keys``: the keys of its
    exchange; empty: all rows go to one key group. ``in_order``: it, or a downstream operator, depends on the order in
    which rows arrived. ``ticks``: processing time arrives as ticks. ``stateful_above``: the next stateful operator
    downstream. ``link``: how it is chained to the operator upstream, None if it is not; ``apart``: the reason why it is
    not. ``lookup``: the number of a stateful lookup among the lookups of the plan. ``held_back_ms``: by how many
    milliseconds its watermark is earlier than that of the query. ``ports``: the exchange of each input. ``reuse``: the
    number by which other inputs of a step above name it, which take its results, too; None where none do.
    """

    number: int = 0
    keys: tuple[str, ...] = ()
    in_order: bool = False
    ticks: bool = False
    stateful_above: Node | None = None
    link: Link | None = None
    apart: str | None = None
    lookup: int | None = None
    held_back_ms: int = 0
    ports: tuple[Port, ...] = (Port(),)
    reuse: int | None = None

    @property
    def _exchange_text(self) -> str:
        if self.link is not None:
            return "in the call of the operator below"
        how = "exchange by key group" if self.keyed else "exchange to one key group"
        if any(port.watermark is not None and port.watermark.at_once for port in self.ports):
            how += ", which tells the watermark at once"
        return how if len(self.ports) == 1 else f"{how} of each input"

    @property
    def keyed(self) -> bool:
        """True if the exchange distributes rows by keys, False if all go to one key group."""
        return bool(self.keys)

    @property
    def operator_below(self) -> Operator:
        """The upstream operator to which this one is chained. Only for operators that are chained (AssertionError
        otherwise).
        """
        below = self.input
        while isinstance(below, Compute):
            below = below.input
        assert isinstance(below, Operator), below
        return below

    @property
    def runs(self) -> str:
        before, after = self.node.before_exchange_text, self.node.after_kernel_text
        late = f", watermark {readable(self.held_back_ms)} behind" if self.held_back_ms else ""
        parts = (before, self._exchange_text, f"kernel {self.node.kernel_text}{late}", "state in RocksDB", after)
        apart = f" (not in the call of the operator below: {self.apart})" if self.apart is not None else ""
        reuse = f", reuse_id=[{self.reuse}]" if self.reuse is not None else ""
        return f"{', '.join(text for text in parts if text is not None)}{apart}{reuse}"


@dataclass(frozen=True)
class Reused(Step):
    """An operator that another input of a step above has, too: its results are those of the ``Operator`` with the same
    number ``reuse``.
    """

    reuse: int = 0

    @property
    def runs(self) -> str:
        return f"Reused(reference_id=[{self.reuse}])"


@dataclass(frozen=True)
class Write(Step):
    """The step that writes the result: the root of a query, of an insert, or of all inserts of a statement set
    together.

    ``columns``: the query that its tasks compute over the columns of files; None where Spark computes it. ``discards``:
    of that query, the tasks hand no rows to Spark, because the sink keeps none.
    """

    columns: Selection | None = None
    discards: bool = False

    @property
    def runs(self) -> str:
        if self.columns is None:
            return self._writes
        results = [] if self.discards else ["the rows of the result"]
        letters = ["dead letters"] if self.columns.has_letters else []
        handed = " and ".join([*results, *letters]) or "no rows"
        return f"{self._writes}; its tasks read and filter columns, and hand {handed} to Spark"

    @property
    def _writes(self) -> str:
        match self.node:
            case Insert(table=table):
                return f'sink of connector "{table.connector}", idempotent by batch'
            case StatementSet(inserts=inserts):
                return f"union of {len(inserts)} inserts in one query, a micro-batch is one epoch of all tables"
        assert isinstance(self.node, Output), self.node
        return "rows to the caller, once per micro-batch"


@dataclass(frozen=True)
class PhysicalPlan:
    """A plan of physical steps. ``logical``: the optimized logical plan from which it was made. ``marks``: the nodes of
    time attributes with a watermark, from the root. ``reuse``: what it was made with. ``shared_sources``: those of
    which all scans get the same rows in a micro-batch. A scan of another table has a source of its own, which may be at
    other rows than another scan's.
    """

    logical: Node
    root: Step
    engine: Engine
    clocks: PlanClocks
    marks: tuple[AssignTime, ...] = field(default=())
    reuse: Reuse = REUSES_ALL
    shared_sources: frozenset[Source] = frozenset()

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The stateful operators of the columnar engine, sorted by their number."""
        return tuple(step for step in self.root.walk() if isinstance(step, Operator))

    @property
    def has_blobs(self) -> bool:
        """True if what goes to Python and comes from it are blobs, each of many rows: kernels run, or tasks read what
        several readers share.
        """
        return any(isinstance(step, Operator) or _is_shared(step) for step in self.root.walk())

    def watermark_of(self, operator: Operator) -> Watermark:
        """What Spark's watermark stands for at an operator: the same as in the whole plan, or NONE if no step upstream
        reports one.

        Spark refuses operators that ask for a watermark that no source reports.
        """
        by_ticks = self.clocks.watermark is Watermark.CLOCK
        for step in operator.walk():
            reported = isinstance(step, Mark) and step.watermark_source in (
                WatermarkSource.BY_ROWS,
                WatermarkSource.BY_BLOBS,
            )
            if reported or (by_ticks and isinstance(step, Operator) and step.ticks):
                return self.clocks.watermark
        return Watermark.NONE

    @property
    def observes_watermarks(self) -> bool:
        """True if Spark must report each watermark as a metric, because it combines several to their minimum."""
        return any(_observes(step) for step in self.root.walk())


def _is_shared(step: Step) -> bool:
    return isinstance(step, Read) and step.shared is not None


def _observes(step: Step) -> bool:
    match step:
        case Mark():
            return step.metric is not None
        case Operator():
            return any(port.watermark is not None and port.watermark.metric is not None for port in step.ports)
    return False


@on_deep_stack
def explain_physical(plan: PhysicalPlan) -> str:
    """The text of EXPLAIN PHYSICAL: the steps as a tree, the root first."""
    return tree(plan.root, lambda step: step.line)
