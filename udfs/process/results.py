"""What process functions return, gathered row by row and emitted as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.udfs.process.failures import FAILURE

if TYPE_CHECKING:
    from sqlstream.udfs.process.kernel import Process


class Results:
    """``keys`` are those of the call, ``rows`` its input, ``shown`` the keys as users see them."""

    def __init__(self, kernel: Process, keys: pa.Table, rows: pa.Table, shown: Sequence[Any]) -> None:
        self._kernel = kernel
        self._keys = keys
        self._rows = rows
        self._shown = shown
        self._found: list[Any] = []
        self._slots: list[int] = []
        self._indices: list[int | None] = []
        self._times: list[int | None] = []

    def add(self, found: Sequence[Any], slot: int, index: int | None, time: int | None) -> None:
        """Rows for a key; ``index``: the row they were made for, None at a timer."""
        self._found += found
        self._slots += [slot] * len(found)
        self._indices += [index] * len(found)
        self._times += [time] * len(found)

    def table(self) -> pa.Table | None:
        """All rows, of the kernel's output; None for none."""
        if not self._found:
            return None
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
