"""How readers open files: those of this machine by their paths, objects of stores by their URLs.

Readers of formats get a ``FileAccess`` and a path. ``sqlstream.connectors.stores`` has the accesses of object stores.
"""

from __future__ import annotations

import io
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, cast, overload

import pyarrow as pa

_CHUNK = 1 << 22
_KEPT = 4
"""Chunks of an object that are kept: readers go forward, and back by less than a block."""


class Bytes(Protocol):
    """The content of a file, of which readers take what they need."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int, /) -> int:
        """The first position from ``start`` at which ``sub`` begins; -1 where it does not."""


@dataclass(frozen=True)
class FileAccess:
    """Opens the files of this machine. Subclasses open objects of stores. Methods raise FileNotFoundError for a file
    that does not exist, OSError where it cannot be read.
    """

    is_local: ClassVar[bool] = True

    def opened(self, path: str) -> BinaryIO:
        """Opens a file to read it at any position."""
        return cast(BinaryIO, Path(path).open("rb", buffering=0))

    def streamed(self, path: str) -> str | pa.NativeFile:
        """What ``pyarrow.input_stream`` reads from the beginning to the end."""
        return path

    def columnar(self, path: str) -> pa.NativeFile:
        """Opens a file for Arrow's readers of columns."""
        return pa.memory_map(path) if self.size(path) else pa.BufferReader(b"")  # nothing cannot be mapped

    @contextmanager
    def content(self, path: str) -> Iterator[Bytes]:
        """A context manager for the bytes of a file."""
        with Path(path).open("rb") as file:
            if not self.size(path):
                yield b""
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return Path(path).stat().st_size

    def version(self, path: str) -> tuple[object, ...]:
        """Values that differ after a change of the file."""
        status = Path(path).stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


LOCAL = FileAccess()


class StoreAccess(FileAccess, ABC):
    """Opens objects of a store by their URLs."""

    is_local = False

    @abstractmethod
    def versions(self, path: str) -> Sequence[tuple[str, tuple[int, ...]]]:
        """The URL of each object at a path and values that differ after a change of it, in the order in which their
        rows are read. Raises FileNotFoundError where there is nothing.
        """

    @abstractmethod
    def is_skipped(self, path: str) -> bool:
        """True for an object that is gone and that the table may lack."""


class ObjectBytes:
    """The bytes of an object of ``size`` bytes, fetched in chunks when they are asked for. ``fetch`` returns so many
    bytes from a position on.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch = size, fetch
        self._chunks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, slice):
            start, stop, step = key.indices(self._size)
            assert step == 1, "bytes are taken in their order"
            return self.between(start, stop)
        if not 0 <= key < self._size:
            raise IndexError(key)
        return self._chunk(key // _CHUNK)[key % _CHUNK]

    def between(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` up to ``stop``, or up to the end of the object."""
        stop = min(stop, self._size)
        if start >= stop:
            return b""
        numbers = range(start // _CHUNK, (stop - 1) // _CHUNK + 1)
        if len(numbers) > _KEPT:
            return self._fetch(start, stop - start)
        joined = b"".join(map(self._chunk, numbers))
        first = numbers.start * _CHUNK
        return joined[start - first : stop - first]

    def find(self, sub: bytes, start: int, /) -> int:
        at = max(start, 0)
        while at < self._size:
            found = self.between(at, at + _CHUNK + len(sub)).find(sub)
            if found >= 0:
                return at + found
            at += _CHUNK
        return -1

    def _chunk(self, number: int) -> bytes:
        chunk = self._chunks.pop(number, None)
        if chunk is None:
            start = number * _CHUNK
            chunk = self._fetch(start, min(_CHUNK, self._size - start))
        self._chunks[number] = chunk  # the newest one is the last
        if len(self._chunks) > _KEPT:
            del self._chunks[next(iter(self._chunks))]
        return chunk


class ObjectFile(io.RawIOBase):
    """``ObjectBytes`` as an open file. ``close``: what is called when it is closed."""

    def __init__(self, content: ObjectBytes, close: Callable[[], object] = lambda: None) -> None:
        self._content, self._close, self._position = content, close, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._content)}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def read(self, size: int = -1) -> bytes:
        stop = len(self._content) if size < 0 else self._position + size
        data = self._content.between(self._position, stop)
        self._position += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()
