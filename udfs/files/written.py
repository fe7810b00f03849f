"""Files that tasks write themselves: Avro and Arrow, for which Spark has no writer, and all formats in stores."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import ipc, orc

from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.types import DataType
from sqlstream.udfs.files.directories import escaped

_MOST_OPEN = 64
"""Files of directories that a task has open at once; with more of them it begins new ones."""

FILES = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modified", pa.int64())])
"""What is known of files that were written: their paths, sizes in bytes, and modification times in milliseconds."""


class RowWriter(Protocol):
    """Writes rows into one file."""

    def write(self, rows: pa.RecordBatch, /) -> None:
        """Adds rows to the file."""

    def close(self) -> None:
        """Completes the file, which is closed by the caller."""


@dataclass(frozen=True)
class FileOutput(ABC):
    """How rows are written into a file. ``columns``: their names and types."""

    columns: tuple[tuple[str, DataType], ...]
    suffix: ClassVar[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow's; TIMESTAMP columns have the zone UTC."""
        return pa.schema([(name, kind.to_arrow()) for name, kind in self.columns])

    @abstractmethod
    def writer(self, file: BinaryIO) -> RowWriter:
        """Begins a file, which is open for writing."""


@dataclass(frozen=True)
class AvroOutput(FileOutput):
    """Object container files of Avro. ``codec`` and ``legacy``: see ``AvroWriter``."""

    codec: str = "null"
    legacy: bool = False
    suffix = ".avro"

    def writer(self, file: BinaryIO) -> RowWriter:
        return AvroWriter(file, self.columns, self.codec, legacy=self.legacy)


@dataclass(frozen=True)
class ArrowOutput(FileOutput):
    """IPC files of Arrow. ``compression``: that of their buffers, lz4 or zstd; None without one."""

    compression: str | None = None
    suffix = ".arrow"

    def writer(self, file: BinaryIO) -> RowWriter:
        options = ipc.IpcWriteOptions(compression=self.compression)
        writer: RowWriter = ipc.new_file(file, self.schema, options=options)
        return writer


@dataclass(frozen=True)
class ParquetOutput(FileOutput):
    """Parquet files, as Spark compresses them."""

    suffix = ".parquet"

    def writer(self, file: BinaryIO) -> RowWriter:
        writer: RowWriter = pq.ParquetWriter(file, self.schema, compression="snappy")
        return writer


@dataclass(frozen=True)
class OrcOutput(FileOutput):
    """ORC files, as Spark compresses them."""

    suffix = ".orc"

    def writer(self, file: BinaryIO) -> RowWriter:
        return _OrcRows(orc.ORCWriter(file, compression="zstd"))


@dataclass(frozen=True)
class _OrcRows:
    into: orc.ORCWriter

    def write(self, rows: pa.RecordBatch, /) -> None:
        self.into.write(pa.Table.from_batches([rows]))

    def close(self) -> None:
        self.into.close()


@dataclass(frozen=True)
class LineOutput(FileOutput):
    """Files of text, of which the only column has the lines. ``extension``: that of their names; ``header``: the first
    line of each file.
    """

    extension: str = "txt"
    header: str | None = None

    @property
    def suffix(self) -> str:  # type: ignore[override]
        return f".{self.extension}"

    def writer(self, file: BinaryIO) -> RowWriter:
        if self.header is not None:
            file.write(f"{self.header}\n".encode())
        return _Lines(file)


@dataclass(frozen=True)
class _Lines:
    into: BinaryIO

    def write(self, rows: pa.RecordBatch, /) -> None:
        lines = pc.binary_join_element_wise(rows.column(0), "", "\n")
        buffers, first, last = lines.buffers(), lines.offset, lines.offset + len(lines)
        offsets = np.frombuffer(buffers[1], np.int32)
        if len(lines):
            self.into.write(buffers[2].slice(int(offsets[first]), int(offsets[last] - offsets[first])))

    def close(self) -> None:
        """The lines are in the file."""


class Target(Protocol):
    """Where files are written."""

    def begin(self, path: str, /) -> BinaryIO:
        """Opens a new file for writing."""

    def complete(self, path: str, file: BinaryIO, /) -> tuple[int, int]:
        """Closes a file, which is stored then. Returns its size, and the time in milliseconds since 1970."""

    def remove(self, path: str, /) -> None:
        """Removes a file if it exists."""


@dataclass(frozen=True)
class LocalTarget:
    """Files of this machine."""

    def begin(self, path: str) -> BinaryIO:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return Path(path).open("wb")

    def complete(self, path: str, file: BinaryIO) -> tuple[int, int]:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns // 1_000_000

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)


@dataclass(frozen=True)
class WrittenFiles:
    """Writes the rows of a task into new files of a folder. ``partitions``: STRING columns whose values become
    directories, ``day=2024-01-31``, instead of values in the files. ``target``: the machine or the store of the folder.
    ``name``: the beginning of the names of files.
    """

    output: FileOutput
    folder: str
    partitions: tuple[str, ...] = ()
    target: Target = LocalTarget()
    name: str = "part"

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes all rows, then yields the files, as FILES. Where that fails it leaves none."""
        files = _Open(self)
        try:
            for batch in batches:
                for directory, rows in self._by_directory(batch):
                    files.write(directory, rows)
            files.close()
        except BaseException:
            files.remove()
            raise
        yield pa.RecordBatch.from_pylist(files.written, schema=FILES)

    def _by_directory(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        rows = pa.Table.from_batches([batch]).select(self.output.schema.names).cast(self.output.schema)
        whole = rows.combine_chunks().to_batches()
        if not whole:
            return
        if not self.partitions:
            yield "", whole[0]
            return
        directories = _directories(batch, self.partitions).dictionary_encode()
        numbers = directories.indices.to_numpy()
        for number, directory in enumerate(directories.dictionary.to_pylist()):
            yield directory, whole[0].take(pa.array(np.flatnonzero(numbers == number)))


def _directories(batch: pa.RecordBatch, partitions: tuple[str, ...]) -> pa.Array:
    """The directory of each row, such as ``day=2024-01-31/kind=a``."""
    names = []
    for partition in partitions:
        values = batch.column(partition).cast(pa.string()).dictionary_encode(null_encoding="encode")
        spelled = [f"{escaped(partition)}={escaped(value)}" for value in values.dictionary.to_pylist()]
        names.append(pa.array(spelled, pa.string()).take(values.indices))
    return pc.binary_join_element_wise(*names, "/")


class _Open:
    """The files that a task is writing, one for each directory, and those that it has written."""

    def __init__(self, files: WrittenFiles) -> None:
        self._files, self._target = files, files.target
        self._open: dict[str, tuple[str, BinaryIO, RowWriter]] = {}
        self._paths: list[str] = []
        self.written: list[dict[str, Any]] = []

    def write(self, directory: str, rows: pa.RecordBatch) -> None:
        if directory not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self.close()
            name = f"{self._files.name}-{uuid.uuid4()}{self._files.output.suffix}"
            path = "/".join(filter(None, (self._files.folder, directory, name)))
            file = self._target.begin(path)
            self._paths.append(path)
            self._open[directory] = (path, file, self._files.output.writer(file))
        self._open[directory][2].write(rows)

    def close(self) -> None:
        """Completes the open files; they are on disk then."""
        for path, file, writer in self._open.values():
            writer.close()
            size, modified = self._target.complete(path, file)
            self.written.append({"path": path, "size": size, "modified": modified})
        self._open.clear()

    def remove(self) -> None:
        for _, file, writer in self._open.values():
            with suppress(OSError, pa.ArrowException):  # of a store that does not answer: the object is not there then
                writer.close()
            with suppress(OSError):
                file.close()
        for path in self._paths:
            self._target.remove(path)
