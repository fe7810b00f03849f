"""The Spark that this process has: which one it is, whether it is Spark Connect, and whether it still answers."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ExecutionError
from sqlstream.spark.internals import connect_endpoint
from sqlstream.spark.not_installed import lack_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_SPARK = "SS413"

ONE_AT_A_TIME = RLock()
"""Held while Spark starts, and from when the settings of a session are in effect until its query or job is planned by
Spark: all sessions of a process share one Spark, whichever threads they are used by. Nobody waits for the end of a
query or a job with it."""

_LOADING = RLock()
"""Held while PySpark is loaded. Another lock than that of the start of Spark, which takes seconds, in which the shell
imports all else."""

_CONNECT = "sc://"
_CONNECT_URL = re.compile(r"sc://(?:[^@/;]*@)?([^:/;]*)(?::(\d+))?")
_CONNECT_PORT = 15002

_AT_START = (
    "spark.app.name", "spark.default.parallelism", "spark.executorEnv.", "spark.hadoop.", "spark.kubernetes.",
    "spark.master", "spark.yarn.",
)  # fmt: skip
_STOPPED = re.compile(r'dagScheduler\(\)"? is null|Cannot call methods on a stopped SparkContext')
_NO_ANSWER = re.compile(r"Answer from Java side is empty|An error occurred while calling \S+")  # and no exception


def running_session() -> SparkSession | None:
    """The Spark session of this process, whichever thread has started it; None where there is none.

    Does not import PySpark: without it there can be no session.
    """
    if "pyspark.sql" not in sys.modules:
        return None
    sql, errors = loaded("pyspark.sql"), loaded("pyspark.errors")
    with ONE_AT_A_TIME:
        try:
            active: SparkSession = sql.SparkSession.active()
        except errors.PySparkRuntimeError:
            return None
    return active


def loaded(name: str) -> Any:
    """Imports the module ``name``, which imports PySpark, and returns it. Only one thread at a time does so. Raises
    ExecutionError SS482 where PySpark is not installed.

    The modules of PySpark import each other in circles: two threads that begin at different places of a circle see
    modules without their names.
    """
    with _LOADING:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            raise lack_of(error) or error from error.__cause__


def require_master(spark: SparkSession, master: str | None) -> None:
    """Raises ExecutionError SS413 if the running Spark has another master than ``master``, because a process can have
    only one Spark. None accepts any.
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
    """The master for which a session was started: ``local[2]``, ``spark://host:7077``, ``sc://host:15002``."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        endpoint = connect_endpoint(spark) or spark.client.host
        return _place(f"{_CONNECT}{endpoint}")
    return str(spark.sparkContext.master)


def only_at_start(key: str) -> bool:
    """True for settings that Spark reads when it starts, and silently ignores later."""
    return key.startswith(_AT_START)


def put_back(spark: SparkSession, key: str, before: str | None) -> None:
    """Gives a setting the value that it had before; None for none."""
    if before is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, before)


def _place(master: str) -> str:
    """The master as Spark names it; a Spark Connect URL without user, token and other options."""
    if master.startswith("k8s://") and "://" not in master.removeprefix("k8s://"):
        return master.replace("k8s://", "k8s://https://")
    url = _CONNECT_URL.match(master)
    return master if url is None else f"{_CONNECT}{url[1]}:{url[2] or _CONNECT_PORT}"


def is_connect(spark: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def shares_files(spark: SparkSession) -> bool:
    """True if Spark sees the same files as this process. False for Spark on another machine, through Spark Connect."""
    if not is_connect(spark):
        return True
    host: str = spark.client.host
    return host in ("localhost", "127.0.0.1")


def is_spark_gone(error: BaseException) -> bool:
    """True for an error that says that Spark's process has ended, or that Spark has stopped in it."""
    from py4j.protocol import Py4JError, Py4JNetworkError  # a part of PySpark

    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    return (isinstance(error, Py4JError) and _NO_ANSWER.fullmatch(str(error)) is not None) or has_stopped(str(error))


def has_stopped(text: str) -> bool:
    """True for the text of an error that Spark raises when it has stopped, as it does where its scheduler fails."""
    return _STOPPED.search(text) is not None
