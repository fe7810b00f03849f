"""Tables of lakes as file splits: the driver plans which files a micro-batch reads, and tasks read them.

Spark writes the position of each micro-batch into its checkpoint before the micro-batch reads, so one that is repeated
reads the same files.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from sqlstream.connectors.connector import columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.connectors.lakes.logs import log_of
from sqlstream.connectors.lakes.rows import SPLITS, reader_of, splits
from sqlstream.connectors.lakes.versions import (
    BOUND,
    TABLE,
    LakeFile,
    LakeSettings,
    Position,
    VersionLog,
    advanced,
    between,
)
from sqlstream.planner.catalog import Table
from sqlstream.spark.internals import register_source
from sqlstream.spark.streams import SupportsTriggerAvailableNow
from sqlstream.types import from_arrow
from sqlstream.udfs.exchange import part_fields
from sqlstream.udfs.files.splits import SHARE
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.spark.batches import rows_of, shuffle_tasks

_SETTINGS, _FILTERS = "secret", "filters"
"""Options of the data source; Spark knows to hide the value of the first one."""

_SMALLEST_SHARE = 4 << 20
"""Bytes that are worth a task."""


# --- rows -----------------------------------------------------------------------------------------------------


def file_splits(environment: Environment, settings: LakeSettings) -> DataFrame:
    """Returns a streaming DataFrame of file splits of a table (``planner.lowering.runtime.Runtime.places``), or, for
    finished data, a batch DataFrame.
    """
    spark = environment.spark
    register_source(spark, LakeFiles)
    filters = base64.b64encode(pickle.dumps(settings.filters)).decode()
    options = {_SETTINGS: settings.to_json(), _FILTERS: filters, "tasks": str(shuffle_tasks(spark))}
    return environment.reader.format(LakeFiles.name()).options(**options).load()


def read(environment: Environment, table: Table, columns: tuple[str, ...], settings: LakeSettings) -> DataFrame:
    """Returns the rows of a table as a DataFrame of the named columns, and of the hidden ones that ``Source.read``
    allows.
    """
    chosen = columns_of(table, columns)
    places = file_splits(environment, settings)
    hidden = [pa.field(ROW_KIND, pa.string())] if settings.changes else []
    hidden += part_fields(()) if environment.in_order else []
    types = {c.name: c.type.to_arrow() for c in chosen}
    given = [*(pa.field(name, kind) for name, kind in types.items()), *hidden]
    schema = pa.schema(given or [pa.field(SHARE, pa.int32())])  # Spark takes no rows without columns
    ddl = ", ".join(f"{quoted(f.name)} {from_arrow(f.type).ddl()}" for f in schema)
    rows = places.mapInArrow(rows_of(reader_of(schema, types, settings)), ddl)
    return rows if given else rows.select()


# --- what Spark asks ------------------------------------------------------------------------------------------


class LakeFiles(DataSource):
    """A Spark data source of file splits, with all files of a micro-batch for each task. Options: ``secret``, the
    settings as JSON, ``filters``, and ``tasks``, how many there are at most.
    """

    @classmethod
    def name(cls) -> str:
        return "sqlstream_lake_files"

    def schema(self) -> str:
        return ", ".join(f"`{f.name}` {from_arrow(f.type).ddl()}" for f in SPLITS)

    def _settings(self) -> LakeSettings:
        filters = pickle.loads(base64.b64decode(self.options[_FILTERS]))
        return replace(LakeSettings.of_json(self.options[_SETTINGS]), filters=filters)

    def streamReader(self, schema: object) -> LakeStream:  # noqa: N802
        return LakeStream(self._settings(), int(self.options["tasks"]))

    def reader(self, schema: object) -> WholeVersion:
        return WholeVersion(self._settings(), int(self.options["tasks"]))


class Share(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: pa.RecordBatch) -> None:
        self.splits = splits


def _shares(files: Iterable[LakeFile], settings: LakeSettings, tasks: int) -> list[InputPartition]:
    """All files for each task, which reads its share of them. Changes are read by one task, in their order."""
    listed = [file for file in files if not file.pruned]
    total = sum(file.size for file in listed)
    count = 1 if settings.changes else max(1, min(tasks, -(-total // _SMALLEST_SHARE)))
    return [Share(splits(listed, share, count)) for share in range(count)]


class WholeVersion(DataSourceReader):
    """All files of one version, for a query over finished data."""

    def __init__(self, settings: LakeSettings, tasks: int) -> None:
        self._settings, self._tasks = settings, tasks

    def partitions(self) -> list[InputPartition]:
        log = log_of(self._settings)
        return _shares(log.files(log.first_position()), self._settings, self._tasks)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield partition.splits


class LakeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans what each micro-batch reads: the files of the versions since the last one.

    A run that reads only what is there (AvailableNow) ends with the version that was the newest when it began.
    PySpark 4.1 does not say where a micro-batch starts; the reader then goes on from the last one that it has planned.
    """

    def __init__(self, settings: LakeSettings, tasks: int) -> None:
        self._settings, self._tasks = settings, tasks
        self._opened: VersionLog | None = None
        self._what_is_there = False
        self._target: int | None = None
        self._last: Position | None = None

    @property
    def _log(self) -> VersionLog:
        if self._opened is None:
            self._opened = log_of(self._settings)
        return self._opened

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._what_is_there = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._last = self._log.first_position()
        return self._offset(self._last)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        known = self._last if start is None else Position.of_json(start)
        position = known or self._log.first_position()
        self._keep(start)
        if not position.stop:
            newest = self._log.newest()
            if self._what_is_there and self._target is None:
                self._target = newest
        self._last = advanced(self._log, self._settings, position, self._target)
        return self._offset(self._last)

    def _offset(self, position: Position) -> dict[str, Any]:
        bound = self._log.bound()
        self._log.keep(bound)
        return {**position.to_json(), BOUND: bound, TABLE: self._log.table_id}

    def _keep(self, offset: dict[str, Any] | None) -> None:
        """Lets the table and its columns be those of an offset. Older checkpoints do not say them."""
        if offset is None:
            return
        if TABLE in offset and offset["version"] >= 0:
            self._log.require_same(offset[TABLE], offset["version"])
        self._log.keep(offset.get(BOUND, {}))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._keep(end)
        first, last = Position.of_json(start), Position.of_json(end)
        return _shares(between(self._log, first, last), self._settings, self._tasks)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield partition.splits

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept for a micro-batch."""
