"""Changes of tables of databases as a stream: first what is in the table, then what the server's log says.

The driver copies the table into files of the checkpoint and receives the log into others, and tasks read these. A
position is a place of the log; Spark writes it into its checkpoint before the micro-batch reads. The server is told to
forget what is before a position when the micro-batch that ends there is complete, no sooner: one that is repeated, also
after the process was killed, receives the same transactions again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from sqlstream.connectors.changes.copies import COPIED, TableCopier
from sqlstream.connectors.changes.positions import Position
from sqlstream.connectors.changes.received_log import LOGGED, ReceivedLog, Segment, Taken
from sqlstream.connectors.changes.server import ChangeServer
from sqlstream.errors import ConnectorError
from sqlstream.secrets import Secrets
from sqlstream.sources.pace import Pace
from sqlstream.spark.internals import register_source
from sqlstream.spark.streams import SupportsTriggerAvailableNow
from sqlstream.types import from_arrow
from sqlstream.udfs.database_changes import CHANGES, INDEX, NO_FILE, PLACES, PLACES_DDL, ROWS
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.spark.batches import rows_of

_Answer = TypeVar("_Answer")

_PATIENCE_SECONDS = 60.0
_REPLAY_SECONDS = 600.0
_PATIENT_SECONDS, _IMPATIENT_SECONDS = 10.0, 0.1
"""How long a micro-batch waits for what was committed before it: a server decodes a large transaction for minutes, and
other sources of the query must not wait for it again and again."""
_SETTINGS = "secret"
"""The option of the data source with all settings, whose name Spark knows to hide."""


@dataclass(frozen=True)
class ChangeSettings:
    """What a stream of changes reads.

    * ``server``: which server and table; ``secrets``: what messages must not show of it.
    * ``most``: about how many changes a micro-batch reads at most, which should take no longer than ``wanted_ms``
      (``sources.pace.Pace``). ``heartbeat_ms``: after which time without changes the server may forget its log
      nevertheless; 0: never.
    * ``folder``: for files. ``confirms``: the server is told what it may forget; False where no checkpoint outlives the
      query.
    """

    server: ChangeServer = field(repr=False)
    secrets: Secrets = field(repr=False)
    most: int
    heartbeat_ms: int
    folder: str
    confirms: bool
    wanted_ms: int = 0


def changes_of_table(spark: SparkSession, settings: ChangeSettings) -> DataFrame:
    """Returns the rows of a table and its changes as a streaming DataFrame of ``ChangedTable.result``."""
    import base64
    import pickle

    register_source(spark, ChangePlaces)
    options = {_SETTINGS: base64.b64encode(pickle.dumps(settings)).decode()}
    places = spark.readStream.format(ChangePlaces.name()).options(**options).load()
    ddl = ", ".join(f"{f.name} {from_arrow(f.type).ddl()}" for f in settings.server.table.result)
    return places.mapInArrow(rows_of(settings.server.rows()), ddl)


# --- what Spark asks ------------------------------------------------------------------------------------------


class ChangePlaces(DataSource):
    """A Spark data source of places in files (``PLACES``), which tasks read. Option: ``secret``, the settings."""

    @classmethod
    def name(cls) -> str:
        return "sqlstream_database_changes"

    def schema(self) -> str:
        return PLACES_DDL

    def streamReader(self, schema: object) -> ChangeStream:  # noqa: N802
        import base64
        import pickle

        return ChangeStream(pickle.loads(base64.b64decode(self.options[_SETTINGS])))


class Share(InputPartition):
    """The places that one task reads, in order."""

    def __init__(self, places: list[dict[str, Any]]) -> None:
        self.places = places


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans what each micro-batch reads: the next part of the table, or the transactions that were received.

    PySpark 4.1 does not say where a micro-batch starts; the reader then goes on from the last one that it has planned.
    """

    def __init__(self, settings: ChangeSettings) -> None:
        self._settings, self._server = settings, settings.server
        self._folder = Path(settings.folder)
        self._pace = Pace(settings.most, settings.wanted_ms)
        self._last: Position | None = None
        self._copier: TableCopier | None = None
        self._receiver: ReceivedLog | None = None
        self._given: dict[tuple[int, int], tuple[Segment, ...]] = {}
        self._beaten = time.monotonic()
        self._target: int | None = None
        self._gtids_of_target = ""
        self._located: tuple[Position, Position] | None = None
        self._patience = _PATIENT_SECONDS

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._asking(self._server.log_end)
        self._gtids_of_target = self._asking(partial(self._server.gtids_at, self._target))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._last = self._asking(self._server.first)
        return self._last.to_json()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        if start is not None:
            position = Position.of_json(start)
            self._done(position)  # Spark asks when the micro-batch that ends there is complete
        else:
            assert self._last is not None, "Spark asks where a source begins first"
            position = self._last
        after = self._copied(position) if position.chunk is not None else self._advanced(position)
        self._last = after
        return start if start is not None and after is position else after.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        position = Position.of_json(end)
        if position.files:
            return [Share([self._file(file.name, file.longest)]) for file in position.files]
        if position.since == position.lsn:
            return [Share([])]
        position = self._here(position)
        segments = self._given.get((position.since, position.lsn))
        if segments is None:
            segments = self._again(position)
            self._given[position.since, position.lsn] = segments
        parts = json.dumps([p.to_json() for p in position.parts]) if position.parts else None
        return [Share([_of_segment(segment, parts) for segment in segments])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(partition.places, schema=PLACES)

    def commit(self, end: dict[str, Any]) -> None:
        self._done(Position.of_json(end))

    def stop(self) -> None:
        if self._receiver is not None:
            self._receiver.stop()
        if self._copier is not None:
            self._copier.close()
        self._server.disconnect()

    # --- positions --------------------------------------------------------------------------------------------

    def _done(self, position: Position) -> None:
        """Forgets what a micro-batch has read that is complete."""
        for file in position.files:
            (self._folder / file.name).unlink(missing_ok=True)
            (self._folder / f"{file.name}{INDEX}").unlink(missing_ok=True)
        for key in [key for key in self._given if key[1] <= position.lsn]:
            del self._given[key]
        if self._receiver is None:
            return
        if self._settings.confirms and position.chunk is None:
            self._receiver.confirm(position.lsn)
        self._receiver.remove(s.path for segments in self._given.values() for s in segments)

    def _copied(self, position: Position) -> Position:
        if self._copier is None:
            self._clean(COPIED)
            self._copier = self._asking(partial(self._server.copier, position, self._folder))
        try:
            return self._copier.next(position)
        except Exception as error:  # the connection broke: what is left is another snapshot's
            self._copier = None
            raise self._server.failed(error) from None

    def _advanced(self, position: Position) -> Position:
        given, position = position, self._here(position)
        if self._target is not None and position.lsn >= self._target:
            return given
        received, taken, is_there = self._receiving(position.lsn, position.gtids, position.system, self._taken)
        if taken is not None:
            self._beaten = time.monotonic()
            self._given[position.lsn, taken.end] = taken.segments
            self._pace.reads(sum(s.until - s.first for s in taken.segments))
            gtids = self._gtids_of_target if taken.end == self._target else taken.gtids
            return position.read_to(taken.end, gtids)
        if self._target is not None:
            if not is_there:
                raise self._server.sends_no_more(self._target, "where it ended when this run began")
            received.skip_to(self._target, self._gtids_of_target)
            return position.read_to(self._target, self._gtids_of_target)
        heartbeat = self._settings.heartbeat_ms
        if heartbeat and time.monotonic() - self._beaten > heartbeat / 1000:
            self._beaten = time.monotonic()
            if (skipped := received.skip()).end > position.lsn:
                return position.read_to(skipped.end, skipped.gtids)
        return given

    def _taken(self, received: ReceivedLog) -> tuple[ReceivedLog, Taken | None, bool]:
        """The transactions of the next micro-batch, and whether all that there were by now have been received or are
        in it. A run that ends waits for as many as fit, as each micro-batch has a cost.
        """
        most = self._pace.room()
        if self._target is not None:
            target = self._target
            is_there = received.wait(lambda: received.has_enough(most, target), _REPLAY_SECONDS)
        else:
            end = self._asking(self._server.log_end)
            is_there = received.wait(lambda: received.has_transactions() or received.reached >= end, self._patience)
            self._patience = _PATIENT_SECONDS if is_there else _IMPATIENT_SECONDS
        return received, received.take(most, self._target), is_there

    def _again(self, position: Position) -> tuple[Segment, ...]:
        """The transactions of a micro-batch that is repeated, received once more."""

        def take(received: ReceivedLog) -> tuple[Segment, ...]:
            if not received.wait(lambda: received.reached >= position.lsn, _REPLAY_SECONDS):
                raise self._server.sends_no_more(position.lsn, "which was read before")
            taken = received.take(None, position.lsn)
            received.skip_to(position.lsn, position.gtids)
            return () if taken is None else taken.segments

        return self._receiving(position.since, position.gtids_since, position.system, take)

    def _clean(self, *prefixes: str) -> None:
        """Makes the folder, and removes files of processes that were killed. No micro-batch needs any of them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for prefix in prefixes:
            for left in (*self._folder.glob(f"{prefix}*"), *self._folder.glob(f".{prefix}*")):
                left.unlink(missing_ok=True)  # a process that is ending removes its own

    def _file(self, name: str, longest: int) -> dict[str, Any]:
        path = self._folder / name
        if not path.exists():
            message = f'file "{path}" with rows of table "{self._server.table.name}" is gone'
            raise ConnectorError(NO_FILE, message, hint=self._server.anew)
        return {"content": ROWS, "path": str(path), "begin": longest}

    # --- connections ------------------------------------------------------------------------------------------

    def _here(self, position: Position) -> Position:
        """The position in the log of the server that answers now, which may be another one since it was written down.
        It is asked only where the log is not received from that server already.
        """
        known = self._receiver
        if known is not None and known.error is None and position.system in ("", known.system):
            return position
        if self._located is None or self._located[0] != position or known is None or known.error is not None:
            self._located = position, self._asking(partial(self._server.located, position))
        return self._located[1]

    def _receiving(self, since: int, gtids: str, system: str, read: Callable[[ReceivedLog], _Answer]) -> _Answer:
        """What is read of the log from ``since`` on. A connection that breaks meanwhile is made again for a minute."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            received = self._received(since, gtids, system)
            try:
                return read(received)
            except Exception as error:
                if not self._server.is_broken(error) or time.monotonic() > end:
                    raise self._server.failed(error) from None
            time.sleep(0.5)

    def _received(self, since: int, gtids: str, system: str) -> ReceivedLog:
        """The receiver that gives out transactions from ``since`` on next. A connection that broke is made again."""
        known = self._receiver
        if known is not None and known.since == since and (known.error is None or known.has_transactions()):
            return known
        if known is not None and isinstance(known.error, ConnectorError):
            raise known.error
        if known is not None:
            known.stop()
            self._receiver = None
            self._given.clear()
        self._clean(LOGGED, COPIED)
        self._receiver = self._asking(partial(self._server.receiver, since, self._folder, gtids))
        if system not in ("", self._receiver.system):
            raise self._server.another()
        return self._receiver

    def _asking(self, ask: Callable[[], _Answer]) -> _Answer:
        """What the server answers. A connection that broke, as when a server restarts, is made again for a minute."""
        end = time.monotonic() + _PATIENCE_SECONDS
        with hiding(self._settings.secrets):
            while True:
                try:
                    return ask()
                except Exception as error:
                    if not self._server.is_broken(error) or time.monotonic() > end:
                        raise self._server.failed(error) from None
                    self._server.disconnect()
                time.sleep(0.5)


def _of_segment(segment: Segment, parts: str | None) -> dict[str, Any]:
    return {
        "content": CHANGES, "path": segment.path, "begin": segment.begin, "first": segment.first,
        "until": segment.until, "relations": list(segment.relations), "snapshots": parts,
    }  # fmt: skip
