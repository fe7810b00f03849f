"""Gathers the rows that process functions return and emits them as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sqlstream.udfs.process.failures import FAILURE
from sqlstream.udfs.process.process_call import ProcessCall

_MOST_OBJECTS = 1 << 15
"""So many rows are kept as objects of Python, which take ten times as much as columns."""


class CallResults:
    """``keys`` are those of the call, ``rows`` its input, ``shown`` the keys as users see them."""

    def __init__(self, kernel: ProcessCall, keys: pa.Table, rows: pa.Table, shown: Sequence[Any]) -> None:
        self._kernel = kernel
        self._keys = keys
        self._rows = rows
        self._shown = shown
        self._found: list[Any] = []
        self._slots: list[int] = []
        self._indices: list[int | None] = []
        self._times: list[int | None] = []
        self._tables: list[pa.Table] = []

    def add(self, rows: Sequence[Any], slot: int, index: int | None, time: int | None) -> None:
        """Rows for a key; ``index``: the row they were made for, None at a timer."""
        self._found += rows
        self._slots += [slot] * len(rows)
        self._indices += [index] * len(rows)
        self._times += [time] * len(rows)
        if len(self._found) >= _MOST_OBJECTS:
            self._pack()

    def tables(self) -> list[pa.Table]:
        """All rows, of the kernel's output."""
        if self._found:
            self._pack()
        return self._tables

    def _pack(self) -> None:
        self._tables.append(self._table())
        for values in (self._found, self._slots, self._indices, self._times):
            values.clear()

    def _table(self) -> pa.Table:
        kernel = self._kernel
        slots = pa.array(self._slots, pa.int64())
        keys = [self._keys.column(name).take(slots) for name in kernel.keys]
        passed = [self._rows.column(name).take(pa.array(self._indices, pa.int64())) for name in kernel.passed]
        results = kernel.calls.arrays(self._found, self._place)
        times = [pa.array(self._times, pa.int64())] if kernel.time is not None else []
        failed = [pa.nulls(len(self._found), FAILURE)] if kernel.tolerant else []
        return pa.Table.from_arrays([*keys, *passed, *results, *times, *failed], schema=kernel.output)

    def _place(self, number: int) -> str:
        key = self._shown[self._slots[number]]
        named = ", ".join(f"{name} = {value!r}" for name, value in zip(key._fields, key, strict=True))
        return f"It belongs to the key {named}." if named else "The call has no key."
