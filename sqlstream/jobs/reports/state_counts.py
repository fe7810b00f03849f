"""Counts what waits or is kept in a checkpoint: Spark reads the state of its last epoch, kernels tell what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.reports.waiting import Waiting
from sqlstream.planner.physical.steps import Gear
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.spark.state_reading import KEPT_DDL, WAITS_DDL, kept_of_group, wait_of, waits_of_group
from sqlstream.udfs.spark.state_server import NAME
from sqlstream.udfs.waiting import Pending, Wait, added

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.group import GroupedData

    from sqlstream.jobs.checkpoints.checkpoint import Checkpoint
    from sqlstream.jobs.lifecycle.runtime import RunningOperator

_MICROS = 1000
_ENTRIES = ("key.key_group", "user_map_key.name", "user_map_key.number", "user_map_value.text")


def waiting_in(
    checkpoint: Checkpoint, operators: Sequence[RunningOperator], spark: SparkSession
) -> tuple[Waiting, ...]:
    """The rows and timers that wait in the last epoch, by operator. For each operator with state a job of Spark
    reads the state."""
    if last_committed(checkpoint.storage) is None:
        return ()
    location = checkpoint.spark_location
    if checkpoint.layout.gear == Gear.NATIVE.value:
        return tuple(_windows(location, spark))
    counts = [
        waiting
        for number, operator in enumerate(_in_order(operators))
        for waiting in _waiting_of(location, number, operator, spark)
    ]
    return tuple(sorted(counts, key=lambda waiting: waiting.operator))


def rows_kept(checkpoint: Checkpoint, operators: Sequence[RunningOperator], spark: SparkSession) -> int:
    """How many rows the topmost operator keeps as state in the last epoch (``Kernel.kept_rows``)."""
    if last_committed(checkpoint.storage) is None:
        return 0
    _, processor = _in_order(operators)[0]
    counts = _groups(checkpoint.spark_location, 0, spark).applyInArrow(kept_of_group(processor), KEPT_DDL)
    return sum(row.rows for row in counts.collect())


def _in_order(operators: Sequence[RunningOperator]) -> list[RunningOperator]:
    """As Spark numbers them."""
    return sorted(operators, key=lambda operator: min(operator[0]))


def _groups(location: str, number: int, spark: SparkSession) -> GroupedData:
    """The entries of an operator's state by key group."""
    reader = spark.read.format("statestore").option("operatorId", number).option("stateVarName", NAME)
    return reader.load(location).select(*_ENTRIES).groupBy("key_group")


def _waiting_of(location: str, number: int, operator: RunningOperator, spark: SparkSession) -> Iterator[Waiting]:
    numbers, processor = operator
    groups = _groups(location, number, spark).applyInArrow(waits_of_group(processor), WAITS_DDL)
    by_stage: dict[int, list[Wait]] = {}
    for stage, *wait in groups.collect():
        by_stage.setdefault(stage, []).append(wait_of(*wait))
    for stage, waits in by_stage.items():
        yield from (_waiting(numbers[stage], wait) for wait in added(waits))


def _waiting(operator: int, wait: Wait) -> Waiting:
    timed = wait.domain is not None
    return Waiting(
        operator,
        wait.what.value,
        wait.count,
        by_clock=wait.domain is Domain.PROCESSING,
        first_ms=-(-wait.first // _MICROS) if timed else None,
        last_ms=-(-wait.last // _MICROS) if timed else None,
    )


def _windows(location: str, spark: SparkSession) -> Iterator[Waiting]:
    """Spark's own operators have a row of state for each open window of a key."""
    for operator in spark.read.format("state-metadata").load(location).collect():
        count = spark.read.format("statestore").option("operatorId", operator.operatorId).load(location).count()
        if count:
            yield Waiting(operator.operatorId, Pending.WINDOWS.value, count)
