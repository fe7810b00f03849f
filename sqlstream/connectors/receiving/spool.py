"""A spool: messages that were received, on disk until the micro-batch that reads them is complete.

Messages are stored before their sender learns that they are. The position of a micro-batch is the number of a message,
so one that is repeated reads the same messages, and a job that goes on reads the next one. With the messages a spool
keeps where their receiver stands (its cursor), and the newest of the names that senders have given them.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, NamedTuple
from uuid import uuid4

import pyarrow as pa

from sqlstream.errors import ConnectorError
from sqlstream.paths import flush_names, whole_file
from sqlstream.udfs.spool import (
    MESSAGES,
    RECEIVED,
    SUFFIX,
    SpoolRange,
    damaged,
    frame_at,
    frame_of,
    is_cut_off,
    lost,
    messages_in,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

IN_USE = "SS663"

_FILE_BYTES = 16 << 20
_LOCK = "lock"
_PATIENCE_SECONDS = 30.0
"""A process that was killed needs some time to end, and so may its child that receives."""


class Message(NamedTuple):
    """A message for a spool; the fields are those of ``udfs.spool.MESSAGES``."""

    value: bytes
    id: str | None = None
    subject: str | None = None
    headers: Mapping[str, str] | None = None


@dataclass
class _File:
    """A file of a spool, from message number ``first`` to before ``end``. ``numbers``: the first message of each frame,
    ``begins``: the byte at which it begins.
    """

    path: Path
    first: int
    end: int
    size: int
    numbers: array[int] = field(default_factory=lambda: array("q"))
    begins: array[int] = field(default_factory=lambda: array("q"))

    def add(self, rows: int, size: int) -> None:
        self.numbers.append(self.end)
        self.begins.append(self.size)
        self.end += rows
        self.size += size

    def frame_of(self, number: int) -> int:
        """The index of the frame that holds a message."""
        return bisect_right(self.numbers, number) - 1

    def bytes_from(self, number: int) -> int:
        """About how many bytes the messages from this number on have."""
        if number >= self.end:
            return 0
        return self.size if number <= self.first else self.size - self.begins[self.frame_of(number)]

    def range(self, number: int, end: int) -> SpoolRange:
        """The messages from ``number`` to before ``end``, of which at least one is here."""
        number, end = max(number, self.first), min(end, self.end)
        first, last = self.frame_of(number), self.frame_of(end - 1)
        until = self.begins[last + 1] if last + 1 < len(self.begins) else self.size
        skip = number - self.numbers[first]
        return SpoolRange(str(self.path), self.begins[first], until, skip, number, end - number)


class Spool:
    """A folder of messages, which one process has open at a time.

    ``remembered``: of so many messages the spool knows their ``id`` after they were read and removed.
    ``waiting_bytes``: about how many bytes of messages are not read yet. ConnectorError SS663 where another process
    has the folder open, SS662 where a file of it is damaged.
    """

    def __init__(self, folder: Path, remembered: int = 0, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._open = ExitStack()
        self._lock = Lock()
        self._recent: dict[str, None] = {}
        self._remembered = remembered
        self.cursor: str | None = None
        self.id = ""
        self._owned = self._open.enter_context((folder / _LOCK).open("ab"))
        try:
            self._own(patience_seconds)
            self._files = [self._scanned(path) for path in sorted(folder.glob(f"[!.]*{SUFFIX}"))]
            if not self._files:
                self.id = uuid4().hex
                self._begin_file(0)
            self.waiting_bytes = sum(file.size for file in self._files)
            self._content = self._opened(self._files[-1])
        except BaseException:
            self._open.close()
            raise

    @property
    def first(self) -> int:
        """The number of the oldest message that is kept."""
        return self._files[0].first

    @property
    def end(self) -> int:
        """The number of the next message to come."""
        with self._lock:
            return self._files[-1].end

    def knows(self, id: str) -> bool:  # noqa: A002 - the field of a message
        """True where a message of this ``id`` is among the newest that were stored."""
        return id in self._recent

    def append(self, messages: Sequence[Message], cursor: str | None = None) -> None:
        """Stores messages, which are on disk when this returns, and where their receiver stands. OSError where there is
        no place for them; nothing is stored then.
        """
        note = b"" if cursor is None else json.dumps({"cursor": cursor}).encode()
        frame = frame_of(_batch(messages), note)
        file = self._files[-1]
        try:
            _write(self._content, frame)
        except OSError:
            os.ftruncate(self._content.fileno(), file.size)
            os.lseek(self._content.fileno(), file.size, os.SEEK_SET)
            raise
        with self._lock:
            file.add(len(messages), len(frame))
            self.waiting_bytes += len(frame)
            self.cursor = self.cursor if cursor is None else cursor
            self._remember(message.id for message in messages)
        if file.size > _FILE_BYTES:
            with suppress(OSError):  # what is to be stored is; the next call tries again
                self._begin_file(file.end)
                opened = self._opened(self._files[-1])
                self._content.close()
                self._content = opened

    def ranges(self, begin: int, end: int) -> list[SpoolRange]:
        """Where the messages from number ``begin`` to before ``end`` are. ConnectorError SS662 where some are gone."""
        with self._lock:
            files = list(self._files)
        if begin < files[0].first or end > files[-1].end:
            kept = f"{files[0].first} to {files[-1].end}"
            raise lost(f'messages {begin} to {end} are not in "{self._folder}", which has {kept}')
        return [file.range(begin, end) for file in files if file.first < end and begin < file.end]

    def remove(self, before: int) -> None:
        """Removes files all of whose messages have smaller numbers: they are never asked for again."""
        with self._lock:
            gone = [file for file in self._files[:-1] if file.end <= before]
            self._files = self._files[len(gone) :]
            self.waiting_bytes = sum(file.bytes_from(before) for file in self._files)
        for file in gone:
            file.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is stored any more; what was stays."""
        with suppress(AttributeError):
            self._content.close()
        self._open.close()

    # --- files --------------------------------------------------------------------------------------------------

    def _own(self, seconds: float) -> None:
        if not _waited_for(lambda: _locked(self._owned), seconds):
            message = f'another process has the messages in "{self._folder}" open'
            hint = "Stop the other job, or wait until a process that was killed has ended."
            raise ConnectorError(IN_USE, message, hint=hint)

    def _begin_file(self, first: int) -> None:
        path = self._folder / f"{first:020d}{SUFFIX}"
        note = {"spool": self.id, "cursor": self.cursor, "recent": list(self._recent)}
        frame = frame_of(None, json.dumps(note).encode())
        with whole_file(path) as file:
            file.write(frame)
        flush_names(self._folder)
        opened = _File(path, first, first, 0)
        opened.add(0, len(frame))
        with self._lock:
            self._files = [*getattr(self, "_files", []), opened]

    def _opened(self, file: _File) -> IO[bytes]:
        content = file.path.open("r+b", buffering=0)
        content.seek(file.size)
        return content

    def _scanned(self, path: Path) -> _File:
        """Reads which frames a file has, and what they say of the spool. Of the newest file an end that was cut off is
        removed: nobody was told that it is stored.
        """
        data = memoryview(path.read_bytes())
        first = int(path.name.removesuffix(SUFFIX))
        file = _File(path, first, first, 0)
        while file.size < len(data):
            frame = frame_at(data, file.size)
            if frame is None:
                break
            self._heed(json.loads(frame.note) if frame.note else {})
            if frame.rows and self._remembered:
                self._remember(messages_in(frame).column("id").to_pylist())
            file.add(frame.rows, frame.size)
        if file.size < len(data) or not file.size:
            is_newest = not any(other.name > path.name for other in self._folder.glob(f"[!.]*{SUFFIX}"))
            if not is_newest or not file.size or not is_cut_off(data, file.size):
                raise damaged(path, file.size)
            with path.open("r+b") as content:
                content.truncate(file.size)
                os.fsync(content.fileno())
        return file

    def _heed(self, note: Mapping[str, object]) -> None:
        if "spool" in note:
            self.id = str(note["spool"])
            recent = note["recent"]
            assert isinstance(recent, list)
            self._remember(recent)
        if (cursor := note.get("cursor")) is not None:
            self.cursor = str(cursor)

    def _remember(self, ids: Iterator[str | None] | Sequence[str | None]) -> None:
        if not self._remembered:
            return
        self._recent.update(dict.fromkeys(id_ for id_ in ids if id_ is not None))
        while len(self._recent) > self._remembered:
            del self._recent[next(iter(self._recent))]


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    values, ids, subjects, headers = zip(*messages, strict=True) if messages else ((), (), (), ())
    now = time.time_ns() // 1000
    arrays = [
        pa.array(values, pa.binary()),
        pa.array(ids, pa.string()),
        pa.array(subjects, pa.string()),
        pa.array([None if h is None else list(h.items()) for h in headers], MESSAGES.field("headers").type),
        pa.array([now] * len(messages), MESSAGES.field("received").type),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _write(content: IO[bytes], frame: bytes) -> None:
    left = memoryview(frame)
    while left:
        left = left[content.write(left) :]
    os.fdatasync(content.fileno())


def _locked(file: IO[bytes]) -> bool:
    if os.name != "posix":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _waited_for(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# --- savepoints -------------------------------------------------------------------------------------------------


def are_closed(checkpoint: Path, seconds: float = _PATIENCE_SECONDS) -> bool:
    """Waits until no process has spools of a job open, so that nothing is added to them and no sender is told so.
    ``checkpoint``: the folder of the job, whose query was stopped.
    """

    def closed(path: Path) -> bool:
        with path.open("ab") as file:
            return _locked(file)

    return all(_waited_for(partial(closed, path), seconds) for path in checkpoint.glob(f"{RECEIVED}/*/{_LOCK}"))


def spools_to_copy(checkpoint: Path) -> list[str]:
    """The files of a job's spools, relative to its folder ``checkpoint``."""
    return [str(file.relative_to(checkpoint)) for file in sorted(checkpoint.glob(f"{RECEIVED}/*/[!.]*{SUFFIX}"))]
