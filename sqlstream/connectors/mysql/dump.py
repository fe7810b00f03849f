"""Connections on which MySQL and MariaDB send their binary log, as to a replica.

PyMySQL logs in; from then on packets are read here, because it reads none without waiting.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump.html
https://mariadb.com/kb/en/com_binlog_dump/
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Mapping

from sqlstream.connectors.changes.server import LOG_LOST
from sqlstream.connectors.mysql.server import not_allowed, system_of
from sqlstream.errors import ConnectorError, repeating
from sqlstream.udfs.mysql_connection import connected

ID_IN_USE = repeating("SS632")

_DUMP = 0x12
_FORMAT = 15
_CHECKSUM = 4
_HEADER = 19
_MOST_BYTES = 0xFFFFFF
_AT_ONCE = 1 << 18
_GONE = 1236
_ERROR, _END = 0xFF, 0xFE
_ANSWER_SECONDS = 60.0
_SAME_ID = "slave with the same server", "replica with the same server"
"""What the server says to the older of two readers with one server id, in its spellings."""


class LogEnded(Exception):
    """The server ended the log, or the connection broke."""


class BinlogDump:
    """The events of a log. ``server_id``: what the server tells its replicas apart by; ``shown``: where the log is
    asked for, for messages. ``file``: where the place ``since`` is; None: the log begins behind the transactions of
    ``gtids``, which MariaDB alone understands. ``system``: which server it is.
    """

    def __init__(
        self, connection: Mapping[str, str], server_id: int, shown: str, since: int, file: str | None, gtids: str = ""
    ) -> None:
        self._server_id, self._shown = server_id, shown
        self._buffer, self._at = bytearray(), 0
        self._ahead: bytes | None = None
        self.server = connected(connection)
        try:
            self.system = system_of(self.server)
            self._ask(since, file, gtids)
            self._socket = self.server._sock
            self._socket.settimeout(0)
            self._ahead = self._answer()
        except BaseException:
            self.close()
            raise

    def _ask(self, since: int, file: str | None, gtids: str) -> None:
        with self.server.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @mariadb_slave_capability = 4")  # it sends events as they are
            cursor.execute("SET @master_heartbeat_period = 5000000000, @source_heartbeat_period = 5000000000")
            cursor.execute("SET net_write_timeout = 3600")  # what is received waits for those who take it
            if file is None:
                cursor.execute("SET @slave_connect_state = %s, @slave_gtid_strict_mode = 0", [gtids])
            cursor.execute("SELECT @@global.binlog_checksum")
            ((checksum,),) = cursor.fetchall()
        self._has_checksums = str(checksum).upper() != "NONE"
        payload = struct.pack("<IHI", since & 0xFFFFFFFF, 0, self._server_id) + (file or "").encode()
        self.server._execute_command(_DUMP, payload)

    def _answer(self) -> bytes:
        """The first event: the server says at once which file it sends, or why it does not."""
        end = time.monotonic() + _ANSWER_SECONDS
        while (event := self.event()) is None:
            if time.monotonic() > end:
                raise LogEnded("the server does not send its log")
            self.rest()
        return event

    def lost(self, reason: str) -> ConnectorError:
        """SS621 for a log that does not go on."""
        message = f"the server does not send its log from {self._shown} on: {reason.rstrip('.')}"
        hint = "Start in a new directory, and give each job and each replica a 'server-id' of its own."
        return ConnectorError(LOG_LOST, message, hint=hint)

    # --- events -----------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Waits a moment for more."""
        select.select([self._socket], [], [], 0.02)

    def close(self) -> None:
        self.server._force_close()

    def event(self) -> bytes | None:
        """The next event, without its check sum; None if it is not here yet. Raises what the server says instead."""
        if self._ahead is not None:
            event, self._ahead = self._ahead, None
            return event
        packet = self._packet()
        if packet is None:
            return None
        self._require_event(packet)
        event = packet[1:]
        if event[4] == _FORMAT:
            self._has_checksums = event[-_CHECKSUM - 1] == 1
        elif self._has_checksums:
            event = event[:-_CHECKSUM]
        return event

    def _require_event(self, packet: bytes) -> None:
        import pymysql  # an optional package

        if packet[0] == _ERROR:
            number = int.from_bytes(packet[1:3], "little")
            reason = packet[9 if packet[3:4] == b"#" else 3 :].decode(errors="replace")
            error = not_allowed(pymysql.OperationalError(number, reason))
            if isinstance(error, ConnectorError):
                raise error
            if any(words in reason for words in _SAME_ID):
                message = f"another job or replica reads the log of the server with 'server-id' = '{self._server_id}'"
                hint = "Give each job and each replica a number of its own, or leave the option out."
                raise ConnectorError(ID_IN_USE, message, hint=hint)
            raise self.lost(reason) if number == _GONE else LogEnded(reason)
        if packet[0] == _END and len(packet) < 9:
            raise LogEnded("the server has ended its log")

    # --- packets ----------------------------------------------------------------------------------------------

    def _packet(self) -> bytes | None:
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


def rotated_to(event: bytes) -> int:
    """The place of the log that an event ROTATE names: the beginning of another file, or where the server begins."""
    number = int(event[_HEADER + 8 :].decode().rpartition(".")[2])
    return number << 32 | int.from_bytes(event[_HEADER : _HEADER + 8], "little")
