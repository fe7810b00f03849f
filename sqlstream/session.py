"""Sessions: SQL text in, rows, queries and jobs out. ``connect`` opens one; Spark starts when it is first needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.arguments import Arguments, with_arguments
from sqlstream.batch import Batch, chosen
from sqlstream.batch.running import Batches
from sqlstream.errors import BindError, Diagnostic, ExecutionError, SqlStreamError, SqlStreamWarning
from sqlstream.grammar import nodes, parse_script
from sqlstream.partial_inserts import partial_insert_warnings
from sqlstream.planner.nodes import Output
from sqlstream.project import enter, nearest_project
from sqlstream.results import Columns, Rows
from sqlstream.runner import ControlledJob, Runner
from sqlstream.spark.running import loaded
from sqlstream.statements.checking import check_script, script_warnings, warnings_of_script
from sqlstream.statements.explaining import explained
from sqlstream.statements.queries import reach_views
from sqlstream.statements.registry import statement_type
from sqlstream.statements.statement import Execution
from sqlstream.statements.tables import CreatedAs, created_as
from sqlstream.udfs.functions import describe
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

    from sqlstream.batch.run import BatchRun
    from sqlstream.jobs import Job
    from sqlstream.query import Query
    from sqlstream.views.keeping import Views


NO_STATEMENT = "SS281"
UNREAD_QUERY = "SS282"
CLOSED = "SS481"

_PLANNED = nodes.Query | nodes.Insert | nodes.StatementSet | nodes.CreateTable | nodes.CreateMaterializedView


def connect(
    spark: SparkSession | str | None = None, *, project: str | os.PathLike[str] | None = None, **options: str
) -> Session:
    """Opens a session.

    ``spark`` is a SparkSession, the URL of a Spark Connect server (``sc://host:port``) or a master (``local[4]``,
    ``spark://host:7077``). By default Spark runs locally with all cores. A process can have only one Spark:
    ExecutionError SS413 is raised if another one is running.

    ``project`` is a folder; the settings and catalogs of the ``sqlstream.toml`` in it, or in the nearest parent,
    apply, as on the command line. ``options`` are settings as in SET, given as ``**{"parallelism.default": "2"}``.
    Settings that Spark reads only when it starts must be given here.
    """
    session = Session(spark)
    session.require_spark()
    if project is not None:
        of_folder = nearest_project(project)
        if of_folder is not None:
            enter(session, of_folder)
    for key, value in options.items():
        session.workspace.settings.set(key, value)
    return session


class Session:
    """A catalog, settings, and the jobs that were started with them.

    A session must be used by one thread at a time. Several threads may each have a session; they share the process's
    Spark.
    """

    def __init__(self, spark: SparkSession | str | None = None) -> None:
        self.workspace = Workspace()
        self._runner = Runner(spark)
        self._start_spark_for_catalogs()
        self._batches = Batches(self._runner)
        self._views: Views | None = None
        self._closed = False
        self.also_known: Callable[[], Sequence[ControlledJob]] = tuple
        """Jobs that SHOW JOBS lists beside those of the session and of its checkpoint directory."""

    # --- SQL ---

    def sql(self, text: str, args: Arguments | None = None) -> Rows | Query | Job:
        """Runs a script and returns the result of its last statement.

        ``args``: values of its parameters, a list for ``?`` or a dictionary for ``:name``. A query returns a
        ``Query``, whose rows arrive while it runs. INSERT and statement sets return a ``Job``, which runs in the
        background (SET 'table.dml-sync' = 'true' waits for it). SHOW, DESCRIBE, EXPLAIN, STOP JOB and definitions
        return ``Rows``.
        """
        *_, last = self.results(text, args)
        return last

    def results(
        self, text: str, args: Arguments | None = None, *, as_table: bool = False
    ) -> Iterator[Rows | Query | Job]:
        """Runs a script statement by statement and yields each result. A statement runs when its result is requested.

        ``as_table``: for callers that read tables instead of streams. A query over finished data then runs as one
        query of Spark SQL where possible, and no job is waited for, whatever 'table.dml-sync' says.
        """
        text = text if args is None else with_arguments(text, args)
        try:
            statements = parse_script(text)
            _require_statements(statements)
            for warning in warnings_of_script(statements, text):
                warnings.warn(warning.render(), SqlStreamWarning, stacklevel=3)
            for statement in statements:
                for warning in partial_insert_warnings(statement, self.workspace):
                    warnings.warn(replace(warning, source=text).render(), SqlStreamWarning, stacklevel=3)
                result = self.execute(statement, text, as_table=as_table)
                yield replace(result) if isinstance(result, Rows) else result  # the caller's own, which counts fetches
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def execute(self, statement: nodes.Statement, text: str = "", *, as_table: bool = False) -> Rows | Query | Job:
        """Runs one parsed statement and returns its result. ``text``: the script that its spans refer to.
        ``as_table``: see ``results``.
        """
        self._require_open()
        execution = Execution(
            workspace=self.workspace,
            runner=self._runner,
            batches=self._batches,
            text=text,
            as_table=as_table,
            views=lambda: self.views,
            known_jobs=self._known_jobs,
            unit_test=self._unit_test,
        )
        return statement_type(statement).run(statement, execution)

    def _unit_test(self, test: nodes.UnitTest) -> str | None:
        from sqlstream.testing.unit_tests import run_unit_test  # the harness is loaded for this statement alone

        return run_unit_test(test, self).difference

    def dataframe(self, text: str, args: Arguments | None = None) -> DataFrame:
        """Returns one query as a DataFrame for PySpark. Nothing is started.

        The DataFrame is streaming, except for a query over finished data that runs as a batch. If the caller starts
        it, it ends as PySpark's queries do: the last windows of a bounded input are not emitted.
        """
        self._require_open()
        text = text if args is None else with_arguments(text, args)
        try:
            statement = _only(text)
            if not isinstance(statement, nodes.Query):
                raise BindError(NO_STATEMENT, "only a query has a DataFrame", statement.span)
            plan = chosen(statement, self.workspace)
            reach_views(plan, self.workspace.settings)
            if isinstance(plan, Batch):
                return self._batches.dataframe(plan, self.workspace)
            assert isinstance(plan, Output)
            return self._runner.dataframe(plan, self.workspace)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def explain(self, text: str, format: str = "text", stage: str = "optimized") -> str:  # noqa: A002
        """Returns the plan of one statement as text. ``format`` and ``stage``: as in EXPLAIN."""
        try:
            statement = _only(text)
            if not isinstance(statement, _PLANNED):
                raise BindError(NO_STATEMENT, "only queries and INSERT have a plan", statement.span)
            explain = nodes.Explain(statement, format.upper(), stage.upper(), span=statement.span)
            return explained(explain, self.workspace, self._runner, self._batches)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def check(self, text: str) -> tuple[Diagnostic, ...]:
        """Returns all errors in a script as diagnostics. Nothing is executed, the session does not change, and Spark
        is not needed.
        """
        return check_script(text, self.workspace)

    def warnings(self, text: str) -> tuple[Diagnostic, ...]:
        """Returns diagnostics for parts of a script that are allowed but probably mistakes. ``sql`` issues them as
        Python warnings.
        """
        return script_warnings(text)

    def columns_of(self, text: str) -> Columns:
        """Returns the columns of one query as pairs of name and type, without the row kind of updating queries.

        Spark is started if only Spark can determine them.
        """
        self._require_open()
        try:
            statement = _only(text)
            if not isinstance(statement, nodes.Query):
                raise BindError(NO_STATEMENT, "only a query has columns", statement.span)
            plan = chosen(statement, self.workspace)
            if isinstance(plan, Batch):
                with self._batches.analyzed(plan, self.workspace) as analyzed:
                    return analyzed.columns
            assert isinstance(plan, Output)
            return tuple((name, field.type) for name, field in zip(plan.names, plan.schema, strict=True))
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def register_function(self, name: str, function: Callable[..., object] | type) -> None:
        """Makes a Python function or class callable in SQL as ``name``. It replaces a function of that name."""
        target = f"{function.__module__}:{function.__qualname__}"
        self.workspace.catalog.register(describe(name, function, target), function)

    # --- what the session holds ---

    def fork(self) -> Session:
        """Returns a session on the same Spark, with a copy of the definitions and settings."""
        forked = copy(self)
        forked.workspace = self.workspace.copy()
        forked._start_spark_for_catalogs()
        return forked

    def _start_spark_for_catalogs(self) -> None:
        self.workspace.catalog.spark = lambda: self._runner.spark.get(self.workspace.settings)

    @property
    def views(self) -> Views:
        """The object that controls the session's materialized views. The modules for it are loaded on first use."""
        if self._views is None:
            # What keeps views is loaded with the first of them.
            self._views = loaded("sqlstream.views.keeping").Views(self._runner)
        return self._views

    @property
    def spark(self) -> SparkSession:
        """The Spark session. Spark is started on first use."""
        self._require_open()
        return self._runner.spark.get(self.workspace.settings)

    def open_metrics(self) -> str | None:
        """Opens the metrics server of the settings (``metrics.prometheus.*``) now, not with the first job, and returns
        its address. None where the settings ask for none.
        """
        from sqlstream.telemetry.observing import prometheus_server  # it loads what writes metrics

        server = prometheus_server(self._runner.spark, self.workspace.settings)
        return None if server is None else server.url

    def require_spark(self) -> None:
        """Raises ExecutionError SS413 if this process already runs another Spark than the session needs."""
        self._runner.spark.require_possible()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs and queries that were started in this session, oldest first."""
        return tuple(self._runner.jobs)

    @property
    def running(self) -> tuple[BatchRun | Job, ...]:
        """The session's queries over finished data and its jobs that are still running."""
        return (*self._batches.running, *(job for job in self._runner.jobs if job.state.value == "RUNNING"))

    @property
    def master(self) -> str | None:
        """The Spark master that ``connect`` was given; None if it was given none or a SparkSession."""
        return self._runner.spark.master

    def close(self) -> None:
        """Stops all jobs and removes their temporary files. Spark itself keeps running."""
        if not self._closed:
            self._closed = True
            self._batches.stop()
            self._runner.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ExecutionError(CLOSED, "the session is closed", hint="Open another one with sqlstream.connect().")

    def _known_jobs(self) -> list[ControlledJob]:
        """Each job once, as whoever knows most of it sees it."""
        own = {job.id for job in self._runner.jobs}
        also = [job for job in self.also_known() if job.id not in own]
        ids = {job.id for job in also}
        return [*(job for job in self._runner.known_jobs(self.workspace.settings) if job.id not in ids), *also]

    def table_of_query(self, statement: nodes.CreateTable, query: exp.Expression) -> CreatedAs:
        """Returns the table that CREATE TABLE … AS declares. Spark is started if only it can determine the columns of
        the query.
        """
        return created_as(statement, query, self.workspace, self._batches)


def _require_statements(statements: tuple[nodes.Statement, ...]) -> None:
    """A script has statements, and its queries somebody who reads them."""
    if not statements:
        raise BindError(NO_STATEMENT, "the text holds no statement")
    for statement in statements[:-1]:
        if isinstance(statement, nodes.Query):
            hint = "Call sql() for each query, or write INSERT INTO a table."
            message = "nobody can read the rows of a query that is not the last statement"
            raise BindError(UNREAD_QUERY, message, statement.span, hint=hint)


def _only(text: str) -> nodes.Statement:
    statements = parse_script(text)
    if len(statements) != 1:
        raise BindError(NO_STATEMENT, f"the text holds {len(statements)} statements instead of one")
    return statements[0]
