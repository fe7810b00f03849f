"""Starts batches: tables as views of Spark, the user's functions under Spark's names, one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlstream.batch.choosing import Batch
from sqlstream.batch.tables import plan_of_table, rows_of
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.grammar import nodes, to_sql
from sqlstream.planner.batch import SparkText, spark_text
from sqlstream.planner.expressions import as_expression
from sqlstream.results import Columns
from sqlstream.secrets import Secrets
from sqlstream.spark.running import is_connect
from sqlstream.types import from_spark
from sqlstream.udfs.hiding import hiding, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.batch.run import BatchRun
    from sqlstream.jobs import Job
    from sqlstream.runner import Runner
    from sqlstream.workspace import Workspace


STOPPED = "SS470"
_QUERY, _INSERT = "query", "insert"


@dataclass(frozen=True)
class Analyzed:
    """A batch that Spark has taken. ``rows`` has columns of names of its own, ``columns`` those that users see."""

    batch: Batch
    text: SparkText
    rows: DataFrame
    columns: Columns
    secrets: Secrets

    def told(self, error: BaseException) -> SqlStreamError:
        """Why the batch failed, without the secrets of its tables."""
        from sqlstream.batch.failure import failed

        return without_secrets(failed(error, self.text, self.batch.resolved.views), self.secrets)


class Batches:
    """The batches of a session."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._runs: list[BatchRun] = []

    def start(self, batch: Batch, workspace: Workspace, script: str) -> tuple[BatchRun, Columns]:
        """The batch at work, and its columns; its places are those in the script. SqlStreamError for what Spark
        refuses."""
        analyzed = self._analyzed(batch, workspace)
        names = [name for name, _ in analyzed.columns]
        run = self._run(_QUERY, analyzed, lambda: analyzed.rows.toArrow().rename_columns(names), script)
        return run, analyzed.columns

    def insert(self, batch: Batch, workspace: Workspace, script: str, before: Callable[[], None] = lambda: None) -> Job:
        """Computes the rows, then calls ``before`` and starts the job that writes them. SqlStreamError for what is
        wrong with either."""
        from sqlstream.batch.inserts import plan_of_insert, stored_result, workspace_of_insert, write

        statement = batch.statement
        assert isinstance(statement, nodes.Insert)
        analyzed = self._analyzed(batch, workspace)
        try:
            folder = self._runner.folders.root / f"batch_{uuid4().hex[:8]}"
            result = stored_result(analyzed, statement, workspace, folder)
            inside = workspace_of_insert(workspace, result)
            plan = plan_of_insert(statement, result, inside)
        except BaseException:
            _forget(batch, analyzed.rows.sparkSession)
            raise
        run = self._run(_INSERT, analyzed, lambda: write(analyzed.rows, result), script)
        try:
            run.wait()
        except BaseException:
            run.stop()
            raise
        if run.state.value == "STOPPED":
            raise ExecutionError(STOPPED, "the INSERT was stopped before its rows were computed")
        before()
        return self._runner.start(plan, inside, to_sql(statement))

    @property
    def running(self) -> tuple[BatchRun, ...]:
        return tuple(run for run in self._runs if run.state.value == "RUNNING")

    def _run(self, name: str, analyzed: Analyzed, work: Callable[[], Any], script: str) -> BatchRun:
        from sqlstream.batch.run import BatchRun

        spark = analyzed.rows.sparkSession

        def told(error: BaseException) -> SqlStreamError:
            return analyzed.told(error).with_source(script)

        run = BatchRun(name, spark, work, told, lambda: _forget(analyzed.batch, spark))
        self._runs = [*self.running, run]
        return run

    def dataframe(self, batch: Batch, workspace: Workspace) -> DataFrame:
        """The DataFrame of the batch, with the names that users see."""
        analyzed = self._analyzed(batch, workspace)
        if not is_connect(analyzed.rows.sparkSession):  # whose server looks at the text when the rows are asked for
            _forget(batch, analyzed.rows.sparkSession)
        return analyzed.rows.toDF(*(name for name, _ in analyzed.columns))

    @contextmanager
    def analyzed(self, batch: Batch, workspace: Workspace) -> Iterator[Analyzed]:
        """The batch for the block, whose Spark may look at its text until then."""
        ready = self._analyzed(batch, workspace)
        try:
            yield ready
        finally:
            _forget(batch, ready.rows.sparkSession)

    def stop(self) -> None:
        for run in self._runs:
            run.stop()

    def _analyzed(self, batch: Batch, workspace: Workspace) -> Analyzed:
        secrets = secrets_of(*batch.tables) + workspace.settings.secrets
        with hiding(secrets):
            spark = self._runner.spark.get(workspace.settings)
            try:
                return self._taken(batch, workspace, spark, secrets)
            except BaseException:
                _forget(batch, spark)
                raise

    def _taken(self, batch: Batch, workspace: Workspace, spark: SparkSession, secrets: Secrets) -> Analyzed:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from sqlstream.batch.failure import refused
        from sqlstream.planner.lowering.functions import with_registered_functions

        runtime = self._runner.runtime(workspace, finished=True)
        for table in batch.tables:
            name = batch.names[table.name]
            plan = plan_of_table(table, name, batch.query)
            rows_of(plan, workspace.settings, runtime).createOrReplaceTempView(name)
        text = spark_text(with_registered_functions(as_expression(batch.query), runtime))
        try:
            rows = spark.sql(text.text)
            names = rows.columns
            columns = tuple((field.name, from_spark(field.dataType.jsonValue())) for field in rows.schema)
            return Analyzed(batch, text, rows.toDF(*(f"c{i}" for i, _ in enumerate(names))), columns, secrets)
        except (PySparkException, Py4JError) as error:
            views, functions = batch.resolved.views, workspace.catalog.function_names()
            raise without_secrets(refused(error, text, views, functions), secrets) from error


def _forget(batch: Batch, spark: SparkSession) -> None:
    """Spark's views are only needed while it looks at the text."""
    for name in batch.names.values():
        with suppress(Exception):
            spark.catalog.dropTempView(name)
