"""Places of a binary log by the transactions before them, whose names (GTID) are the same in the logs of all servers
that replicate each other. So a job can go on with the log of another server.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream.connectors.changes.server import LOG_LOST
from sqlstream.connectors.mysql.dump import BinlogDump, LogEnded, rotated_to
from sqlstream.connectors.mysql.server import log_end, log_files, place, product_of, rows, shown_place, status_of
from sqlstream.errors import ConnectorError
from sqlstream.formats.binlog_events import HEARTBEAT, MARIADB_GTID, MYSQL_GTID, NAMELESS, ROTATE
from sqlstream.formats.gtids import GtidPosition, GtidSet, transaction_of
from sqlstream.udfs.mysql_changes import NOT_OF_ROWS

if TYPE_CHECKING:
    from sqlstream.connectors.mysql.server import Connection

_SILENT_SECONDS = 60.0
_ANEW = "Start in a new directory."


@dataclass(frozen=True)
class LogOfTransactions(ABC):
    """The log of a server. ``connection``: what another connection is made with; ``server_id``: of the reader."""

    server: Connection = field(repr=False)
    connection: Mapping[str, str] = field(repr=False)
    server_id: int

    @staticmethod
    def of(server: Connection, connection: Mapping[str, str], server_id: int) -> LogOfTransactions:
        kind = _OfMariaDb if product_of(server).name == "MariaDB" else _OfMySql
        return kind(server, connection, server_id)

    @abstractmethod
    def before(self, at: int) -> str:
        """Which transactions are before a place of the log; empty where the server has no names for them."""

    @abstractmethod
    def has(self, gtids: str, before: int) -> bool:
        """False if the log is another one than that which had these transactions before this place."""

    @abstractmethod
    def behind(self, gtids: str) -> int:
        """The place with these transactions before it and all others behind it. ConnectorError SS621 if there is none,
        SS620 for names of another product.
        """

    def _another_order(self, gtids: str) -> ConnectorError:
        message = f"the log of the server has transactions in another order than that of GTID {gtids}"
        return ConnectorError(LOG_LOST, message, hint=_ANEW)

    def _of_another_product(self, gtids: str) -> ConnectorError:
        message = f"{gtids} is no GTID of {product_of(self.server).name}, which the server is"
        return ConnectorError(NOT_OF_ROWS, message, hint="Name the file and the byte of the log where the job begins.")

    def _events(self, dump: BinlogDump) -> Iterator[tuple[int, bytes]]:
        """Events of files with the places where they begin; without end."""
        number, silent_until = 0, time.monotonic() + _SILENT_SECONDS
        try:
            while time.monotonic() < silent_until:
                event = dump.event()
                if event is None or event[4] == HEARTBEAT:
                    dump.rest()
                    continue
                silent_until = time.monotonic() + _SILENT_SECONDS
                if offset := int.from_bytes(event[13:17], "little"):
                    yield number << 32 | offset - int.from_bytes(event[9:13], "little"), event
                if event[4] == ROTATE:
                    number = rotated_to(event) >> 32
        finally:
            dump.close()
        raise LogEnded("the server does not send its log")


class _OfMariaDb(LogOfTransactions):
    def before(self, at: int) -> str:
        name = log_files(self.server).get(at >> 32)
        found = rows(self.server, "SELECT BINLOG_GTID_POS(%s, %s)", [name, at & 0xFFFFFFFF])
        return str(found[0][0] or "")

    def has(self, gtids: str, before: int) -> bool:
        there = self.before(before)  # none where no event begins in another log
        return ":" not in gtids and GtidPosition.of(there) == GtidPosition.of(gtids)

    def behind(self, gtids: str) -> int:
        if ":" in gtids:
            raise self._of_another_product(gtids)
        wanted, at = GtidPosition.of(gtids), log_end(self.server)
        if GtidPosition.of(self.before(at)) != wanted:
            dump = BinlogDump(self.connection, self.server_id, f"GTID {gtids}", 4, None, gtids)
            at = next(begin for begin, event in self._events(dump) if event[4] == MARIADB_GTID)
        if GtidPosition.of(self.before(at)) != wanted:
            raise self._another_order(gtids)
        return at


class _OfMySql(LogOfTransactions):
    """The server says the transactions before each file and those of all its log; others are counted."""

    def before(self, at: int) -> str:
        end, executed = self._end()
        if at == end:
            return str(executed)
        file = log_files(self.server)[at >> 32]
        gtids = self._before_file(file)
        for begin, event in self._events_of(file):
            if begin >= at:
                break
            if event[4] in NAMELESS:
                return ""
            if event[4] == MYSQL_GTID:
                gtids = gtids.with_transaction(event)
        return str(gtids)

    def has(self, gtids: str, before: int) -> bool:
        return ":" in gtids and GtidSet.of(gtids) <= self._end()[1]

    def behind(self, gtids: str) -> int:
        if ":" not in gtids:
            raise self._of_another_product(gtids)
        wanted, (end, executed) = GtidSet.of(gtids), self._end()
        if executed == wanted:
            return end
        if not wanted <= executed:
            message = f"the server does not have all transactions of GTID {gtids}: it has {str(executed) or 'none'}"
            hint = "If it is a replica, wait until it has them. Or start in a new directory."
            raise ConnectorError(LOG_LOST, message, hint=hint)
        for file in reversed(log_files(self.server).values()):
            before = self._before_file(file)
            if before <= wanted:
                return self._place_in(file, before, wanted)
        message = f"the server has removed its log from GTID {gtids} on, where the job goes on"
        hint = f"{_ANEW[:-1]}, and let the server keep its log longer (binlog_expire_logs_seconds)."
        raise ConnectorError(LOG_LOST, message, hint=hint)

    def _place_in(self, file: str, before: GtidSet, wanted: GtidSet) -> int:
        for begin, event in self._events_of(file):
            if before == wanted and (event[4] == MYSQL_GTID or event[4] in NAMELESS):
                return begin
            if event[4] in NAMELESS or (event[4] == MYSQL_GTID and transaction_of(event) not in wanted):
                break
            if event[4] == MYSQL_GTID:
                before = before.with_transaction(event)
        raise self._another_order(str(wanted))

    def _end(self) -> tuple[int, GtidSet]:
        file, offset, *_, executed = status_of(self.server)
        return place(file, offset), GtidSet.of(executed)

    def _before_file(self, file: str) -> GtidSet:
        for _, _, kind, _, _, text in rows(self.server, "SHOW BINLOG EVENTS IN %s LIMIT 4", [file]):
            if kind == "Previous_gtids":
                return GtidSet.of(text)
        return GtidSet()

    def _events_of(self, file: str) -> Iterator[tuple[int, bytes]]:
        since = place(file, 4)
        dump = BinlogDump(self.connection, self.server_id, shown_place(since), since, file)
        return self._events(dump)
