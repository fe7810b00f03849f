"""A harness for process functions: rows, watermarks and the clock go in, rows come out; no Spark, no SQL.

harness = ProcessFunctionHarness(Silence, {"input": "card STRING, ts TIMESTAMP"}, ["card"], on_time="ts", seconds=60)
harness.rows([{"card": "a", "ts": 1_000}])
harness.watermark(61_000)
assert harness.output() == [{"card": "a", "silent_since": 61_000, "rowtime": 61_000}]

All times are milliseconds since 1970 (UTC): those of steps, of TIMESTAMP columns that go in, where datetimes are taken
as well, and of those that come out.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from sqlstream.planner.bad_rows import BadAction
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.harness import KernelHarness, Row
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.process.description import describe_process_function, row_type
from sqlstream.udfs.process.function import Descriptor, ProcessFunction
from sqlstream.udfs.process.kernel import Process
from sqlstream.udfs.process.process_call import (
    FAILED_ROW,
    ROWTIME,
    TABLE,
    TIME,
    InputTable,
    input_column,
    key_column,
    passed_column,
    result_column,
)
from sqlstream.udfs.user_rows import MILLISECOND, microseconds

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ProcessFunctionHarness:
    """Runs one process function over its tables, without Spark, step by step. Times are in milliseconds since 1970.

    ``tables``: the columns of the function's table, written as in CREATE TABLE: ``"card STRING, ts TIMESTAMP(3)"``; for
    several tables a dictionary from the name of each table parameter to such a text. ``partition_by``, ``on_time``: the
    partition columns and the time column, which every table has. ``in_order``: the function gets the rows ordered by
    time. ``arguments``: the constants of the call; for a DESCRIPTOR a list of columns. ``groups``: the number of key
    groups. ``restarts``: restart from a checkpoint before each step. ``on_error``: "fail" raises the function's error,
    "skip" and "dead-letter" continue without the row or timer, as ``'sqlstream.functions.on-error'`` says.
    """

    def __init__(
        self,
        function: type[ProcessFunction],
        tables: Mapping[str, str] | str,
        partition_by: Sequence[str] = (),
        *,
        on_time: str | None = None,
        in_order: bool = False,
        groups: int = 1,
        restarts: bool = False,
        processing_time: int = 0,
        on_error: str = "fail",
        **arguments: object,
    ) -> None:
        described = describe_process_function(function.__name__.lower(), function, function.__qualname__)
        process = described.process
        assert process is not None, "a process function has its signature"
        if isinstance(tables, str):
            tables = {process.tables[0].name: tables}
        self._check(tables, [t.name for t in process.tables], partition_by, process.keyed)
        self._columns = {name: _columns(text) for name, text in tables.items()}
        self._partition_by = tuple(partition_by)
        self._on_time = on_time
        self._passes = process.pass_through
        self._names = [t.name for t in process.tables]
        fixed = {n: Descriptor(_texts(v)) if n in process.descriptors else v for n, v in arguments.items()}
        self._check_arguments(fixed, process.parameters, process.optional)
        self._on_error = BadAction(on_error)
        self._name = described.name
        kernel = self._kernel(function, described.name, described.returns, fixed, in_order)
        keys = [key_column(i) for i in range(len(partition_by))]
        self._rows: list[Row] = []
        self._letters: list[Row] = []
        self._failed = 0
        self._harness = KernelHarness(
            kernel, kernel.schema, keys, groups=groups, restarts=restarts,
            processing_time=_passed(processing_time),
        )  # fmt: skip

    # --- steps ------------------------------------------------------------------------------------------------

    def rows(self, rows: Sequence[Mapping[str, Any]], table: str | None = None) -> None:
        """Process a micro-batch of rows, each a dictionary by column. ``table``: the table parameter of the function
        that gets them, by default the first.
        """
        parameter = self._names[0] if table is None else table
        self._harness.rows([self._row(row, parameter) for row in rows])

    def watermark(self, time: int) -> None:
        """Advance the watermark to ``time``, in milliseconds since 1970: timers up to it fire."""
        self._harness.watermark(microseconds(time))

    def processing_time(self, time: int) -> None:
        """Advance the clock of processing time to ``time``, in milliseconds since 1970: timers that are due then fire,
        as in a job.
        """
        self._harness.processing_time(_passed(time))

    def finish(self) -> None:
        """End the input: every timer fires."""
        self._harness.finish()

    # --- results ----------------------------------------------------------------------------------------------

    def output(self) -> list[Row]:
        """The rows emitted since the last call, as dictionaries by column: first the partition columns, then columns
        that are passed through, the function's results and the rowtime.
        """
        self._take()
        rows, self._rows = self._rows, []
        return rows

    def dead_letters(self) -> list[Row]:
        """The dead letters since the last call: a dictionary for each row or timer for which the function failed, with
        the source, the record as JSON, the error, and where it was raised. Empty unless ``on_error`` is "dead-letter".
        """
        self._take()
        letters, self._letters = self._letters, []
        return letters if self._on_error is BadAction.DEAD_LETTER else []

    @property
    def failed_rows(self) -> int:
        """The number of rows and timers for which the function failed, where that is tolerated."""
        self._take()
        return self._failed

    @property
    def late_rows(self) -> int:
        """The number of rows that were dropped because they were late. Only tables whose rows are processed in the
        order of their times have late rows.
        """
        return self._harness.counters["late_rows"]

    @property
    def state_size(self) -> int:
        """The size of the state and timers of all keys, in bytes."""
        return sum(store.size for store in self._harness.stores)

    def snapshot(self) -> bytes:
        """The state and timers as bytes, like a checkpoint."""
        return self._harness.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot, with state and timers as they were."""
        self._harness.restore(snapshot)

    def restart(self) -> None:
        """Take a checkpoint, discard everything else, and continue from it, as a restarted job does."""
        self._harness.restart()

    def _take(self) -> None:
        """What came out, parted."""
        for row in self._harness.output():
            failed = row.pop(FAILED_ROW, None)
            if failed is None:
                self._rows.append(self._shown(row))
            else:
                self._failed += 1
                self._letters.append({"source": self._name, **failed})

    # --- how it is done ---------------------------------------------------------------------------------------

    def _check(self, tables: Mapping[str, str], wanted: list[str], keys: Sequence[str], keyed: bool) -> None:
        if set(tables) != set(wanted):
            raise TypeError(f"the function takes the tables {', '.join(wanted)}, not {', '.join(tables)}")
        if not keys and (keyed or len(wanted) > 1):
            raise TypeError("a function with state, timers or several tables needs partition_by")

    def _check_arguments(self, given: Mapping[str, object], parameters: Sequence[str], optional: Sequence[str]) -> None:
        wanted = [name for name in parameters if name not in self._names]
        unknown = [name for name in given if name not in wanted]
        missing = [name for name in wanted if name not in given and name not in optional]
        if unknown or missing:
            raise TypeError(f"the function takes the arguments {', '.join(wanted)}, not {', '.join(given) or 'none'}")

    def _kernel(
        self, function: type[ProcessFunction], name: str, row: DataType, fixed: Mapping[str, object], in_order: bool
    ) -> Process:
        fields = [pa.field(KEY_HASH, pa.int64())]
        first = self._columns[self._names[0]]
        fields += [pa.field(key_column(i), _type(first, key)) for i, key in enumerate(self._partition_by)]
        fields += [pa.field(TIME, pa.int64())] if self._on_time else []
        fields += [pa.field(TABLE, pa.int32())] if len(self._names) > 1 else []
        tables = []
        for t, parameter in enumerate(self._names):
            columns = self._columns[parameter]
            own = [input_column(t, i) for i in range(len(columns))]
            fields += [pa.field(o, kind.to_arrow()) for o, (_, kind) in zip(own, columns, strict=True)]
            kind = row_type(function, parameter)
            tables.append(InputTable(parameter, tuple(own), tuple(n for n, _ in columns), kind))
        passed = tables[0].columns if self._passes else ()
        return Process(
            name, function, tuple(tables), pa.schema(fields), tuple(map(key_column, range(len(self._partition_by)))),
            self._partition_by, row.to_arrow(), tuple(fixed.items()), TIME if self._on_time else None, in_order, passed,
            self._on_error is not BadAction.FAIL,
        )  # fmt: skip

    def _row(self, row: Mapping[str, Any], parameter: str) -> Row:
        columns = self._columns[parameter]
        unknown = row.keys() - {name for name, _ in columns}
        if unknown:
            raise TypeError(f'table "{parameter}" has no column {", ".join(sorted(unknown))}')
        number = self._names.index(parameter)
        values = {name: _value(row.get(name), kind) for name, kind in columns}
        arrow_row: Row = {input_column(number, i): values[name] for i, (name, _) in enumerate(columns)}
        arrow_row |= {key_column(i): values[key] for i, key in enumerate(self._partition_by)}
        if self._on_time is not None:
            arrow_row[TIME] = values[self._on_time]
        return {**arrow_row, TABLE: number}

    def _shown(self, row: Row) -> Row:
        kernel = self._harness.kernel
        assert isinstance(kernel, Process), "the harness runs process functions"
        passed = dict(zip(map(passed_column, range(len(kernel.passed))), kernel.tables[0].names, strict=False))
        keys = {} if passed else dict(zip(kernel.keys, self._partition_by, strict=True))
        results = {result_column(i): field.name for i, field in enumerate(kernel.row)}
        names = {**keys, **passed, **results, ROWTIME: "rowtime"}
        kinds = {f.name: f.type for f in kernel.output}
        return {names[name]: _ms(value, kinds[name], name) for name, value in row.items() if name in names}


def _columns(text: str) -> list[tuple[str, DataType]]:
    """Names and types of columns as in CREATE TABLE. BindError SS280 where a type does not exist."""
    wrapped = ", ".join(_member(column) for column in _parts(text))
    return [m for m in parse_type(f"STRUCT<{wrapped}>").args if isinstance(m, tuple)]


def _parts(text: str) -> list[str]:
    """The columns, at commas outside of brackets."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [column.strip() for column in parts]


def _member(column: str) -> str:
    name, _, kind = column.partition(" ")
    return f"{name}: {kind.strip()}"


def _type(columns: Sequence[tuple[str, DataType]], name: str) -> pa.DataType:
    return dict(columns)[name].to_arrow()


def _texts(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, cast("Sequence[object]", value)))


def _passed(time: int) -> int:
    """What has passed when the clock stands at ``time``."""
    return microseconds(time - 1)


def _value(value: Any, kind: DataType) -> Any:
    """Times in microseconds."""
    if not kind.is_timestamp or value is None:
        return value
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // datetime.timedelta(microseconds=1)
    return value * MILLISECOND


def _ms(value: Any, kind: pa.DataType, name: str) -> Any:
    is_time = pa.types.is_timestamp(kind) or name == ROWTIME
    return value // MILLISECOND if is_time and value is not None else value
