"""Parquet files that tasks write into a Delta table, each with the action by which the log adds it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyarrow import types as kinds

from sqlstream.connectors.lakes.delta_columns import file_system, uri_of
from sqlstream.connectors.lakes.versions import WRONG_LAKE_COLUMN
from sqlstream.errors import ConnectorError
from sqlstream.udfs.files.details import constant
from sqlstream.udfs.files.directories import NO_PARTITION, escaped

ACTIONS = pa.schema([("action", pa.string())])
"""What is known of files that were written: each as JSON with ``path``, ``size``, ``partitionValues`` and ``stats``."""

_MOST_OPEN = 64
"""Files of partitions that a task has open at once; with more of them it begins new ones."""

_LONGEST_FOLDER = 200
"""Bytes of the folder of a partition; with longer ones its files are not in folders."""

_LONGEST_TEXT = 32
"""Characters of texts in statistics; with longer ones a column has none."""


@dataclass(frozen=True)
class DeltaFiles:
    """Writes the rows of a task into new files of a Delta table. ``schema``: its columns; ``partitions``: those that
    are in the log instead of the files, of which ``required`` are NOT NULL.

    Where the task fails it removes its files. Those of a task whose answer is lost are in no log, and VACUUM removes
    them.
    """

    location: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    compression: str = "snappy"
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    required: tuple[str, ...] = ()

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes all rows, then yields the actions, as ACTIONS."""
        files = _Open(self)
        try:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema).combine_chunks()
                for part in rows.to_batches():
                    self._write(part, files)
            files.close()
        except BaseException:
            files.remove()
            raise
        yield pa.record_batch({"action": pa.array(map(json.dumps, files.written), pa.string())})

    def _write(self, rows: pa.RecordBatch, files: _Open) -> None:
        if not self.partitions:
            files.write((), rows)
            return
        texts = [self._texts(rows, name).dictionary_encode("encode") for name in self.partitions]
        number = np.zeros(rows.num_rows, np.int64)
        for column in texts:
            number = number * len(column.dictionary) + np.asarray(column.indices)
        rest = rows.drop_columns([*self.partitions])
        _, first, own = np.unique(number, return_index=True, return_inverse=True)
        for index, row in enumerate(first.tolist()):
            values = tuple(column.dictionary[column.indices[row].as_py()].as_py() for column in texts)
            files.write(values, rest.take(pa.array(np.flatnonzero(own == index))))

    def _texts(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        texts = partition_texts(rows.column(name))
        if name in self.required and texts.null_count:
            raise _empty_text(name)
        return texts

    def partition_text(self, name: str, text: str | None) -> str | None:
        """A value of a partition column as the log spells it, of a text that may spell it in another way."""
        spelled: str | None = partition_texts(pa.array([constant(text, self.schema.field(name).type)]))[0].as_py()
        return spelled

    def as_stored(self, rows: pa.Table) -> pa.Table:
        """Rows whose empty texts in partition columns are NULL, as the log has them. ConnectorError SS546 for one in a
        column that is NOT NULL.
        """
        for name in (name for name in self.partitions if kinds.is_string(rows.schema.field(name).type)):
            values = pc.if_else(pc.equal(rows[name], ""), None, rows[name])
            if name in self.required and values.null_count:
                raise _empty_text(name)
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)
        return rows

    @property
    def own_schema(self) -> pa.Schema:
        """The columns that are in the files."""
        return pa.schema([f for f in self.schema if f.name not in self.partitions])

    def file_system(self) -> fs.FileSystem:
        """The files of the table, by their paths in it."""
        root = uri_of(self.location)
        if "://" in root:
            return file_system(self.location, self.storage)
        return fs.SubTreeFileSystem(root, fs.LocalFileSystem())


def partition_texts(values: pa.Array) -> pa.Array:
    """The values of a partition column as the log of Delta spells them; an empty text is NULL to it."""
    if kinds.is_timestamp(values.type):
        return pc.strftime(values.cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S")
    texts = values.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts) if kinds.is_string(values.type) else texts


def _empty_text(name: str) -> ConnectorError:
    message = f'column "{name}", which partitions the Delta table and is NOT NULL, got an empty text'
    detail = "Partitions of Delta have it as NULL."
    hint = "Declare the column without NOT NULL, or write another text."
    return ConnectorError(WRONG_LAKE_COLUMN, message, detail=detail, hint=hint)


class _Open:
    """The files that a task is writing, one for each partition, and those that it has written."""

    def __init__(self, output: DeltaFiles) -> None:
        self._output, self._schema, self._fs = output, output.own_schema, output.file_system()
        self._open: dict[tuple[str | None, ...], tuple[str, pa.NativeFile, pq.ParquetWriter]] = {}
        self._paths: list[str] = []
        self.written: list[dict[str, Any]] = []

    def write(self, values: tuple[str | None, ...], rows: pa.RecordBatch) -> None:
        if values not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self.close()
            path = self._path(values)
            self._fs.create_dir(str(Path(path).parent), recursive=True)
            self._paths.append(path)
            file = self._fs.open_output_stream(path)
            writer = pq.ParquetWriter(file, self._schema, compression=self._output.compression)
            self._open[values] = (path, file, writer)
        self._open[values][2].write_batch(rows)

    def _path(self, values: tuple[str | None, ...]) -> str:
        pairs = zip(self._output.partitions, values, strict=True)
        folders = [f"{escaped(name)}={NO_PARTITION if value is None else escaped(value)}" for name, value in pairs]
        # Object stores do not agree about paths with escapes, and file systems take no longer names.
        if any("%" in folder or len(folder.encode()) > _LONGEST_FOLDER for folder in folders):
            folders = []
        return "/".join([*folders, f"part-{uuid.uuid4()}.parquet"])

    def close(self) -> None:
        """Completes the open files, and describes them."""
        for values, (path, file, writer) in self._open.items():
            writer.close()
            size = file.tell()
            file.close()
            self.written.append(
                {
                    "path": path,
                    "size": size,
                    "partitionValues": dict(zip(self._output.partitions, values, strict=True)),
                    "modificationTime": int(time.time() * 1000),
                    "stats": json.dumps(statistics(writer.writer.metadata)),
                }
            )
        self._open = {}

    def remove(self) -> None:
        for _, file, writer in self._open.values():
            writer.close()
            file.close()
        for path in self._paths:
            self._fs.delete_file(path)


# --- statistics -----------------------------------------------------------------------------------------------


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """The statistics of a file as Delta has them: the number of rows, and for plain columns the number of NULLs and the
    bounds. Floating-point numbers have none, because NaN is the greatest value there and not in the bounds here, nor
    have DECIMALs, which JSON rounds.
    """
    columns = [footer.schema.column(i) for i in range(footer.num_columns)]
    plain = [i for i, column in enumerate(columns) if column.path == column.name and not column.max_repetition_level]
    nulls: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any]] = {}
    for i in plain:
        chunks = [footer.row_group(group).column(i).statistics for group in range(footer.num_row_groups)]
        if any(chunk is None or not chunk.has_null_count for chunk in chunks):
            continue
        nulls[columns[i].name] = sum(chunk.null_count for chunk in chunks)
        filled = [chunk for chunk in chunks if chunk.num_values]
        pairs = [(_bound(chunk.min), _bound(chunk.max)) for chunk in filled if chunk.has_min_max]
        if pairs and len(pairs) == len(filled) and not any(None in pair for pair in pairs):
            bounds[columns[i].name] = min(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: _json(pair[0]) for name, pair in bounds.items()},
        "maxValues": {name: _json(pair[1]) for name, pair in bounds.items()},
        "nullCount": nulls,
    }


def _bound(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return value if isinstance(value, int | date) and not isinstance(value, bool) else None


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo is not None else ""
        return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    return value.isoformat() if isinstance(value, date) else value
