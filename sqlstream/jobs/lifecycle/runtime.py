"""Gives lowering what a job has: the session's sources and functions, and control rows of its own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sqlstream.jobs.checkpoints.control import ControlRows
from sqlstream.jobs.checkpoints.fingerprint import DEFAULT_KEY_GROUPS
from sqlstream.planner.catalog import Function
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor

RunningOperator: TypeAlias = "tuple[tuple[int, ...], KernelProcessor]"


class Sources(Protocol):
    """Tables and functions of a session; see ``planner.lowering.Runtime`` for what each returns."""

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame: ...

    def reads_files(self, scan: Scan) -> bool:
        """See ``planner.physical.Engine``."""
        ...

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame: ...

    def lookup(self, node: Lookup) -> LookupSource: ...

    def function(self, name: str) -> Function | None: ...

    def implementation(self, function: Function) -> object: ...


@dataclass(frozen=True)
class JobRuntime:
    """The ``planner.lowering.Runtime`` of a job. ``operators``: what it is told of. ``rows_move_time``: where they do
    not, the end of the input alone moves watermarks, and no row is late."""

    spark: SparkSession
    sources: Sources
    control_rows: ControlRows
    max_parallelism: int = DEFAULT_KEY_GROUPS
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    rows_move_time: bool = True
    operators: list[RunningOperator] = field(default_factory=list, compare=False, repr=False)

    @property
    def steps_clock(self) -> bool:
        return False

    def read(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        return self.sources.read(scan, in_order=in_order)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        return self.sources.places(scan, in_order=in_order)

    def lookup(self, node: Lookup) -> LookupSource:
        return self.sources.lookup(node)

    def control(self, table: str) -> DataFrame:
        return self.control_rows.stream(self.spark, table)

    def clock(self) -> DataFrame:
        return self.control_rows.clock(self.spark)

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        self.operators.append((numbers, processor))

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        return rows.withWatermark(column, f"{delay_ms} milliseconds")

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        return None

    def event_time_from_rows(self, table: str) -> bool:
        return self.rows_move_time

    def function(self, name: str) -> Function | None:
        return self.sources.function(name)

    def implementation(self, function: Function) -> object:
        return self.sources.implementation(function)
