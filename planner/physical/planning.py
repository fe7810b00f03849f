"""Makes the physical plan of an optimized plan in one walk from the roots to the tables.

On its way down the walk carries what is above: operators with state, awaited watermarks, exchanges that read files
themselves. Each kind of node without state has a function of its own; operators with state need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NoReturn

from sqlstream.errors import UnsupportedError
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.changes import drops_update_before
from sqlstream.planner.node import Link, Node
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Scan, StatementSet, below_projections
from sqlstream.planner.physical.at_once import firing_at_once
from sqlstream.planner.physical.column_queries import Selection, column_query
from sqlstream.planner.physical.engine import (
    Engine,
    EngineSettings,
    PlanClocks,
    clocks_of,
    engine_of,
    observes_watermarks,
    watermarked_nodes,
)
from sqlstream.planner.physical.read_by_tasks import files_to_read, format_of, mark_below, shared_sources, times_between
from sqlstream.planner.physical.shared_operators import with_shared_operators
from sqlstream.planner.physical.shared_reads import sources_of_spark, taken, with_shared_reads
from sqlstream.planner.physical.sources import Source, source_of
from sqlstream.planner.physical.steps import (
    Ask,
    BlobWatermark,
    Compute,
    Mark,
    NativeState,
    Operator,
    PhysicalPlan,
    Port,
    Read,
    Step,
    WatermarkSource,
    Write,
)
from sqlstream.udfs.expressions.tree import Added, Kept


@on_deep_stack
def physical_plan(plan: Node, engine_settings: EngineSettings) -> PhysicalPlan:
    """Makes the physical plan of an optimized plan. UnsupportedError SS393 for a plan with both event and processing
    time on the native engine.
    """
    engine = engine_of(plan, engine_settings.engine)
    marks = tuple(watermarked_nodes(plan))
    if engine.is_of_spark:
        _require_one_clock(marks)
    clocks = clocks_of(plan, marks) if engine is Engine.COLUMNAR else PlanClocks()
    shared = shared_sources(plan, engine, engine_settings.reuse)
    whole = _Whole(plan, engine_settings, engine, clocks, marks, observes_watermarks(plan), shared)
    root = _steps(whole)
    if engine_settings.at_once and not clocks.rows_wait:
        root = firing_at_once(root)
    return PhysicalPlan(plan, root, engine, clocks, marks, engine_settings.reuse, shared)


def _steps(whole: _Whole) -> Step:
    """The steps of the plan, of which those that are there several times run once. Spark reads a table where tasks
    cannot do it for all who read it, which is known when all are planned.
    """
    root = Above(whole).step(whole.plan)
    if whole.shares_operators:
        root = with_shared_operators(root, in_queries=whole.engine_settings.reuse.in_queries)
    if not (whole.engine_settings.reuse.reads and whole.shared):
        return root
    root = with_shared_reads(root, whole.shared)
    sources = sources_of_spark(root) & whole.shared
    return _steps(replace(whole, by_spark=whole.by_spark | sources)) if sources else root


def _require_one_clock(marks: tuple[AssignTime, ...]) -> None:
    domains = {mark.domain for mark in marks}
    if TimeDomain.PROCESSING in domains and len(domains) > 1:
        raise UnsupportedError(
            "SS393",
            "windows on event time and on processing time in one query are not executed",
            hint="Write two queries, one per kind of time: Spark has one watermark per query.",
        )


@dataclass(frozen=True)
class _Whole:
    """Facts about the whole plan, and the numbers of its operators with state, lookups and watermarks.
    ``shared``: the sources that all scans of their table have in common. ``by_spark``: those among them that Spark
    reads.
    """

    plan: Node
    engine_settings: EngineSettings
    engine: Engine
    clocks: PlanClocks
    marks: tuple[AssignTime, ...]
    observed: bool
    shared: frozenset[Source]
    by_spark: frozenset[Source] = frozenset()
    operators: Iterator[int] = field(default_factory=count, init=False)
    lookups: Iterator[int] = field(default_factory=count, init=False)
    watermarks: Iterator[int] = field(default_factory=count, init=False)

    def watermark_source(self, mark: AssignTime, awaited: frozenset[TimeDomain]) -> WatermarkSource:
        """How Spark learns a watermark that no exchange reports: that of processing time by ticks, where others are
        awaited too."""
        if mark.domain not in awaited:
            return WatermarkSource.NOT
        others = {m.domain for m in self.marks} != {mark.domain}
        by_ticks = mark.domain is TimeDomain.PROCESSING and self.engine is Engine.COLUMNAR and others
        return WatermarkSource.BY_TICKS if by_ticks else WatermarkSource.BY_ROWS

    def shares_reads(self, scan: Scan) -> bool:
        """True for a scan whose rows tasks may read once for all scans of its table."""
        return self.engine_settings.reuse.reads and source_of(scan) in self.shared

    @property
    def shares_operators(self) -> bool:
        """True where equal operators run once, in queries or at least in statement sets."""
        reuse = self.engine_settings.reuse
        some = reuse.in_queries or isinstance(self.plan, StatementSet)
        return some and reuse.operators and self.engine is Engine.COLUMNAR

    def reads_files(self, scan: Scan) -> bool:
        """True for a scan whose files or messages tasks may read: once for all scans of its table, where these have one
        source.
        """
        if source_of(scan) in self.shared and not self.shares_reads(scan):
            return False
        return source_of(scan) not in self.by_spark and self.engine_settings.sources.reads_files(scan)

    def is_only_reader(self, mark: AssignTime) -> bool:
        """True where an exchange that gets all rows may report their watermark.

        In a statement set other queries read them, too, whose watermark is the same where they read the same table.
        """
        return not isinstance(self.plan, StatementSet) or all(other.table == mark.table for other in self.marks)

    def metric(self) -> int | None:
        """The number of the next watermark that is observed; None where none is."""
        return next(self.watermarks) if self.observed else None


@dataclass(frozen=True)
class Above:
    """What the planning of a node must know about the nodes downstream, between it and the root of the plan.

    ``awaited``: the time domains whose watermark some operator waits for. ``stateful``: the stateful operators, the
    nearest last. ``in_order``: one of them depends on the order of rows. ``reported``: the time attribute whose
    watermark an exchange reports. ``read``: what an exchange reads of files itself. ``linked``: the next operator may
    be chained to the one upstream, whatever projections are between them. ``functions``: what happens to rows for which
    a scalar function raises an exception. ``before``: some operator needs -U rows. ``by_root``: the tasks of the root
    compute all from the files.
    """

    whole: _Whole
    awaited: frozenset[TimeDomain] = frozenset()
    stateful: tuple[Node, ...] = ()
    in_order: bool = False
    reported: AssignTime | None = None
    read: Selection | None = None
    linked: bool = False
    functions: OnError = FAIL
    before: bool = False
    by_root: bool = False

    def step(self, node: Node) -> Step:
        """The physical step of a node, including the steps of its inputs."""
        planned = self._step(node)
        return replace(planned, drops_before=True) if drops_update_before(node, self.before) else planned

    def _step(self, node: Node) -> Step:
        if not node.keeps_state:
            return self._stateless(node)
        return self._native(node) if self.whole.engine.is_of_spark else self._operator(node)

    def below(self, node: Node, ports: tuple[Port, ...] = ()) -> tuple[Step, ...]:
        """The physical steps of a node's inputs. ``ports``: for a stateful operator the exchange of each input."""
        return tuple(self._over(node, port, ports).step(child) for port, child in enumerate(node.inputs))

    def _over(self, node: Node, port: int, ports: tuple[Port, ...]) -> Above:
        """The state of the walk for one of the inputs."""
        over = replace(self, before=node.reads_update_before(self.before, port))
        if port >= len(ports):
            return over
        watermark, files = ports[port].watermark, ports[port].files
        return replace(over, reported=watermark.source if watermark is not None else None, read=files)

    @property
    def native_state(self) -> tuple[Node, ...]:
        """The downstream stateful operators that Spark runs itself, through which no side output can pass; empty on the
        columnar engine.
        """
        return self.stateful if self.whole.engine.is_of_spark else ()

    def require_calls(self) -> None:
        """Raises UnsupportedError if rows for which a function raises an exception should go to a table of dead
        letters, and one of Spark's own stateful operators is downstream, because it would drop them.
        """
        _require_passage("dead letters", self.functions.table, self.native_state)

    @property
    def skips(self) -> bool:
        """True if the projections between two operators need not run, because the downstream operator computes what it
        needs from the upstream operator's fields.
        """
        return self.read is not None or self.linked or self.by_root

    # --- operators with state -------------------------------------------------------------------------------------

    def _native(self, node: Node) -> NativeState:
        if self.whole.engine is not Engine.REAL_TIME or not node.updates_in_real_time:
            _require_native(node)
        under = replace(self, awaited=self.awaited | node.awaited_domains, stateful=(*self.stateful, node))
        return NativeState(node, under.below(node))

    def _operator(self, node: Node) -> Operator:
        whole = self.whole
        number = next(whole.operators)
        lookup = next(whole.lookups) if node.queries_external_source else None
        chained = self._chained(node) if whole.engine_settings.chains else None
        link = chained if isinstance(chained, Link) else None
        ticks = whole.clocks.ticks and node.uses_processing_time
        under = Above(
            whole,
            awaited=self.awaited | node.awaited_domains,
            stateful=(*self.stateful, node),
            in_order=self.in_order or node.depends_on_arrival_order,
            linked=link is not None,
            functions=self.functions,
            before=self.before,
        )
        ports = tuple(under.port(node, port, ticks=ticks) for port in range(node.port_count))
        return Operator(
            node,
            under.below(node, ports),
            number,
            keys=node.exchange_keys,
            in_order=under.in_order,
            ticks=ticks,
            stateful_above=self.stateful[-1] if self.stateful else None,
            link=link,
            apart=chained if isinstance(chained, str) else None,
            lookup=lookup,
            held_back_ms=node.operator_held_back_ms,
            ports=ports,
        )

    def _chained(self, node: Node) -> Link | str | None:
        """The operator that the node is chained to, or why it has an exchange of its own; None where no operator with
        state is below."""
        if not any(below.keeps_state for child in node.inputs for below in child.walk()):
            return None
        return node.chain_link(self.whole.clocks.rows_wait)

    def port(self, node: Node, port: int, *, ticks: bool) -> Port:
        """Plans the exchange of one input (``port``, from 0) of the operator ``node``: the watermark that it reports,
        and the files that it reads itself. With ``ticks`` of processing time among the input's rows, Spark reads the
        files instead.
        """
        if self.linked:
            return Port()
        source = self._marked(node, port)
        files = None if ticks else self._files(node, port, source)
        time = node.watermark_field(port)
        if source is None or time is None or (files is None and not _reaches(node.inputs[port], time, source)):
            return Port(None, files)
        return Port(BlobWatermark(source, time, self.whole.metric()), files)

    def _marked(self, node: Node, port: int) -> AssignTime | None:
        """The time attribute whose watermark the exchange of an input can report, if it sees all rows; else None."""
        time = node.watermark_field(port)
        source = mark_below(node.inputs[port], time) if time is not None else None
        if source is None or source.domain not in self.awaited | node.awaited_domains:
            return None
        return source if self.whole.is_only_reader(source) else None

    def _files(self, node: Node, port: int, source: AssignTime | None) -> Selection | None:
        """The files that the exchange of an input reads itself; for this Spark need not know the times of rows."""
        others = (time for time in times_between(node.inputs[port]) if time is not source)
        if any(self.whole.watermark_source(time, self.awaited) is WatermarkSource.BY_ROWS for time in others):
            return None
        sources = self.whole.engine_settings.sources
        files = files_to_read(node, port, source, sources, calls=not self.functions.tolerates)
        return files if files is not None and self.whole.reads_files(files.scan) else None

    # --- steps without state --------------------------------------------------------------------------------------

    def _stateless(self, node: Node) -> Step:
        """The step of a node without state, over the steps below it."""
        if node.calls_functions:
            self.require_calls()
        if node.needs_columnar and self.whole.engine.is_of_spark:
            _require_native(node)
        match node:
            case Scan():
                _require_passage("dead letters", node.on_error.table, self.native_state)
                steps = () if self.read is None else self.read.steps
                filters = any(isinstance(step, Kept) for step in steps)
                computes = any(isinstance(step, Added) for step in steps)
                by_exchange, rows = self.read is not None, self._taken(node)
                return Read(node, (), self.in_order, by_exchange, filters, computes, self.by_root, rows)
            case AssignTime():
                source = (
                    WatermarkSource.BY_BLOBS
                    if node is self.reported
                    else self.whole.watermark_source(node, self.awaited)
                )
                below = self.below(node)  # whose watermarks are numbered first
                return Mark(node, below, source, self.whole.metric() if source is WatermarkSource.BY_ROWS else None)
            case Output() | Insert():
                query, discards = self._columns(node)
                over = replace(self, functions=node.functions, by_root=query is not None)
                return Write(node, over.below(node), columns=query, discards=discards)
            case StatementSet():
                return Write(node, self.below(node))
            case Project():
                return Compute(node, self.below(node), skipped=self.skips)
            case Filter() if self.by_root or self.read is not None:
                return Compute(node, self.below(node), skipped=True)
        return self._ask(node) if node.asked_together else Compute(node, self.below(node), arrow=node.runs_in_arrow)

    def _taken(self, scan: Scan) -> Selection | None:
        """What Spark may take of the rows that tasks read of a scan's table for others: where it needs no more than
        they have, and their times move no watermark.
        """
        if not self.whole.shares_reads(scan) or self.read is not None or self.by_root or self.awaited or self.in_order:
            return None
        tolerates = scan.on_error.tolerates or self.functions.tolerates
        return taken(scan) if not tolerates and self.whole.reads_files(scan) else None

    def _columns(self, root: Output | Insert) -> tuple[Selection | None, bool]:
        """The query that the tasks of the root compute, and whether its sink keeps no rows.

        Spark reads Parquet in columns, too, and hands them to its own writers: there tasks compute only what no sink
        keeps.
        """
        sources = self.whole.engine_settings.sources
        alone = root is self.whole.plan
        query = column_query(root, sources)
        if query is None or (query.scan.on_error.tolerates and not alone):
            return None, False
        discards = alone and isinstance(root, Insert) and sources.discards(root.table)
        of_columns = format_of(query.scan) in ("arrow", "orc", "parquet")
        stays_with_spark = of_columns and (not discards or query.scan.on_error.tolerates)
        if stays_with_spark or not self.whole.reads_files(query.scan):
            return None, False
        return query, discards

    def _ask(self, node: Node) -> Ask:
        """The step of lookups that are asked together; their numbers count from the top."""
        group = node.asked_together
        for lookup in group:
            _require_passage("ON ERROR TO", lookup.side_table, self.native_state)
        numbered = [(next(self.whole.lookups), lookup) for lookup in reversed(group)]
        return Ask(node, self.below(group[0]), lookups=tuple(reversed(numbered)))


def _reaches(below: Node, time: str, source: AssignTime) -> bool:
    """True if all rows of a time attribute reach the node above ``below``, where it is the field ``time``."""
    node_and_name = below_projections(below, time)
    return node_and_name is not None and node_and_name[0] is source


# --- Spark's own operators ------------------------------------------------------------------------------------

ONLY_COLUMNAR = "SS390"


def _require_native(node: Node) -> None:
    """UnsupportedError SS390 that names the first clause of an operator that Spark's own cannot run."""
    clause = node.columnar_only_clause
    if clause is not None:
        _refuse(clause)


def _require_passage(what: str, table: Table | None, stateful_above: Sequence[Node]) -> None:
    """UnsupportedError SS390 where one of Spark's own operators with state would keep rows for ``table``."""
    if table is not None and stateful_above:
        _refuse(f"{what} below a window")


def _refuse(what: str) -> NoReturn:
    verb = "are" if what.startswith("dead letters") else "is"
    message = f"{what} {verb} not executed on Spark's native operators"
    raise UnsupportedError(ONLY_COLUMNAR, message, hint="SET 'sqlstream.engine' = 'auto'.")
