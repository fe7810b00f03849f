"""The Spark that runs in this process already, and whether it is the one that somebody asks for."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from sqlstream.errors import ExecutionError
from sqlstream.spark.internals import connect_endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_SPARK = "SS413"

_CONNECT = "sc://"
_CONNECT_URL = re.compile(r"sc://(?:[^@/;]*@)?([^:/;]*)(?::(\d+))?")
_CONNECT_PORT = 15002

_AT_START = (
    "spark.app.name", "spark.default.parallelism", "spark.executorEnv.", "spark.hadoop.", "spark.kubernetes.",
    "spark.master", "spark.yarn.",
)  # fmt: skip


def running_session() -> SparkSession | None:
    """Spark's session of this process, whichever thread has started it; None where there is none.

    Where PySpark has not been imported there can be none, and it is not imported for that.
    """
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def require_master(spark: SparkSession, master: str | None) -> None:
    """ExecutionError SS413 where the running Spark is another one than is asked for: a process has one.

    ``master`` None asks for whatever there is.
    """
    running = master_of(spark)
    if master is None or _place(master) == running:
        return
    raise ExecutionError(
        OTHER_SPARK,
        f'Spark runs on "{running}" in this process already, not on "{_place(master)}"',
        hint="Stop that session first with SparkSession.active().stop(), or call connect() without a master to use it.",
    )


def master_of(spark: SparkSession) -> str:
    """The master that a session is asked to use: ``local[2]``, ``spark://host:7077``, ``sc://host:15002``."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        endpoint = connect_endpoint(spark) or spark.client.host
        return _place(f"{_CONNECT}{endpoint}")
    return str(spark.sparkContext.master)


def only_at_start(key: str) -> bool:
    """True for settings that Spark reads when it starts, and takes later without a word and without effect."""
    return key.startswith(_AT_START)


def _place(master: str) -> str:
    """The master as Spark calls it; of a URL of Spark Connect without user, token and other options."""
    if master.startswith("k8s://") and "://" not in master.removeprefix("k8s://"):
        return master.replace("k8s://", "k8s://https://")
    url = _CONNECT_URL.match(master)
    return master if url is None else f"{_CONNECT}{url[1]}:{url[2] or _CONNECT_PORT}"
