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
from pyarrow import csv

from sqlstream.errors import ConnectorError
from sqlstream.formats.pgoutput import (
    IDENTITY_FULL,
    IDENTITY_NOTHING,
    RELATION,
    TRUNCATE,
    Messages,
    Relation,
    RelationColumn,
    Snapshot,
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
    KeyColumn,
    RowsOfChanges,
    SnapshotPart,
    windows,
)
from sqlstream.udfs.postgres_chosen import ChosenRows, no_key, no_old_row

_BLOCK = 8 << 20
_ASKED_AT_ONCE = 500
"""Rows with values that are asked for, which are large."""
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
        parts = [SnapshotPart.of_json(part) for part in json.loads(place["snapshots"] or "[]")]
        keys = (*self.table.keys, *(self.cut_by if parts else ()))
        for message in place["relations"] or ():
            relations = self._heeded(message, relations, keys)
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
                    yield from self._changed(some, own, relations, parts)
                if at < len(kinds) and not (kinds[at] == TRUNCATE and _seen_by_all(parts, transactions.numbers[at])):
                    relations = self._heeded(_message(messages, at), relations, keys)
                begin = at + 1

    def _heeded(
        self, message: bytes, relations: Mapping[int, Relation], keys: Sequence[KeyColumn]
    ) -> dict[int, Relation]:
        """The relations that hold behind a message RELATION or TRUNCATE, by number: the table or its partitions.
        ConnectorError SS622 where one lacks what is read, or a column of ``keys``.
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
        self._require_columns({c.name: c.type for c in relation.columns}, "in the log", keys)
        if self.table.with_before and relation.identity != IDENTITY_FULL:
            raise no_old_row(self.table.name, relation.schema, relation.name)
        identity = {c.name for c in relation.columns if c.is_key}
        if relation.identity != IDENTITY_NOTHING and not identity.issuperset(key.name for key in self.table.keys):
            raise no_key(self.table, relation)
        return {**relations, relation.number: relation}

    def _require_columns(self, types: Mapping[str, int], where: str, keys: Sequence[KeyColumn]) -> None:
        """ConnectorError SS622 where columns lack, or have another type. ``types``: their numbers (OID) by name."""
        for key in keys:
            if key.name not in types:
                raise self._other(f'has no column "{key.name}" {where}')
        for column in () if self.table.follows else self.table.columns:
            if column.stored not in types:
                raise self._other(f'has no column "{column.stored}" {where}')
            if types[column.stored] != column.type_number:
                raise self._other(f'has a column "{column.stored}" {where} whose type was not {column.type}')

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
    ) -> Iterator[pa.RecordBatch]:
        """The rows that messages give, in order. Partitions with the same columns are read together; those with others,
        as they may have when they were tables before, beside them.
        """
        alike: dict[tuple[RelationColumn, ...], list[Relation]] = {}
        for relation in relations.values():
            alike.setdefault(relation.columns, []).append(relation)
        of_alike = [
            ChosenRows(self.table, self.cut_by, messages, some[0], changes, parts, transactions)
            for some in alike.values()
            if len((changes := changes_of(messages, some)).kinds)
        ]
        if sum(chosen.lacking for chosen in of_alike) > _ASKED_AT_ONCE and (half := len(messages.starts) // 2):
            for part in (slice(0, half), slice(half, None)):
                own = Transactions(transactions.numbers[part], transactions.times[part])
                yield from self._changed(Messages(messages.data, messages.starts[part]), own, relations, parts)
            return
        found = [self._rows(chosen) for chosen in of_alike]
        if len(found) > 1:
            order = np.argsort(np.concatenate([chosen.places for chosen in of_alike]), kind="stable")
            found = pa.Table.from_batches(found).take(order).combine_chunks().to_batches()
        yield from (rows for rows in found if rows.num_rows)

    def _rows(self, chosen: ChosenRows) -> pa.RecordBatch:
        if chosen.lacking and self.table.asks:
            self._require_columns(chosen.fill(), "now", self.table.keys)
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


def _seen_by_all(parts: Sequence[SnapshotPart], transaction: int) -> bool:
    """True where rows were copied, in snapshots that hold all that a transaction has changed."""
    numbers = np.array([transaction])
    return bool(parts) and all(Snapshot.of(part.snapshot).sees(numbers)[0] for part in parts)


def _message(messages: Messages, number: int) -> bytes:
    starts = messages.starts
    end = int(starts[number + 1]) if number + 1 < len(starts) else len(messages.data)
    return messages.data[int(starts[number]) : end].tobytes()
