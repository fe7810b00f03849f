"""Files as a lookup source: the table is loaded as a whole and looked up in memory (Flink's FULL cache).

Each worker process holds the table once. With a reload interval it checks that often whether files were added, deleted
or changed, loads them again outside of the event loop, and answers from the new table once that is complete; requests
never wait for it. If a reload fails, the old table remains, a warning is logged, and the reload is tried again after
the next interval. A failure of the first load is an error of the lookup.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ConnectorError
from sqlstream.formats.file_access import LOCAL, FileAccess, StoreAccess
from sqlstream.formats.values import text_rule
from sqlstream.types import DataType
from sqlstream.udfs.datetimes import YEARS, beyond, rows_beyond
from sqlstream.udfs.expressions.evaluation import value
from sqlstream.udfs.expressions.tree import And, Column, Compared, Constant, Expression, IsNull, Not, OneOf
from sqlstream.udfs.expressions.tree import Comparison as CompareBy
from sqlstream.udfs.files.directories import NO_PARTITION
from sqlstream.udfs.files.listed import version_of
from sqlstream.udfs.files.records import RecordFormat
from sqlstream.udfs.files.sink_log import logged_paths
from sqlstream.udfs.lookup.source import Comparison, Key, Request, Row
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from sqlstream.udfs.files.columnar import ColumnarFiles

UNREADABLE = "SS583"

_LOG = logging.getLogger("sqlstream.lookup")
_NAN = float("nan")
Signature = tuple[tuple[str, tuple[int, ...]], ...]
"""Path and version of each file, in the order in which their rows come."""


@dataclass(frozen=True)
class FileSource:
    """A lookup table in files. ``path``: a file, a directory or a pattern. ``columns``: those that keys, answers and
    filters need; of these ``partitions`` are in directory names, as in ``day=2024-01-31``, with times in ``zone``.

    ``as_of`` identifies the state of the files when the query started: sources of changed files are not equal, so each
    loads its own data.
    """

    name: str
    request: Request
    path: str
    format: RecordFormat | ColumnarFiles
    columns: tuple[tuple[str, DataType], ...]
    partitions: tuple[str, ...] = ()
    zone: str = "UTC"
    reload_ms: int | None = None
    as_of: str = ""

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow's."""
        return pa.schema([(name, kind.to_arrow()) for name, kind in self.columns])

    async def open(self) -> FileClient:
        client = FileClient(self)
        await client.load()
        return client


class Reloaded(Protocol):
    """What is loaded whole, and again after ``reload_ms``; once if that is None."""

    @property
    def name(self) -> str: ...

    @property
    def reload_ms(self) -> int | None: ...


class WholeTable(ABC):
    """A client that holds all rows of a table and an index of them in memory."""

    def __init__(self, source: Reloaded) -> None:
        self._loaded = source
        self._index: Index | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Reads the table for the first time, and starts the periodic reloads."""
        await self.reload()
        if self._loaded.reload_ms is not None:
            self._reloading = asyncio.create_task(self._reload_for_ever(self._loaded.reload_ms / 1000))

    @abstractmethod
    async def reload(self) -> bool:
        """Reads the table again if it has changed. Returns False if it has not."""

    async def _reload_for_ever(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.reload()
            except Exception as error:
                _LOG.warning('table "%s" keeps the rows it has, reloading failed: %s', self._loaded.name, error)

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        index = self._index
        assert index is not None, "load comes first"
        return [index.rows(key) for key in keys]

    async def close(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reloading


class FileClient(WholeTable):
    """The client of a ``FileSource``."""

    def __init__(self, source: FileSource) -> None:
        super().__init__(source)
        self._source = source
        self._signature: Signature | None = None

    async def reload(self) -> bool:
        signature = await asyncio.to_thread(signature_of, self._source.path, self._source.format.access)
        if signature == self._signature:
            return False
        self._index = await asyncio.to_thread(_index_of, self._source, signature)
        self._signature = signature
        return True


class Index:
    """The rows of a table by lookup key; rows of one key are in the order of the table."""

    def __init__(self, table: pa.Table, request: Request) -> None:
        names = [name for name, _ in request.keys]
        table = _normal(table, names)
        numbered = table.select(names).append_column("", pa.array(np.arange(table.num_rows, dtype=np.int64)))
        grouped = numbered.group_by(names, use_threads=False).aggregate([("", "list")]).combine_chunks()
        lists = grouped.column("_list").combine_chunks()
        self._starts, self._positions = lists.offsets.to_numpy(), lists.values.to_numpy()
        keys = zip(*(_hashable(grouped.column(name).to_pylist()) for name in names), strict=True)
        self._groups = {key: number for number, key in enumerate(keys)}
        self._columns = [table.column(name).combine_chunks() for name, _ in request.columns]

    def rows(self, key: Key) -> list[Row]:
        """The rows of a key."""
        group = self._groups.get(tuple(_hashable(key)))
        if group is None:
            return []
        positions = self._positions[self._starts[group] : self._starts[group + 1]].tolist()
        return [tuple(column[p].as_py() for column in self._columns) for p in positions]


def _normal(table: pa.Table, names: list[str]) -> pa.Table:
    """Drops rows with a NULL key, which equals nothing, and replaces -0.0 by 0.0, which equals it."""
    valid = [pc.is_valid(table.column(name)) for name in names]
    table = table.filter(reduce(pc.and_, valid))
    for name in names:
        column = table.column(name)
        if pa.types.is_floating(column.type):
            table = table.set_column(table.column_names.index(name), name, pc.add(column, pa.scalar(0.0, column.type)))
    return table


def _hashable(values: Sequence[object]) -> Iterator[object]:
    """NaN equals NaN, in SQL: all of them are one object."""
    return (_NAN if value != value else value for value in values)


# --- loading --------------------------------------------------------------------------------------------------


def _index_of(source: FileSource, signature: Signature) -> Index:
    return Index(_loaded(source, signature), source.request)


def _loaded(source: FileSource, signature: Signature) -> pa.Table:
    """The columns that keys, answers and filters need, of all files."""
    batches = [batch for path, _ in signature for batch in _of_file(source, path)]
    return filtered(pa.Table.from_batches(batches, source.schema), source.request.filters, dict(source.columns))


def _of_file(source: FileSource, path: str) -> Iterator[pa.RecordBatch]:
    try:
        constants = _of_directories(path, source)
        tolerant = isinstance(source.format, RecordFormat) and source.format.tolerant
        for read, place in source.format.placed(path):
            batch = _with_years(read, dict(source.columns), None if tolerant else place)
            columns = (
                constants[field.name].take(pa.array(np.zeros(batch.num_rows, np.int64)))
                if field.name in constants
                else batch.column(field.name)
                for field in source.schema
            )
            yield pa.RecordBatch.from_arrays([*columns], schema=source.schema)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise ConnectorError(UNREADABLE, f'file "{path}" of table "{source.name}" cannot be read: {error}') from error


def _with_years(
    rows: pa.RecordBatch, kinds: Mapping[str, DataType], place: Callable[[int], str] | None
) -> pa.RecordBatch:
    """The rows, of which lookups answer with Python's values. ValueError for a time that it does not have, with the
    ``place`` of its row; without one such rows are left out.
    """
    for name, kind in kinds.items():
        wrong = rows_beyond(rows.column(name)) if name in rows.schema.names else []
        if wrong and place is not None:
            raise ValueError(f"{place(wrong[0])}: {_beyond(name, kind, rows.column(name), wrong[0])}")
        if wrong:
            rows = rows.take(pa.array(np.delete(np.arange(rows.num_rows), wrong)))
    return rows


def _beyond(name: str, kind: DataType, values: pa.Array, row: int) -> str:
    return f'column "{name}" of type {kind} {beyond(values, row)}, and lookups have {YEARS}'


def require_years(table: str, rows: pa.Table, kinds: Mapping[str, DataType]) -> None:
    """Raises ConnectorError SS583 for a time in the rows of a table that Python does not have."""
    for batch in rows.to_batches():
        for name, kind in kinds.items():
            wrong = rows_beyond(batch.column(name))
            if wrong:
                message = f'table "{table}" cannot be read: {_beyond(name, kind, batch.column(name), wrong[0])}'
                raise ConnectorError(UNREADABLE, message)


def _of_directories(path: str, source: FileSource) -> dict[str, pa.Array]:
    """The columns whose values are in directory names, each as an array of one value."""
    parts = (folder.partition("=") for folder in Path(path).parts[:-1] if "=" in folder)
    # Names are escaped as values are, and their case means nothing, as to Spark in streams.
    texts = {unquote(name).casefold(): None if text == NO_PARTITION else unquote(text) for name, _, text in parts}
    missing = [name for name in source.partitions if name.casefold() not in texts]
    if missing:
        raise ValueError(f'it lies in no directory "{missing[0]}=…"')
    return {
        name: _constant(name, texts[name.casefold()], kind, source.zone)
        for name, kind in source.columns
        if name in source.partitions
    }


def _constant(name: str, text: str | None, kind: DataType, zone: str) -> pa.Array:
    values, misfits = text_rule(kind, zone).read(pa.array([text], pa.string()))
    odd = kind.name == "BOOLEAN" and (text or "true").lower() not in ("true", "false")  # as for Spark, in streams
    if misfits[0] or odd:
        raise ValueError(f'column "{name}" of type {kind} is "{text}" in the name of its directory')
    if rows_beyond(values):
        raise ValueError(f"{_beyond(name, kind, values, 0)}: it is the name of its directory")
    return values


def signature_of(path: str, access: FileAccess = LOCAL) -> Signature:
    """Returns a pair of path and version (``version_of``) for each file at a path, in the order in which their rows are
    read. The result differs when a file changes. Hidden files (``_SUCCESS``, ``.crc``) are ignored.

    Raises ConnectorError SS583 if nothing exists at the path, or the file system refuses access.
    """
    try:
        return _signature_of(path, access)
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None) or path
        message = f'path "{str(name)[-100:]}" cannot be read on this worker: {reason_of(error)}'
        raise ConnectorError(UNREADABLE, message) from None


def as_of(path: str, access: FileAccess = LOCAL) -> str:
    """A text that identifies the state of the files of a path; a new one each time where they cannot be listed."""
    try:
        return sha256(repr(_signature_of(path, access)).encode(errors="surrogateescape")).hexdigest()
    except (OSError, ValueError, ConnectorError):
        return uuid.uuid4().hex


def _signature_of(path: str, access: FileAccess) -> Signature:
    if isinstance(access, StoreAccess):
        return tuple(access.versions(path))
    anchor = Path(path).anchor
    roots = Path(anchor).glob(path.removeprefix(anchor)) if glob.has_magic(path) else (Path(path),)
    files = [file for root in roots for file in _files(root)]
    if not glob.has_magic(path) and not Path(path).exists():
        raise ConnectorError(UNREADABLE, f'path "{path}" does not exist on this worker')
    stats = [(str(file), file.stat()) for file in dict.fromkeys(files)]
    ordered = sorted(stats, key=lambda f: (f[1].st_mtime_ns, f[0]))
    return tuple((name, version_of(status)) for name, status in ordered)


def _files(root: Path) -> Iterator[Path]:
    """The files at a path; of a sink's directory those that its log has, as all other readers take them."""
    logged = logged_paths(root)
    if logged is not None:
        yield from map(Path, logged)
        return
    if root.is_file():
        yield root
    for file in root.rglob("*") if root.is_dir() else ():
        inside = file.relative_to(root).parts
        if file.is_file() and not any(folder.startswith((".", "_")) for folder in inside):
            yield file


# --- filters --------------------------------------------------------------------------------------------------

COMPARED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE"})
"""Types whose comparisons mean the same to Arrow as to Spark."""


def filtered(table: pa.Table, filters: Sequence[Comparison], kinds: Mapping[str, DataType]) -> pa.Table:
    """The rows that all filters are true of. ``kinds``: the types of the columns."""
    if not filters:
        return table
    condition = And(tuple(_condition(comparison, kinds[comparison.column]) for comparison in filters))
    return table.filter(value(condition, {column: table.column(column.name) for column in condition.columns}))


def _condition(comparison: Comparison, kind: DataType) -> Expression:
    column = Column(comparison.column)
    match comparison.operator:
        case "IS NULL":
            return IsNull(column)
        case "IS NOT NULL":
            return Not(IsNull(column))
        case "IN":
            assert isinstance(comparison.value, tuple)
            return OneOf(column, comparison.value, kind)
    return Compared(CompareBy(comparison.operator), column, Constant(comparison.value, kind))


def keys_can_be(kind: DataType) -> bool:
    """True where rows can be looked up by values of the type."""
    return kind.name not in ("ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL")
