"""Sessions: SQL text in, rows, queries and jobs out. ``connect`` opens one; Spark starts when it is first needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING

from sqlstream.arguments import Arguments, with_arguments
from sqlstream.batch import Batch, chosen
from sqlstream.batch.explaining import explained_batch
from sqlstream.batch.running import Batches
from sqlstream.catalogs.declaring import KINDS
from sqlstream.catalogs.store import Bound
from sqlstream.connectors import SessionTable, TruncatableTable, connector
from sqlstream.errors import BindError, Diagnostic, ExecutionError, SqlStreamError, SqlStreamWarning
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.nodes import Output
from sqlstream.plans import Root
from sqlstream.query import Query
from sqlstream.results import Columns, Rows, columns_of, key_of
from sqlstream.runner import Runner
from sqlstream.settings import without_effect
from sqlstream.statements.changing_partitions import change_partitions
from sqlstream.statements.checking import check_script, script_warnings
from sqlstream.statements.defining import DEFINITIONS, define
from sqlstream.statements.definitions import CreatedAs, create_table, table_of_columns, table_of_query
from sqlstream.statements.explaining import explained
from sqlstream.statements.inspection import inspect_statement
from sqlstream.statements.job_statements import is_job_statement, job_statement
from sqlstream.statements.materialized_views import materialized_named
from sqlstream.statements.plan_files import compile_plan, compiled_plan, planned
from sqlstream.statements.replacing_rows import overwritten_table, truncated_table
from sqlstream.table_uses import looked_up_tables, scanned_tables, side_tables
from sqlstream.udfs.functions import describe
from sqlstream.udfs.hiding import hiding
from sqlstream.views.server import reach
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

    from sqlstream.batch.run import BatchRun
    from sqlstream.jobs import Job
    from sqlstream.statements.job_statements import ControlledJob
    from sqlstream.views.keeping import Views, ViewStatus


NO_STATEMENT = "SS281"
UNREAD_QUERY = "SS282"
CLOSED = "SS481"
FAILED_TEST = "SS498"

OK = Rows.of_text(("result",), (("OK",),))

_PLANNED = nodes.Query | nodes.Insert | nodes.StatementSet | nodes.CreateTable | nodes.CreateMaterializedView


def connect(
    spark: SparkSession | str | None = None, *, project: str | os.PathLike[str] | None = None, **options: str
) -> Session:
    """Open a session.

    ``spark`` is a SparkSession, the URL of a Spark Connect server (``sc://host:port``) or a master (``local[4]``,
    ``spark://host:7077``); without it, all cores of this machine. ``options`` are settings as of SET, given as
    ``**{"parallelism.default": "2"}``; those of Spark that only hold at its start belong here. A process has one Spark:
    ExecutionError SS413 where another one runs already than ``spark`` asks for. ``project`` is a folder: the settings
    and catalogs of the ``sqlstream.toml`` there or above hold, as on the command line.
    """
    session = Session(spark)
    session.require_spark()
    if project is not None:
        from sqlstream.project import enter, nearest_project

        of_folder = nearest_project(project)
        if of_folder is not None:
            enter(session, of_folder)
    for key, value in options.items():
        session.workspace.settings.set(key, value)
    return session


class Session:
    """A catalog, settings and the jobs started with them. Not safe for use by several threads at once."""

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
        """Run a script and return what its last statement returns.

        ``args`` are the values of its parameters: a list for ``?``, a dictionary for ``:name``. Rows come for SHOW,
        DESCRIBE, EXPLAIN, STOP JOB and definitions; for a query a ``Query``, whose rows come while it runs; for INSERT
        and statement sets a ``Job``, which runs in the background (SET 'table.dml-sync' = 'true' waits for it).
        """
        *_, last = self.results(text, args)
        return last

    def results(
        self, text: str, args: Arguments | None = None, *, as_table: bool = False
    ) -> Iterator[Rows | Query | Job]:
        """Run a script and give what each statement returns, one by one as they are asked for.

        ``as_table`` is for callers that read tables rather than streams: a query over finished data is one query of
        Spark SQL wherever it can be, and no job is waited for, whatever 'table.dml-sync' says.
        """
        text = text if args is None else with_arguments(text, args)
        try:
            statements = parse_script(text)
            _require_statements(statements)
            for warning in script_warnings(text):
                warnings.warn(warning.render(), SqlStreamWarning, stacklevel=3)
            for statement in statements:
                yield self.execute(statement, text, as_table=as_table)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def execute(self, statement: nodes.Statement, text: str = "", *, as_table: bool = False) -> Rows | Query | Job:
        """Run one parsed statement; ``text`` is the script of its spans, ``as_table`` as of ``results``."""
        self._require_open()
        match statement:
            case nodes.Query():
                return self._query(statement, text, finished=as_table)
            case nodes.Insert() | nodes.StatementSet():
                return self._insert(statement, text, wait=not as_table)
            case nodes.CreateTable() if statement.query is not None:
                return self._create_as(statement, text, wait=not as_table)
            case nodes.CompilePlan() | nodes.ExecutePlan():
                return self._plan_in_file(statement, wait=not as_table)
            case nodes.Explain() | nodes.Set(key=None) | nodes.Truncate() | nodes.UnitTest():
                return self._done_at_once(statement, as_table)
        if isinstance(statement, nodes.CreateMaterializedView | nodes.AlterMaterializedView):
            return self.views.execute(statement, text, self.workspace) or OK
        if is_job_statement(statement):
            return job_statement(statement, self._known_jobs())
        if isinstance(statement, DEFINITIONS):
            return self._define(statement, text)
        return inspect_statement(statement, self.workspace, self._status_of)

    def _done_at_once(
        self, statement: nodes.Explain | nodes.Set | nodes.Truncate | nodes.UnitTest, as_table: bool
    ) -> Rows:
        match statement:
            case nodes.Explain():
                batch = self._explained_table(statement) if as_table else None
                lines = (batch or self._explained(statement, says_way=True)).splitlines()
                return Rows.of_text(("plan",), [(line,) for line in lines])
            case nodes.Set():
                return Rows.of_text(("key", "value"), self.workspace.settings.rows())
            case nodes.Truncate():
                self._truncate(truncated_table(statement, self.workspace.catalog))
                return OK
            case nodes.UnitTest():
                return self._unit_test(statement)

    def _unit_test(self, test: nodes.UnitTest) -> Rows:
        from sqlstream.testing.unit_tests import run_unit_test  # the harness is loaded for this statement alone

        difference = run_unit_test(test, self).difference
        if difference is not None:
            message = f'unit test "{test.name}" of view "{test.view}" fails'
            raise ExecutionError(FAILED_TEST, message, test.name.span, detail=difference)
        return Rows.of_text(("test", "result"), ((str(test.name), "PASS"),))

    def dataframe(self, text: str, args: Arguments | None = None) -> DataFrame:
        """The DataFrame of one query, not started, to go on with in PySpark: a streaming one, but for a query over
        finished data that runs as a batch.

        Started, it ends as PySpark's queries do: the last windows of a bounded input stay open.
        """
        self._require_open()
        text = text if args is None else with_arguments(text, args)
        try:
            statement = _only(text)
            if not isinstance(statement, nodes.Query):
                raise BindError(NO_STATEMENT, "only a query has a DataFrame", statement.span)
            plan = chosen(statement, self.workspace)
            self._reach(plan)
            if isinstance(plan, Batch):
                return self._batches.dataframe(plan, self.workspace)
            assert isinstance(plan, Output)
            return self._runner.dataframe(plan, self.workspace)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def explain(self, text: str, format: str = "text", stage: str = "optimized") -> str:  # noqa: A002
        """The plan of one statement; ``format`` and ``stage`` as in EXPLAIN."""
        try:
            statement = _only(text)
            if not isinstance(statement, _PLANNED):
                raise BindError(NO_STATEMENT, "only queries and INSERT have a plan", statement.span)
            return self._explained(nodes.Explain(statement, format.upper(), stage.upper(), span=statement.span))
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def check(self, text: str) -> tuple[Diagnostic, ...]:
        """All mistakes of a script, without running it or changing the session; no Spark."""
        return check_script(text, self.workspace)

    def warnings(self, text: str) -> tuple[Diagnostic, ...]:
        """What a script says that is allowed and hardly meant. ``sql`` gives them to Python's ``warnings``."""
        return script_warnings(text)

    def columns_of(self, text: str) -> Columns:
        """Names and types of the columns of one query, without the kinds of rows that updating ones begin with. Spark
        starts where it alone knows them."""
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
        """Make a Python function or class callable in SQL as ``name``, in place of another of that name."""
        target = f"{function.__module__}:{function.__qualname__}"
        self.workspace.catalog.register(describe(name, function, target), function)

    # --- what the session holds ---

    def fork(self) -> Session:
        """A session on the same Spark whose definitions and settings start as this one's and change on their own."""
        forked = copy(self)
        forked.workspace = self.workspace.copy()
        forked._start_spark_for_catalogs()
        return forked

    def _start_spark_for_catalogs(self) -> None:
        self.workspace.catalog.spark = lambda: self._runner.spark.get(self.workspace.settings)

    @property
    def views(self) -> Views:
        """The materialized views, which load what no other statement needs."""
        if self._views is None:
            from sqlstream.views.keeping import Views

            self._views = Views(self._runner)
        return self._views

    @property
    def spark(self) -> SparkSession:
        """The Spark session, which starts now if it has not before."""
        self._require_open()
        return self._runner.spark.get(self.workspace.settings)

    def require_spark(self) -> None:
        """ExecutionError SS413 where another Spark runs in this process than this session is to have."""
        self._runner.spark.require_possible()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs and queries started in this session, in order."""
        return tuple(self._runner.jobs)

    @property
    def running(self) -> tuple[BatchRun | Job, ...]:
        """What runs now: queries over finished data, and jobs."""
        return (*self._batches.running, *(job for job in self._runner.jobs if job.state.value == "RUNNING"))

    @property
    def master(self) -> str | None:
        """Where Spark was asked to run; None where nobody has said, or where it was given as a session."""
        return self._runner.spark.master

    def close(self) -> None:
        """Stop all jobs and remove what was kept for them. Spark itself goes on."""
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

    # --- statements ---

    def _known_jobs(self) -> list[ControlledJob]:
        """Each job once, as whoever knows most of it sees it."""
        own = {job.id for job in self._runner.jobs}
        also = [job for job in self.also_known() if job.id not in own]
        ids = {job.id for job in also}
        return [*(job for job in self._runner.known_jobs(self.workspace.settings) if job.id not in ids), *also]

    def _define(self, statement: nodes.Statement, text: str) -> Rows:
        if isinstance(statement, nodes.Set | nodes.Reset):
            # A copy first: Spark may refuse the value, which must not stay in the settings then.
            trial = self.workspace.copy()
            define(statement, trial, text)
            with hiding(trial.settings.secrets):
                self._runner.spark.apply(trial.settings)
        if isinstance(statement, nodes.Drop):
            self._drop_views(statement)
        before = self._table_before(statement)
        changed = define(statement, self.workspace, text)
        for table in before:
            self._forget_rows(statement, table, changed)
        if isinstance(statement, nodes.AlterTable) and isinstance(changed, Table):
            change_partitions(statement, changed)
        note = without_effect(statement.key) if isinstance(statement, nodes.Set) and statement.key else None
        return OK if note is None else Rows.of_text(("result",), ((f"OK. {note}",),))

    def _drop_views(self, statement: nodes.Drop) -> None:
        """The jobs and rows of materialized views, as far as the statement drops some."""
        if statement.kind in KINDS:
            self.views.drop(statement.name, self.workspace)
        if not statement.cascade:
            return
        catalog = self.workspace.catalog
        with suppress(BindError):  # which the statement itself tells
            namespace = catalog.namespace(statement.name)
            if namespace != catalog.current:  # which is not dropped
                self.views.drop_in(namespace, self.workspace)

    def _status_of(self, name: nodes.Name) -> ViewStatus:
        return self.views.status(materialized_named(name, self.workspace), self.workspace)

    def _table_before(self, statement: nodes.Statement) -> list[Table]:
        """The tables that a definition drops, replaces or renames."""
        catalog = self.workspace.catalog
        match statement:
            case nodes.CreateTable(replace=True) | nodes.AlterTable() | nodes.Drop(kind="TABLE"):
                table = self._known_table(statement.name)
                return [] if table is None else [table]
            case nodes.Drop(kind="DATABASE", cascade=True):
                try:
                    return catalog.tables(catalog.namespace(statement.name))
                except SqlStreamError:
                    return []
        return []

    def _known_table(self, name: nodes.Name) -> Table | None:
        """The table as far as there is one whose definition can be read."""
        try:
            relation = self.workspace.catalog.required(name)
        except SqlStreamError:
            return None
        return relation if isinstance(relation, Table) else None

    def _forget_rows(self, statement: nodes.Statement, before: Table, changed: object) -> None:
        """What the session holds of the rows of a table goes with the table, or takes its new name."""
        kind, folder = connector(before.connector), self._runner.folders.root
        if not isinstance(kind, SessionTable):
            return
        if not isinstance(statement, nodes.AlterTable):
            kind.drop(folder, before)
        elif isinstance(changed, Table) and changed.name != before.name:
            kind.rename(folder, before, changed)

    def _explained(self, statement: nodes.Explain, *, says_way: bool = False) -> str:
        return explained(statement, self.workspace, self._runner, self._batches, says_way=says_way)

    def _explained_table(self, statement: nodes.Explain) -> str | None:
        """The batch as which a query runs for who reads tables, where it is one."""
        query = statement.statement
        if statement.more or statement.stage not in ("OPTIMIZED", "PHYSICAL", "SPARK") or statement.format == "MERMAID":
            return None
        plan = chosen(query, self.workspace, finished=True) if isinstance(query, nodes.Query) else None
        return explained_batch(plan, statement, self.workspace, self._batches) if isinstance(plan, Batch) else None

    def _plan_in_file(self, statement: nodes.CompilePlan | nodes.ExecutePlan, *, wait: bool) -> Rows | Job:
        if isinstance(statement, nodes.CompilePlan):
            compile_plan(statement, self.workspace)
            if not statement.execute:
                return OK
        compiled, workspace = compiled_plan(statement.path, self.workspace, statement.span)
        return self._insert(compiled, to_sql(compiled), workspace, wait=wait)

    def _insert(
        self,
        statement: nodes.Insert | nodes.StatementSet,
        text: str,
        workspace: Workspace | None = None,
        *,
        wait: bool,
    ) -> Job:
        """``workspace``: other definitions and settings than the session's; ``wait`` as 'table.dml-sync' says."""
        workspace = workspace or self.workspace
        plan = planned(statement, workspace)
        replaced = overwritten_table(statement, workspace.catalog)
        self._reach(plan)
        if isinstance(plan, Batch):  # old rows go when the new ones are known
            job = self._batches.insert(plan, workspace, text, before=lambda: self._truncate(replaced))
        else:
            assert not isinstance(plan, Output)
            self._truncate(replaced)
            job = self._runner.start(plan, workspace, to_sql(statement))
        if wait and workspace.settings["table.dml-sync"]:
            job.wait()
        return job

    def _reach(self, plan: Root | Batch) -> None:
        """The server that keeps views runs, where the plan reads some."""
        tables = plan.tables if isinstance(plan, Batch) else (*scanned_tables(plan), *looked_up_tables(plan))
        reach((*tables, *(() if isinstance(plan, Batch) else side_tables(plan))), self.workspace.settings)

    def _truncate(self, table: Table | None) -> None:
        if table is None:
            return
        kind = connector(table.connector)
        assert isinstance(kind, TruncatableTable), table.connector
        kind.truncate(self._runner.folders.root, table)

    def _create_as(self, statement: nodes.CreateTable, text: str, *, wait: bool) -> Job | Rows:
        assert statement.query is not None
        catalog = self.workspace.catalog
        path = catalog.path(statement.name)
        table, stored, columns = self.table_of_query(statement, statement.query)
        replaced, entry = self._table_before(statement), catalog.entry("relation", path)
        if not create_table(statement, table, stored, catalog):
            return OK
        for before in replaced:
            self._forget_rows(statement, before, table)
        try:
            insert = nodes.Insert(statement.name, statement.query, columns, span=statement.span)
            return self._insert(insert, text, wait=wait)
        except SqlStreamError:
            catalog.drop("TABLE", statement.name)
            if replaced and entry is not None:
                before_text = entry.stored if isinstance(entry, Bound) else entry
                catalog.create(statement.name, replaced[0], temporary=statement.temporary, stored=before_text)
            raise

    def table_of_query(self, statement: nodes.CreateTable, query: exp.Expression) -> CreatedAs:
        """The table that CREATE TABLE … AS declares; Spark tells the columns of a batch."""
        plan = chosen(nodes.Query(query, span=statement.span), self.workspace)
        if not isinstance(plan, Batch):
            return table_of_query(statement, self.workspace)
        with self._batches.analyzed(plan, self.workspace) as analyzed:
            return table_of_columns(statement, analyzed.columns, self.workspace)

    def _query(self, statement: nodes.Query, text: str, *, finished: bool) -> Query:
        plan = chosen(statement, self.workspace, finished=finished)
        self._reach(plan)
        if isinstance(plan, Batch):
            run, columns = self._batches.start(plan, self.workspace, text)
            return Query(run, columns, self._time_zone)
        assert isinstance(plan, Output)
        job = self._runner.start(plan, self.workspace, to_sql(statement))
        updating = plan.changelog_mode != APPEND_ONLY
        return Query(job, columns_of(plan), self._time_zone, updating=updating, key=key_of(plan))

    @property
    def _time_zone(self) -> str:
        zone = self.spark.conf.get("spark.sql.session.timeZone")
        assert zone is not None, "Spark always has a time zone"
        return zone


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
