"""Tables of MySQL and MariaDB as tasks read them: rows as the server sends them to a query, and events of its binary
log with the changes that followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError, repeating
from sqlstream.formats.avro_cursor import slices
from sqlstream.formats.binlog import (
    DELETE,
    INT24,
    JSON,
    LONG,
    LONGLONG,
    SHORT,
    TABLE_MAP,
    TINY,
    UPDATE,
    BinlogError,
    LoggedColumn,
    LoggedRows,
    Spans,
    TableMap,
    little_endian,
)
from sqlstream.formats.binlog import rows_of as rows_of_events
from sqlstream.formats.binlog_events import QUERY, Effect, effect_of, statement_of
from sqlstream.formats.mysql_json import json_texts
from sqlstream.formats.mysql_packets import text_rows
from sqlstream.formats.mysql_texts import BYTES, texts_of, values_of
from sqlstream.formats.text_rule import where
from sqlstream.udfs.database_changes import (
    CHANGED_TABLE,
    EMPTIED,
    INDEX,
    ChangedColumn,
    KeyColumn,
    RowsOfChanges,
    SnapshotPart,
    lsn_of,
    seen_by_parts,
    windows,
)
from sqlstream.udfs.mysql_connection import connected

NOT_OF_ROWS = repeating("SS620")
UNREADABLE = repeating("SS630")

PLACE_BYTES = 8
"""Before each event in a file: the place of the log where its transaction begins."""

PACKETS, PACKET_HEAD = ".rows", 4
"""The end of the names of files with packets of rows, and how many bytes each has before its row; files of versions
before have the rows alone.
"""

INTEGERS = frozenset({TINY, SHORT, INT24, LONG, LONGLONG})
UNSIGNED = 1 << 8
"""Added to the number of a type of INTEGERS."""

_FLOATS = ("float", "double")
_KINDS = pa.array(["+I", "-U", "-D", "+U"])
_KEYS_AT_ONCE = 10_000
_ANEW = "Start in a new directory, with the rows of the table as they are now."


@dataclass(frozen=True)
class RowsOfMySql(RowsOfChanges):
    """Reads rows of queries and events. SS620 for changes that the log has as statements, SS630 for what it has in a
    way that is not read.

    ``charsets``: the character set of each collation, by number. ``cut_by``: the key by which the table was copied in
    parts. ``folds``: the case of names of tables does not count.
    """

    charsets: tuple[tuple[int, str], ...] = ()
    cut_by: tuple[KeyColumn, ...] = ()
    folds: bool = False

    # --- what was there ---------------------------------------------------------------------------------------

    def copied(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        path = place["path"]
        count = Path(path + INDEX).stat().st_size // 4
        head = PACKET_HEAD if path.endswith(PACKETS) else 0
        for data, starts in windows(path, 0, 0, count):
            with _readable(self.table.shown):
                spans = text_rows(data, starts + head, _ends(data, starts), max(1, len(self.table.columns)))
                columns = [
                    self.values(column, _copied_texts(data, spans[n], column))
                    for n, column in enumerate(self.table.columns)
                ]
            times = np.zeros(len(starts), np.int64)  # as in Flink: 1970 for all that was there
            yield self.batch(columns, times, pa.repeat("+I", len(starts)))

    def values_of(self, column: ChangedColumn, texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
        return values_of(texts, column.declared)

    # --- what changed -----------------------------------------------------------------------------------------

    def changes(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        parts = [SnapshotPart.of_json(part) for part in json.loads(place["snapshots"] or "[]")]
        table = None
        for event in place["relations"] or ():
            table = self._checked(event[PLACE_BYTES:])
        for data, starts in windows(place["path"], place["begin"], place["first"], place["until"]):
            kinds, ends = data[starts + PLACE_BYTES + 4], _ends(data, starts)
            begin = 0
            for at in (*np.flatnonzero((kinds == TABLE_MAP) | (kinds == QUERY)).tolist(), len(kinds)):
                if at > begin and table is not None:
                    rows = self._changed(data, starts[begin:at], ends[begin:at], table, parts)
                    if rows.num_rows:
                        yield rows
                if at < len(kinds):
                    event = data[starts[at] + PLACE_BYTES : ends[at]].tobytes()
                    if kinds[at] == TABLE_MAP:
                        table = self._checked(event)
                    elif not _seen_by_all(parts, little_endian(data, starts[at : at + 1], PLACE_BYTES)):
                        self._heed(event)
                begin = at + 1

    def _heed(self, event: bytes) -> None:
        """Raises for a statement that changes the table in a way of which the log has no rows."""
        schema, statement = statement_of(event, dict(self.charsets))
        effect = effect_of(schema, statement, (self.table.schema, self.table.table), folds=self.folds)
        shown, text = self.table.shown, " ".join(statement.split())[:100]
        if effect is Effect.EMPTIES and not self.table.skips_truncate:
            message = f'table "{shown}" was emptied by a statement of which the log names no rows: {text}'
            hint = f"{_ANEW} 'scan.truncate' = 'skip' leaves the rows of \"{self.table.name}\" as they are."
            raise ConnectorError(EMPTIED, message, hint=hint)
        if effect is Effect.REPLACES:
            message = f'table "{shown}" was dropped, renamed or replaced: {text}'
            raise ConnectorError(CHANGED_TABLE, message, hint=_ANEW)
        if effect is Effect.CHANGES_ROWS:
            message = f'the log has changes of table "{shown}" as a statement, not as rows'
            hint = f"Let no session have another binlog_format than ROW. {_ANEW}"
            raise ConnectorError(NOT_OF_ROWS, message, hint=hint)

    def _checked(self, event: bytes) -> TableMap:
        """The table that an event TABLE_MAP describes. ConnectorError SS622 where it lacks what is read."""
        with _readable(self.table.shown):
            table = TableMap.of(event)
        there = {c.name: c for c in table.columns}
        for key in (*self.table.keys, *self.cut_by):
            if key.name not in there:
                raise self._other(f'has no column "{key.name}" in the log')
        for column in () if self.table.follows else self.table.columns:
            if column.stored not in there:
                raise self._other(f'has no column "{column.stored}" in the log')
            if type_number(there[column.stored]) != column.type_number:
                raise self._other(f'has a column "{column.stored}" in the log whose type was not {column.type}')
        return table

    def _other(self, what: str) -> ConnectorError:
        hint = (
            f'Declare "{self.table.name}" as the table is now and start in a new directory, or let '
            "'scan.schema-change' = 'follow' read columns that the log lacks as NULL."
        )
        return ConnectorError(CHANGED_TABLE, f'table "{self.table.shown}" {what}: it was changed', hint=hint)

    def _changed(
        self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray, table: TableMap, parts: Sequence[SnapshotPart]
    ) -> pa.RecordBatch:
        """The rows that row events give, in order: old ones that are retracted and new ones."""
        with _readable(self.table.shown):
            rows = rows_of_events(data, starts + PLACE_BYTES, ends, table)
            read = _Read(data, table, rows, dict(self.charsets))
            moved = self._moved(read)
            old = rows.old & ((rows.kinds == DELETE) | moved | self.table.with_before)
            chosen = np.flatnonzero(old | ~rows.old)
            if parts:
                places = little_endian(data, starts, PLACE_BYTES)[rows.events[chosen]]
                chosen = chosen[~self._seen(parts, places, read, chosen)]
            columns = []
            for column in self.table.columns:
                texts = read.texts(column.stored, chosen)
                given = pa.nulls(len(chosen), pa.string()) if texts is None else texts
                columns.append(self.values(column, given))
        updated = (rows.kinds[chosen] == UPDATE) & ~moved[chosen]
        codes = np.where(rows.old[chosen], np.where(updated, 1, 2), np.where(updated, 3, 0))
        seconds = little_endian(data, starts + PLACE_BYTES, 4)[rows.events[chosen]]
        return self.batch(columns, seconds * 1_000_000, _KINDS.take(pa.array(codes)))

    def _moved(self, read: _Read) -> np.ndarray:
        """Which rows are those of an update that gives the row another key."""
        moved = np.zeros(len(read.rows.kinds), bool)
        before = np.flatnonzero((read.rows.kinds == UPDATE) & read.rows.old)
        if not len(before):
            return moved
        for key in self.table.keys:
            old, new = read.texts(key.name, before), read.texts(key.name, before + 1)
            moved[before] |= pc.not_equal(old, new).fill_null(False).to_numpy(zero_copy_only=False)
        moved[before + 1] = moved[before]
        return moved

    def _seen(self, parts: Sequence[SnapshotPart], places: np.ndarray, read: _Read, rows: np.ndarray) -> np.ndarray:
        """Which of the rows the snapshot holds that has read the part where they are."""

        def part_of() -> np.ndarray:
            keys = [_key_texts(read.texts(key.name, rows)) for key in self.cut_by]
            bounds = [part.until for part in parts if part.until is not None]
            return parts_of(self.cut_by, keys, bounds, dict(self.table.connection))

        return seen_by_parts(np.stack([places < lsn_of(part.snapshot) for part in parts]), part_of)


@dataclass(frozen=True)
class _Read:
    """Rows of events with what they are in."""

    data: np.ndarray
    table: TableMap
    rows: LoggedRows
    charsets: Mapping[int, str]

    def texts(self, name: str, rows: np.ndarray) -> pa.Array | None:
        """The values of a column in some rows; None where the log lacks the column."""
        place = next((n for n, column in enumerate(self.table.columns) if column.name == name), None)
        if place is None:
            return None
        column, spans = self.table.columns[place], self.rows.columns[place]
        some = Spans(spans.starts[rows], spans.lengths[rows], spans.present[rows])
        if column.type == JSON:
            return json_texts(self.data, some)
        charset = "utf8mb4" if column.collation is None else self.charsets.get(column.collation)
        if charset is None:
            raise BinlogError(f"texts of the collation number {column.collation} are not read")
        return texts_of(self.data, some, column, charset)


class _readable:  # noqa: N801 - a context manager
    """Errors of what is decoded as ConnectorError SS630. ``table``: for the message."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __enter__(self) -> None:
        """Nothing is done yet."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, BinlogError):
            message = f'the log of table "{self._table}" cannot be read: {error}'
            raise ConnectorError(UNREADABLE, message, hint=_ANEW) from None


def type_number(column: LoggedColumn) -> int:
    """The number of a type in the log, which also says of whole numbers whether they are unsigned."""
    return column.type | UNSIGNED * (column.unsigned and column.type in INTEGERS)


def _ends(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.append(starts[1:], len(data))


def _seen_by_all(parts: Sequence[SnapshotPart], place: np.ndarray) -> bool:
    return bool(parts) and all(int(place[0]) < lsn_of(part.snapshot) for part in parts)


def _copied_texts(data: np.ndarray, spans: Spans, column: ChangedColumn) -> pa.Array:
    raw = slices(data, spans.starts, spans.starts + spans.lengths)
    if not spans.present.all():
        raw = where(pa.array(spans.present), raw)
    if column.type.endswith((BYTES, "blob")):
        return raw
    texts = raw.cast(pa.string())
    return texts.cast(pa.float64()).cast(pa.string()) if column.type.startswith(_FLOATS) else texts


def _key_texts(texts: pa.Array | None) -> list[str]:
    """The values of a key column as bounds have them: bytes in hexadecimal digits."""
    assert texts is not None, "the columns of the key are in the log"
    values = texts.to_pylist()
    return [value.hex() for value in values] if pa.types.is_binary(texts.type) else values


def parts_of(
    keys: Sequence[KeyColumn],
    values: Sequence[Sequence[str]],
    bounds: Sequence[tuple[str, ...]],
    connection: Mapping[str, str],
) -> np.ndarray:
    """Returns how many of the bounds are before each key. Only the server knows the order of texts."""
    row = ", ".join(key.cast.format(f"CONVERT(UNHEX(x.k{n}) USING utf8mb4)") for n, key in enumerate(keys))
    of_bound = ", ".join(key.cast.format("%s") for key in keys)
    counted = " + ".join(f"(({row}) > ({of_bound}))" for _ in bounds)
    columns = ", ".join(f"k{n} LONGTEXT PATH '$[{n}]'" for n in range(len(keys)))
    query = (
        f"SELECT {counted} FROM JSON_TABLE(%s, '$[*]' COLUMNS (n FOR ORDINALITY, {columns})) AS x ORDER BY x.n"
    )  # fmt: skip
    # In hexadecimal digits: MariaDB reads some of the characters that JSON escapes as others.
    all_keys = [[text.encode().hex() for text in key] for key in zip(*values, strict=True)]
    counts: list[int] = []
    with connected(connection) as server, server.cursor() as cursor:
        for begin in range(0, len(all_keys), _KEYS_AT_ONCE):
            some = json.dumps(all_keys[begin : begin + _KEYS_AT_ONCE])
            cursor.execute(query, [*(text for bound in bounds for text in bound), some])
            counts += [int(count) for (count,) in cursor.fetchall()]
    return np.array(counts, np.int64)
