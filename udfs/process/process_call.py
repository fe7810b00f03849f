"""A call of a process function in a query: its tables, keys and arguments, and its input and output columns. Also the
rows that report failures."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Kernel
from sqlstream.udfs.process.calls import Calls, InputTable
from sqlstream.udfs.process.function import states_of
from sqlstream.udfs.process.memories import MemoryLayout

TABLE = "__table"
"""INT column of the input where there are several tables: the number of the row's table."""

ROWTIME = "__rowtime"
"""BIGINT column of the output: event time in microseconds; NULL for rows of timers of processing time."""

TIME = "__row_time"
"""BIGINT column of the input with the event time of rows, in microseconds."""


def input_column(table: int, index: int) -> str:
    """A column of a table; NULL in rows of the others."""
    return f"__input_{table}_{index}"


def key_column(index: int) -> str:
    """The column with the key of a number."""
    return f"__key_{index}"


def result_column(index: int) -> str:
    """The column for a field of the function's result row."""
    return f"__result_{index}"


def passed_column(index: int) -> str:
    """A column of the row for which the function was called."""
    return f"__passed_{index}"


@dataclass(frozen=True)
class ProcessCall(Kernel):
    """The configuration of a call. ``keys`` are columns of the input ``schema``, ``key_names`` their names in PARTITION
    BY.

    ``arguments``: constants, by parameter. ``row``: the STRUCT of the function's result. ``time``: a BIGINT column with
    the event time of rows. ``passed``: columns of the input that are emitted with each result. ``tolerant``: failures
    for a row or a timer are undone, and emitted as rows in which only FAILED is set.
    """

    name: str
    implementation: type
    tables: tuple[InputTable, ...]
    schema: pa.Schema
    keys: tuple[str, ...]
    key_names: tuple[str, ...]
    row: pa.StructType
    arguments: tuple[tuple[str, object], ...] = ()
    time: str | None = None
    ordered: bool = False
    passed: tuple[str, ...] = ()
    tolerant: bool = False

    @property
    def output(self) -> pa.Schema:
        keys = [(key_column(i), self.schema.field(name).type) for i, name in enumerate(self.keys)]
        results = [(result_column(i), field.type) for i, field in enumerate(self.row)]
        passed = [(passed_column(i), self.schema.field(name).type) for i, name in enumerate(self.passed)]
        time = [(ROWTIME, pa.int64())] if self.time is not None else []
        return pa.schema([*keys, *passed, *results, *time, *([(FAILED_ROW, FAILURE)] if self.tolerant else [])])

    @property
    def uses_processing_time(self) -> bool:
        return self.reads_clock or self.layout.ages

    @property
    def reads_clock(self) -> bool:
        """True where the class reads the clock of processing time."""
        return bool(getattr(self.implementation, "processing_time", False))

    @property
    def has_timers(self) -> bool:
        """True where the class has timers."""
        return hasattr(self.implementation, "on_timer")

    @cached_property
    def layout(self) -> MemoryLayout:
        """The layout of the stored state."""
        keys = pa.schema([pa.field(KEY_HASH, pa.int64()), *(self.schema.field(name) for name in self.keys)])
        return MemoryLayout(self.name, keys, self.key_names, states_of(self.implementation))

    @cached_property
    def calls(self) -> Calls:
        """An instance of the user's class, ready to be called."""
        tables = [table.parameter for table in self.tables]
        return Calls(self.name, self.implementation, dict(self.arguments), tables, self.row)


# --- failed rows and timers of jobs that continue without them ------------------------------------------------
# They leave the kernel among its results, as rows in which only FAILED is set; the operator above separates them.


FAILED_ROW = "__failed"
"""STRUCT column of a tolerant kernel's output: what a row that failed was (JSON), why, and where; NULL for results."""

FAILURE = pa.struct([("record", pa.string()), ("error", pa.string()), ("place", pa.string())])

Failure = dict[str, str | None]
"""Values of FAILURE."""


def failures_table(failures: list[Failure], output: pa.Schema) -> pa.Table:
    """The failures as rows of a kernel's output."""
    columns = [pa.nulls(len(failures), field.type) for field in list(output)[:-1]]
    return pa.Table.from_arrays([*columns, pa.array(failures, FAILURE)], schema=output)


def record_of_row(key: Mapping[str, object], table: str, row: Mapping[str, object]) -> str:
    """A failed row as JSON. ``table``: the parameter that the row belongs to."""
    return _json({"key": key, "input": table, "row": row} if key else {"input": table, "row": row})


def record_of_timer(key: Mapping[str, object], name: str | None, time: int, domain: str) -> str:
    """A failed timer as JSON. ``time`` is in milliseconds."""
    return _json({"key": key, "timer": {"name": name, "time": time, "domain": domain}})


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> object:
    """Values of Arrow as JSON has them; instants in ISO 8601, decimals as text, bytes in base 64, as Spark's are."""
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    plain = isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)
