"""The columns that are stored by kernels that keep rows, and the columns that they emit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.windows.emission import TIMESTAMP, WINDOW_END, WINDOW_START
from sqlstream.udfs.windows.functions import AllRows


@dataclass(frozen=True)
class KeptRows:
    """``input``: all columns that there are. Keys come out unless they are among the columns of AllRows."""

    input: pa.Schema
    keys: tuple[str, ...]
    function: Aggregates | AllRows

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns of the input that the keys and the window function need."""
        function = self.function.input.names if isinstance(self.function, Aggregates) else self.function.columns
        return self._fields(dict.fromkeys((KEY_HASH, *self.keys, *function)))

    @cached_property
    def output(self) -> pa.Schema:
        bounds = (pa.field(WINDOW_START, TIMESTAMP), pa.field(WINDOW_END, TIMESTAMP))
        return pa.schema([*self._fields(self.leading), *bounds, *self._results])

    @cached_property
    def leading(self) -> list[str]:
        """The keys that come out by themselves."""
        return [name for name in self.keys if name not in self._results.names]

    @cached_property
    def _results(self) -> pa.Schema:
        return self.function.results if isinstance(self.function, Aggregates) else self._fields(self.function.columns)

    def _fields(self, names: dict[str, None] | list[str] | tuple[str, ...]) -> pa.Schema:
        return pa.schema([self.input.field(name) for name in names])
