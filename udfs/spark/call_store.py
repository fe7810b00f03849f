"""The state of a kernel for one key group during one call: what it reads of Spark's state, and changes at its end.

What is read and written is also kept in memory that all workers of this machine share, so that the next micro-batch
does not ask Spark for it: Spark would copy, pickle and send each entry, of which a micro-batch of few rows needs many.
An entry of the state, the *stamp*, says which of the contents kept there are those of the store. Spark remains the
truth: behind a failure, a restart, on another machine or in a second attempt of a task the store has another stamp, and
all is read from it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlstream.udfs.kernel import StateKey
from sqlstream.udfs.spark.shared_memory import Found, SharedMemory
from sqlstream.udfs.spark.state_server import Entries

STAMP: StateKey = ("", -1)
"""The key of the stamp. Those of the adapter's own entries are from ("", 0) on."""

T = TypeVar("T")

_LOG = logging.getLogger("sqlstream.state")
_STAMP_BYTES = 8

_MUCH = 1 << 20
"""Bytes that a call with few rows does not write."""


@dataclass(frozen=True)
class Keeping:
    """Where entries are kept between calls: in up to ``most_bytes`` of ``memory``, for all operators of all jobs."""

    memory: SharedMemory
    most_bytes: int


class CallStore:
    """The ``Store`` of a kernel for one key group during one call. Each entry is read at most once and written at most
    once.

    ``expected``: keys to read from Spark with the first request. The first keys of a call are a good guess for the next
    key group (``StageStore.began_with``) that is not kept.
    """

    def __init__(self, entries: Entries, expected: Sequence[StateKey] = (), keeping: Keeping | None = None) -> None:
        self._entries = entries
        self._expected = tuple(expected)
        self._keeping = keeping
        self._stamp: int | None = None
        self._found: Found | None = None
        self._known: dict[StateKey, bytes | None] = {}
        self._read: dict[StateKey, bytes | None] = {}
        self._written: dict[StateKey, bytes | None] = {}

    @property
    def is_kept(self) -> bool:
        """True if memory has contents of the store, once something has been read."""
        return self._found is not None

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        """The values of ``keys``, including changes made by this call; None for keys that do not exist."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if missing:
            missing = self._recalled(missing)
        if missing:
            self._ask(missing)
        return [self._known[key] for key in keys]

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        """Changes entries in memory; ``flush`` writes them."""
        self._known.update(entries)
        self._written.update(entries)

    def flush(self, deleted_timer: int | None, timer: int | None) -> None:
        """Ends the call: writes all changes to Spark's state, deletes the timer ``deleted_timer`` and registers
        ``timer`` (both in Spark's milliseconds, None for none), in one exchange with the state server.
        """
        kept = [(key, value) for key, value in self._written.items() if value is not None]
        removed = [key for key, value in self._written.items() if value is None]
        if self._written:
            # Also where nothing is kept: what others keep must not be found any more.
            stamp = os.urandom(_STAMP_BYTES)
            kept.append((STAMP, stamp))
            self._stamp = _number(stamp)
        if kept or removed or deleted_timer is not None or timer is not None:
            self._entries.write(kept, removed, deleted_timer, timer)
        if self._stamp:
            self._from_memory(self._keep)
        for entries in (self._known, self._read, self._written):
            entries.clear()  # results of the call, which may be large, are still to be sent

    def _keep(self, keeping: Keeping) -> None:
        """A call that writes much, and more than was kept, is one of many rows, as of a backlog: what it leaves will
        mostly be written anew, and not be wanted before, so that to keep it would only cost time and memory."""
        written = sum(len(value) for value in self._written.values() if value is not None)
        if written > _MUCH and (self._found is None or written > self._found.size):
            if self._found is not None:
                keeping.memory.forget(self._found)
            return
        known = {} if self._found is None else self._found.directory
        values = {key: value for key, value in self._read.items() if key not in known} | self._written
        if values and self._stamp:
            keeping.memory.keep(self._found, self._stamp, values, keeping.most_bytes)

    def _recalled(self, keys: list[StateKey]) -> list[StateKey]:
        """Reads keys that are kept; returns the others."""
        if self._found is None or self._keeping is None:
            return keys
        kept = [key for key in keys if key in self._found.directory]
        if not kept:
            return keys
        found = self._found
        values = self._from_memory(lambda keeping: keeping.memory.read(found, kept))
        if values is None:  # another attempt of this task has gone on from here
            self._found = None
            return keys
        self._known.update(zip(kept, values, strict=True))
        return [key for key in keys if key not in self._known]

    def _from_memory(self, use: Callable[[Keeping], T]) -> T | None:
        """What ``use`` finds; None where nothing is kept, and where memory fails: Spark has all that it has."""
        if self._keeping is None:
            return None
        try:
            return use(self._keeping)
        except Exception as error:
            _LOG.warning("state is read from Spark: %s", error)
            self._keeping = self._found = None
            return None

    def _ask(self, keys: list[StateKey]) -> None:
        """Reads keys from Spark, and with the first of them the stamp."""
        asked = [*keys, *(key for key in self._expected if key not in self._known and key not in keys)]
        self._expected = ()
        first = self._stamp is None
        values = self._entries.get([*asked, STAMP] if first else asked)
        if first:
            stamp = self._stamp = _number(values.pop())
            if stamp:
                self._found = self._from_memory(lambda keeping: keeping.memory.find(stamp))
        read = dict(zip(asked, values, strict=True))
        self._known.update(read)
        self._read.update(read)


def _number(stamp: bytes | None) -> int:
    """A stamp as a signed number of 64 bits; 0 for none."""
    return 0 if stamp is None else int.from_bytes(stamp, "little", signed=True)
