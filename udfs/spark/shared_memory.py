"""Memory that the Python processes of tasks share, for what the store of Spark has too: it may be lost at any time.

Spark gives the tasks of an operator to whatever process is idle, so what one of them keeps is mostly wanted in another.
The process that forks them (``daemon.py``) makes the memory before it does, and the system takes it back when the last
of them has ended, however that happens. Only pages that are written become memory.

Contents are found by a *stamp*, a random number that is never used again; the store has the stamp of what it holds. So
nobody needs to know which job, task or attempt has kept something: where the stamps agree, the contents do.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1 << 14
"""Memory is given out in blocks of so many bytes. A value may be in any of them, in pieces."""

SLOTS = 4096
"""The most contents, each the state of one key group of an operator."""

_SMALL = 1 << 11
"""Shorter values are in the directory of their contents."""

_PIECES = 96
"""The most blocks of a directory."""

_SECONDS_UNUSED = 60.0
"""Contents that nobody has looked for in this time make room for others. Younger ones do not: where all of a state does
not fit, a part of it stays, while each would always have gone just before it is wanted."""

_SLOT = np.dtype([
    ("stamp", "i8"), ("version", "i8"), ("used", "f8"), ("writer", "i8"), ("length", "i8"), ("pieces", "i4", _PIECES),
])  # fmt: skip
"""``stamp``: 0 for none. ``version``: counts all changes. ``writer``: the process that is changing the slot, 0 for
none. ``length`` and ``pieces``: the directory, which is pickled: where each value is."""

_OF_A_KEY, _OF_A_PLACE = 40, 5
"""About the bytes of a directory for a key, and for each block of its value."""

_MOST_BYTES = 64 << 30

Key = Any


@dataclass(frozen=True)
class Found:
    """Contents that were found. ``directory``: for each key that is known, its value where that is short, None where
    the store has no such key, or else the length of the value and its blocks."""

    slot: int
    version: int
    directory: Mapping[Key, bytes | tuple[int, Sequence[int]] | None]

    @property
    def size(self) -> int:
        """The bytes of all values."""
        places = (place for place in self.directory.values() if place is not None)
        return sum(place[0] if isinstance(place, tuple) else len(place) for place in places)


class SharedMemory:
    """Contents by stamp. Forks of the process that made it share it; ``size`` is in bytes.

    A process takes a slot and gives it back under a lock of the system, which ends with the process that holds it.
    Between the two it writes values into blocks that are the slot's, without the lock. ``writer`` is the first field of
    a slot that is written and the last that is cleared, so that whatever a process that is killed has begun is found
    and cleared; ``stamp`` is written when all else is. Who reads blocks meanwhile sees another ``version`` then.
    """

    def __init__(self, size: int) -> None:
        blocks = max(size // BLOCK, 1)
        header = SLOTS * _SLOT.itemsize + 2 * blocks
        self._first = -(-header // BLOCK) * BLOCK
        self._memory = mmap.mmap(-1, self._first + blocks * BLOCK)
        self._slots = np.frombuffer(self._memory, _SLOT, SLOTS)
        self._owners = np.frombuffer(self._memory, np.uint16, blocks, SLOTS * _SLOT.itemsize)
        self._lock, name = tempfile.mkstemp(prefix="sqlstream-lock-")
        Path(name).unlink()
        weakref.finalize(self, os.close, self._lock)

    @property
    def used(self) -> int:
        """The bytes of all blocks that are in use."""
        return int(np.count_nonzero(self._owners)) * BLOCK

    def find(self, stamp: int) -> Found | None:
        """The contents with this stamp; None if there are none."""
        with self._locked():
            slots = np.flatnonzero(self._slots["stamp"] == stamp)
            if not len(slots):
                return None
            slot = int(slots[0])
            entry = self._slots[slot]
            entry["used"], version = time.monotonic(), int(entry["version"])
            data = self._read(int(entry["length"]), self._pieces(slot))
        return Found(slot, version, pickle.loads(data))

    def read(self, found: Found, keys: Sequence[Key]) -> list[bytes | None] | None:
        """The values of keys of the directory. None if the contents have been changed since they were found."""
        values: list[bytes | None] = []
        for key in keys:
            place = found.directory[key]
            values.append(self._read(*place) if isinstance(place, tuple) else place)
        with self._locked():
            return values if self._slots[found.slot]["version"] == found.version else None

    def keep(self, found: Found | None, stamp: int, values: Mapping[Key, bytes | None], most_bytes: int) -> None:
        """Keeps ``values``, where None says that there is no such key, under a stamp, together with what was ``found``
        of the contents before, which are no longer found under theirs. What does not fit into ``most_bytes`` of memory,
        all contents together, is forgotten.
        """
        with self._locked():
            if found is not None and self._slots["version"][found.slot] != found.version:
                found = None
            slot = self._free_slot() if found is None else found.slot
            if slot is None:
                return
            self._begin(slot)
            begun = int(self._slots["version"][slot])
        directory = {} if found is None else dict(found.directory)
        replaced = [block for key in values.keys() & directory.keys() for block in _blocks(directory.pop(key))]
        large = {key: value for key, value in values.items() if value is not None and len(value) >= _SMALL}
        directory.update((key, value) for key, value in values.items() if key not in large)
        try:
            with self._locked():
                self._owners[[*replaced, *self._pieces(slot)]] = 0
                self._slots[slot]["length"] = 0
                wanted = sum(_count(len(value)) for value in large.values())
                short = sum(len(value) for value in directory.values() if isinstance(value, bytes))
                for_directory = 1 + (short + _OF_A_KEY * (len(directory) + len(large)) + _OF_A_PLACE * wanted) // BLOCK
                room = self._room(wanted + for_directory, most_bytes)
                given = _given(large, room[for_directory:])
                self._owners[[block for blocks in given.values() for block in blocks]] = slot + 1
            for key, blocks in given.items():
                self._write(large[key], blocks)
                directory[key] = len(large[key]), blocks
            data = pickle.dumps(directory, pickle.HIGHEST_PROTOCOL)
            with self._locked():
                pieces = self._room(_count(len(data)), most_bytes)
                self._owners[pieces] = slot + 1
                if not _count(len(data)) <= min(len(pieces), _PIECES):
                    self._clear(slot)
                    return
                self._write(data, pieces)
                self._publish(slot, stamp, len(data), pieces)
        except BaseException:
            with self._locked():
                if self._slots["version"][slot] == begun and self._slots["writer"][slot] == os.getpid():
                    self._clear(slot)
            raise

    def forget(self, found: Found) -> None:
        """Frees the memory of contents, unless they have been changed since they were found."""
        with self._locked():
            if self._slots["version"][found.slot] == found.version:
                self._clear(found.slot)

    # --- slots, under the lock ----------------------------------------------------------------------------------

    def _free_slot(self) -> int | None:
        slots = self._slots
        for again in (True, False):
            free = np.flatnonzero((slots["stamp"] == 0) & (slots["writer"] == 0))
            if len(free):
                return int(free[0])
            if again:
                self._clear_unused()
        return None

    def _begin(self, slot: int) -> None:
        """Takes a slot for this process to write: until it has a stamp again, nobody else reads or clears it."""
        entry = self._slots[slot]
        entry["writer"] = os.getpid()
        entry["version"] += 1
        entry["stamp"] = 0

    def _publish(self, slot: int, stamp: int, length: int, pieces: Sequence[int]) -> None:
        entry = self._slots[slot]
        entry["pieces"][: len(pieces)] = pieces
        entry["length"], entry["used"] = length, time.monotonic()
        entry["stamp"] = stamp
        entry["writer"] = 0

    def _clear(self, slot: int) -> None:
        entry = self._slots[slot]
        entry["writer"] = os.getpid()
        entry["version"] += 1
        entry["stamp"], entry["length"] = 0, 0
        self._owners[self._owners == slot + 1] = 0
        entry["writer"] = 0

    def _clear_unused(self) -> None:
        """Clears what nobody has looked for, and what processes have left that ended while they wrote."""
        slots, before = self._slots, time.monotonic() - _SECONDS_UNUSED
        for slot in np.flatnonzero((slots["stamp"] != 0) & (slots["used"] < before)).tolist():
            self._clear(slot)
        for slot in np.flatnonzero(slots["writer"]).tolist():
            if not _is_alive(int(slots["writer"][slot])):
                self._clear(slot)

    def _pieces(self, slot: int) -> list[int]:
        entry = self._slots[slot]
        pieces: list[int] = entry["pieces"][: _count(int(entry["length"]))].tolist()
        return pieces

    # --- blocks -------------------------------------------------------------------------------------------------

    def _room(self, count: int, most_bytes: int) -> list[int]:
        """Up to ``count`` free blocks of the first ``most_bytes``, under the lock; they are likely memory already."""
        owners = self._owners[: most_bytes // BLOCK]
        free = np.flatnonzero(owners == 0)
        if len(free) < count:
            self._clear_unused()
            free = np.flatnonzero(owners == 0)
        blocks: list[int] = free[:count].tolist()
        return blocks

    def _read(self, length: int, blocks: Sequence[int]) -> bytes:
        parts = [self._memory[begin : min(end, begin + length)] for begin, end, length in self._runs(length, blocks)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _write(self, value: bytes, blocks: Sequence[int]) -> None:
        for begin, end, left in self._runs(len(value), blocks):
            place = len(value) - left
            self._memory[begin : min(end, begin + left)] = value[place : place + end - begin]

    def _runs(self, length: int, blocks: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """The parts of memory in which a value of this length is: where each begins and ends, and how much of the value
        is left there. Blocks that follow each other are one part."""
        first = 0
        for i in range(1, len(blocks) + 1):
            if i == len(blocks) or blocks[i] != blocks[i - 1] + 1:
                begin = self._first + blocks[first] * BLOCK
                yield begin, begin + (i - first) * BLOCK, length - first * BLOCK
                first = i

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from fcntl import LOCK_EX, LOCK_UN, lockf  # Windows lacks it, where no process forks and shares memory

        lockf(self._lock, LOCK_EX)
        try:
            yield
        finally:
            lockf(self._lock, LOCK_UN)


def _given(values: Mapping[Key, bytes], blocks: Sequence[int]) -> dict[Key, Sequence[int]]:
    """The blocks of each value, as far as they last."""
    given: dict[Key, Sequence[int]] = {}
    begin = 0
    for key, value in values.items():
        end = begin + _count(len(value))
        if end <= len(blocks):
            given[key] = blocks[begin:end]
            begin = end
    return given


def _blocks(place: bytes | tuple[int, Sequence[int]] | None) -> Sequence[int]:
    return place[1] if isinstance(place, tuple) else ()


def _count(length: int) -> int:
    """The blocks that so many bytes take."""
    return -(-length // BLOCK)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


# --- what the process of all workers has made -----------------------------------------------------------------

_shared: SharedMemory | None = None


def share_memory() -> None:
    """Makes the memory of this process and its forks: a quarter of the machine's as addresses, of which as much is
    used as jobs say (``state.memory``). Where the system does not give it, there is none.
    """
    global _shared
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
        _shared = SharedMemory(min(size, _MOST_BYTES))
    except Exception:  # jobs are slower without, and the daemon must not end
        _shared = None


def shared_memory() -> SharedMemory | None:
    """The memory that the process made from which this one is forked; None if it did not make any."""
    return _shared
