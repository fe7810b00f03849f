"""Starts batches: tables as views of Spark, the user's functions under Spark's names, one text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.batch.choosing import Batch
from sqlstream.batch.tables import plan_of_table, rows_of
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import SqlStreamError
from sqlstream.planner.batch import SparkText, spark_text
from sqlstream.results import Columns
from sqlstream.secrets import Secrets
from sqlstream.types import from_spark
from sqlstream.udfs.hiding import hiding, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.batch.run import BatchRun
    from sqlstream.runner import Runner
    from sqlstream.workspace import Workspace

_QUERY = "query"


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

    def start(self, batch: Batch, workspace: Workspace) -> tuple[BatchRun, Columns]:
        """The batch at work, and its columns. SqlStreamError for what Spark refuses."""
        from sqlstream.batch.run import BatchRun

        found = self._analyzed(batch, workspace)
        names = tuple(name for name, _ in found.columns)
        run = BatchRun(_QUERY, found.rows, names, found.told, lambda: self._forget(batch, workspace))
        self._runs = [*(one for one in self._runs if one.state.value == "RUNNING"), run]
        return run, found.columns

    @contextmanager
    def analyzed(self, batch: Batch, workspace: Workspace) -> Iterator[Analyzed]:
        """The batch for the block, whose Spark may look at its text until then."""
        try:
            yield self._analyzed(batch, workspace)
        finally:
            self._forget(batch, workspace)

    def stop(self) -> None:
        for run in self._runs:
            run.stop()

    def _analyzed(self, batch: Batch, workspace: Workspace) -> Analyzed:
        secrets = secrets_of(*batch.tables) + workspace.settings.secrets
        with hiding(secrets):
            try:
                return self._taken(batch, workspace, secrets)
            except BaseException:
                self._forget(batch, workspace)
                raise

    def _taken(self, batch: Batch, workspace: Workspace, secrets: Secrets) -> Analyzed:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from sqlstream.batch.failure import refused
        from sqlstream.planner.lowering.functions import with_registered_functions

        spark = self._runner.spark.get(workspace.settings)
        runtime = self._runner.runtime(workspace, finished=True)
        for table in batch.tables:
            plan = plan_of_table(table, batch.query)
            rows_of(plan, workspace.settings, runtime).createOrReplaceTempView(batch.names[table.name])
        text = spark_text(with_registered_functions(batch.query, runtime))
        try:
            rows = spark.sql(text.text)
            names = rows.columns
            columns = tuple((field.name, from_spark(field.dataType.jsonValue())) for field in rows.schema)
            return Analyzed(batch, text, rows.toDF(*(f"c{i}" for i, _ in enumerate(names))), columns, secrets)
        except (PySparkException, Py4JError) as error:
            views, functions = batch.resolved.views, workspace.catalog.function_names()
            raise without_secrets(refused(error, text, views, functions), secrets) from error

    def _forget(self, batch: Batch, workspace: Workspace) -> None:
        """Spark's views are only needed while it looks at the text."""
        if not self._runner.spark.started:
            return
        spark: SparkSession = self._runner.spark.get(workspace.settings)
        for name in batch.names.values():
            with suppress(Exception):
                spark.catalog.dropTempView(name)
