"""The binary log of MySQL and MariaDB, as the server sends it to a replica.

PyMySQL logs in; from then on packets are read here, because it reads none without waiting. The driver receives those
events that are of one table, each with the place where its transaction begins, into files; tasks read them there.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump.html
https://mariadb.com/kb/en/com_binlog_dump/
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from sqlstream.connectors.changes.received_log import Incoming, ReceivedLog
from sqlstream.connectors.changes.server import LOG_LOST
from sqlstream.connectors.mysql.server import not_allowed, shown_place, system_of
from sqlstream.errors import ConnectorError
from sqlstream.formats.binlog import ROW_KINDS, TABLE_MAP, named_table
from sqlstream.formats.binlog_events import (
    HEARTBEAT,
    MARIADB_GTID,
    MYSQL_ANONYMOUS,
    MYSQL_GTID,
    PARTIAL_UPDATE,
    PAYLOAD,
    QUERY,
    ROTATE,
    XID,
    Effect,
    effect_of,
    is_rollback,
    is_standalone,
    statement_of,
    uncompressed,
)
from sqlstream.udfs.mysql_changes import PLACE_BYTES, UNREADABLE, connected

_DUMP = 0x12
_FORMAT, _INCIDENT, _XA_PREPARE, _MYSQL_TAGGED_GTID = 15, 26, 38, 42
_ARTIFICIAL = 0x20
_CHECKSUM = 4
_HEADER = 19
_MOST_BYTES = 0xFFFFFF
_AT_ONCE = 1 << 18
_EVENTS_AT_ONCE = 20_000
_GONE = 1236
_ERROR, _END = 0xFF, 0xFE
_ANSWER_SECONDS = 60.0


class LogEnded(Exception):
    """The server ended the log, or the connection broke."""


class BinlogReceiver(ReceivedLog[int]):
    """Receives the log from ``since`` on, which is in ``file``. ``table``: database and name of the table that is read;
    ``server_id``: what the server tells its replicas apart by.
    """

    def __init__(
        self, connection: Mapping[str, str], table: tuple[str, str], server_id: int, since: int, file: str, folder: Path
    ) -> None:
        super().__init__(since, folder)
        self._table = table
        self._number, self._begin = since >> 32, since
        self._in_transaction = self._ends_by_itself = self._has_messages = False
        self._maps: set[int] = set()
        self._map: bytes | None = None
        self._buffer, self._at = bytearray(), 0
        self._server = connected(connection)
        try:
            self.system = system_of(self._server)
            self._ask(file, server_id)
            self._socket = self._server._sock
            self._socket.settimeout(0)
            self._require_answer()
        except BaseException:
            self._server._force_close()
            raise
        self.start_receiving(f"binary log of {'.'.join(table)}")

    def _ask(self, file: str, server_id: int) -> None:
        with self._server.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @mariadb_slave_capability = 4")  # it sends events as they are
            cursor.execute("SET @master_heartbeat_period = 5000000000, @source_heartbeat_period = 5000000000")
            cursor.execute("SET net_write_timeout = 3600")  # what is received waits for those who take it
            cursor.execute("SELECT @@global.binlog_checksum")
            ((checksum,),) = cursor.fetchall()
        self._has_checksums = str(checksum).upper() != "NONE"
        payload = struct.pack("<IHI", self.since & 0xFFFFFFFF, 0, server_id) + file.encode()
        self._server._execute_command(_DUMP, payload)

    def _require_answer(self) -> None:
        """Waits for the first packet: the server says at once which file it sends, or why it does not."""
        end = time.monotonic() + _ANSWER_SECONDS
        while (packet := self._packet()) is None:
            if time.monotonic() > end:
                raise LogEnded("the server does not send its log")
            self._rest()
        self._require_event(packet)
        self._at -= 4 + len(packet)

    def _lost(self, reason: str) -> ConnectorError:
        message = f"the server does not send its log from {shown_place(self.since)} on: {reason.rstrip('.')}"
        hint = "Start in a new directory, and give each job and each replica a 'server-id' of its own."
        return ConnectorError(LOG_LOST, message, hint=hint)

    # --- the thread -------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        select.select([self._socket], [], [], 0.02)

    def _report(self, *, asks: bool) -> None:
        """Nothing: the server removes its log by its own settings."""

    def _close(self) -> None:
        self._server._force_close()

    def _receive(self, incoming: Incoming[int]) -> bool:
        for _ in range(_EVENTS_AT_ONCE):
            packet = self._packet()
            if packet is None:
                return False
            self._heed(incoming, packet)
            if incoming.full:
                break
        return True

    def _packet(self) -> bytes | None:
        """The next packet; None if it is not here yet."""
        parts = []
        at = self._at
        while True:
            while len(self._buffer) - at < 4 or len(self._buffer) - at - 4 < self._size(at):
                kept = at - self._at
                if not self._read_more():
                    return None
                at = self._at + kept
            size = self._size(at)
            parts.append(bytes(self._buffer[at + 4 : at + 4 + size]))
            at += 4 + size
            if size < _MOST_BYTES:
                self._at = at
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _size(self, at: int) -> int:
        return int.from_bytes(self._buffer[at : at + 3], "little")

    def _read_more(self) -> bool:
        """False if nothing has come."""
        import ssl

        try:
            more = self._socket.recv(_AT_ONCE)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise LogEnded(f"the connection to the log broke: {error}") from None
        if not more:
            raise LogEnded("the server has ended the connection to its log")
        del self._buffer[: self._at]
        self._buffer += more
        self._at = 0
        return True

    # --- events -----------------------------------------------------------------------------------------------

    def _require_event(self, packet: bytes) -> None:
        """Raises what the server says instead of sending an event."""
        import pymysql  # an optional package

        if packet[0] == _ERROR:
            number = int.from_bytes(packet[1:3], "little")
            reason = packet[9 if packet[3:4] == b"#" else 3 :].decode(errors="replace")
            error = not_allowed(pymysql.OperationalError(number, reason))
            if isinstance(error, ConnectorError):
                raise error
            raise self._lost(reason) if number == _GONE else LogEnded(reason)
        if packet[0] == _END and len(packet) < 9:
            raise LogEnded("the server has ended its log")

    def _heed(self, incoming: Incoming[int], packet: bytes) -> None:
        self._require_event(packet)
        self._heed_event(incoming, packet[1:])

    def _heed_event(self, incoming: Incoming[int], event: bytes) -> None:
        kind = event[4]
        if kind == _FORMAT:
            self._has_checksums = event[-_CHECKSUM - 1] == 1
        elif self._has_checksums:
            event = event[:-_CHECKSUM]
        end = self._end_of(event)
        if kind == ROTATE:
            self._number = int(event[_HEADER + 8 :].decode().rpartition(".")[2])
            self._reach(incoming, self._number << 32 | int.from_bytes(event[_HEADER : _HEADER + 8], "little"))
        elif kind in (MARIADB_GTID, MYSQL_GTID, MYSQL_ANONYMOUS, _MYSQL_TAGGED_GTID):
            self._begin_transaction(incoming, event, end)
        elif kind == TABLE_MAP:
            self._heed_table(incoming, event)
        elif kind == XID:
            self._end_transaction(incoming, event, end)
        elif kind in (_INCIDENT, PAYLOAD, _XA_PREPARE):
            self._require_readable(kind)
            self._end_transaction(incoming, event, end)
        else:
            self._heed_other(incoming, event, end)

    def _require_readable(self, kind: int) -> None:
        if kind == _INCIDENT:
            raise self._lost("it says that it has lost events (INCIDENT)")
        if kind == PAYLOAD:
            raise _not_decoded("the server compresses transactions (binlog_transaction_compression)")
        if self._has_messages:
            raise _not_decoded(f'a transaction of XA has changed table "{".".join(self._table)}"')

    def _heed_other(self, incoming: Incoming[int], event: bytes, end: int | None) -> None:
        event = uncompressed(event)
        kind = event[4]
        if kind in ROW_KINDS:
            if int.from_bytes(event[_HEADER : _HEADER + 6], "little") in self._maps:
                self._add(incoming, event)
        elif kind == PARTIAL_UPDATE:
            if int.from_bytes(event[_HEADER : _HEADER + 6], "little") in self._maps:
                raise _not_decoded("the server logs parts of JSON (binlog_row_value_options)")
        elif kind == QUERY:
            self._heed_statement(incoming, event, end)
        elif not self._in_transaction and kind != HEARTBEAT and end is not None:
            self._reach(incoming, end)

    def _end_of(self, event: bytes) -> int | None:
        """The place behind an event; None for one that is in no file. Files may be larger than a place can say, in
        which case the next file is where to go on.
        """
        offset = int.from_bytes(event[13:17], "little")
        if not offset or int.from_bytes(event[17:19], "little") & _ARTIFICIAL:
            return None
        if self._in_transaction and offset < self._begin & 0xFFFFFFFF:
            return (self._number + 1) << 32 | 4
        return self._number << 32 | offset

    def _begin_transaction(self, incoming: Incoming[int], event: bytes, end: int | None) -> None:
        assert end is not None, "transactions are in files"
        self._begin = end - int.from_bytes(event[9:13], "little")
        self._in_transaction = True
        self._ends_by_itself = event[4] != MARIADB_GTID or is_standalone(event)
        self._has_messages = False
        self._maps.clear()

    def _heed_table(self, incoming: Incoming[int], event: bytes) -> None:
        number, schema, table, _ = named_table(event)
        if (schema, table) != self._table:
            self._maps.discard(number)
            return
        self._maps.add(number)
        if event[_HEADER:] != self._map:
            self._map = event[_HEADER:]
            incoming.relation = self._add(incoming, event)

    def _heed_statement(self, incoming: Incoming[int], event: bytes, end: int | None) -> None:
        schema, statement = statement_of(event)
        effect = effect_of(schema, statement, self._table)
        if effect is Effect.BEGIN:
            self._ends_by_itself = False
        elif effect is Effect.COMMIT:
            if is_rollback(statement):
                self._map = None  # what has come of the transaction is left out, with its TABLE_MAP
                self._in_transaction = self._has_messages = False
                if end is not None:
                    self._reach(incoming, end)
            else:
                self._end_transaction(incoming, event, end)
        else:
            if effect is not Effect.NONE:
                self._add(incoming, event)
            elif self._has_messages and is_rollback(statement):
                raise _not_decoded(f'a transaction has changed table "{".".join(self._table)}" and undone a part of it')
            if self._ends_by_itself:
                self._end_transaction(incoming, event, end)

    def _end_transaction(self, incoming: Incoming[int], event: bytes, end: int | None) -> None:
        assert end is not None, "transactions are in files"
        self._in_transaction = False
        if self._has_messages:
            self._has_messages = False
            incoming.commit(self._begin, end)
        else:
            self._reach(incoming, end)

    def _add(self, incoming: Incoming[int], event: bytes) -> bytes:
        """Adds a message, and returns it. It is known only now that the transaction has any."""
        if not self._has_messages:
            self._has_messages = True
            incoming.begin()
        payload = self._begin.to_bytes(PLACE_BYTES, "little") + event
        incoming.add(payload)
        return payload

    def _reach(self, incoming: Incoming[int], place: int) -> None:
        incoming.reached = max(incoming.reached or 0, place)


def _not_decoded(what: str) -> ConnectorError:
    return ConnectorError(UNREADABLE, f"{what}, and the log cannot be read", hint="Read it by Debezium and Kafka.")
