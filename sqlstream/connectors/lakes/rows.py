"""Rows of the data files of lakes, which tasks and lookups read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.lakes.logs import StoredFiles
from sqlstream.connectors.lakes.versions import CHANGE_TYPE, RETRACTS, LakeFile, LakeSettings
from sqlstream.planner.catalog import RowKind
from sqlstream.udfs.files.details import DETAILS, FileDetails
from sqlstream.udfs.files.parquet import ParquetRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES, FileRange, FromFile, Piece
from sqlstream.udfs.kernel import ROW_KIND

SPLITS = pa.schema(
    [(FILE, pa.string()), (LENGTH, pa.int64()), (MODIFIED, pa.int64()), (DETAILS, pa.string()), (SHARE, pa.int32()),
     (SHARES, pa.int32())]
)  # fmt: skip
"""The columns of file splits. MODIFIED is the number of the file, in the order in which files are read."""


def splits(files: Sequence[LakeFile], share: int = 0, shares: int = 1) -> pa.RecordBatch:
    """The files as splits for one of several tasks, each of which gets all of them and reads its share."""
    columns = [
        pa.array([file.url for file in files], pa.string()),
        pa.array([file.size for file in files], pa.int64()),
        pa.array(range(len(files)), pa.int64()),
        pa.array([file.details.to_text() for file in files], pa.string()),
        pa.repeat(pa.scalar(share, pa.int32()), len(files)),
        pa.repeat(pa.scalar(shares, pa.int32()), len(files)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPLITS)


def reader_of(schema: pa.Schema, types: Mapping[str, pa.DataType], settings: LakeSettings) -> ParquetRows:
    """Returns the reader of a table's rows. ``types``: the columns of the table among those of ``schema``."""
    columns = {name: FromFile(name, kind) for name, kind in types.items()}
    stored = StoredFiles(settings)
    if settings.changes:
        return ChangeRows(schema, columns | {ROW_KIND: FromFile(ROW_KIND, pa.string())}, stored=stored)
    return ParquetRows(schema, columns, stored=stored)


_KIND_OF = {
    "insert": RowKind.INSERT,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
    "delete": RowKind.DELETE,
}
_RETRACTIONS = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


@dataclass(frozen=True)
class ChangeRows(ParquetRows):
    """Reads changes: the rows of a file are all of one kind, or a column of the change feed says what they are."""

    def read(self, file_range: FileRange) -> Iterator[Piece]:
        details = FileDetails.of_split(file_range.file)
        assert details is not None
        if RETRACTS not in details.constants:
            yield from super().read(file_range)
            return
        feed = replace(self, columns={**self.columns, ROW_KIND: FromFile(CHANGE_TYPE, pa.string())})
        retracts = details.constants[RETRACTS] == "true"
        for piece in super(ChangeRows, feed).read(file_range):
            rows = _with_kinds(piece.rows)
            retracting = pc.is_in(rows.column(ROW_KIND), pa.array(_RETRACTIONS))
            yield piece._replace(rows=rows.filter(retracting if retracts else pc.invert(retracting)))


def _with_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    types = rows.column(CHANGE_TYPE).cast(pa.string()).dictionary_encode()
    kinds = pa.array([_KIND_OF[name].value for name in types.dictionary.to_pylist()], pa.string())
    names = [ROW_KIND if name == CHANGE_TYPE else name for name in rows.schema.names]
    columns = [kinds.take(types.indices) if n == ROW_KIND else c for n, c in zip(names, rows.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=names)
