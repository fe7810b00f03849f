"""What connectors of changes have in common: options, the kinds of their rows, where their files are, their columns."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import Source, columns_of
from sqlstream.connectors.environment import Environment, Watch
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.udfs.database_changes import CHANGES_FOLDER, KINDS
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_CHECKPOINT = "SS629"

COPY_OPTIONS = (
    Option(
        "scan.incremental.snapshot.chunk.size",
        integer(1),
        "So many of the rows that are there are copied at a time, and are one micro-batch.",
        "500000",
    ),
    Option("scan.incremental.snapshot.enabled", one_of("true"), "Rows are always copied in parts.", "true"),
    Option(
        "scan.schema-change",
        one_of("fail", "follow"),
        "What happens where the log lacks a column, or has it with another type: the job fails, or reads NULL and "
        "what the text of the value is for the declared type.",
        "fail",
    ),
)
CONNECT_TIMEOUT = Option("connect.timeout", DURATION, "How long to wait for a connection.", "30 s")

REFUSED: Mapping[str, str] = {
    "debezium.snapshot.mode": "'scan.startup.mode' says where a job begins.",
    "scan.incremental.snapshot.chunk.key-column": "Rows are cut by the key of the table.",
    "scan.snapshot.fetch.size": "Rows are copied, not fetched.",
    "connect.max-retries": "Connections that broke are made again for a minute.",
    "connection.pool.size": "A job has two connections, and one more while it copies rows.",
}
"""Options of Flink that no connector of changes has."""


class DatabaseChanges(Source):
    """A source of the rows of a table and of their changes.

    ``old_rows_where``: which tables may have -U rows, for a hint.
    """

    old_rows_where: str

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        given = dict(table.options)
        if table.changelog == APPEND_ONLY or RowKind.UPDATE_AFTER not in table.changelog:
            message = f"'changelog-mode' of the connector \"{self.name}\" has updates, because rows of tables change"
            hint = f"Leave it out, or write 'I,UB,UA,D'{self.old_rows_where}."
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint=hint)
        if given.get(ON_ERROR, "fail").strip().lower() != "fail":
            message = f'option "{ON_ERROR}" of the connector "{self.name}" is \'fail\': no change may be left out'
            yield Diagnostic(WRONG_VALUE, message, spans.get(ON_ERROR), hint="Declare odd columns as STRING.")

    def has_kinds(self, table: Table) -> bool:
        return True

    def poll_ms(self, table: Table) -> int | None:
        return 100

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Checks the server and the table, and returns the stream."""
        from pyspark.sql import functions as F

        settings = self.settings(environment, table, columns)
        rows = on_spark.database_changes.changes_of_table(environment.spark, settings)
        changed = settings.server.table
        metadata = iter(name for name, _ in changed.metadata)
        physical = iter(c.name for c in changed.columns)
        chosen = columns_of(table, columns)
        named = [
            F.col(next(physical if c.metadata_key is None else metadata)).cast(c.type.ddl()).alias(c.name)
            for c in chosen
        ]
        return rows.select(*named, F.col(KINDS).alias(ROW_KIND))

    @abstractmethod
    def settings(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> Any:
        """``ChangeSettings`` of ``on_spark.database_changes``. Asks the server for all that they need."""

    def folder(self, environment: Environment, name: str) -> Path:
        """Where the files of a scan are. Those of a query that is only looked at are in the scratch folder of its
        session.
        """
        if environment.logs is not None:
            return Path(environment.logs).parent.parent / CHANGES_FOLDER / name
        if environment.watches is None:
            return environment.directory / CHANGES_FOLDER / name
        message = f'connector "{self.name}" needs a checkpoint that is a folder of this machine'
        hint = "Let 'execution.checkpointing.dir' be a folder, of a cluster one that all its machines mount."
        raise ConnectorError(NO_CHECKPOINT, message, hint=hint)


@dataclass
class _Scans(Watch):
    """How many scans a job has, by what is counted."""

    counts: Counter[str] = field(default_factory=Counter)
    interval_ms: int | None = None

    def look(self) -> None:
        """Does nothing: the sources look themselves."""


def number_of_scan(environment: Environment, counted: str) -> int:
    """The number of this scan, from 0, among those of a job that are ``counted`` together, in the order of the plan, in
    which Spark keeps positions, too. 0 for a query that is only looked at.
    """
    if environment.watches is None:
        return 0
    scans = next((watch for watch in environment.watches if isinstance(watch, _Scans)), None)
    if scans is None:
        scans = _Scans()
        environment.watches.append(scans)
    scans.counts[counted] += 1
    return scans.counts[counted] - 1


def parts_at_once(environment: Environment) -> int:
    """In how many files a part of a table is copied, each of which a task reads."""
    return max(1, min(int(str(environment.spark.conf.get("spark.sql.shuffle.partitions"))), 8))
