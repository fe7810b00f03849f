"""A MySQL or MariaDB server as a stream of changes asks it: for a snapshot and its binary log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sqlstream.connectors.changes.positions import Position
from sqlstream.connectors.changes.server import ChangeServer
from sqlstream.connectors.mysql.copies import CopyPlan, MySqlCopier
from sqlstream.connectors.mysql.dump import LogEnded
from sqlstream.connectors.mysql.log import BinlogReceiver
from sqlstream.connectors.mysql.server import (
    log_end,
    log_files,
    reason_of,
    require_log,
    shown_place,
    system_of,
)
from sqlstream.connectors.mysql.transactions import LogOfTransactions
from sqlstream.udfs.database_changes import ChangedTable
from sqlstream.udfs.mysql_changes import RowsOfMySql
from sqlstream.udfs.mysql_connection import connected

if TYPE_CHECKING:
    from sqlstream.connectors.mysql.server import Connection

_BROKEN = frozenset({1053, 1077, 1079, 1152, 1159, 1161, 1927, 2002, 2003, 2006, 2013, 2014})
"""Errors of connections that were not made or broke, as when a server restarts."""

INITIAL, LATEST, EARLIEST, SPECIFIC = "initial", "latest-offset", "earliest-offset", "specific-offset"


@dataclass
class MySqlChangeServer(ChangeServer):
    """``connection``: what a connection is made with; ``plan``: how the table is copied. ``mode``: where a job without
    checkpoint begins, for SPECIFIC at the place ``at``, or behind the transactions of ``gtids``.
    ``folds``: the case of names of tables does not count.
    """

    connection: tuple[tuple[str, str], ...] = field(repr=False)
    plan: CopyPlan
    charsets: tuple[tuple[int, str], ...] = field(repr=False)
    server_id: int
    mode: str = INITIAL
    at: int = 0
    gtids: str | None = None
    folds: bool = False
    _server: Connection | None = field(default=None, init=False, repr=False)

    product: ClassVar[str] = "MySQL"
    anew: ClassVar[str] = "Start in a new directory."

    @property
    def log(self) -> str:
        return f'table "{self.table.shown}"'

    @property
    def table(self) -> ChangedTable:
        return self.plan.table

    def rows(self) -> RowsOfMySql:
        return RowsOfMySql(self.table, self.charsets, self.plan.cut_by, self.folds)

    def first(self) -> Position:
        server = self._connected()
        places: dict[str, Callable[[], int]] = {
            EARLIEST: lambda: next(iter(log_files(server))) << 32 | 4,
            SPECIFIC: lambda: self.at if self.gtids is None else self._transactions().behind(self.gtids),
        }
        at = places.get(self.mode, lambda: log_end(server))()
        require_log(server, at)
        return Position.at(system_of(server), at, self.gtids_at(at), with_rows=self.mode == INITIAL)

    def log_end(self) -> int:
        return log_end(self._connected())

    def gtids_at(self, place: int) -> str:
        return self._transactions().before(place)

    def located(self, position: Position) -> Position:
        """On another server the places behind the same transactions, unless rows are still compared with places of the
        log of the one before.
        """
        server = self._connected()
        system, log = system_of(server), self._transactions()
        if system == position.system or not position.system:
            is_there = position.lsn >> 32 in log_files(server) and position.lsn <= log_end(server)
            if position.gtids and is_there and not log.has(position.gtids, position.lsn):
                raise self.another()
            return position
        if not position.gtids or position.chunk is not None or position.parts:
            raise self.another()
        since = log.behind(position.gtids_since)
        lsn = since if position.gtids == position.gtids_since else log.behind(position.gtids)
        return replace(position, system=system, since=since, lsn=lsn)

    def _transactions(self) -> LogOfTransactions:
        return LogOfTransactions.of(self._connected(), dict(self.connection), self.server_id)

    def copier(self, position: Position, folder: Path) -> MySqlCopier:
        if position.system not in ("", system_of(self._connected())):
            raise self.another()
        require_log(self._connected(), position.lsn)
        return MySqlCopier(dict(self.connection), self.plan, folder)

    def receiver(self, since: int, folder: Path, gtids: str) -> BinlogReceiver:
        file = require_log(self._connected(), since)
        where = self.table.schema, self.table.table
        return BinlogReceiver(
            dict(self.connection), where, self.server_id, since, file, folder, gtids, dict(self.charsets),
            folds=self.folds,
        )  # fmt: skip

    def is_broken(self, error: Exception) -> bool:
        import pymysql  # an optional package

        if isinstance(error, LogEnded):
            return True
        return isinstance(error, pymysql.Error) and bool(error.args) and error.args[0] in (0, *_BROKEN)

    def reason_of(self, error: Exception) -> str | None:
        import pymysql  # an optional package

        return reason_of(error) if isinstance(error, pymysql.Error | LogEnded) else None

    def disconnect(self) -> None:
        import pymysql  # an optional package

        if self._server is not None:
            with suppress(pymysql.Error):
                self._server.close()
            self._server = None

    def shown(self, place: int) -> str:
        return shown_place(place)

    def _connected(self) -> Connection:
        if self._server is None:
            self._server = connected(dict(self.connection))
        return self._server
