"""Values that the log of PostgreSQL leaves out because they did not change, asked of the table as it is now.

A value may have changed since the change that lacks it, and the row may be gone. The log has what made it so behind
that change, so a key ends with the right row all the same, and only rows in between may show a later value. This holds
if the server that is asked sees the change itself: a transaction may be in the log before others see it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.errors import ConnectorError
from sqlstream.formats.pgoutput import Snapshot
from sqlstream.udfs.database_changes import CANNOT_READ, ChangedTable
from sqlstream.udfs.lookup.sources.postgres import one_line

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_PATIENCE_SECONDS = 60.0
_VISIBLE_SECONDS = 0.02

_COLUMNS = """
    SELECT attname::text, atttypid::int8 FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class CurrentValues:
    """What a table has now of the rows of some keys.

    * ``types``: the number (OID) of the type of each column that the table has; none if it is gone.
    * ``is_there``: for each key, whether it has a row.
    * ``texts``: the values of each column that was asked for and that is there, NULL for keys without row.
    """

    types: Mapping[str, int]
    is_there: np.ndarray
    texts: Mapping[str, pa.StringArray]


def current_values(
    table: ChangedTable, columns: Sequence[str], keys: Sequence[pa.StringArray], transactions: np.ndarray
) -> CurrentValues:
    """Returns the values of columns by the keys of their rows. ConnectorError SS562 where the server has no answer.

    ``keys``: the values of each column of the table's key. ``transactions``: the lower 32 bits of the numbers of those
    that the server must see.
    """
    import psycopg  # an optional package

    def ask(server: psycopg.Connection[Any]) -> CurrentValues:
        _begin(server, transactions)
        where = psycopg.sql.Identifier(table.schema, table.table).as_string(server)
        types: dict[str, int] = dict(server.execute(_COLUMNS, [where]).fetchall())
        if not all(key.name in types for key in table.keys):
            return CurrentValues({}, np.zeros(len(transactions), bool), {})
        asked = [name for name in columns if name in types]
        # As the server prints them, which psycopg would read.
        result = server.execute(_query(table, asked), [values.to_pylist() for values in keys]).pgresult
        assert result is not None
        found = range(result.ntuples)
        places = np.full(len(transactions), -1)
        places[[int(result.get_value(row, 0) or 0) - 1 for row in found]] = found
        indices = pa.array(places, mask=places < 0)
        texts = {
            name: pa.array([result.get_value(row, n) for row in found], pa.binary()).cast(pa.string()).take(indices)
            for n, name in enumerate(asked, 1)
        }
        return CurrentValues(types, places >= 0, texts)

    try:
        return asked_again(dict(table.connection), ask)
    except (psycopg.Error, TimeoutError) as error:
        reason = one_line(error) if isinstance(error, psycopg.Error) else str(error)
        message = f'large values of table "{table.name}" that the log lacks cannot be read: PostgreSQL says: {reason}'
        hint = (
            f'ALTER TABLE "{table.schema}"."{table.table}" REPLICA IDENTITY FULL; brings them into the log from now on.'
        )
        raise ConnectorError(CANNOT_READ, message, hint=hint) from None


def _query(table: ChangedTable, columns: Sequence[str]) -> sql.Composed:
    """The query of columns by keys, which are arrays of texts. Its first column is the number of the key, from 1."""
    from psycopg import sql  # an optional package

    names = [f"k{n}" for n in range(len(table.keys))]
    equal = [
        sql.SQL("{} = {}").format(
            sql.Identifier("t", key.name), sql.SQL(key.cast.replace("%", "%%").format(f"x.{name}"))
        )
        for key, name in zip(table.keys, names, strict=True)
    ]
    return sql.SQL("SELECT {} FROM unnest({}) WITH ORDINALITY AS x({}, n) JOIN {} AS t ON {}").format(
        sql.SQL(", ").join([sql.SQL("x.n"), *(sql.Identifier("t", name) for name in columns)]),
        sql.SQL(", ").join([sql.SQL("%s::text[]")] * len(names)),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.Identifier(table.schema, table.table),
        sql.SQL(" AND ").join(equal),
    )


def _begin(server: psycopg.Connection[Any], transactions: np.ndarray) -> None:
    """Begins a transaction that sees others."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot,),) = server.execute("SELECT pg_current_snapshot()::text").fetchall()
        if Snapshot.of(snapshot).sees(transactions).all():
            return
        server.execute("ROLLBACK")
        if time.monotonic() > end:
            raise TimeoutError("the server does not see transactions that are in its log")
        time.sleep(_VISIBLE_SECONDS)


def asked_again(connection: Mapping[str, str], ask: Callable[[psycopg.Connection[Any]], _Answer]) -> _Answer:
    """What a server answers. A connection that broke, as when a server restarts, is made again for a minute."""
    import psycopg  # an optional package

    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with psycopg.connect(**connection, autocommit=True) as server:  # type: ignore[arg-type]
                return ask(server)
        except psycopg.OperationalError as error:
            if not is_broken(error) or time.monotonic() > end:
                raise
        time.sleep(0.5)


def is_broken(error: Exception) -> bool:
    """True for errors of a connection, or of a server that ends, which are worth another attempt."""
    state = getattr(error, "sqlstate", None) or "08"  # no answer at all
    return str(state).startswith(("08", "57"))
