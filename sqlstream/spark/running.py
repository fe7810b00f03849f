"""The Spark that this process has: which one it is, whether it is Spark Connect, and whether it still answers."""

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
_NO_ANSWER = re.compile(r"Answer from Java side is empty|An error occurred while calling \S+")  # and no exception


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


def is_connect(spark: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def shares_files(spark: SparkSession) -> bool:
    """False where Spark runs on another machine, behind Spark Connect: paths are those of the server then."""
    if not is_connect(spark):
        return True
    host: str = spark.client.host
    return host in ("localhost", "127.0.0.1")


def is_spark_gone(error: BaseException) -> bool:
    """True where nobody answers any more who runs Spark, which is a process of its own."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    return isinstance(error, Py4JError) and _NO_ANSWER.fullmatch(str(error)) is not None
