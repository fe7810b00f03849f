"""Tables of PostgreSQL as tasks read them: files of COPY with the rows that were there, and messages of the log with
the changes that followed, as rows with their kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sqlstream.errors import ConnectorError, repeating
from sqlstream.formats.pgoutput import (
    DELETE,
    IDENTITY_FULL,
    INSERT,
    RELATION,
    TRUNCATE,
    UNCHANGED,
    UPDATE,
    Messages,
    Relation,
    RelationColumn,
    RowChanges,
    Snapshot,
    TextColumn,
    Transactions,
    changes_of,
    transactions_of,
    truncated,
)
from sqlstream.formats.postgres_texts import values_of
from sqlstream.udfs.database_changes import (
    CHANGED_TABLE,
    EMPTIED,
    ChangedColumn,
    ChangedTable,
    KeyColumn,
    RowsOfChanges,
    SnapshotPart,
    seen_by_parts,
    windows,
)

NO_OLD_ROW = repeating("SS623")

_BLOCK = 8 << 20
_2000_US = 946_684_800_000_000


@dataclass(frozen=True)
class RowsOfPostgres(RowsOfChanges):
    """Reads COPY's files and the messages of logical replication. SS623 where the log lacks values that are read.

    ``cut_by``: the key by which the table was copied in parts.
    """

    cut_by: tuple[KeyColumn, ...] = ()

    # --- what was there ---------------------------------------------------------------------------------------

    def copied(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        names = [c.stored for c in self.table.columns]
        reader = csv.open_csv(
            place["path"],
            csv.ReadOptions(block_size=max(_BLOCK, 4 * place["begin"])),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=names or None, null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        with reader:
            for batch in reader:
                columns = [
                    self.values(column, texts)
                    for column, texts in zip(self.table.columns, batch.columns[: len(names)], strict=True)
                ]
                times = np.zeros(batch.num_rows, np.int64)  # as in Flink: 1970 for all that was there
                yield self.batch(columns, times, pa.repeat("+I", batch.num_rows))

    # --- what changed -----------------------------------------------------------------------------------------

    def changes(self, place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        relations: dict[int, Relation] = {}
        for message in place["relations"] or ():
            relations = self._heeded(message, relations)
        parts = [SnapshotPart.of_json(part) for part in json.loads(place["snapshots"] or "[]")]
        transaction = (0, 0)
        for data, starts in windows(place["path"], place["begin"], place["first"], place["until"]):
            messages = Messages(data, starts)
            transactions = transactions_of(messages, transaction)
            transaction = transactions.last
            kinds = messages.kinds
            begin = 0
            for at in (*np.flatnonzero((kinds == RELATION) | (kinds == TRUNCATE)).tolist(), len(kinds)):
                if relations and at > begin:
                    some = Messages(messages.data, messages.starts[begin:at])
                    own = Transactions(transactions.numbers[begin:at], transactions.times[begin:at])
                    if (rows := self._changed(some, own, relations, parts)).num_rows:
                        yield rows
                if at < len(kinds):
                    relations = self._heeded(_message(messages, at), relations)
                begin = at + 1

    def _heeded(self, message: bytes, relations: Mapping[int, Relation]) -> dict[int, Relation]:
        """The relations that hold behind a message RELATION or TRUNCATE, by number: the table or its partitions.
        ConnectorError SS622 where one lacks what is read.
        """
        if message[0] == TRUNCATE:
            emptied = [relations[number] for number in truncated(message) if number in relations]
            if emptied and not self.table.skips_truncate:
                name = f"{emptied[0].schema}.{emptied[0].name}"
                of = "" if name == self.table.shown else f'partition "{name}" of '
                what = f'{of}table "{self.table.shown}" was emptied by TRUNCATE, of which the log names no rows'
                hint = (
                    "Start in a new directory and with a new slot, or let 'scan.truncate' = 'skip' leave the rows of "
                    f'table "{self.table.name}" as they are.'
                )
                raise ConnectorError(EMPTIED, what, hint=hint)
            return dict(relations)
        relation = Relation.of(message)
        self._require_columns(relation)
        if self.table.with_before and relation.identity != IDENTITY_FULL:
            raise no_old_row(self.table.name, relation.schema, relation.name)
        return {**relations, relation.number: relation}

    def _require_columns(self, relation: Relation) -> None:
        there = {c.name: c for c in relation.columns}
        for key in self.table.keys:
            if key.name not in there:
                raise self._other(f'has no column "{key.name}" in the log')
        for column in () if self.table.follows else self.table.columns:
            if column.stored not in there:
                raise self._other(f'has no column "{column.stored}" in the log')
            if there[column.stored].type != column.type_number:
                raise self._other(f'has a column "{column.stored}" in the log whose type was not {column.type}')

    def _other(self, what: str) -> ConnectorError:
        message = f'table "{self.table.shown}" {what}: it was changed'
        hint = (
            f'Declare "{self.table.name}" as the table is now and start in a new directory and with a new slot, or '
            "let 'scan.schema-change' = 'follow' read columns that the log lacks as NULL."
        )
        return ConnectorError(CHANGED_TABLE, message, hint=hint)

    def _changed(
        self,
        messages: Messages,
        transactions: Transactions,
        relations: Mapping[int, Relation],
        parts: Sequence[SnapshotPart],
    ) -> pa.RecordBatch:
        """The rows that messages give, in order. Partitions with the same columns are read together; those with others,
        as they may have when they were tables before, beside them.
        """
        alike: dict[tuple[RelationColumn, ...], list[Relation]] = {}
        for relation in relations.values():
            alike.setdefault(relation.columns, []).append(relation)
        found: list[pa.RecordBatch] = []
        places: list[np.ndarray] = []
        for some in alike.values():
            changes = changes_of(messages, some)
            if len(changes.kinds) or not found:
                chosen = _Chosen(self.table, self.cut_by, messages, some[0], changes, parts, transactions)
                found.append(self._rows(chosen))
                places.append(chosen.places)
        if len(found) == 1:
            return found[0]
        order = np.argsort(np.concatenate(places), kind="stable")
        return pa.Table.from_batches(found).take(order).combine_chunks().to_batches()[0]

    def _rows(self, chosen: _Chosen) -> pa.RecordBatch:
        columns = []
        for column in self.table.columns:
            texts = chosen.texts(column.stored)
            if texts is None:
                columns.append(pa.nulls(chosen.count, column.declared.to_arrow()))
            else:
                columns.append(self.values(column, texts))
        return self.batch(columns, chosen.times + _2000_US, chosen.row_kinds)

    def values_of(self, column: ChangedColumn, texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
        return values_of(texts, column.declared, column.type)


def no_old_row(name: str, schema: str, table: str) -> ConnectorError:
    """SS623 for tables whose log has no old rows, though their -U rows are wanted."""
    message = f'the log has no old rows of table "{schema}.{table}", which \'changelog-mode\' of "{name}" asks for'
    hint = (
        f'ALTER TABLE "{schema}"."{table}" REPLICA IDENTITY FULL; or declare a PRIMARY KEY and leave '
        "'changelog-mode' out."
    )
    return ConnectorError(NO_OLD_ROW, message, hint=hint)


def _message(messages: Messages, number: int) -> bytes:
    starts = messages.starts
    end = int(starts[number + 1]) if number + 1 < len(starts) else len(messages.data)
    return messages.data[int(starts[number]) : end].tobytes()


# --- which rows changes give ----------------------------------------------------------------------------------


class _Chosen:
    """The rows that changes of one table give, in order: old ones that are retracted and new ones. ``places``: the
    message of each.
    """

    def __init__(
        self,
        table: ChangedTable,
        cut_by: Sequence[KeyColumn],
        messages: Messages,
        relation: Relation,
        changes: RowChanges,
        parts: Sequence[SnapshotPart],
        transactions: Transactions,
    ) -> None:
        self.table, self.data, self.changes = table, messages.data, changes
        self._cut_by = cut_by
        self._place = {c.name: n for n, c in enumerate(relation.columns)}
        updates = changes.kinds == UPDATE
        if table.with_before and (~changes.whole & (changes.kinds != INSERT)).any():
            raise no_old_row(table.name, relation.schema, relation.name)
        moved = self._moved(updates)
        self._old = np.flatnonzero((changes.kinds == DELETE) | moved | (updates & table.with_before))
        self._new = np.flatnonzero(changes.kinds != DELETE)
        numbers = transactions.numbers[changes.messages]
        if parts:
            self._old = self._old[~self._seen(parts, numbers[self._old], changes.old, changes.old_rows[self._old])]
            self._new = self._new[~self._seen(parts, numbers[self._new], changes.new, changes.new_rows[self._new])]
        self._order = pa.array(np.argsort(np.concatenate((2 * self._old, 2 * self._new + 1)), kind="stable"))
        of_messages = changes.messages[np.concatenate((self._old, self._new))[self._order.to_numpy()]]
        self.times = transactions.times[of_messages]
        self.places = of_messages
        retracted = np.where(updates[self._old] & ~moved[self._old], 1, 2)
        inserted = np.where(updates[self._new] & ~moved[self._new], 3, 0)
        codes = pa.array(np.concatenate((retracted, inserted)))
        self.row_kinds = pa.array(["+I", "-U", "-D", "+U"]).take(codes).take(self._order)

    @property
    def count(self) -> int:
        return len(self._order)

    def texts(self, stored: str) -> pa.StringArray | None:
        """The values of a column; None where the log lacks the column. ConnectorError SS623 for values that the log
        lacks because they did not change.
        """
        place = self._place.get(stored)
        if place is None:
            return None
        new = self.changes.new[place]
        lacking = np.flatnonzero(new.kinds == UNCHANGED)
        if len(lacking) and np.isin(self.changes.new_rows[self._new], lacking).any():
            message = (
                f'column "{stored}" of table "{self.table.shown}" has a large value that an update left as it was, '
                "and the log does not repeat it"
            )
            hint = (
                f'ALTER TABLE "{self.table.schema}"."{self.table.table}" REPLICA IDENTITY FULL; and start in a new '
                "directory and with a new slot, or leave the column out."
            )
            raise ConnectorError(NO_OLD_ROW, message, hint=hint)
        old = self.changes.old[place].texts(self.data).take(pa.array(self.changes.old_rows[self._old]))
        values = new.texts(self.data).take(pa.array(self.changes.new_rows[self._new]))
        return pa.concat_arrays([old, values]).take(self._order)

    def _moved(self, updates: np.ndarray) -> np.ndarray:
        """Which updates give the row another key."""
        moved = np.zeros(len(updates), bool)
        both = np.flatnonzero(updates & (self.changes.old_rows >= 0))
        if not len(both):
            return moved
        for key in self.table.keys:
            old, new = (
                self._key(key, columns, rows[both])
                for columns, rows in (
                    (self.changes.old, self.changes.old_rows), (self.changes.new, self.changes.new_rows),
                )
            )  # fmt: skip
            moved[both] |= pc.not_equal(old, new).fill_null(False).to_numpy(zero_copy_only=False)
        return moved

    def _key(self, key: KeyColumn, columns: Sequence[TextColumn], rows: np.ndarray) -> pa.StringArray:
        return columns[self._place[key.name]].texts(self.data).take(pa.array(rows))

    def _seen(
        self, parts: Sequence[SnapshotPart], numbers: np.ndarray, columns: Sequence[TextColumn], rows: np.ndarray
    ) -> np.ndarray:
        """Which changes the snapshot holds that has read the row."""

        def part_of() -> np.ndarray:
            keys = [self._key(key, columns, rows) for key in self._cut_by]
            bounds = [part.until for part in parts if part.until is not None]
            return parts_of(self._cut_by, keys, bounds, dict(self.table.connection))

        return seen_by_parts(np.stack([Snapshot.of(part.snapshot).sees(numbers) for part in parts]), part_of)


def parts_of(
    cut_by: Sequence[KeyColumn],
    keys: Sequence[pa.StringArray],
    bounds: Sequence[tuple[str, ...]],
    connection: Mapping[str, str],
) -> np.ndarray:
    """Returns how many of the bounds are before each key. Only the server knows the order of texts."""
    import psycopg  # an optional package

    names = [f"k{n}" for n in range(len(keys))]
    row = ", ".join(key.cast.format(f"x.{name}") for key, name in zip(cut_by, names, strict=True))
    of_bound = ", ".join(key.cast.format("%s") for key in cut_by)
    counted = " + ".join(f"(({row}) > ({of_bound}))::int" for _ in bounds)
    arrays = ", ".join("%s::text[]" for _ in keys)
    query = f"SELECT {counted} FROM unnest({arrays}) WITH ORDINALITY AS x({', '.join(names)}, n) ORDER BY n"
    values = [*(text for bound in bounds for text in bound), *(key.to_pylist() for key in keys)]
    with psycopg.connect(**connection, autocommit=True) as server:  # type: ignore[arg-type]
        return np.array([count for (count,) in server.execute(query.encode(), values).fetchall()], np.int64)
