"""Rows on their way to other tables: packed into bytes, one row for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.exchange import LATE, LATE_TABLE, pieces, to_bytes
from sqlstream.udfs.garbage import spare_imports


@dataclass(frozen=True)
class SideRows:
    """``markers``: pairs of a STRUCT column, which is set where a row goes to another table, and its LATE_TABLE.

    At most one of them is set in a row. The input has LATE_TABLE and LATE, and what was in them goes on; the columns
    of the markers do not come out.
    """

    markers: tuple[tuple[str, str], ...]

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        for batch in batches:
            kept = batch.drop_columns([name for name, _ in self.markers])
            leaving = [(marker, batch.column(name)) for name, marker in self.markers]
            stays = pa.repeat(True, batch.num_rows)
            for _, structs in leaving:
                stays = pc.and_(stays, pc.is_null(structs))
            yield kept.filter(stays)
            for marker, structs in leaving:
                yield from _packed(kept.schema, marker, structs.drop_null())


def _packed(schema: pa.Schema, marker: str, structs: pa.StructArray) -> Iterator[pa.RecordBatch]:
    if not len(structs):
        return
    for piece in pieces(pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])):
        values = {LATE_TABLE: pa.array([marker]), LATE: pa.array([to_bytes(piece)], pa.binary())}
        columns = [values[f.name] if f.name in values else pa.nulls(1, f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
