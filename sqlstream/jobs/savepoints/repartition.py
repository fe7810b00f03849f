"""Another number of partitions for the state of a stopped query. Spark does it, in a micro-batch without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.errors import ExecutionError
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.spark.running import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_SPREAD = "SS457"

_HINT = "RESET 'parallelism.default' to keep the partitions of the savepoint; cores may differ in any case."


def repartition(spark: SparkSession, storage: LocalStorage, partitions: int) -> None:
    """Spread the state of a checkpoint over ``partitions``. ExecutionError SS457 where Spark cannot."""
    message = f"the state of the savepoint cannot be spread over {partitions} partitions"
    if is_connect(spark):
        raise ExecutionError(NOT_SPREAD, message, detail="Spark Connect has no way to ask for it.", hint=_HINT)
    try:
        spark._streamingCheckpointManager.repartition(storage.location("spark"), partitions)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ExecutionError(NOT_SPREAD, message, detail=reason, hint=_HINT) from error
