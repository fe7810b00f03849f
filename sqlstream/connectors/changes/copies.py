"""The rows that a table has when a job begins, copied in parts by key into files of the checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple
from uuid import uuid4

from sqlstream.connectors.changes.positions import CopiedFile, Position

COPIED = "rows-"
"""The names of all copied files begin with it."""

Key = tuple[str, ...]
"""The values of a key, as texts."""


class _Part(NamedTuple):
    """``until``: the key of its last row; None for the last part."""

    files: tuple[CopiedFile, ...]
    until: Key | None


class TableCopier(ABC):
    """Copies a table into files, all of it in one snapshot. The next part is copied while the last one is read.

    ``snapshot``: how the server calls the snapshot; ``unseen``: it holds nothing of what was committed at or behind
    this place of the log. Files have names that begin with ``prefix``, which no other copier has: one of a process
    that was killed a moment ago may still write a part of the same number, of another snapshot.
    """

    def __init__(self, snapshot: str, unseen: int) -> None:
        self.snapshot, self.unseen = snapshot, unseen
        self.prefix = f"{COPIED}{uuid4().hex}"
        self._worker = ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[_Part]] | None = None

    def next(self, position: Position) -> Position:
        """The position behind the next part, which is in files now."""
        chunk, after = position.chunk, position.after
        assert chunk is not None, "the rows that were there are all read"
        if self._ahead is not None and self._ahead[0] == chunk:
            part = self._ahead[1].result()
        else:
            part = self._copied(chunk, after)
        following = position.copied(part.files, part.until, self.snapshot, self.unseen)
        if part.until is None:
            self.close()
        else:
            self._ahead = (chunk + 1, self._worker.submit(self._copied, chunk + 1, part.until))
        return following

    def _copied(self, chunk: int, after: Key | None) -> _Part:
        until = self.bound(after)
        return _Part(self.write(chunk, after, until), until)

    def close(self) -> None:
        """Ends the snapshot."""
        self._worker.shutdown()
        self.disconnect()

    @abstractmethod
    def bound(self, after: Key | None) -> Key | None:
        """The key of the last row of the part behind ``after``; None if all rows behind it are one part."""

    @abstractmethod
    def write(self, chunk: int, after: Key | None, until: Key | None) -> tuple[CopiedFile, ...]:
        """Copies the rows with keys behind ``after`` and up to ``until`` into files, whose names have the ``chunk``."""

    @abstractmethod
    def disconnect(self) -> None:
        """Ends the connection of the snapshot."""
