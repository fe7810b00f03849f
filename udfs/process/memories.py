"""The state of keys between the store, where it is columnar, and Python, which only loads the keys that are touched.

There is one row per key: the key, and for each declared state the list of its entries; for maps also the list of their
keys, and for states with a time to live the list of the times at which the entries were written.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import repeating
from sqlstream.udfs.columnar import FunctionError, arrow_array, python_values
from sqlstream.udfs.kernel import KEY_HASH, Domain, Store
from sqlstream.udfs.keys import dense_ids
from sqlstream.udfs.process.cells import Cell, Clock, Entry, Slots, UndoLog
from sqlstream.udfs.process.function import State
from sqlstream.udfs.signature import annotations_of
from sqlstream.udfs.state.buckets import PROCESSING_TIMER
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.timers import hashable

WRONG_STATE = repeating("SS442")

_MICROSECONDS = 1000


@dataclass(frozen=True)
class KeyedStatesLayout:
    """The layout of the stored states of a process function: ``keys`` are KEY_HASH and the columns of the key, which
    users see as ``key_names``.
    """

    name: str
    keys: pa.Schema
    key_names: tuple[str, ...]
    states: tuple[State[Any], ...]

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stored rows."""
        fields = [pa.field(name, kind) for state in self.states for name, kind in _columns(state)]
        timers = [pa.field(PROCESSING_TIMER, pa.int64())] if self.ages else []
        return pa.schema([*self.keys, *fields, *timers])

    @property
    def ages(self) -> bool:
        """True if some state has a time to live."""
        return any(state.ttl_ms is not None for state in self.states)


def _columns(state: State[Any]) -> list[tuple[str, pa.DataType]]:
    columns = [(f"{state.name}.values", pa.list_(state.type.to_arrow()))]
    if state.key_type is not None:
        columns.append((f"{state.name}.keys", pa.list_(state.key_type.to_arrow())))
    if state.ttl_ms is not None:
        columns.append((f"{state.name}.written", pa.list_(pa.int64())))
    return columns


class KeyedStates:
    """The states of those keys that one call of the kernel touches; ``open`` is called once at its beginning, and
    ``flush`` at its end.

    ``log``: records writes that may have to be undone.
    """

    def __init__(self, store: Store, layout: KeyedStatesLayout, clock: Clock, log: UndoLog | None = None) -> None:
        self._layout = layout
        self._clock = clock
        self._log = log
        self._states = {state.name: state for state in layout.states}
        self._fits = {state.name: [(fits(kind), kind) for kind in _types(state)] for state in layout.states}
        self._state = KeyedState(store, "state", layout.schema)
        self._keys = layout.keys.empty_table()
        self._slots: list[dict[str, Slots]] = []

    def open(self, keys: pa.Table) -> list[dict[str, Cell]]:
        """Loads the states of distinct keys. Returns for each key the ``Cell``s, by name of the state, with which user
        code reads and writes them.
        """
        stored = self._state.load(keys.column(KEY_HASH).to_numpy())
        owner = self._owners(keys, stored)
        self._keys = keys
        self._slots = [self._empty() for _ in range(keys.num_rows)]
        self._fill(stored.filter(pa.array(owner >= 0)), owner[owner >= 0])
        return [{s.name: s.cell(slots[s.name]) for s in self._layout.states} for slots in self._slots]

    def expired(self, passed: int) -> pa.Table:
        """Returns a table of the keys that have an entry whose time to live has ended when the processing time
        ``passed`` (microseconds) is over.
        """
        rows = self._state.due(Domain.PROCESSING, passed)
        due = rows.column(PROCESSING_TIMER).to_numpy() <= passed
        return rows.filter(pa.array(due)).select(self._layout.keys.names)

    def expire(self) -> None:
        """Removes the expired entries of the open keys."""
        for slots in self._slots:
            for each in slots.values():
                each.live()

    def next_timer(self) -> int:
        """The processing time, in microseconds, at which the first entry of any key expires; END_OF_TIME for never. To
        be called after ``flush``.
        """
        return self._state.next_timer(Domain.PROCESSING)

    def flush(self) -> None:
        """Writes the keys that have changed."""
        changed = np.array([any(s.changed for s in slots.values()) for slots in self._slots], bool)
        if changed.any():
            stored = self._state.loaded()
            owner = self._owners(self._keys, stored)
            stays = (owner < 0) | ~changed[owner]
            self._state.replace(pa.concat_tables([stored.filter(pa.array(stays)), self._rows(changed)]))
        self._state.flush()

    def check(self, index: int, log: UndoLog) -> None:
        """Raises FunctionError if the call for the key with this index wrote a value that does not fit the type of its
        state. ``log`` has the writes.
        """
        for name, entry in log.written():
            state = self._states[name]
            for (fit, kind), value in zip(self._fits[name], (entry.value, entry.key), strict=False):
                if not fit(value):
                    self._array(state, pa.list_(kind), [[value]], [index])

    # --- from the store ---------------------------------------------------------------------------------------

    def _owners(self, keys: pa.Table, stored: pa.Table) -> np.ndarray:
        """The number of each stored row's key among the keys, -1 for other keys."""
        names = self._layout.keys.names
        key_numbers = dense_ids(pa.concat_tables([keys, stored.select(names)]), names).ids[keys.num_rows :]
        return np.where(key_numbers < keys.num_rows, key_numbers, -1)

    def _empty(self) -> dict[str, Slots]:
        return {s.name: Slots(self._clock, _ttl(s), s.name, log=self._log) for s in self._layout.states}

    def _fill(self, rows: pa.Table, owner: np.ndarray) -> None:
        for state in self._layout.states:
            columns = {
                name.rpartition(".")[2]: python_values(rows.column(name).combine_chunks())
                for name, _ in _columns(state)
            }
            restore = restorer(state.kind), restorer(getattr(state, "key_kind", None))
            for position, key in enumerate(owner.tolist()):
                slots = self._slots[key][state.name]
                for entry in _entries({name: values[position] for name, values in columns.items()}, *restore):
                    slots.fill(len(slots.entries) if state.key_type is None else hashable(entry.key), entry)

    # --- to the store -----------------------------------------------------------------------------------------

    def _rows(self, changed: np.ndarray) -> pa.Table:
        """New rows of the changed keys that still have entries."""
        kept = [i for i in np.flatnonzero(changed).tolist() if any(s.entries for s in self._slots[i].values())]
        rows = self._keys.take(pa.array(kept, pa.int64()))
        for state in self._layout.states:
            entries = [list(self._slots[i][state.name].entries.values()) for i in kept]
            for name, kind in _columns(state):
                aspect = name.rpartition(".")[2]
                rows = rows.append_column(name, self._array(state, kind, [_part(aspect, e) for e in entries], kept))
        if self._layout.ages:
            timers = [min(s.expiry for s in self._slots[i].values()) for i in kept]
            rows = rows.append_column(PROCESSING_TIMER, pa.array(timers, pa.int64()))
        return rows.cast(self._layout.schema)

    def _array(self, state: State[Any], kind: pa.DataType, values: list[Any], kept: list[int]) -> pa.Array:
        try:
            return arrow_array(self._layout.name, values, kind)
        except FunctionError:
            raise self._misfit(state, kind, values, kept) from None

    def _misfit(self, state: State[Any], kind: pa.DataType, values: list[Any], kept: list[int]) -> FunctionError:
        """The first value that is not of the type of its state, with its key."""
        for index, of_key in zip(kept, values, strict=True):
            for value in of_key:
                try:
                    arrow_array(self._layout.name, [[value]], kind)
                except FunctionError:
                    key = self._key_text(index)
                    message = f'{WRONG_STATE}: state "{state.name}" of process function "{self._layout.name}" takes'
                    return FunctionError(f"{message} {state.type}, not {value!r}\nDETAIL: The key is {key}.")
        raise AssertionError("each value fits by itself")

    def _key_text(self, index: int) -> str:
        (row,) = self._keys.slice(index, 1).to_pylist()
        values = list(row.values())[1:]
        return ", ".join(f"{name} = {v!r}" for name, v in zip(self._layout.key_names, values, strict=True)) or "empty"


def _types(state: State[Any]) -> list[pa.DataType]:
    """The types of the values and, for a map, of the keys."""
    return [kind.to_arrow() for kind in (state.type, state.key_type) if kind is not None]


def _ttl(state: State[Any]) -> int | None:
    return None if state.ttl_ms is None else state.ttl_ms * _MICROSECONDS


def _entries(columns: dict[str, Any], value: Restore | None, key: Restore | None) -> list[Entry]:
    values = columns["values"]
    keys = columns.get("keys") or [None] * len(values)
    written = columns.get("written") or [0] * len(values)
    return [
        Entry(value(v) if value else v, w, key(k) if key else k) for v, w, k in zip(values, written, keys, strict=True)
    ]


def _part(aspect: str, entries: Sequence[Entry]) -> list[Any]:
    attribute = {"values": "value", "keys": "key", "written": "written"}[aspect]
    return [getattr(entry, attribute) for entry in entries]


# --- Python values as annotations ask for them: structs as NamedTuples and dataclasses ------------------------


Restore = Callable[[Any], Any]


def restorer(annotation: object) -> Restore | None:
    """Returns a function that converts Python values, as Arrow returns them, to the annotated type: NamedTuples or
    dataclasses instead of dictionaries, also inside of lists and maps. None if nothing is to be converted.
    """
    annotation = present(annotation)
    if isinstance(annotation, type) and is_record(annotation):
        return _record(annotation)
    arguments = typing.get_args(annotation)
    inner = [restorer(argument) for argument in arguments]
    if not any(inner):
        return None
    if len(arguments) == 2:
        key, value = (i or _same for i in inner)
        return _or_none(lambda raw: {key(k): value(v) for k, v in raw.items()})
    element = inner[0] or _same
    return _or_none(lambda raw: [element(v) for v in raw])


def is_record(kind: type) -> bool:
    """True for NamedTuples and dataclasses."""
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def record_of(kind: type, values: Mapping[str, Any]) -> Any:
    """An instance of the NamedTuple or dataclass ``kind`` with these values, whose nested members are converted too."""
    return _record(kind)(values)


def _record(kind: type) -> Restore:
    members = {name: restorer(annotation) or _same for name, annotation in annotations_of(kind).items()}
    return _or_none(lambda raw: kind(**{name: restore(raw[name]) for name, restore in members.items()}))


def _or_none(restore: Restore) -> Restore:
    return lambda raw: None if raw is None else restore(raw)


def present(annotation: object) -> object:
    """The type ``X`` of an annotation ``X | None``."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _same(value: Any) -> Any:
    return value


# --- a quick check of Python values against an Arrow type, by their class -------------------------------------


Fits = Callable[[Any], bool]


def fits(kind: pa.DataType) -> Fits:
    """Returns a fast check for Python values: true if a value certainly fits the Arrow type ``kind``. For other values
    only a conversion by Arrow shows whether they fit.
    """
    if pa.types.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return lambda value: value is None or (type(value) is int and -most <= value < most)
    if pa.types.is_string(kind):
        return lambda value: value is None or (type(value) is str and value.isascii())
    plain = float if pa.types.is_float64(kind) else bool if pa.types.is_boolean(kind) else None
    return lambda value: value is None or (plain is not None and type(value) is plain)
