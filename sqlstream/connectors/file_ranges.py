"""Files cut into ranges of bytes, each of which one micro-batch reads.

Spark gives a file whole to one micro-batch. Where micro-batches are bounded by bytes, Spark therefore does not list the
files of a table but small files in the checkpoint, one for each micro-batch, which name the ranges that it reads. Spark
logs them like any files, so a micro-batch that is repeated reads the same ranges. They are never changed once written,
and have numbers, so that a savepoint has those that its job has not read yet.
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
from urllib.parse import unquote

from sqlstream.connectors.connector import PATH_ERROR, Watch
from sqlstream.connectors.file_checks import walk
from sqlstream.connectors.file_sink import LOG, logged_lines
from sqlstream.connectors.file_tables import matching_paths, shown_path
from sqlstream.errors import ConnectorError
from sqlstream.paths import as_segment
from sqlstream.udfs.directories import NO_PARTITION
from sqlstream.udfs.file_splits import BEGIN, END, FILE, LENGTH, MODIFIED, modified
from sqlstream.udfs.listed_files import RANGES, path_of_url
from sqlstream.udfs.texts import is_text, json_of, reason_of

DIRECTORIES = "__directories"
"""MAP column of file ranges: the values of directories ``column=value``, as texts; NULL where it is the one of NULL."""

RANGES_DDL = (
    f"{FILE} STRING, {LENGTH} BIGINT, {MODIFIED} BIGINT, {BEGIN} BIGINT, {END} BIGINT, "
    f"{DIRECTORIES} MAP<STRING, STRING>"
)
"""The schema of the lines of JSON in a file of ranges."""

DEFAULT_BYTES = 512 << 20
"""The bound of micro-batches of text for tables that have none and more than this at the start."""

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


@dataclass
class FileRanges(Watch):
    """Finds the files at the local ``path`` of a table and writes which ranges of them each micro-batch reads, into
    ``folder``. ``partitions``: the columns that are directories. ``checkpoint``: what lies in it is no input.
    """

    folder: Path
    path: str
    limits: Limits
    interval_ms: int | None
    partitions: Sequence[str] = ()
    checkpoint: Path | None = None
    _ends: dict[str, Unread] = field(default_factory=dict, init=False, repr=False)
    _next: int = field(default=0, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            for unfinished in self.folder.glob(".*.jsonl"):  # of a process that was killed: Spark has not seen them
                unfinished.unlink()
            for number, file in sorted((_number(file), file) for file in self.folder.glob("[!.]*.jsonl")):
                _set_time(file, number)  # a copy, as from a savepoint, has others
                for line in file.read_text(encoding="utf-8").splitlines():
                    entry = json_of(line)
                    path = path_of_url(entry[FILE])
                    self._ends[path] = Unread(path, entry[LENGTH], entry[MODIFIED], entry[END])
                self._next = number + 1

    def look(self) -> None:
        """Looks for new files, and writes the ranges in which they are read, by the time and the name of files.

        ConnectorError SS508 where files cannot be listed, or the ranges not be written.
        """
        with self._lock:
            for pack in self.limits.packed(self._unread()):
                self._write(pack)

    def _unread(self) -> Iterator[Unread]:
        begun = [file for file in self._ends.values() if file.begin < file.length]
        yield from begun  # where a process ended while it wrote
        with self._listing():
            new = [file for path in self._listed() if (file := self._found(path)) is not None]
        yield from sorted(new, key=lambda file: (file.modified, file.path))

    def _listed(self) -> Iterator[str]:
        """The paths of the files that count, absolute: of a sink of files those that its log has."""
        roots = [*matching_paths(self.path)]
        logged = next((root for root in roots if (root / LOG).is_dir()), None)
        if logged is not None:
            yield from (path_of_url(json_of(line)["path"]) for line in logged_lines(logged))
        else:
            yield from (str(path.absolute()) for path in walk(roots).files)

    def _found(self, path: str) -> Unread | None:
        if path in self._ends or not is_text(path):
            return None
        if self.checkpoint is not None and Path(path).is_relative_to(self.checkpoint):
            return None
        with suppress(FileNotFoundError):  # gone again
            return Unread(path, Path(path).stat().st_size, modified(path))
        return None

    def _write(self, pack: Sequence[tuple[Unread, int]]) -> None:
        lines = [json.dumps(self._entry(file, end), ensure_ascii=False) for file, end in pack]
        target = self.folder / f"{self.folder.name}-{self._next:09}.jsonl"
        hidden = target.with_name(f".{target.name}")
        with self._writing():
            with hidden.open("w", encoding="utf-8") as written:
                written.write("\n".join([*lines, ""]))
                written.flush()
                os.fsync(written.fileno())
            _set_time(hidden, self._next)
            hidden.rename(target)
        self._next += 1
        self._ends |= {file.path: replace(file, begin=end) for file, end in pack}

    def _entry(self, file: Unread, end: int) -> dict[str, object]:
        return {
            FILE: Path(file.path).as_uri(),
            LENGTH: file.length,
            MODIFIED: file.modified,
            BEGIN: file.begin,
            END: end,
            DIRECTORIES: self._directories(file.path),
        }

    def _directories(self, path: str) -> dict[str, str | None]:
        if not self.partitions:
            return {}
        pairs = (part.partition("=") for part in Path(path).parent.parts)
        named = {name: unquote(value) for name, equals, value in pairs if equals}
        return {name: None if value == NO_PARTITION else value for name, value in named.items()}

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


def folder_of_ranges(checkpoint: Path, table: str, path: str) -> Path:
    """The folder in which a checkpoint has the ranges of the files at ``path`` of a table. Its name is unique among
    those of a table, which may have had another path.
    """
    return checkpoint / RANGES / as_segment(table) / f"{zlib.crc32(path.encode()):08x}"


def _number(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def _set_time(file: Path, number: int) -> None:
    os.utime(file, (_FIRST_SECOND + number, _FIRST_SECOND + number))
