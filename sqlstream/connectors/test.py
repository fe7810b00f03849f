"""``test``: tables that a ``sqlstream.testing.StreamTest`` feeds and reads.

A source is a folder of Parquet files, one per micro-batch, which Spark's file stream reads in the order of their
modification times. The hidden column ``__processing_time`` is the test's clock when the row was fed. A sink is a folder
of Arrow files, one per micro-batch, named by its number: a batch that runs again replaces its file. The answers of a
lookup table are rows of such Parquet files, too, in the order in which the test has fed them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter, Environment, LookupTable, Sink, Source, columns_of
from sqlstream.connectors.formats import quoted, schema_ddl
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import (
    BOOLEAN,
    NAME,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    duration_ms,
    hint_of,
    integer,
    one_of,
)
from sqlstream.paths import as_segment
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT, Column, RowKind, Table
from sqlstream.planner.properties import changelog_text
from sqlstream.types import STRING as STRING_TYPE
from sqlstream.types import TIMESTAMP, DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.fed import Asked, Behaviour, FedSource, asked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.steps import StepFolder


OUTSIDE_A_TEST = "SS515"

TAKES = "test.takes"

_TICKS = "ticks"
_TICK_DDL = "processing_time_ms BIGINT"
_CLOCK = Column("__processing_time", TIMESTAMP)
_KIND = Column(ROW_KIND, STRING_TYPE)


def _delay_ms(text: str) -> tuple[int, int]:
    """The least and the most that an answer takes."""
    span = re.fullmatch(r"\s*random\s+(\d+)\s*-\s*(\d+)\s*ms\s*", text.lower())
    if span is None:
        return duration_ms(text), duration_ms(text)
    low, high = int(span[1]), int(span[2])
    if low > high:
        raise ValueError(text)
    return low, high


def _failures(text: str) -> int | None:
    """None for all."""
    return None if text.strip().lower() == "always" else int(integer().parse(text))


_DELAY = OptionKind("delay", "a duration such as '501 ms', or 'random 0-4 ms'", _delay_ms)
_FAILURES = OptionKind("number", "'always', or how many requests fail", _failures)
_OPTIONS = (
    Option("role", one_of("table", "lookup"), "What the table is for: a stream, or answers to lookups.", "table"),
    Option("changelog-mode", STRING, "The kinds of rows that come, such as I,UB,UA,D.", "I", sink=True),
    Option(TAKES, STRING, "The kinds of rows that INSERT may write, such as I,UA,D.", sink=True),
    Option("test.misses-first", integer(), "So many times a key finds nothing at first.", "0"),
    Option("test.delay", _DELAY, "How long an answer to a lookup takes, such as 501 ms or random 0-4 ms.", "0"),
    Option("test.delay-column", NAME, "The column with the milliseconds that an answer takes."),
    Option("test.wait-for-rows", BOOLEAN, "A key without rows is answered when the test has fed some.", "false"),
    Option("test.fail", _FAILURES, "How often requests for a key fail at first: a number, or always.", "0"),
)
_WITHOUT_VALUES = ("VARIANT", "INTERVAL", "VOID")
_LOOKUP_ONLY = ("test.misses-first", "test.delay", "test.delay-column", "test.wait-for-rows", "test.fail")


Arrival = tuple[Sequence[Any], int, str]

# --- the test's side ------------------------------------------------------------------------------------------


def open_tables(directory: Path, tables: Iterable[Table]) -> None:
    """Make ``directory`` that of a test in which these tables can be read and written."""
    for table in tables:
        for folder in (_inputs(directory, table), _outputs(directory, table)):
            folder.mkdir(parents=True, exist_ok=True)


def feed(directory: Path, table: Table, number: int, rows: Sequence[Arrival], suffix: str = "") -> None:
    """One file with (values of the physical columns as Arrow takes them, clock in ms, kind) in arrival order.

    ``suffix`` WITHDRAWN: a lookup table has these rows no longer.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = (*table.physical_columns, _CLOCK, _KIND)
    records = (
        (*values, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=clock), kind)
        for values, clock, kind in rows
    )
    arrays = [
        pa.array(values, c.type.to_arrow()) for values, c in zip(zip(*records, strict=True), columns, strict=True)
    ]
    target = _inputs(directory, table) / f"{number:09d}{suffix}.parquet"
    hidden = target.with_name(f".{target.name}")
    pq.write_table(pa.table(arrays, names=[c.name for c in columns]), hidden)
    # Spark sorts files by modification time: seconds that follow the numbers keep the order of quick writes.
    os.utime(hidden, (number, number))
    hidden.rename(target)


def written(directory: Path, table: Table, after: int = -1) -> Iterator[tuple[int, pa.Table]]:
    """The micro-batches with rows in a sink, oldest first, that are newer than batch ``after``."""
    import pyarrow as pa

    for path in sorted(_outputs(directory, table).glob("*.arrow")):
        if int(path.stem) > after:
            with pa.ipc.open_file(path) as file:
                yield int(path.stem), file.read_all()


def asked_keys(directory: Path, table: Table) -> tuple[Asked, ...]:
    """The keys that a lookup table was asked for, as texts, once per request."""
    return tuple(asked(_inputs(directory, table)))


def _inputs(directory: Path, table: Table) -> Path:
    return directory / "inputs" / as_segment(table.name.lower())


def _outputs(directory: Path, table: Table) -> Path:
    return directory / "outputs" / as_segment(table.name.lower())


# --- the job's side -------------------------------------------------------------------------------------------


def read_step(spark: SparkSession, table: Table, columns: tuple[str, ...], steps: StepFolder) -> DataFrame:
    """The same columns of the rows of one step, anew each time that the DataFrame is computed."""
    schema = schema_ddl((*table.physical_columns, _CLOCK, _KIND))
    return _of_step(spark, _inputs(Path(steps.path), table), schema, steps).select(*_names(table, columns))


def ticks_of_step(spark: SparkSession, steps: StepFolder) -> DataFrame:
    """The tick of the step, as ``ControlRows.clock`` has it."""
    return _of_step(spark, Path(steps.path) / _TICKS, _TICK_DDL, steps)


def tick(directory: Path, number: int, clock_ms: int) -> None:
    """The tick of step ``number``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = directory / _TICKS
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"processing_time_ms": [clock_ms]}), folder / f"{number:09d}.parquet")


def _of_step(spark: SparkSession, folder: Path, ddl: str, steps: StepFolder) -> DataFrame:
    from sqlstream.udfs.spark.internals import arrow_schema
    from sqlstream.udfs.spark.steps import RowsOfStep

    schema = spark.createDataFrame([], ddl).schema
    rows = RowsOfStep(steps, str(folder), arrow_schema(schema))
    return spark.range(0, 1, 1, 1).mapInArrow(rows.rows, schema)


def _names(table: Table, columns: tuple[str, ...]) -> list[str]:
    kinds = [_KIND] if table.changelog != APPEND_ONLY else []
    return [quoted(c.name) for c in (*columns_of(table, columns), _CLOCK, *kinds)]


def _keep(folder: Path, batch: DataFrame, number: int) -> None:
    import pyarrow as pa

    rows = batch.toArrow()
    if rows.num_rows == 0:
        return
    target = folder / f"{number:09d}.arrow"
    hidden = target.with_name(f".{target.name}")
    with pa.ipc.new_file(hidden, rows.schema) as file:
        file.write_table(rows)
    hidden.rename(target)


def _require_test(folder: Path, table: Table) -> None:
    if not folder.is_dir():
        message = f'table "{table.name}" with the connector "test" is used outside a test'
        hint = "Run the script with sqlstream.testing.StreamTest, or choose another connector (SHOW CONNECTORS)."
        raise ConnectorError(OUTSIDE_A_TEST, message, hint=hint)


def _missing_delay(table: Table, spans: Mapping[str, Span]) -> Diagnostic | None:
    key, names = "test.delay-column", [c.name for c in table.physical_columns]
    name = table.option(key)
    if name is None or name in names:
        return None
    message = f'option "{key}" names the column "{name}", which table "{table.name}" does not have'
    return Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint_of(name, names, "Columns"))


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type and those within it."""
    yield kind
    for argument in kind.args:
        inner = argument[1] if isinstance(argument, tuple) else argument
        if isinstance(inner, DataType):
            yield from _parts(inner)


class Fed(Source, Sink, LookupTable):
    """Reads and writes the folders of a test. ConnectorError SS515 outside of one."""

    name = "test"
    doc = "Tables that a StreamTest feeds and watches."
    options = _OPTIONS

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        folder = _inputs(environment.directory, table)
        _require_test(folder, table)
        schema = schema_ddl((*table.physical_columns, _CLOCK, _KIND))
        return environment.spark.readStream.schema(schema).parquet(str(folder)).select(*_names(table, columns))

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        folder = _outputs(environment.directory, table)
        _require_test(folder, table)
        return lambda batch, number: _keep(folder, batch, number)

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """The kinds that ``test.takes`` or ``changelog-mode`` name, else upserts by PRIMARY KEY or all changes.

        A table in place of one of a script has ``test.takes``: it takes what that one does.
        """
        if (declared := table.option(TAKES)) is not None:
            return frozenset(kind for kind in RowKind if changelog_text(frozenset({kind})) in declared.split(","))
        if table.changelog != APPEND_ONLY:
            return table.changelog
        return UPSERT if table.primary_key else ALL_KINDS

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        if self.values(table)["role"] != "lookup":
            for key, _ in table.options:
                if key in _LOOKUP_ONLY:
                    message = f'option "{key}" belongs to lookup tables'
                    yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Add 'role' = 'lookup', or remove it.")
        elif wrong := _missing_delay(table, spans):
            yield wrong
        for column in table.physical_columns:
            if set(_WITHOUT_VALUES) & {kind.name for kind in _parts(column.type)}:
                message = f'connector "test" has no values of type {column.type} for column "{column.name}"'
                yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint="Choose another type.")

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        folder = _inputs(environment.directory, table)
        _require_test(folder, table)
        values = self.values(table)
        behaviour = Behaviour(
            delay_ms=values["test.delay"],
            delay_column=values["test.delay-column"],
            misses=values["test.misses-first"],
            fails=values["test.fail"],
            waits=values["test.wait-for-rows"],
        )
        return FedSource(table.name, request, str(folder), behaviour)

    def has_kinds(self, table: Table) -> bool:
        return True
