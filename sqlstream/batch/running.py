"""Runs queries over finished data: tables as temporary views of Spark, one text of Spark SQL, the rows of INSERT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlglot import exp

from sqlstream.batch.choosing import Batch
from sqlstream.catalog import DEFAULT
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ExecutionError, Span, SqlStreamError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.spans import mark, span_of
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.fields import UniqueNames
from sqlstream.plans import Root, plan_of
from sqlstream.results import Columns
from sqlstream.spark.running import ONE_AT_A_TIME, is_connect, loaded
from sqlstream.types import DataType
from sqlstream.udfs.hiding import hiding
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.batch.run import Analyzed, BatchRun
    from sqlstream.jobs import Job
    from sqlstream.runner import Runner


# --- tables ---------------------------------------------------------------------------------------------------


STOPPED = "SS470"
_QUERY, _INSERT = "query", "insert"


class Batches:
    """Runs the queries and INSERTs of a session that are batches."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._runs: list[BatchRun] = []

    def start(self, batch: Batch, workspace: Workspace, script: str) -> tuple[BatchRun, Columns]:
        """Starts a batch query. Returns a pair: the run, and the columns of its rows as pairs of name and type. Raises
        SqlStreamError where Spark rejects the query.

        ``script``: the text that the spans of errors refer to.
        """
        analyzed = self._analyzed(batch, workspace)
        names = [name for name, _ in analyzed.columns]
        run = self._run(_QUERY, analyzed, lambda: analyzed.rows.toArrow().rename_columns(names), script)
        return run, analyzed.columns

    def insert(self, batch: Batch, workspace: Workspace, script: str, ready: Callable[[Root], Root]) -> Job:
        """Runs a batch INSERT: computes all rows first, and returns the job that it starts to write them. ``ready``
        is called between, and returns the plan of that job, given the plan of an INSERT INTO.

        Raises SqlStreamError if computing fails or Spark rejects the query.
        """

        statement = batch.statement
        assert isinstance(statement, nodes.Insert)
        analyzed, in_order = self._analyzed(batch, workspace), _has_order(batch)
        try:
            folder = self._runner.folders.root / f"batch_{uuid4().hex[:8]}"
            result = stored_result(analyzed, statement, workspace, folder)
            inside = workspace_of_insert(workspace, result, in_order=in_order)
            plan = plan_of_insert(statement, result, inside)
        except BaseException:
            _forget(batch, analyzed.rows.sparkSession)
            raise
        rows = analyzed.rows.coalesce(1) if in_order else analyzed.rows
        run = self._run(_INSERT, analyzed, lambda: write(rows, result), script)
        try:
            run.wait()
        except BaseException:
            run.stop()
            raise
        if run.state.value == "STOPPED":
            raise ExecutionError(STOPPED, "the INSERT was stopped before its rows were computed")
        return self._runner.start(ready(plan), inside, to_sql(statement))

    @property
    def running(self) -> tuple[BatchRun, ...]:
        """The batches that have not ended."""
        return tuple(run for run in self._runs if run.state.value == "RUNNING")

    def _run(self, name: str, analyzed: Analyzed, work: Callable[[], Any], script: str) -> BatchRun:
        from sqlstream.batch.run import BatchRun  # it has been loaded: the batch is analyzed

        spark = analyzed.rows.sparkSession

        def error_of(error: BaseException) -> SqlStreamError:
            return analyzed.error_of(error).with_source(script)

        run = BatchRun(name, spark, work, error_of, lambda: _forget(analyzed.batch, spark))
        self._runs = [*self.running, run]
        return run

    def dataframe(self, batch: Batch, workspace: Workspace) -> DataFrame:
        """Returns the batch as a DataFrame, which is not executed, with the column names that users see."""
        analyzed = self._analyzed(batch, workspace)
        if not is_connect(analyzed.rows.sparkSession):  # whose server looks at the text when the rows are asked for
            _forget(batch, analyzed.rows.sparkSession)
        return analyzed.rows.toDF(*(name for name, _ in analyzed.columns))

    @contextmanager
    def analyzed(self, batch: Batch, workspace: Workspace) -> Iterator[Analyzed]:
        """A context manager that lets Spark analyze the batch, and drops the temporary views for that at the end."""
        ready = self._analyzed(batch, workspace)
        try:
            yield ready
        finally:
            _forget(batch, ready.rows.sparkSession)

    def stop(self) -> None:
        """Stops all batches of the session."""
        for run in self._runs:
            run.stop()

    def _analyzed(self, batch: Batch, workspace: Workspace) -> Analyzed:
        run = loaded("sqlstream.batch.run")  # PySpark, for the first batch
        secrets = secrets_of(*batch.tables) + workspace.settings.secrets
        with hiding(secrets), ONE_AT_A_TIME:
            spark = self._runner.spark.get(workspace.settings)
            try:
                runtime = self._runner.runtime(workspace, finished=True)
                analyzed: Analyzed = run.analyzed_by_spark(batch, workspace, runtime, secrets)
                return analyzed
            except BaseException:
                _forget(batch, spark)
                raise


def _forget(batch: Batch, spark: SparkSession) -> None:
    """Drop the temporary views, which Spark needs only while it analyzes the text."""
    for name in batch.names.values():
        with suppress(Exception):
            spark.catalog.dropTempView(name)


# --- INSERT: the rows are computed into a file of the session, a job writes them to the table -----------------
# The job is one as of any INSERT from a bounded table, so every sink is written as it always is. Nothing of it is
# checkpointed: a batch that failed has written nothing, or is begun anew by its user.


_PER_JOB = ("execution.checkpointing.dir", "execution.state-recovery.path")
_ONE_TASK = {"spark.sql.files.minPartitionNum": "1", "spark.sql.files.maxPartitionBytes": str(1 << 60)}
"""Settings with which Spark reads a file, of whatever size, in one task."""


def _has_order(batch: Batch) -> bool:
    """Whether the rows of an INSERT have an order, in which they are written: those of VALUES and of ORDER BY. As in
    Flink, one task computes and writes them.
    """
    if batch.query.args.get("order") is not None:
        return True
    calls = (table for table in batch.query.find_all(exp.Table) if isinstance(table.this, exp.Func))
    return not batch.tables and not any(calls)  # range() may give more rows than one task should write


def stored_result(analyzed: Analyzed, statement: nodes.Insert, workspace: Workspace, folder: Path) -> Table:
    """Returns a table that describes the Parquet files in ``folder``, into which the rows of a batch INSERT are
    computed.
    """
    targets = _target_types(statement, workspace)
    names = UniqueNames()
    columns = tuple(
        Column(names.unique(name), _stored(type_, position, targets))
        for position, (name, type_) in enumerate(analyzed.columns)
    )
    options = (("path", str(folder)), ("format", "parquet"))
    return Table(f"sqlstream_{folder.name}", columns, "filesystem", options, bounded=True)


def _target_types(statement: nodes.Insert, workspace: Workspace) -> list[DataType]:
    table = workspace.catalog.relation(str(statement.target))
    if not isinstance(table, Table):
        return []
    types = {c.name.casefold(): c.type for c in table.columns}
    names = statement.columns or tuple(c.name for c in table.target.physical_columns)
    return [types.get(name.casefold(), DataType("STRING")) for name in names]


def _stored(type_: DataType, position: int, targets: list[DataType]) -> DataType:
    """A column of NULLs has no type of its own, and no file can hold it."""
    if type_.name != "VOID":
        return type_
    return targets[position] if position < len(targets) else DataType("STRING")


def workspace_of_insert(workspace: Workspace, result: Table, *, in_order: bool = False) -> Workspace:
    """Returns the workspace for the job that writes computed rows: it contains the table ``result`` with these rows,
    and the job's checkpoint is removed with the session. ``in_order``: ``result`` is one file, which one task reads.
    """
    own_workspace = workspace.copy()
    name = nodes.Name((*DEFAULT, result.name), span=Span(0, 0))
    own_workspace.catalog.create(name, result)
    for key in _PER_JOB:
        own_workspace.settings.reset(key)
    own_workspace.settings.set("execution.runtime-mode", "streaming")
    for key, value in _ONE_TASK.items() if in_order else ():
        own_workspace.settings.set(key, value)
    return own_workspace


def plan_of_insert(statement: nodes.Insert, result: Table, workspace: Workspace) -> Root:
    """Returns the plan of the job that writes the computed rows in ``result``. Raises SqlStreamError where columns do
    not match, as any INSERT does.
    """
    catalog, database = (exp.to_identifier(name, quoted=True) for name in DEFAULT)
    named = exp.Table(this=exp.to_identifier(result.name, quoted=True), db=database, catalog=catalog)
    query = exp.select("*").from_(named)
    span = span_of(statement.query)
    if span is not None:
        mark(query, span.start, span.end)
    return plan_of(replace(statement, query=query), workspace)


def write(rows: DataFrame, result: Table) -> None:
    """Executes the batch and writes its rows as Parquet files, from which ``result`` reads."""
    path = result.option("path")
    assert path is not None
    pairs = zip(rows.columns, result.columns, strict=True)
    rows.select(*(rows[name].cast(c.type.ddl()).alias(c.name) for name, c in pairs)).write.parquet(path)
