"""A call of a process function in a query: its tables, keys and arguments, and its input and output columns. Also the
rows that report failures.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from sqlstream.errors import repeating
from sqlstream.udfs.columnar import FunctionError, arrow_array, members, python_values, see_line
from sqlstream.udfs.kernel import KEY_HASH, Kernel
from sqlstream.udfs.process.function import CELLS, ProcessContext, Timer, states_of
from sqlstream.udfs.process.memories import KeyedStatesLayout, fits, is_record, record_of

TABLE = "__table"
"""INT column of the input where there are several tables: the number of the row's table."""

ROWTIME = "__rowtime"
"""BIGINT column of the output: event time in microseconds; NULL for rows of timers of processing time."""

TIME = "__row_time"
"""BIGINT column of the input with the event time of rows, in microseconds."""


def input_column(table: int, index: int) -> str:
    """The name of the kernel's input column for column ``index`` of the table argument ``table``. It is NULL in rows of
    other tables.
    """
    return f"__input_{table}_{index}"


def key_column(index: int) -> str:
    """The name of the kernel's input column for the ``index``-th column of PARTITION BY."""
    return f"__key_{index}"


def result_column(index: int) -> str:
    """The name of the kernel's output column for the ``index``-th field of the function's result row."""
    return f"__result_{index}"


def passed_column(index: int) -> str:
    """The name of the ``index``-th column that is copied from the row for which the function was called."""
    return f"__passed_{index}"


@dataclass(frozen=True)
class ProcessCall(Kernel):
    """The configuration of a call of a process function. ``keys`` are columns of the input ``schema``, ``key_names``
    their names in PARTITION BY.

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
    def layout(self) -> KeyedStatesLayout:
        """The layout of the stored states of the function."""
        keys = pa.schema([pa.field(KEY_HASH, pa.int64()), *(self.schema.field(name) for name in self.keys)])
        return KeyedStatesLayout(self.name, keys, self.key_names, states_of(self.implementation))

    @cached_property
    def calls(self) -> Calls:
        """Creates an instance of the user's class, and returns the ``Calls`` by which its methods are called."""
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
    """The failures as rows of a kernel's ``output`` schema, in which only FAILED is set."""
    columns = [pa.nulls(len(failures), field.type) for field in list(output)[:-1]]
    return pa.Table.from_arrays([*columns, pa.array(failures, FAILURE)], schema=output)


def record_of_row(key: Mapping[str, object], table: str, row: Mapping[str, object]) -> str:
    """A JSON text that describes a failed row, for the dead letter table. ``table``: the parameter to which the row
    belongs.
    """
    return _json({"key": key, "input": table, "row": row} if key else {"input": table, "row": row})


def record_of_timer(key: Mapping[str, object], name: str | None, time: int, domain: str) -> str:
    """A JSON text that describes a failed timer, for the dead letter table. ``time`` is in milliseconds."""
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


# --- calls of the user's class --------------------------------------------------------------------------------


FAILED = "SS440"
WRONG_ROW = repeating("SS441")

_LONGEST = 200


@dataclass(frozen=True)
class InputTable:
    """A table argument of the call: the parameter's name, its columns in the kernel's input, and their names in the
    user's rows.

    ``row``: the user's NamedTuple or dataclass for rows; None for named tuples of all columns.
    """

    parameter: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    row: type | None = None

    def rows(self, table: pa.Table) -> list[Any]:
        """The rows as objects of the class that the function expects; ``Unmade`` for rows that the user's class
        rejects.
        """
        made = self._values(table)
        if self.row is None:
            kind = namedtuple("Row", self.names, rename=True)  # type: ignore[misc]
            return [kind(*row) for row in made]
        return [self._record(self.row, dict(zip(self.names, row, strict=True))) for row in made]

    def values(self, table: pa.Table) -> list[dict[str, object]]:
        """The rows as dictionaries from column name to value."""
        return [dict(zip(self.names, row, strict=True)) for row in self._values(table)]

    def _values(self, table: pa.Table) -> list[tuple[object, ...]]:
        values = [python_values(table.column(name).combine_chunks()) for name in self.columns]
        return list(zip(*values, strict=True)) if values else [()] * table.num_rows

    def _record(self, kind: type, values: dict[str, object]) -> Any:
        try:
            return record_of(kind, values)
        except Exception as error:
            return Unmade(kind.__name__, values, error)


@dataclass(frozen=True)
class Unmade:
    """Stands for a row that the user's class of rows rejected, with the error that it raised."""

    kind: str
    values: Mapping[str, object]
    error: Exception


class Calls:
    """Calls the methods of a user's process function. Creates one instance of its class ``implementation``. ``name``:
    the name of the function in SQL.

    ``fixed``: the arguments that are the same for each row, by parameter. ``tables``: the parameters that are tables.
    ``row``: the STRUCT of the result rows.
    """

    def __init__(
        self, name: str, implementation: type, fixed: Mapping[str, object], tables: Sequence[str], row: pa.StructType
    ) -> None:  # fmt: skip
        self.name = name
        self._fixed = dict(fixed)
        self._tables = tuple(tables)
        self._row = row
        self._fits = [fits(field.type) for field in row]
        self._instance = self._made(implementation)

    def _made(self, implementation: type) -> Any:
        try:
            return implementation()
        except Exception as error:
            raise FunctionError(f"{FAILED}: {self._said(error, '__init__')}") from error

    def eval(self, context: ProcessContext, row: Any, cells: Mapping[str, Any]) -> list[Any]:
        """The rows that ``eval`` returns for a row of the table ``context.input``."""
        if isinstance(row, Unmade):
            detail = _place(context, row.values)
            raise FunctionError(f"{FAILED}: {self._said(row.error, row.kind)}\nDETAIL: {detail}") from row.error
        named = {**{table: row if table == context.input else None for table in self._tables}, **self._fixed}
        return self._called(self._instance.eval, named, (context,), cells, lambda: _place(context, row))

    def on_timer(self, context: ProcessContext, timer: Timer, cells: Mapping[str, Any]) -> list[Any]:
        """The rows that ``on_timer`` returns for a timer."""
        return self._called(self._instance.on_timer, {}, (context, timer), cells, lambda: _place(context, timer))

    def _called(
        self,
        method: Callable[..., Any],
        named: Mapping[str, object],
        given: tuple[object, ...],
        cells: Mapping[str, Any],
        location: Callable[[], str],
    ) -> list[Any]:
        vars(self._instance)[CELLS] = cells
        try:
            returned = method(*given, **named)
            return self._rows(returned)
        except FunctionError as error:
            raise FunctionError(f"{error}\nDETAIL: {location()}") from error
        except Exception as error:
            raise FunctionError(
                f"{FAILED}: {self._said(error, method.__name__)}\nDETAIL: {location()}{see_line(error)}"
            ) from error
        finally:
            vars(self._instance).pop(CELLS, None)

    def _said(self, error: Exception, method: str) -> str:
        words = " ".join(str(error).split())
        return f'process function "{self.name}" failed in {method}: {type(error).__name__}: {words}'

    def _rows(self, returned: Any) -> list[Any]:
        """The returned rows as a list; a generator runs here."""
        if returned is None:
            return []
        is_single = (
            isinstance(returned, str | bytes | dict) or is_record(type(returned)) or not isinstance(returned, Iterable)
        )
        rows = [returned] if is_single else list(returned)
        if self._row.num_fields == 1:
            rows = [self._single(row) for row in rows]
        for row in rows:
            self._check(row)
        return rows

    def _single(self, row: Any) -> Any:
        """Rows of one column may be given bare."""
        bare = not isinstance(row, dict) and not is_record(type(row))
        return {self._row.field(0).name: row} if bare else row

    def _check(self, row: Any) -> None:
        members = len(dataclasses.fields(row)) if dataclasses.is_dataclass(row) else None
        members = len(row) if isinstance(row, tuple | list) else members
        wrong = not (isinstance(row, dict | tuple | list) or dataclasses.is_dataclass(row))
        if wrong or members not in (None, self._row.num_fields):
            raise FunctionError(f"{WRONG_ROW}: {self._no_row(row)}")

    def _no_row(self, row: Any) -> str:
        columns = ", ".join(f"{f.name}" for f in self._row)
        return f'process function "{self.name}" returned {_short(row)}, which is no row of ({columns})'

    def check(self, rows: list[Any]) -> None:
        """Raises FunctionError if a value of the result ``rows`` does not fit the type of its column."""
        if not all(
            fits(value) for row in rows for fits, value in zip(self._fits, members(row, self._row), strict=True)
        ):
            self.arrays(rows, lambda _: "")

    def arrays(self, rows: list[Any], places: Callable[[int], str]) -> list[pa.Array]:
        """Converts result rows to Arrow columns. Raises FunctionError if a value does not fit its column; ``places(i)``
        then describes, for the message, the key of the i-th row.
        """
        try:
            structs = arrow_array(self.name, rows, self._row)
        except FunctionError:
            raise self._misfit(rows, places) from None
        flat: list[pa.Array] = structs.flatten()
        return flat

    def _misfit(self, rows: list[Any], places: Callable[[int], str]) -> FunctionError:
        for number, row in enumerate(rows):
            try:
                arrow_array(self.name, [row], self._row)
            except FunctionError as error:
                reason = str(error.__cause__).splitlines()[0]
                message = f"{WRONG_ROW}: {self._no_row(row)}: {reason}"
                return FunctionError(f"{message}\nDETAIL: {places(number)}")
        raise AssertionError("each row fits by itself")


def _place(context: ProcessContext, cause: object) -> str:
    described = f"timer {cause.name!r} of {cause.time} ms" if isinstance(cause, Timer) else _short(cause)
    key = ", ".join(f"{name} = {value!r}" for name, value in zip(context.key._fields, context.key, strict=True))
    return f"It was called for {described}{f' of the key {key}' if key else ''}."


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
