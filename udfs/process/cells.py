"""The state of one key in Python: the values of attributes such as ``self.count`` while a process function runs.

Mutable values are copied when they are read, so only explicit writes change the state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK
from sqlstream.udfs.state.timers import hashable

T = TypeVar("T")
K = TypeVar("K")

_MILLISECOND = 1000
_PLAIN = (int, float, str, bytes, bool, type(None))


@dataclass
class Clock:
    """The processing-time clock during one call of a kernel. ``passed``: the processing time, in microseconds, up to
    which timers are due; the current time is one millisecond later. NO_WATERMARK if unknown.
    """

    passed: int = NO_WATERMARK

    @property
    def is_known(self) -> bool:
        """True once a tick has reported the processing time."""
        return self.passed not in (NO_WATERMARK, END_OF_TIME)

    @property
    def now(self) -> int:
        """The current processing time in microseconds."""
        return self.passed + _MILLISECOND if self.is_known else NO_WATERMARK


@dataclass(slots=True)
class Entry:
    """A value of a keyed state. ``written``: the processing time of the last write, in microseconds; NO_WATERMARK if it
    was unknown.
    """

    value: Any
    written: int = NO_WATERMARK
    key: Any = None
    number: int = 0
    """The number of the entry among those of its state and key, in the order of their first writes."""


@dataclass
class Slots:
    """The entries of one declared state (such as a MapState) for one key, in the order of their first writes.
    ``entries`` has them by slot, which is what identifies an entry in its state: in a map its key.

    ``ttl``: time to live in microseconds of processing time; None for ever. ``name``: the name of the state. ``log``:
    records changed entries, so that they can be undone; None if that is not needed.
    """

    clock: Clock
    ttl: int | None
    name: str = ""
    entries: dict[object, Entry] = field(default_factory=dict)
    changed: bool = False
    log: UndoLog | None = None
    _count: int = 0

    def fill(self, slot: object, entry: Entry) -> None:
        """Adds an entry that was loaded from the state store, after the existing ones. ``slot`` identifies it in its
        state, such as the key of a map entry.
        """
        self.entries[slot] = entry
        entry.number = self._count
        self._count += 1

    def live(self) -> dict[object, Entry]:
        """Removes entries that have expired, and returns the others as a dictionary from what identifies an entry (such
        as the key in a map) to the entry. For entries whose age is unknown the time to live starts now.
        """
        if self.ttl is not None and self.clock.is_known and self.entries:
            for slot, entry in list(self.entries.items()):
                if entry.written == NO_WATERMARK:
                    entry.written, self.changed = self.clock.now, True
                elif self.clock.now >= entry.written + self.ttl:
                    del self.entries[slot]
                    self.changed = True
        return self.entries

    def write(self, slot: object, value: object, key: object = None) -> None:
        """Writes an entry. ``slot`` is a hashable value that identifies it in this state; ``key`` the key of a map
        entry.
        """
        before = self.live().get(slot)
        number = self._count if before is None else before.number
        self._count += before is None
        self.entries[slot] = entry = Entry(_own(value), self.clock.now, key, number)
        self.changed = True
        if self.log is not None:
            self.log.wrote(self, slot, before, entry)

    def remove(self, slot: object) -> None:
        """Removes the entry that ``slot`` identifies. Raises KeyError if there is none, or if it has expired."""
        before = self.live().pop(slot)
        self.changed = True
        if self.log is not None:
            self.log.removed(self, slot, before)

    def clear(self) -> None:
        """Removes all entries."""
        before, self.entries = self.entries, {}
        self.changed |= bool(before)
        if before and self.log is not None:
            self.log.cleared(self, before)

    def restore(self, slot: object, before: Entry) -> None:
        """Undoes the removal or overwriting of an entry: puts ``before``, the entry as it was, back at its position.
        ``slot`` identifies it in this state.
        """
        self.entries[slot] = before
        self.entries = dict(sorted(self.entries.items(), key=lambda item: item[1].number))

    @property
    def expiry(self) -> int:
        """The processing time, in microseconds, after which the first entry has expired; END_OF_TIME for never."""
        if self.ttl is None:
            return END_OF_TIME
        times = (e.written for e in self.entries.values() if e.written != NO_WATERMARK)
        return min((written + self.ttl - _MILLISECOND for written in times), default=END_OF_TIME)


class UndoLog:
    """The changes that one call of user code made to the state of its key. Its size depends on the changes, not on the
    state."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._written: list[tuple[Slots, object, Entry]] = []

    def written(self) -> Iterator[tuple[str, Entry]]:
        """Yields pairs: the name of a state, and an entry that the call wrote to it and that still exists."""
        for slots, slot, entry in self._written:
            if slots.entries.get(slot) is entry:
                yield slots.name, entry

    def wrote(self, slots: Slots, slot: object, before: Entry | None, entry: Entry) -> None:
        """Record a write. ``before``: the previous entry."""
        self._written.append((slots, slot, entry))
        if before is None:
            self._undo.append(lambda: slots.entries.pop(slot))
        else:
            self._undo.append(lambda: slots.entries.update({slot: before}))

    def removed(self, slots: Slots, slot: object, before: Entry) -> None:
        """Record a removal. ``before``: the removed entry."""
        self._undo.append(lambda: slots.restore(slot, before))

    def cleared(self, slots: Slots, before: dict[object, Entry]) -> None:
        """Record the removal of all entries. ``before``: these entries."""
        self._undo.append(lambda: setattr(slots, "entries", before))

    def forget(self) -> None:
        """Makes the changes permanent."""
        self._undo.clear()
        self._written.clear()

    def undo(self) -> None:
        """Restores the state as of when the log was empty."""
        while self._undo:
            self._undo.pop()()
        self._written.clear()


class Cell:
    """The common base of the objects by which user code reads and writes the state of a key."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def clear(self) -> None:
        """Removes all entries of this state for the key."""
        self._slots.clear()


class ValueCell(Cell, Generic[T]):
    """A single value, which is the default if nothing was written. Writing None clears it."""

    def __init__(self, slots: Slots, default: T) -> None:
        super().__init__(slots)
        self._default = default

    @property
    def value(self) -> T:
        """The value of the current key, or the default."""
        entry = self._slots.live().get(0)
        return cast(T, _own(self._default if entry is None else entry.value))

    @value.setter
    def value(self, value: T | None) -> None:
        self.update(value)

    def update(self, value: T | None) -> None:
        """Replaces the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._slots.write(0, value)


class ListCell(Cell, Collection[T], Generic[T]):
    """A list. Iteration yields copies, so the list may change meanwhile."""

    def add(self, value: T) -> None:
        """Appends a value."""
        live = self._slots.live()
        last = next(reversed(live), -1)
        assert isinstance(last, int), "places in lists are numbers"
        self._slots.write(last + 1, value)

    def extend(self, values: Iterable[T]) -> None:
        """Appends values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[T]) -> None:
        """Replaces all values."""
        values = list(values)
        self.clear()
        self.extend(values)

    def __iter__(self) -> Iterator[T]:
        return iter([_own(entry.value) for entry in self._slots.live().values()])

    def __len__(self) -> int:
        return len(self._slots.live())

    def __contains__(self, value: object) -> bool:
        return any(entry.value == value for entry in self._slots.live().values())


class MapCell(Cell, MutableMapping[K, T], Generic[K, T]):
    """A dictionary, each entry with its own time to live. Keys are equal as in SQL's GROUP BY."""

    def __getitem__(self, key: K) -> T:
        try:
            return cast(T, _own(self._slots.live()[hashable(key)].value))
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: K, value: T) -> None:
        self._slots.write(hashable(key), value, _own(key))

    def __delitem__(self, key: K) -> None:
        try:
            self._slots.remove(hashable(key))
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[K]:
        return iter([_own(entry.key) for entry in self._slots.live().values()])

    def __len__(self) -> int:
        return len(self._slots.live())

    def clear(self) -> None:
        """Removes all entries."""
        self._slots.clear()


def _own(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else copy.deepcopy(value)
