"""A PostgreSQL server as a stream of changes asks it: for a slot, a snapshot and its log."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sqlstream.connectors.changes.positions import Position
from sqlstream.connectors.changes.server import ChangeServer
from sqlstream.connectors.postgres.copies import CopyPlan, PostgresCopier
from sqlstream.connectors.postgres.log import (
    LogError,
    LogReceiver,
    TableInLog,
    receiver,
    replaced,
    replication,
    system_of,
)
from sqlstream.connectors.postgres.publications import (
    Slot,
    create_slot,
    is_partition,
    log_end,
    require_slot,
    wait_for_running,
)
from sqlstream.udfs.database_changes import ChangedTable
from sqlstream.udfs.lookup.sources.postgres import PostgresError, one_line, session_settings
from sqlstream.udfs.postgres_changes import RowsOfPostgres
from sqlstream.udfs.postgres_current import is_broken

if TYPE_CHECKING:
    from sqlstream.connectors.postgres.server import Connection

_IN_USE_SECONDS = 75.0
"""A server ends connections that are silent after a minute, by default."""


@dataclass
class PostgresChangeServer(ChangeServer):
    """``number``: that of the table (OID); ``connection``: libpq's parameters; ``plan``: how the table is copied.
    ``with_rows``: whether it is; ``from_slot``: a job without checkpoint begins where the slot is, else where the log
    ends.
    """

    slot: Slot
    number: int
    connection: tuple[tuple[str, str], ...] = field(repr=False)
    plan: CopyPlan
    with_rows: bool
    from_slot: bool
    statement_timeout_ms: int
    _server: Connection | None = field(default=None, init=False, repr=False)

    product: ClassVar[str] = "PostgreSQL"
    anew: ClassVar[str] = "Start in a new directory and with a new slot."

    @property
    def log(self) -> str:
        return f'slot "{self.slot.name}"'

    @property
    def table(self) -> ChangedTable:
        return self.plan.table

    def rows(self) -> RowsOfPostgres:
        return RowsOfPostgres(self.plan.table, self.plan.keys)

    def first(self) -> Position:
        server = self._connected()
        lsn = create_slot(server, self.slot)
        connection = replication(dict(self.connection))
        try:
            system = system_of(connection)
        finally:
            connection.finish()
        at = lsn if self.with_rows or self.from_slot else log_end(server)
        return Position.at(system, at, table=self.number, with_rows=self.with_rows)

    def log_end(self) -> int:
        return log_end(self._connected())

    def located(self, position: Position) -> Position:
        """ConnectorError SS622 where another table has the name of the one that was read."""
        if position.table in (0, self.number) or is_partition(self._connected(), position.table, self.slot):
            return position
        raise replaced(self.table.shown)

    def copier(self, position: Position, folder: Path) -> PostgresCopier:
        server = self._connected()
        self.located(position)
        require_slot(server, self.slot, position.lsn)
        if position.chunk == 0:
            wait_for_running(server)
        opened = PostgresCopier(server, self.plan, folder)
        self._server = None
        return opened

    def receiver(self, since: int, folder: Path, gtids: str) -> LogReceiver:
        slot = self.slot
        require_slot(self._connected(), slot, since)
        table = TableInLog(*slot.table, self.number, self._is_partition)
        open_receiver = partial(LogReceiver, dict(self.connection), slot.name, slot.publication, table, since, folder)
        return receiver(open_receiver, slot.name, _IN_USE_SECONDS)

    def _is_partition(self, number: int) -> bool:
        """By a connection of its own, as the thread of the log asks, for each partition once."""
        import psycopg  # an optional package

        with psycopg.connect(**dict(self.connection), autocommit=True) as server:  # type: ignore[arg-type]
            return is_partition(server, number, self.slot)

    def is_broken(self, error: Exception) -> bool:
        import psycopg  # an optional package

        return isinstance(error, psycopg.OperationalError | LogError) and is_broken(error)

    def reason_of(self, error: Exception) -> str | None:
        import psycopg  # an optional package

        if isinstance(error, psycopg.Error):
            return one_line(error)
        return " ".join(str(error).split()) if isinstance(error, PostgresError) else None

    def disconnect(self) -> None:
        import psycopg  # an optional package

        if self._server is not None:
            with suppress(psycopg.Error):
                self._server.close()
            self._server = None

    def _connected(self) -> Connection:
        import psycopg  # an optional package

        if self._server is None or self._server.closed:
            self._server = psycopg.connect(**dict(self.connection), autocommit=True)  # type: ignore[arg-type]
            self._server.execute(session_settings(self.statement_timeout_ms))
        return self._server
