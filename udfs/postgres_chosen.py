"""Which rows changes of PostgreSQL's log give, and their values: those of the log, and of the table now where the log
lacks them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError, repeating
from sqlstream.formats.pgoutput import (
    DELETE,
    INSERT,
    UNCHANGED,
    UPDATE,
    Messages,
    Relation,
    RowChanges,
    Snapshot,
    TextColumn,
    Transactions,
)
from sqlstream.udfs.database_changes import ChangedTable, KeyColumn, SnapshotPart, seen_by_parts
from sqlstream.udfs.postgres_current import asked_again, current_values

if TYPE_CHECKING:
    import psycopg

NO_OLD_ROW = repeating("SS623")


class ChosenRows:
    """The rows that changes of one table give, in order: old ones that are retracted and new ones."""

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
        self._updated = updates & ~moved
        self._old = np.flatnonzero((changes.kinds == DELETE) | moved | (updates & table.with_before))
        self._new = np.flatnonzero(changes.kinds != DELETE)
        self._transactions = transactions
        if parts:
            numbers = transactions.numbers[changes.messages]
            self._old = self._old[~self._seen(parts, numbers[self._old], changes.old, changes.old_rows[self._old])]
            self._new = self._new[~self._seen(parts, numbers[self._new], changes.new, changes.new_rows[self._new])]
        self._lacking = {c.stored: self._unchanged(c.stored) for c in table.columns if c.stored in self._place}
        self._current: Mapping[str, pa.StringArray] | None = None

    # --- the rows ---------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._old) + len(self._new)

    @cached_property
    def places(self) -> np.ndarray:
        """The message of each row."""
        messages: np.ndarray = self.changes.messages[np.concatenate((self._old, self._new))[self._order.to_numpy()]]
        return messages

    @property
    def times(self) -> np.ndarray:
        times: np.ndarray = self._transactions.times[self.places]
        return times

    @property
    def row_kinds(self) -> pa.StringArray:
        retracted = np.where(self._updated[self._old], 1, 2)
        inserted = np.where(self._updated[self._new], 3, 0)
        codes = pa.array(np.concatenate((retracted, inserted)))
        return pa.array(["+I", "-U", "-D", "+U"]).take(codes).take(self._order)

    def texts(self, stored: str) -> pa.StringArray | None:
        """The values of a column; None where the log lacks the column. ConnectorError SS623 for values that the log
        lacks because they did not change, unless they are filled in.
        """
        place = self._place.get(stored)
        if place is None:
            return None
        old = self.changes.old[place].texts(self.data).take(pa.array(self.changes.old_rows[self._old]))
        new = self.changes.new[place].texts(self.data).take(pa.array(self.changes.new_rows[self._new]))
        lacking = self._lacking[stored]
        if lacking.any() and self._current is None:
            message = (
                f'column "{stored}" of table "{self.table.shown}" has a large value that an update left as it was, '
                "and the log does not repeat it"
            )
            raise ConnectorError(NO_OLD_ROW, message, hint=large_values(self.table.schema, self.table.table))
        if self._current is not None and stored in self._current:
            new = pc.if_else(pa.array(lacking), self._current[stored], new)
        return pa.concat_arrays([old, new]).take(self._order)

    @cached_property
    def _order(self) -> pa.Array:
        return pa.array(np.argsort(np.concatenate((2 * self._old, 2 * self._new + 1)), kind="stable"))

    # --- values that did not change -----------------------------------------------------------------------------

    @property
    def lacking(self) -> int:
        """How many rows lack values that are read."""
        return int(self._lacks_any.sum())

    def fill(self) -> Mapping[str, int]:
        """Fills in the values of the table now, and leaves rows out that are gone: their deletion is to come. Returns
        the numbers (OID) of the types that columns have now. To be called before rows are read.
        """
        lacks = self._lacks_any
        at = np.flatnonzero(lacks)
        rows = self.changes.new_rows[self._new[at]]
        keys = [self._key(key, self.changes.new, rows) for key in self.table.keys]
        asked = [stored for stored, lacking in self._lacking.items() if lacking.any()]
        now = current_values(self.table, asked, keys, self._transactions.numbers[self.changes.messages[self._new[at]]])
        stays = ~lacks
        stays[at] = now.is_there
        place = np.full(len(lacks), -1)
        place[at] = np.arange(len(at))
        indices = pa.array(place[stays], mask=place[stays] < 0)
        self._current = {stored: texts.take(indices) for stored, texts in now.texts.items()}
        self._lacking = {stored: lacking[stays] for stored, lacking in self._lacking.items()}
        self._new = self._new[stays]
        return now.types

    @property
    def _lacks_any(self) -> np.ndarray:
        lacks: np.ndarray = np.logical_or.reduce([np.zeros(len(self._new), bool), *self._lacking.values()])
        return lacks

    def _unchanged(self, stored: str) -> np.ndarray:
        """Which new rows lack the value of a column because it did not change."""
        kinds = self.changes.new[self._place[stored]].kinds
        unchanged: np.ndarray = kinds[self.changes.new_rows[self._new]] == UNCHANGED
        return unchanged

    # --- keys -------------------------------------------------------------------------------------------------

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
    names = [f"k{n}" for n in range(len(keys))]
    casts = [key.cast.replace("%", "%%") for key in cut_by]
    row = ", ".join(cast.format(f"x.{name}") for cast, name in zip(casts, names, strict=True))
    of_bound = ", ".join(cast.format("%s") for cast in casts)
    counted = " + ".join(f"(({row}) > ({of_bound}))::int" for _ in bounds)
    arrays = ", ".join("%s::text[]" for _ in keys)
    query = f"SELECT {counted} FROM unnest({arrays}) WITH ORDINALITY AS x({', '.join(names)}, n) ORDER BY n"
    values = [*(text for bound in bounds for text in bound), *(key.to_pylist() for key in keys)]

    def ask(server: psycopg.Connection[Any]) -> np.ndarray:
        return np.array([count for (count,) in server.execute(query.encode(), values).fetchall()], np.int64)

    return asked_again(connection, ask)


# --- what the log lacks ---------------------------------------------------------------------------------------


def large_values(schema: str, table: str) -> str:
    """The hint of what is to be done about large values that the log does not repeat."""
    return (
        f'ALTER TABLE "{schema}"."{table}" REPLICA IDENTITY FULL; before the update, or let '
        "'scan.unchanged-toast' = 'current' read the value of the row now."
    )


def no_old_row(name: str, schema: str, table: str) -> ConnectorError:
    """SS623 for tables whose log has no old rows, though their -U rows are wanted."""
    message = f'the log has no old rows of table "{schema}.{table}", which \'changelog-mode\' of "{name}" asks for'
    hint = (
        f'ALTER TABLE "{schema}"."{table}" REPLICA IDENTITY FULL; or declare a PRIMARY KEY and leave '
        "'changelog-mode' out."
    )
    return ConnectorError(NO_OLD_ROW, message, hint=hint)


def no_key(table: ChangedTable, relation: Relation) -> ConnectorError:
    """SS623 for tables whose log tells of rows by other columns than those of the key."""
    names = ", ".join(key.name for key in table.keys)
    message = f'the log has no old values of the key ({names}) of table "{relation.schema}.{relation.name}"'
    hint = f'ALTER TABLE "{relation.schema}"."{relation.name}" REPLICA IDENTITY FULL; and start in a new directory.'
    return ConnectorError(NO_OLD_ROW, message, hint=hint)
