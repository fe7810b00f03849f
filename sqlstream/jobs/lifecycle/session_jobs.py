"""The jobs of a session: its tables and functions, its checkpoints and its Spark, as a job asks for them."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from sqlstream.catalog import Catalog
from sqlstream.connectors import (
    Environment,
    LookupTable,
    Source,
    SplitSource,
    connector,
    discards_rows,
    lookup_connector,
)
from sqlstream.connectors.secrets import secrets_of, secrets_of_plan
from sqlstream.errors import Diagnostic, SqlStreamError, SqlStreamWarning, UnsupportedError
from sqlstream.folders import Folders
from sqlstream.jobs.checkpoints.checkpoint import checkpoint_exists, is_of_plan, run_of
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.fingerprint import FingerprintPart, StateLayout, fingerprint
from sqlstream.jobs.checkpoints.own_files import Claim, claim, require_sinks_intact, sinks_intact
from sqlstream.jobs.checkpoints.storage import Storage, local_storage_at, storage_at
from sqlstream.jobs.checkpoints.trust import SETTING, unpickles_state
from sqlstream.jobs.lifecycle.job import Job, JobState
from sqlstream.jobs.lifecycle.real_time import require_real_time
from sqlstream.jobs.lifecycle.results import with_kind_first
from sqlstream.jobs.lifecycle.runtime import JobRuntime, Sources
from sqlstream.jobs.lifecycle.sinks import SideSinks, sink_of
from sqlstream.jobs.lifecycle.specification import (
    RUNTIME_MODE,
    JobSpecification,
    Work,
    description_of,
    execution_of,
    place_of,
    wanted_ms,
)
from sqlstream.jobs.lifecycle.start import declared_states, key_groups_for, start_job
from sqlstream.jobs.records.history import begun_at, last_begun, last_committed
from sqlstream.jobs.records.record import runs_already
from sqlstream.jobs.records.requests import RecordedJob, recorded_jobs
from sqlstream.jobs.savepoints import restore
from sqlstream.jobs.savepoints.epoch_files import require_begun_files
from sqlstream.latency import is_low, is_real_time
from sqlstream.planner.catalog import Function, Table, TimeDomain
from sqlstream.planner.lowering import explain_spark, lower
from sqlstream.planner.lowering.functions import lookup_source
from sqlstream.planner.lowering.stateless import whole_table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, Scan, StatementSet
from sqlstream.planner.operators.joined_sides import joined_scans
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.operators.top_n import first_rows
from sqlstream.planner.physical import PhysicalPlan, physical_plan
from sqlstream.planner.physical.engine import watermarked_nodes
from sqlstream.planner.rules.push_filters import comparisons
from sqlstream.plans import (
    FormerPlan,
    Root,
    engine_settings_of,
    job_name_of,
    require_sources,
    scanned_tables,
    side_tables,
)
from sqlstream.plans.checks import COLLIDING
from sqlstream.results import columns_of
from sqlstream.settings import UPSERT_MATERIALIZE, Settings
from sqlstream.spark.handle import SparkHandle, spark_settings
from sqlstream.spark.running import ONE_AT_A_TIME
from sqlstream.telemetry.observing import observers_of
from sqlstream.udfs.expressions.evaluation import same_zone
from sqlstream.udfs.functions import load
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.lookup.source import Comparison, LookupSource, Request, redacting
from sqlstream.workspace import Workspace

SIDE_OUTPUT_OF_DATAFRAME = "SS348"
_END_SECONDS = 10.0


@dataclass(frozen=True)
class SessionSources:
    """The tables and functions of a session, as jobs read them (``lifecycle.runtime.Sources``)."""

    environment: Environment
    catalog: Catalog

    @property
    def zone(self) -> str | None:
        """The time zone of the Spark session, where Arrow has the same one by its name."""
        return same_zone(self.environment.spark.conf.get("spark.sql.session.timeZone") or "UTC")

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """Returns the rows of a scan as a streaming DataFrame, or as a batch DataFrame if the environment is for
        finished data. ``in_order``: the query depends on the order of rows. ``located``: each row says in which file
        and line it was read.
        """
        kind = connector(scan.table.connector)
        if isinstance(kind, Source):
            environment = replace(self.environment, in_order=in_order, located=located, filters=_filters_of(scan))
            return kind.read(environment, scan.table, scan.columns)
        return self._whole(scan)

    def _whole(self, scan: Scan) -> DataFrame:
        """All rows of a table that answers lookups, but for those that its source can tell to be left out."""
        kind, table = lookup_connector(scan.table.connector), scan.table
        types = {c.name: c.type for c in table.physical_columns}
        request = Request((), tuple((name, types[name]) for name in scan.columns), _comparisons(scan, kind))
        source = redacting(kind.lookup(self.environment, table, request), secrets_of(table))
        return whole_table(self.environment.spark, source)

    def reads_files(self, scan: Scan) -> bool:
        """True where tasks may read the files of a scan themselves, without Spark's reader."""
        kind = connector(scan.table.connector)
        if self.environment.spark_reads or not isinstance(kind, SplitSource):
            return False
        return kind.has_file_splits(self.environment, scan.table, scan.columns)

    def discards(self, table: Table) -> bool:
        """True where the sink of a table keeps no rows."""
        return discards_rows(table)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Returns a streaming DataFrame of the file splits of a scan, for an exchange that reads the files itself.
        ``in_order``: the query depends on the order of rows.
        """
        kind = connector(scan.table.connector)
        assert isinstance(kind, SplitSource), scan.table.connector
        environment = replace(self.environment, in_order=in_order, filters=_filters_of(scan))
        return kind.file_splits(environment, scan.table, scan.columns)

    def record_format(self, scan: Scan) -> SplitFormat | None:
        """Returns how an exchange reads the records of the files of a scan, or its messages; None for Parquet
        files."""
        kind = connector(scan.table.connector)
        assert isinstance(kind, SplitSource), scan.table.connector
        return kind.record_format(self.environment, scan.table, scan.columns)

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the requests of a lookup."""
        if isinstance(node.source, Function):
            return lookup_source(node.source, self.implementation(node.source), request_of(node))
        answers = lookup_connector(node.source.connector).lookup(self.environment, node.source, request_of(node))
        return redacting(answers, secrets_of(node.source))

    def function(self, name: str) -> Function | None:
        """Returns the user-defined function called ``name``; None where the session's catalog has none."""
        return self.catalog.function(name)

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        registered = self.catalog.implementation(function)
        return load(function.target) if registered is None else registered


def _filters_of(scan: Scan) -> tuple[Comparison, ...]:
    """The comparisons by which a source may leave out rows of the scan."""
    kind = connector(scan.table.connector)
    if isinstance(kind, Source) and isinstance(kind, LookupTable) and kind.prunes:
        return _comparisons(scan, kind)
    return ()


def _comparisons(scan: Scan, kind: LookupTable) -> tuple[Comparison, ...]:
    columns = {c.name: (c.name, c.type) for c in scan.table.physical_columns}
    asked = (comparison for predicate in scan.predicates for comparison in comparisons(predicate, columns))
    return tuple(comparison for comparison in asked if kind.filters(scan.table, comparison))


def _logs(checkpoint: str) -> str | None:
    storage = local_storage_at(checkpoint)
    return None if storage is None else str(storage.root / "spark" / "sources")


def _kept_default(path: str) -> Diagnostic:
    message = f'the state at "{path}" does not keep rows that collide on a PRIMARY KEY: the last change counts'
    hint = (
        f"Start in a new directory to keep them, or SET '{UPSERT_MATERIALIZE}' = 'none', the default of the version "
        "that wrote the state."
    )
    return Diagnostic(COLLIDING, message, hint=hint, warning=True)


def request_of(node: Lookup) -> Request:
    """Returns what all requests of a lookup have in common: the names and types of its keys, the columns to return, and
    the filters. The values of the keys are not part of it.
    """
    keys = tuple((key.name, key.type) for key in node.keys)
    return Request(keys, tuple((field.name, field.type) for field in node.read), node.filters)


@dataclass(frozen=True)
class SessionJobs:
    """Starts jobs on the Spark of a session, with its checkpoint folders."""

    spark: SparkHandle
    folders: Folders
    started: Sequence[Job] = ()
    """The jobs that the session has started."""

    def start(
        self,
        plan: Root,
        workspace: Workspace,
        sql: str,
        name: str | None = None,
        former: Sequence[FormerPlan] = (),
    ) -> Job:
        """Starts the plan as a job. An Insert or StatementSet writes into its tables; the rows of a query are read by
        ``Job.results``.

        ``sql``: the statement, for the job's record. ``name``: the job's name, under which it finds its checkpoint
        again. ``former``: other plans of the same statement, to continue the checkpoints of jobs that began with them.
        """
        with hiding(secrets_of_plan(plan) + workspace.settings.secrets), ONE_AT_A_TIME:
            return self._start(plan, workspace, sql, name, former)

    def _start(self, plan: Root, workspace: Workspace, sql: str, name: str | None, former: Sequence[FormerPlan]) -> Job:
        require_sources(plan)
        settings = workspace.settings
        if is_real_time(settings):
            require_real_time(plan, settings, workspace.catalog)
        spark = self.spark.get(settings)
        name = self._job_name(plan, settings, spark) if name is None else name
        if isinstance(plan, Output):
            checkpoint, claimed = self.folders.scratch_checkpoint(), Claim()
        else:
            checkpoint = self.folders.checkpoint(settings, name)
            claimed = claim(checkpoint, spark)
        try:
            plan = self._as_stored(plan, former, checkpoint, workspace) if former else plan
            job = self._start_at(checkpoint, claimed, plan, workspace, sql, name)
        except BaseException:
            claimed.release()
            raise
        return job

    def _start_at(self, checkpoint: str, claimed: Claim, plan: Root, workspace: Workspace, sql: str, name: str) -> Job:
        settings = workspace.settings
        spark = self.spark.get(settings)
        environment = replace(self._environment(spark, settings), job=name, run=uuid.uuid4().hex, watches=[])
        environment = replace(environment, joined=_joined_tables(plan))
        if settings[RUNTIME_MODE] != "batch":
            environment = replace(environment, timed=_timed_tables(plan))
        if isinstance(plan, Output):
            environment = replace(environment, logs=_logs(checkpoint), first_rows=first_rows(plan))
            work = Work(plan, SessionSources(environment, workspace.catalog.copy()), side=SideSinks(environment, plan))
        else:
            environment = self._at_checkpoint(environment, checkpoint, plan, workspace)
            sink, description = sink_of(environment, plan), description_of(plan, sql, settings)
            sources = SessionSources(replace(environment, logs=_logs(checkpoint)), workspace.catalog.copy())
            work = Work(plan, sources, sink, require_sink=sinks_intact(plan), description=description)
        work = replace(work, watches=environment.watches)
        named = not isinstance(plan, Output)
        execution = execution_of(settings, partial(_poll_ms, plan), named=named)
        return start_job(
            spark,
            JobSpecification(
                work,
                place_of(settings, checkpoint, claimed, named=named),
                execution,
                name,
                tuple(observers_of(self.spark, settings, secrets_of_plan(plan).hidden(sql), environment)),
            ),
        )

    def _at_checkpoint(
        self, environment: Environment, checkpoint: str, plan: Insert | StatementSet, workspace: Workspace
    ) -> Environment:
        """What sinks need to know of the checkpoint, which is made of a savepoint first where the settings name one."""

        spark = environment.spark
        require_begun_files(storage_at(checkpoint, spark))
        anew = workspace.settings["execution.state-recovery.path"] is not None
        if anew:
            self._restore(plan, workspace, checkpoint, SessionSources(environment, workspace.catalog))
        resumed = checkpoint_exists(checkpoint, spark)
        after = last_committed(storage_at(checkpoint, spark)) if resumed else None
        begun = last_begun(storage_at(checkpoint, spark)) if resumed else None
        at = None if begun is None else begun_at(storage_at(checkpoint, spark), begun)
        run = run_of(checkpoint, spark)
        environment = replace(environment, resumed=resumed, run=run, after=after, begun=begun, begun_at=at, anew=anew)
        require_sinks_intact(environment, plan, storage_at(checkpoint, spark))
        return environment

    def _as_stored(self, plan: Root, former: Sequence[FormerPlan], checkpoint: str, workspace: Workspace) -> Root:
        """The plan, or the first of the ``former`` ones that the checkpoint, or the savepoint to begin with, is of,
        where it is not of the plan."""
        settings = workspace.settings
        spark = self.spark.get(settings)
        declared = declared_states(SessionSources(self._environment(spark, settings), workspace.catalog))
        savepoint = settings["execution.state-recovery.path"]
        here = savepoint is not None and local_storage_at(savepoint) is not None  # others are refused (SS456)
        for path in (checkpoint, *([savepoint] if here else [])):
            of_plan = is_of_plan(path, plan, spark, declared)
            if of_plan is None:
                continue
            for other in () if of_plan else former:
                before = other.make()
                if before != plan and is_of_plan(path, before, spark, declared):
                    if other.loses_rows:
                        warnings.warn(_kept_default(path).render(), SqlStreamWarning, stacklevel=2)
                    return before
            return plan
        return plan

    def _job_name(self, plan: Root, settings: Settings, spark: SparkSession) -> str:
        """The name of the setting, or a default one; as older versions wrote it where the checkpoint is theirs."""
        name, parent = job_name_of(plan, settings, self.folders), settings["execution.checkpointing.dir"]
        if isinstance(plan, Output) or (parent is None and plan.bounded):
            return name.now
        self._require_ended(name.now, name.before)
        if parent is None:
            return name.now
        return self.folders.name_of_checkpoint(name, settings, lambda path: checkpoint_exists(path, spark))

    def _require_ended(self, *names: str) -> None:
        """ExecutionError SS452 where a job of the session with such a name runs; waits for one that is about to end."""
        for job in self.started:
            if job.name in names:
                if job.state in (JobState.RUNNING, JobState.RESTARTING):
                    raise runs_already(job.record)
                with suppress(SqlStreamError):
                    job.wait(_END_SECONDS)  # it gives the folder of its checkpoint free at its very end

    def _restore(self, plan: Root, workspace: Workspace, checkpoint: str, sources: SessionSources) -> None:
        """Make the savepoint of the settings the checkpoint of a job that has none."""
        settings = workspace.settings

        def parts_of(layout: StateLayout | None) -> tuple[FingerprintPart, ...]:
            engine_settings = (layout or StateLayout(settings["sqlstream.engine"])).settings()
            return fingerprint(physical_plan(plan, engine_settings), declared_states(sources))

        partitions = spark_settings(settings).get("spark.sql.shuffle.partitions")
        restore(
            settings["execution.state-recovery.path"],
            checkpoint,
            parts_of,
            self.spark.get(settings),
            settings["sqlstream.engine"],
            settings["pipeline.max-parallelism"],
            None if partitions is None else int(partitions),
            trusted=settings[SETTING] or not unpickles_state(plan, sources.function),
        )

    def recorded(self, settings: Settings) -> Iterator[RecordedJob]:
        """The jobs with a record in the checkpoint directory, read through Spark where it is on another machine."""

        def storage_of(path: str) -> Storage:
            here = None if self.spark.is_remote else local_storage_at(path)
            return storage_at(path, self.spark.get(settings)) if here is None else here

        directory = settings["execution.checkpointing.dir"]
        return iter(() if directory is None else recorded_jobs(directory, storage_of))

    def dataframe(self, plan: Output, workspace: Workspace) -> DataFrame:
        """Returns the streaming DataFrame of a query, with the column names of its result. No job is started. Raises
        UnsupportedError SS348 if the query has side outputs.
        """
        require_sources(plan)
        if side_tables(plan):
            message = "LATE DATA TO and ON ERROR TO are not executed for a DataFrame"
            raise UnsupportedError(
                SIDE_OUTPUT_OF_DATAFRAME, message, hint="Leave them out, or write INSERT INTO a table."
            )
        with hiding(secrets_of_plan(plan) + workspace.settings.secrets), ONE_AT_A_TIME:
            runtime = self.runtime(workspace)
            rows = with_kind_first(lower(self.physical(plan, workspace, runtime.sources), runtime))
        return rows.toDF(*(name for name, _ in columns_of(plan)))

    def runtime(self, workspace: Workspace, *, finished: bool = False) -> JobRuntime:
        """The runtime for lowering a plan without starting a job. ``finished``: sources give the rows that they have
        now, as finished data.
        """
        spark = self.spark.get(workspace.settings)
        environment = replace(self._environment(spark, workspace.settings), finished=finished)
        sources = SessionSources(environment, workspace.catalog.copy())
        control = ControlRows(storage_at(self.folders.scratch_checkpoint(), spark))
        settings = workspace.settings
        key_groups = settings["pipeline.max-parallelism"] or key_groups_for(spark, few=is_low(settings))
        return JobRuntime(spark, sources, control, key_groups)

    def explained_by_spark(self, plan: Node, workspace: Workspace) -> str:
        """Spark's own EXPLAIN of the plan, which is lowered but not started."""
        with ONE_AT_A_TIME:
            runtime = self.runtime(workspace)
            return explain_spark(self.physical(plan, workspace, runtime.sources), runtime)

    def physical(self, plan: Node, workspace: Workspace, sources: Sources) -> PhysicalPlan:
        """The physical plan of a logical plan, as if there were no checkpoint yet."""
        settings = engine_settings_of(workspace.settings)
        return physical_plan(plan, replace(settings, sources=sources))

    def _environment(self, spark: SparkSession, settings: Settings) -> Environment:
        by_spark = settings["sqlstream.file-reader"] == "spark" or self.spark.is_remote
        return Environment(
            spark,
            self.folders.root,
            spark_reads=by_spark,
            idle_timeout_ms=settings["table.exec.source.idle-timeout"],
            wanted_ms=wanted_ms(settings),
            real_time=is_real_time(settings),
        )


def _timed_tables(plan: Root) -> frozenset[str]:
    """The names of the tables whose own watermark operators wait for, and no other one of theirs."""
    marks = [mark for mark in watermarked_nodes(plan) if mark.domain is TimeDomain.EVENT]
    own = {table.name: table.watermark for table in scanned_tables(plan) if table.watermark is not None}
    others = {
        mark.table
        for mark in marks
        if (of_table := own.get(mark.table)) is None
        or (mark.column, mark.delay_ms, mark.follows) != (of_table.column, of_table.delay_ms, None)
    }
    return frozenset(mark.table for mark in marks) - others


def _joined_tables(plan: Root) -> Mapping[str, Sequence[tuple[Table, tuple[str, ...]]]]:
    """By table the tables, with the columns that are read of them, whose rows are joined to its rows as they are."""
    return {name: [(scan.table, scan.columns) for scan in scans] for name, scans in joined_scans(plan).items()}


def _poll_ms(plan: Node) -> int:
    """The shortest time after which a source wants to be looked at, else 0: at once."""
    sources = [(connector(table.connector), table) for table in scanned_tables(plan)]
    polls = [kind.poll_ms(table) for kind, table in sources if isinstance(kind, Source)]
    return min((ms for ms in polls if ms is not None), default=0)
