"""The binary log of MySQL and MariaDB, received into files.

The driver receives those events that are of one table, each with the place where its transaction begins; tasks read
them in the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sqlstream.connectors.changes.received_log import Incoming, ReceivedLog
from sqlstream.connectors.mysql.dump import BinlogDump, rotated_to
from sqlstream.connectors.mysql.server import shown_place
from sqlstream.errors import ConnectorError
from sqlstream.formats.binlog import ROW_KINDS, TABLE_MAP, named_table
from sqlstream.formats.binlog_events import (
    HEARTBEAT,
    MARIADB_GTID,
    MYSQL_GTID,
    NAMELESS,
    PARTIAL_UPDATE,
    PAYLOAD,
    QUERY,
    ROTATE,
    XID,
    Effect,
    effect_of,
    events_of_payload,
    is_rollback,
    is_standalone,
    statement_of,
    uncompressed,
)
from sqlstream.formats.gtids import GtidPosition, GtidSet, gtids_of
from sqlstream.udfs.mysql_changes import PLACE_BYTES, UNREADABLE

_INCIDENT, _XA_PREPARE = 26, 38
_ARTIFICIAL = 0x20
_HEADER = 19
_EVENTS_AT_ONCE = 20_000
_GTIDS = {MARIADB_GTID: GtidPosition, MYSQL_GTID: GtidSet}
_OF_WHOLE = (Effect.BEGIN, Effect.COMMIT)
"""Effects of statements between which the changes of a transaction are."""


class BinlogReceiver(ReceivedLog):
    """Receives the log from ``since`` on, which is in ``file``. ``table``: database and name of the table that is read;
    ``server_id``: what the server tells its replicas apart by; ``gtids``: the transactions before ``since``;
    ``charsets``: the character set of each collation, by number; ``folds``: the case of names of tables does not count.
    """

    def __init__(
        self,
        connection: Mapping[str, str],
        table: tuple[str, str],
        server_id: int,
        since: int,
        file: str,
        folder: Path,
        gtids: str,
        charsets: Mapping[int, str] = MappingProxyType({}),
        *,
        folds: bool = False,
    ) -> None:
        super().__init__(since, folder, gtids)
        self._charsets, self._folds = charsets, folds
        self._table = table
        self._number, self._begin = since >> 32, since
        self._in_transaction = self._ends_by_itself = self._has_messages = False
        self._maps: set[int] = set()
        self._map: bytes | None = None
        self._gtids, self._shown_gtids = gtids_of(gtids), gtids
        self._dump = BinlogDump(connection, server_id, shown_place(since), since, file)
        self.system = self._dump.system
        self.start_receiving(f"binary log of {'.'.join(table)}")

    def confirm(self, place: int) -> None:
        """Nothing: the server removes its log by its own settings."""

    # --- the thread -------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        self._dump.rest()

    def _report(self, *, asks: bool) -> None:
        """Nothing: the server removes its log by its own settings."""

    def _close(self) -> None:
        self._dump.close()

    def _receive(self, incoming: Incoming) -> bool:
        for _ in range(_EVENTS_AT_ONCE):
            event = self._dump.event()
            if event is None:
                return False
            self._heed(incoming, event)
            if incoming.full:
                break
        return True

    # --- events -----------------------------------------------------------------------------------------------

    def _heed(self, incoming: Incoming, event: bytes) -> None:
        kind = event[4]
        end = self._end_of(event)
        if kind == ROTATE:
            place = rotated_to(event)
            self._number = place >> 32
            self._reach(incoming, place)
        elif kind in _GTIDS or kind in NAMELESS:
            self._begin_transaction(incoming, event, end)
        elif kind == TABLE_MAP:
            self._heed_table(incoming, event)
        elif kind == XID:
            self._end_transaction(incoming, event, end)
        elif kind == PAYLOAD:
            self._heed_payload(incoming, event)
            self._end_transaction(incoming, event, end)
        elif kind in (_INCIDENT, _XA_PREPARE):
            self._require_readable(kind)
            self._end_transaction(incoming, event, end)
        else:
            self._heed_other(incoming, event, end)

    def _heed_payload(self, incoming: Incoming, event: bytes) -> None:
        for part in events_of_payload(event):
            if part[4] == TABLE_MAP:
                self._heed_table(incoming, part)
            elif part[4] != XID and not (part[4] == QUERY and self._effect(*self._statement(part)) in _OF_WHOLE):
                self._heed_other(incoming, part, None)

    def _statement(self, event: bytes) -> tuple[str, str]:
        return statement_of(event, self._charsets)

    def _effect(self, schema: str, statement: str) -> Effect:
        return effect_of(schema, statement, self._table, folds=self._folds)

    def _require_readable(self, kind: int) -> None:
        if kind == _INCIDENT:
            raise self._dump.lost("it says that it has lost events (INCIDENT)")
        if self._has_messages:
            raise _not_decoded(f'a transaction of XA has changed table "{".".join(self._table)}"')

    def _heed_other(self, incoming: Incoming, event: bytes, end: int | None) -> None:
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

    def _begin_transaction(self, incoming: Incoming, event: bytes, end: int | None) -> None:
        assert end is not None, "transactions are in files"
        self._begin = end - int.from_bytes(event[9:13], "little")
        self._in_transaction = True
        self._ends_by_itself = event[4] != MARIADB_GTID or is_standalone(event)
        self._has_messages = False
        self._maps.clear()
        self._count(event)

    def _count(self, gtid: bytes) -> None:
        """Adds a transaction to those that were read. Places behind one without a name that is read have none."""
        if gtid[4] in NAMELESS:
            self._gtids = GtidPosition()
        elif isinstance(self._gtids, _GTIDS[gtid[4]]):
            self._gtids = self._gtids.with_transaction(gtid)
        else:
            return
        self._shown_gtids = str(self._gtids)

    def _heed_table(self, incoming: Incoming, event: bytes) -> None:
        number, schema, table, _ = named_table(event)
        if (schema, table) != self._table:
            self._maps.discard(number)
            return
        self._maps.add(number)
        if event[_HEADER:] != self._map:
            self._map = event[_HEADER:]
            incoming.relations[0] = self._add(incoming, event)

    def _heed_statement(self, incoming: Incoming, event: bytes, end: int | None) -> None:
        schema, statement = self._statement(event)
        effect = self._effect(schema, statement)
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

    def _end_transaction(self, incoming: Incoming, event: bytes, end: int | None) -> None:
        assert end is not None, "transactions are in files"
        self._in_transaction = False
        if self._has_messages:
            self._has_messages = False
            incoming.commit(self._begin, end, self._shown_gtids)
        else:
            self._reach(incoming, end)

    def _add(self, incoming: Incoming, event: bytes) -> bytes:
        """Adds a message, and returns it. It is known only now that the transaction has any."""
        if not self._has_messages:
            self._has_messages = True
            incoming.begin()
        payload = self._begin.to_bytes(PLACE_BYTES, "little") + event
        incoming.add(payload)
        return payload

    def _reach(self, incoming: Incoming, place: int) -> None:
        incoming.reach(place, self._shown_gtids)


def _not_decoded(what: str) -> ConnectorError:
    return ConnectorError(UNREADABLE, f"{what}, and the log cannot be read", hint="Read it by Debezium and Kafka.")
