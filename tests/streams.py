"""Tables of Parquet files and hand-made plans, for tests of lowering and jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.lifecycle.session_jobs import request_of
from sqlstream.planner.catalog import Column, Function, Table, TimeDomain, Watermark
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.lowering import lower
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Output, Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.physical import EngineSettings, physical_plan
from sqlstream.types import UNKNOWN, parse_type
from sqlstream.udfs.functions import describe
from sqlstream.udfs.lookup.source import LookupSource
from sqlstream.udfs.lookup.sources.fed import Behaviour, FedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor

Row = tuple[Any, ...]


def sql(text: str) -> exp.Expression:
    """An expression, parsed as the dialect does."""
    (parsed,) = parse_query(f"SELECT {text}").expressions
    assert isinstance(parsed, exp.Expression)
    return parsed


def item(name: str, text: str, kind: str = "BIGINT") -> Item:
    """Without a ``kind`` its type is left to Spark."""
    return Item(name, sql(text), parse_type(kind) if kind else UNKNOWN)


def fields(**kinds: str) -> tuple[Field, ...]:
    return tuple(Field(name, parse_type(kind)) for name, kind in kinds.items())


def table(name: str, /, *, bounded: bool = True, delay_ms: int = 0, **kinds: str) -> Table:
    """A table with the columns of ``kinds``; ``ts``, where there is one, has a watermark."""
    columns = tuple(Column(column, parse_type(kind)) for column, kind in kinds.items())
    watermark = Watermark("ts", delay_ms) if "ts" in kinds else None
    return Table(name, columns, "test", watermark=watermark, bounded=bounded)


def scan(table: Table) -> Scan:
    return Scan(table, tuple(c.name for c in table.columns))


def timed(table: Table) -> AssignTime:
    """The rows of a table with ``ts`` as event time."""
    assert table.watermark is not None
    return AssignTime(scan(table), "ts", table.watermark.delay_ms, TimeDomain.EVENT, table.name)


def output(plan: Node) -> Output:
    return Output(plan, tuple(f.name for f in plan.schema))


def at(ms: float) -> datetime:
    """The instant ``ms`` milliseconds after 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@dataclass
class Streams:
    """A ``Runtime`` and ``Sources`` over folders of Parquet files, one folder per table."""

    spark: SparkSession
    folder: Path
    from_rows: bool = True
    engine: str = "native"
    max_parallelism: int = 4
    state_memory: int = 0
    steps_clock: bool = False
    run_id: str = ""
    chains: bool = True
    implementations: dict[str, object] = field(default_factory=dict)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    numbers: Iterable[int] = field(default_factory=itertools.count)

    @property
    def engine_settings(self) -> EngineSettings:
        return EngineSettings(self.engine, self.chains)

    def lower(self, plan: Node) -> DataFrame:
        """The streaming DataFrame of a logical plan."""
        return lower(physical_plan(plan, self.engine_settings), self)

    def lift(self, table: Table, watermark_ms: int) -> None:
        """Write a control row."""
        self.control_rows.lift(table.name, watermark_ms, f"step-{next(iter(self.numbers))}")

    def write(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Append rows; numbers in time columns are milliseconds since 1970."""
        target = self._folder(table)
        schema = pa.schema([(c.name, c.type.to_arrow()) for c in table.columns])
        values = zip(*rows, strict=True)
        arrays = [pa.array([_value(v, f.type) for v in vs], f.type) for vs, f in zip(values, schema, strict=True)]
        number = next(iter(self.numbers))
        pq.write_table(pa.table(arrays, schema=schema), target / f".{number}")
        (target / f".{number}").rename(target / f"{number:06d}.parquet")

    def run(self, plan: Node) -> list[Row]:
        """All rows of a plan over bounded tables, in the order of their texts."""
        tables: list[pa.Table] = []
        self._end_input(plan)
        rows = self.lower(output(plan))
        query = (
            rows.writeStream.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
            .option("checkpointLocation", str(self.folder / f"checkpoint-{next(iter(self.numbers))}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows_of(tables)

    @contextmanager
    def running(self, plan: Node) -> Iterator[Callable[[], list[Row]]]:
        """Run a plan over unbounded tables; the function processes what is there and returns the new rows."""
        tables: list[pa.Table] = []
        rows = self.lower(output(plan))
        writer = rows.writeStream.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

        def step() -> list[Row]:
            query.processAllAvailable()
            rows = rows_of(tables)
            tables.clear()
            return rows

        try:
            yield step
        finally:
            query.stop()

    def _end_input(self, plan: Node) -> None:
        """Rows and the end of input come in one micro-batch: the watermark moves behind it."""
        for node in plan.walk():
            if isinstance(node, AssignTime):
                self.control_rows.end(node.table)

    def _folder(self, table: Table) -> Path:
        folder = self.folder / table.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def control_rows(self) -> ControlRows:
        return ControlRows(LocalStorage(self.folder))

    # --- Runtime ----------------------------------------------------------------------------------------------

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        schema = ", ".join(f"`{c.name}` {c.type.ddl()}" for c in scan.table.columns)
        rows = self.spark.readStream.schema(schema).parquet(str(self._folder(scan.table)))
        return rows.select(*(f"`{name}`" for name in scan.columns))

    @property
    def zone(self) -> str | None:
        return "UTC"

    def reads_files(self, scan: Scan) -> bool:
        return False

    def discards(self, table: Table) -> bool:
        return False

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        raise AssertionError("Spark reads the files")

    def record_format(self, scan: Scan) -> None:
        raise AssertionError("Spark reads the files")

    def lookup(self, node: Lookup) -> LookupSource:
        assert isinstance(node.source, Table)
        folder = str(self._folder(node.source))
        return FedSource(node.source.name, request_of(node), folder, self.behaviours.get(node.source.name, Behaviour()))

    def control(self, name: str) -> DataFrame:
        return self.control_rows.stream(self.spark, name)

    def clock(self) -> DataFrame:
        return self.control_rows.clock(self.spark)

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        pass

    def timed(self, rows, column, delay_ms, table):
        return rows.withWatermark(column, f"{delay_ms} milliseconds")

    def stepped(self, blobs, processor, number):
        return None

    def event_time_from_rows(self, name: str) -> bool:
        return self.from_rows

    def function(self, name: str) -> Function | None:
        actual = self.implementations.get(name)
        return describe(name, actual, f"tests:{name}") if actual is not None else None

    def implementation(self, function: Function) -> object:
        return self.implementations[function.name]


def rows_of(tables: Iterable[pa.Table]) -> list[Row]:
    """The rows of several tables as tuples, in the order of their texts."""
    columns = [[c.to_pylist() for c in rows.columns] for rows in tables]
    return in_order(row for batch in columns for row in zip(*batch, strict=True))


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=lambda row: [str(value) for value in row])


def _value(value: object, kind: pa.DataType) -> object:
    if pa.types.is_timestamp(kind) and isinstance(value, int | float):
        actual = at(value)
        return actual if kind.tz else actual.replace(tzinfo=None)
    return value
