"""Timers that functions of users register, in two queues: event time and processing time.

A timer exists once per key, namespace, name and time, as in Flink's InternalTimerService. Registrations and deletions
are appended to the state, in buckets by time, and resolved when their time comes. So a call pays for what it registers,
deletes and fires, however many timers there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import END_OF_TIME, Domain, Store
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.state.keyed import KeyedState

Values = tuple[Any, ...]

_NO_NAMESPACE = pa.schema([])
_NAN = object()
_NAME, _DELETED, _TIME = "__name", "__deleted", EVENT_TIMER


class Timer(NamedTuple):
    """A timer that is stored for a key. ``time`` is in microseconds, ``key`` has the values of the key, ``namespace``
    further values that identify the owner of the timer; their columns are those of the ``TimerService``.
    """

    time: int
    key: Values
    namespace: Values = ()
    name: str | None = None


class TimerService:
    """Stores the timers of one operator for one key group. An instance serves one call of the kernel.

    ``key`` is the schema of the keys that own timers, ``namespace`` that of further columns that identify an owner.
    """

    def __init__(self, store: Store, name: str, key: pa.Schema, namespace: pa.Schema = _NO_NAMESPACE) -> None:
        self._queues = {domain: _Queue(store, f"{name}.{domain.value}", key, namespace) for domain in Domain}

    def register(self, domain: Domain, timer: Timer) -> None:
        """Registers a timer; no effect if it exists. A time that has passed is due at once, END_OF_TIME never."""
        if timer.time != END_OF_TIME:
            self._queues[domain].register(timer)

    def delete(self, domain: Domain, timer: Timer) -> None:
        """Deletes a timer, if there is one."""
        self._queues[domain].delete(timer)

    def due(self, domain: Domain, time: int) -> Iterator[Timer]:
        """Removes and yields the timers up to ``time`` (microseconds), sorted by time, then by registration.

        What the caller does between two of them takes effect: a timer registered for a time up to this one is yielded
        too, a deleted one is not.
        """
        with self.firing(domain, time) as firing:
            yield from firing.up_to(time)

    @contextmanager
    def firing(self, domain: Domain, time: int) -> Iterator[Firing]:
        """A context manager with a ``Firing`` of the timers up to ``time`` (microseconds), to be fired step by step;
        those that were not fired remain registered.

        Meanwhile, registrations and deletions up to this time take effect at once.
        """
        queue = self._queues[domain]
        firing = queue.open(time)
        yield firing
        queue.close()

    def next_timer(self, domain: Domain) -> int:
        """The time in microseconds at which ``due`` must be called next; END_OF_TIME for never. It may be too early
        after deletions.
        """
        return self._queues[domain].next_timer()

    def registered(self, domain: Domain) -> list[Timer]:
        """All timers, in the order in which they are due. It reads the whole state."""
        return self._queues[domain].registered()

    def flush(self) -> None:
        """Writes all changes to the store."""
        for queue in self._queues.values():
            queue.flush()


class _Queue:
    """The timers of one domain. ``_firing``: those that ``due`` has taken out of the state and not given yet."""

    def __init__(self, store: Store, name: str, key: pa.Schema, namespace: pa.Schema) -> None:
        self._key_width = len(key)
        own = [(_NAME, pa.string()), (_TIME, pa.int64())]
        self._identity = pa.schema([*_columns("key", key), *_columns("namespace", namespace), *map(_field, own)])
        schema = self._identity.append(pa.field(_DELETED, pa.bool_()))
        self._state = KeyedState(store, name, schema, by=_TIME)
        self._log: list[tuple[Timer, bool]] = []
        self._firing: Firing | None = None

    def register(self, timer: Timer) -> None:
        if self._firing and timer.time <= self._firing.until:
            self._firing.add(timer)
        else:
            self._log.append((timer, False))

    def delete(self, timer: Timer) -> None:
        if self._firing and timer.time <= self._firing.until:
            self._firing.discard(timer)
        else:
            self._log.append((timer, True))

    def open(self, time: int) -> Firing:
        self._firing = Firing(time)
        if self.next_timer() <= time:
            self._write_log()
            self._state.due(Domain.EVENT, time)
            rows = self._settled(self._state.loaded())
            is_due = rows.column(_TIME).to_numpy() <= time
            self._state.replace(rows.filter(pa.array(~is_due)))
            for timer in self._timers(rows.filter(pa.array(is_due))):
                self._firing.add(timer)
        return self._firing

    def close(self) -> None:
        assert self._firing is not None, "no timers are firing"
        left, self._firing = self._firing.left(), None
        self._log += [(timer, False) for timer in left]

    def next_timer(self) -> int:
        return min(self._state.next_timer(Domain.EVENT), min((t.time for t, _ in self._log), default=END_OF_TIME))

    def registered(self) -> list[Timer]:
        self._write_log()
        return sorted(self._timers(self._settled(self._state.load_all())), key=lambda timer: timer.time)

    def flush(self) -> None:
        assert self._firing is None, "timers that are due have not been taken"
        self._write_log()
        self._state.flush()

    def _write_log(self) -> None:
        if self._log:
            rows = [(*timer.key, *timer.namespace, timer.name, timer.time, deleted) for timer, deleted in self._log]
            columns = zip(zip(*rows, strict=True), self._state.schema, strict=True)
            arrays = [pa.array(values, column.type) for values, column in columns]
            self._state.append(pa.Table.from_arrays(arrays, schema=self._state.schema))
            self._log.clear()

    def _settled(self, rows: pa.Table) -> pa.Table:
        """The timers that a log leaves: per timer the first registration after the last deletion."""
        timers = dense_ids(rows, self._identity.names)
        deleted = np.asarray(rows.column(_DELETED))
        order = np.arange(rows.num_rows)
        last_deletion = np.full(timers.count, -1)
        last_deletion[timers.ids[deleted]] = order[deleted]
        counts = ~deleted & (order > last_deletion[timers.ids])
        first = np.full(timers.count, rows.num_rows)
        first[timers.ids[counts][::-1]] = order[counts][::-1]
        return rows.take(np.sort(first[first < rows.num_rows]))

    def _timers(self, rows: pa.Table) -> Iterator[Timer]:
        columns = [rows.column(name).to_pylist() for name in self._identity.names]
        for *owner, name, time in zip(*columns, strict=True):
            yield Timer(time, tuple(owner[: self._key_width]), tuple(owner[self._key_width :]), name)


class Firing:
    """Timers that fire in order of their times, then of registration, while others are registered and deleted."""

    def __init__(self, until: int) -> None:
        self.until = until
        self._arrived = 0
        self._live: dict[object, int] = {}
        self._heap: list[tuple[int, int, Timer]] = []

    def add(self, timer: Timer) -> None:
        """Registers a timer."""
        identity = hashable(timer)
        if identity not in self._live:
            self._live[identity] = self._arrived
            heapq.heappush(self._heap, (timer.time, self._arrived, timer))
            self._arrived += 1

    def discard(self, timer: Timer) -> None:
        """Deletes a timer, if there is one."""
        self._live.pop(hashable(timer), None)

    def left(self) -> list[Timer]:
        """The timers that have not fired, in the order of their times."""
        return [timer for _, arrived, timer in sorted(self._heap) if self._live.get(hashable(timer)) == arrived]

    def up_to(self, time: int) -> Iterator[Timer]:
        """Removes and yields the timers up to ``time`` (microseconds), including those that are added meanwhile."""
        while self._heap and self._heap[0][0] <= time:
            _, arrived, timer = heapq.heappop(self._heap)
            identity = hashable(timer)
            if self._live.get(identity) == arrived:
                del self._live[identity]
                yield timer


def hashable(value: object) -> object:
    """The value in a hashable form, which is equal for keys that are equal in SQL: lists become tuples, all NaN are
    one.
    """
    if isinstance(value, list | tuple):
        return tuple(hashable(member) for member in value)
    if isinstance(value, dict):
        return tuple((name, hashable(member)) for name, member in value.items())
    return _NAN if isinstance(value, float) and value != value else value


def _columns(prefix: str, schema: pa.Schema) -> list[pa.Field]:
    """Keys and namespaces may have columns of one name."""
    return [pa.field(f"{prefix}.{column.name}", column.type) for column in schema]


def _field(column: tuple[str, pa.DataType]) -> pa.Field:
    return pa.field(*column)
