"""Passes rows from one chained operator to the next, in place of an exchange.

Both have the same keys and so the same key groups: nothing is cut or sent. Columns pass unchanged, or as microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.key_hash import hash_of_values


@dataclass(frozen=True)
class Handed:
    """A column of the rows above: ``column`` of those that are emitted below, of a time ``earlier`` microseconds less.

    ``micros``: BIGINT microseconds of a timestamp.
    """

    column: str
    earlier: int = 0
    micros: bool = False


@dataclass(frozen=True)
class Handover:
    """``columns`` by their names above, where ``keys`` are the columns of the key; ``schema`` is that of the rows, with
    KEY_HASH. What is not handed is NULL: the clock, where it is a column that nothing reads."""

    columns: tuple[tuple[str, Handed], ...]
    keys: tuple[str, ...]
    schema: pa.Schema

    def rows(self, emitted: Sequence[pa.Table]) -> pa.Table:
        """The rows above of all tables that were emitted, in order."""
        below = pa.concat_tables(emitted).combine_chunks()
        tables = {name: _taken(below, handed, self.schema.field(name).type) for name, handed in self.columns}
        tables[KEY_HASH] = pa.array(hash_of_values([tables[name] for name in self.keys], below.num_rows))
        columns = [tables[f.name] if f.name in tables else pa.nulls(below.num_rows, f.type) for f in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _taken(below: pa.Table, handed: Handed, kind: pa.DataType) -> pa.ChunkedArray:
    column = below.column(handed.column)
    if handed.earlier:
        column = pc.subtract(column, pa.scalar(np.timedelta64(handed.earlier, "us")))
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()) if handed.micros else column.cast(kind)
