"""Files cut into ranges of bytes, each of which one micro-batch reads.

Spark gives a file whole to one micro-batch. Where micro-batches are bounded by bytes, Spark therefore does not list the
files of a table but small files in the checkpoint, one for each micro-batch, which name the ranges that it reads. Spark
logs them like any files, so a micro-batch that is repeated reads the same ranges. They are never changed once written,
and have numbers, so that a savepoint has those that its job has not read yet. Those of which no micro-batch is repeated
any more are removed: where the files of the table end in them is in one file, ``POSITIONS``.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Protocol
from urllib.parse import unquote

from sqlstream.connectors.connector import PATH_ERROR
from sqlstream.connectors.environment import Watch
from sqlstream.connectors.files.checks import walk
from sqlstream.connectors.files.tables import matching_paths, shown_path
from sqlstream.errors import ConnectorError
from sqlstream.paths import as_segment, flush_names
from sqlstream.udfs.files.directories import NO_PARTITION, is_url, path_of_url
from sqlstream.udfs.files.listed import RANGES, lines_of, newest_logged_file
from sqlstream.udfs.files.sink_log import logged_paths
from sqlstream.udfs.files.splits import BEGIN, END, FILE, LENGTH, MODIFIED, modified
from sqlstream.udfs.texts import is_text, json_of, reason_of

DIRECTORIES = "__directories"
"""MAP column of file ranges: the values of directories ``column=value``, as texts; NULL where it is the one of NULL."""

RANGES_DDL = (
    f"{FILE} STRING, {LENGTH} BIGINT, {MODIFIED} BIGINT, {BEGIN} BIGINT, {END} BIGINT, "
    f"{DIRECTORIES} MAP<STRING, STRING>"
)
"""The schema of the lines of JSON in a file of ranges."""

DEFAULT_BYTES = {
    **dict.fromkeys(("csv", "json", "text"), 512 << 20),
    **dict.fromkeys(("arrow", "avro"), 256 << 20),
    **dict.fromkeys(("orc", "parquet"), 128 << 20),
}
"""The bound of micro-batches by format, for tables that are given none and have more than this at the start: some two
to three million rows of 200 bytes, as files of the format hold them. Of Parquet only columns that the query reads
count, and ``MOST_ROWS``. With little memory it is less (``sqlstream.spark.java.share_of_micro_batches``)."""

MOST_ROWS = 5_000_000
"""So many rows of Parquet a micro-batch reads at most, for tables that are given no bound and have more bytes than the
default at the start."""

MOST_JOINED = 768 << 20
"""So many bytes a micro-batch reads at most, counted with those of the rows that its rows may be joined to, which
results of joins have again in each row. For the same tables, of text, too."""

POSITIONS = "positions"
"""The file beside the files of ranges that says in its first line how many of them were removed, and in lines like
theirs where the last range of each file ended in those."""

REMOVED = "removed"

_FIRST_SECOND = 1_000_000_000  # of the times of files of ranges, in which their order is Spark's


@dataclass(frozen=True)
class Unread:
    """A file of which the bytes from ``begin`` on are in no micro-batch yet. ``length`` and ``modified`` (microseconds
    since 1970) are those of the file when it was found.
    """

    path: str
    length: int
    modified: int
    begin: int = 0


@dataclass(frozen=True)
class Limits:
    """How much one micro-batch reads at most; None: as much as there is. ``divides`` says whether a file may be cut."""

    bytes: int | None
    files: int | None
    divides: Callable[[str], bool]

    def packed(self, files: Iterable[Unread]) -> Iterator[list[tuple[Unread, int]]]:
        """Packs files into micro-batches, in their order. Yields for each micro-batch the files with the end of the
        range that it reads. A file that cannot be cut is in one micro-batch, however large it is.
        """
        pack: list[tuple[Unread, int]] = []
        room = self.bytes
        for file in files:
            divides = room is not None and self.divides(file.path)
            while True:
                rest = file.length - file.begin
                no_room = room is not None and (room <= 0 or (not divides and rest > room))
                if pack and (no_room or len(pack) == self.files):
                    yield pack
                    pack, room = [], self.bytes
                end = file.length if room is None or not divides else min(file.length, file.begin + room)
                pack.append((file, end))
                room = None if room is None else room - (end - file.begin)
                if end >= file.length:
                    break
                file = replace(file, begin=end)
        if pack:
            yield pack


class Listed(Protocol):
    """An object of a store: its URL, its size in bytes, and its modification time in microseconds since 1970."""

    @property
    def url(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> int: ...


class Listing(Protocol):
    """Lists the objects at a path that count."""

    def listed(self, path: str, /) -> Sequence[Listed]:
        """Raises ConnectorError where the store does not answer."""


@dataclass
class FileRanges(Watch):
    """Finds the files at the ``path`` of a table, on this machine or in a ``store``, and writes which ranges of them
    each micro-batch reads, into ``folder``. ``partitions``: the columns that are directories. ``checkpoint``: what lies
    in it is no input. ``retained``: how many of the last micro-batches may be repeated; what earlier ones have read is
    removed from ``folder``, some micro-batches at a time.
    """

    folder: Path
    path: str
    limits: Limits
    interval_ms: int | None
    retained: int
    partitions: Sequence[str] = ()
    checkpoint: Path | None = None
    store: Listing | None = None
    _ends: dict[str, Unread] = field(default_factory=dict, init=False, repr=False)
    _first: int = field(default=0, init=False, repr=False)
    _next: int = field(default=0, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            for unfinished in (*self.folder.glob(".*.jsonl"), *self.folder.glob(f".{POSITIONS}")):
                unfinished.unlink()  # of a process that was killed: nobody has seen them
            self._first, self._ends = _removed(self.folder)
            self._next = self._first
            for number, file in _numbered(self.folder):
                if number < self._first:  # of a process that was killed while it removed them
                    file.unlink()
                    continue
                _set_time(file, number)  # a copy, as from a savepoint, has others
                self._ends |= _ends_in(lines_of(file))
                self._next = number + 1

    def look(self) -> None:
        """Looks for new files, and writes the ranges in which they are read, by the time and the name of files. Removes
        what no micro-batch reads again.

        ConnectorError SS508 where files cannot be listed, or the ranges not be written.
        """
        with self._lock:
            for pack in self.limits.packed(self._unread()):
                self._write(pack)
            self._remove_read()

    @property
    def micro_batches(self) -> int:
        """As many as there are files of ranges: those that were found up to the last look."""
        return self._next - self._first

    def _unread(self) -> Iterator[Unread]:
        begun = [file for file in self._ends.values() if file.begin < file.length]
        yield from begun  # where a process ended while it wrote
        with self._listing():
            new = self._new() if self.store is None else self._new_in(self.store)
        yield from sorted(new, key=lambda file: (file.modified, file.path))

    def _new(self) -> list[Unread]:
        return [file for path in self._listed() if (file := self._found(path)) is not None]

    def _new_in(self, store: Listing) -> list[Unread]:
        found = (Unread(o.url, o.size, o.modified) for o in store.listed(self.path) if is_text(o.url))
        return [file for file in found if file.path not in self._ends]

    def _listed(self) -> Iterator[str]:
        """The paths of the files that count, absolute: of a sink of files those that its log has."""
        roots = [*matching_paths(self.path)]
        logged = next((paths for root in roots if (paths := logged_paths(root)) is not None), None)
        yield from logged if logged is not None else (str(path.absolute()) for path in walk(roots).files)

    def _found(self, path: str) -> Unread | None:
        if path in self._ends or not is_text(path):
            return None
        if self.checkpoint is not None and Path(path).is_relative_to(self.checkpoint):
            return None
        with suppress(FileNotFoundError):  # gone again
            return Unread(path, Path(path).stat().st_size, modified(path))
        return None

    def _write(self, pack: Sequence[tuple[Unread, int]]) -> None:
        lines = [json.dumps(self._entry(file, end)) for file, end in pack]
        with self._writing():
            self._put(self.folder / f"{self.folder.name}-{self._next:09}.jsonl", lines, self._next)
        self._next += 1
        self._ends |= {file.path: replace(file, begin=end) for file, end in pack}

    def _put(self, target: Path, lines: Iterable[str], number: int) -> None:
        """Writes a file by one step of the file system."""
        hidden = target.with_name(f".{target.name}")
        with hidden.open("w", encoding="utf-8") as written:
            written.write("\n".join([*lines, ""]))
            written.flush()
            os.fsync(written.fileno())
        _set_time(hidden, number)
        hidden.rename(target)

    def _remove_read(self) -> None:
        """Removes the files of ranges that no micro-batch reads again, once they are as many as those that remain, so
        that ``POSITIONS`` is not written for each of them. A savepoint that is copied meanwhile has each range in one
        of both, because ``POSITIONS`` is there before files are removed, and copied after them.
        """
        if self._next - self._first <= 2 * self.retained:
            return
        newest = self._newest_read()
        # A micro-batch has begun, but may not be complete, when Spark logs what it reads.
        first = 0 if newest is None else newest - self.retained - 1
        if first - self._first < self.retained:
            return
        with self._writing():
            _, ends = _removed(self.folder)
            read = [(number, file) for number, file in _numbered(self.folder) if number < first]
            for _, file in read:
                ends |= _ends_in(lines_of(file))
            entries = [{REMOVED: first}, *map(_position, ends.values())]
            self._put(self.folder / POSITIONS, map(json.dumps, entries), first)
            flush_names(self.folder)  # no removal may come before what was renamed
            for _, file in read:
                file.unlink(missing_ok=True)
        self._first = first

    def _newest_read(self) -> int | None:
        """The number of the newest file of ranges that all of Spark's sources here have begun to read; None where it
        is not known.
        """
        if self.checkpoint is None:
            return None
        numbers, own = [], table_of_ranges(str(self.folder / "*.jsonl"))
        with suppress(OSError, ValueError, KeyError):  # Spark is replacing the file: it is read next time
            for source in (self.checkpoint / "spark" / "sources").glob("[0-9]*"):
                newest = newest_logged_file(source)
                if newest is not None and table_of_ranges(newest) == own:
                    numbers.append(_number(Path(newest)))
            return min(numbers, default=None)
        return None

    def _entry(self, file: Unread, end: int) -> dict[str, object]:
        return {
            FILE: _url(file.path),
            LENGTH: file.length,
            MODIFIED: file.modified,
            BEGIN: file.begin,
            END: end,
            DIRECTORIES: self._directories(file.path),
        }

    def _directories(self, path: str) -> dict[str, str | None]:
        return directories_of(path) if self.partitions else {}

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Turns errors of the file system into ConnectorError SS508, because files would be missed silently."""
        try:
            yield
        except OSError as error:
            message = f'path "{shown_path(str(error.filename or self.path))}" cannot be listed: {reason_of(error)}'
            hint = "Look at the permissions of the directories below the path of the table."
            raise ConnectorError(PATH_ERROR, message, hint=hint) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns errors of the file system into ConnectorError SS508."""
        try:
            yield
        except OSError as error:
            message = f'"{self.folder}" of the checkpoint cannot be written: {reason_of(error)}'
            hint = "Make room, or look at its permissions; then start the job again."
            raise ConnectorError(PATH_ERROR, message, hint=hint) from error


def directories_of(path: str) -> dict[str, str | None]:
    """The values of the directories ``column=value`` in the path of a file, as texts; None is the one of NULL."""
    pairs = (part.partition("=") for part in Path(path).parent.parts)
    named = {name: unquote(value) for name, equals, value in pairs if equals}
    return {name: None if value == NO_PARTITION else value for name, value in named.items()}


def _url(path: str) -> str:
    return path if is_url(path) else Path(path).as_uri()


def folder_of_ranges(checkpoint: Path, table: str, path: str) -> Path:
    """The folder in which a checkpoint has the ranges of the files at ``path`` of a table. Its name is unique among
    those of a table, which may have had another path.
    """
    return checkpoint / RANGES / as_segment(table) / f"{zlib.crc32(path.encode()):08x}"


def table_of_ranges(path: str) -> tuple[str, str] | None:
    """The table whose ranges a path in a checkpoint has, as a pair of its name and a hash of its own path; None for
    other paths.
    """
    *_, folder, table, hash_, name = ("", "", "", *Path(path).parts)
    return (unquote(table), hash_) if folder == RANGES and name.endswith(".jsonl") else None


def ranges_to_copy(checkpoint: Path) -> list[str]:
    """The files of ranges of a checkpoint, relative to it, in the order in which a savepoint copies them. A job that
    goes on meanwhile may remove some; what it had read of them is in ``POSITIONS``, which is copied after them, and
    which need not be there yet.
    """
    files = sorted(checkpoint.glob(f"{RANGES}/*/*/[!.]*.jsonl"))
    positions = sorted(folder / POSITIONS for folder in checkpoint.glob(f"{RANGES}/*/*"))
    return [str(file.relative_to(checkpoint)) for file in (*files, *positions)]


def _removed(folder: Path) -> tuple[int, dict[str, Unread]]:
    """How many files of ranges were removed, and where the files that they named end in them."""
    try:
        first, *lines = lines_of(folder / POSITIONS)
    except FileNotFoundError:
        return 0, {}
    return json_of(first)[REMOVED], _ends_in(lines)


def _ends_in(lines: Iterable[str]) -> dict[str, Unread]:
    """The files that lines of ranges name, with the end of the last range of each, by path."""
    entries = map(json_of, lines)
    files = (Unread(path_of_url(e[FILE]), e[LENGTH], e[MODIFIED], e[END]) for e in entries)
    return {file.path: file for file in files}


def _position(file: Unread) -> dict[str, object]:
    return {FILE: _url(file.path), LENGTH: file.length, MODIFIED: file.modified, END: file.begin}


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """The files of ranges in their order."""
    return sorted((_number(file), file) for file in folder.glob("[!.]*.jsonl"))


def _number(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def _set_time(file: Path, number: int) -> None:
    os.utime(file, (_FIRST_SECOND + number, _FIRST_SECOND + number))
