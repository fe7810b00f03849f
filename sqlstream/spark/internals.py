"""All access to private names of PySpark, which any version may change.

Each function returns None, or does nothing, where this version of PySpark lacks the name, and callers work without it.
``PROBES`` lists the names; ``missing`` reports those that are absent. Operators have a module of their own for that,
``udfs/spark/internals.py``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

PROBES: tuple[tuple[str, str], ...] = (
    ("pyspark.SparkContext", "_gateway"),
    ("pyspark.SparkContext", "_active_spark_context"),
    ("pyspark.SparkContext", "_ensure_initialized"),
    ("pyspark.SparkContext", "_jvm"),
    ("pyspark.sql.SparkSession", "_get_j_spark_session_class"),
    ("pyspark.logger.PySparkLogger", "getLogger"),
)
"""Classes and their attributes."""


def missing(probes: Iterable[tuple[str, str]] = PROBES) -> tuple[str, ...]:
    """Those names of PySpark's private API that the installed version lacks. ``probes`` are pairs of a module or class
    and the name of an attribute.
    """
    return tuple(f"{owner}.{name}" for owner, name in probes if not hasattr(_object(owner), name))


def _object(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def attribute(value: object, *names: str) -> Any:
    """Follows a chain of attribute names from ``value``. Returns the last attribute; None if one of them does not
    exist.
    """
    return reduce(lambda inner, name: getattr(inner, name, None), names, value)


def java_of(spark: SparkSession) -> Any:
    """The JVM of a session in this process, as py4j presents it."""
    return attribute(spark, "sparkContext", "_jvm")


def make_active(spark: SparkSession) -> None:
    """Make the session the active one of this thread in Java, as creating a DataFrame does.

    With another active session Spark does not find Python data sources that are registered in this one.
    """
    sessions: Callable[[Any], Any] | None = attribute(type(spark), "_get_j_spark_session_class")
    session, jvm = attribute(spark, "_jsparkSession"), java_of(spark)
    if sessions is not None and session is not None and jvm is not None:
        sessions(jvm).setActiveSession(session)


_OF_SOURCES = "SQLSTREAM_WORKERS"


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Registers a data source in Python, and makes the session the active one.

    Its readers get workers of their own. Spark lends workers in turns to whoever has the same environment: readers that
    only say what is to be read would else take those that hold the consumers, and leave them theirs.
    """
    make_active(spark)
    environment: dict[str, str] = attribute(spark, "sparkContext", "environment") or {}  # none through Spark Connect
    environment[_OF_SOURCES] = "sources"
    try:
        spark.dataSource.register(source)
    finally:
        environment.pop(_OF_SOURCES, None)


def paths_of_sources(rows: DataFrame) -> list[str | None] | None:
    """The option ``path`` of each source of a streaming DataFrame, None without one, in the order in which Spark's
    checkpoint numbers them (``MicroBatchExecution``). None where PySpark does not give the plan, as through Spark
    Connect.
    """
    execution: Callable[[], Any] | None = attribute(rows, "_jdf", "queryExecution")
    if execution is None:
        return None
    leaves = execution().analyzed().collectLeaves()
    streams = (leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming())
    return [_path_of_source(leaf) for leaf in dict.fromkeys(streams)]  # equal ones are one source


def _path_of_source(relation: Any) -> str | None:
    if relation.getClass().getSimpleName() != "StreamingRelation":
        return None
    path = relation.dataSource().options().get("path")
    return str(path.get()) if path.isDefined() else None


def hadoop_configuration(spark: SparkSession) -> Any:
    """Hadoop's configuration in Spark's JVM; None where PySpark does not give it."""
    ask: Callable[[], Any] | None = attribute(spark, "sparkContext", "_jsc", "hadoopConfiguration")
    return None if ask is None else ask()


def _pyspark() -> Any:
    import pyspark  # takes a second: only those who have a session pay for it

    return pyspark


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java process that PySpark has started from this process; None without one."""
    process: subprocess.Popen[bytes] | None = attribute(_pyspark(), "SparkContext", "_gateway", "proc")
    return process


def start_java(settings: Mapping[str, str]) -> None:
    """Starts the JVM of this process with Spark's settings, before there is a session. AttributeError if this version
    of PySpark starts Java differently; otherwise secrets in the settings could end up where other users can read them.
    """
    pyspark = _pyspark()
    conf = pyspark.SparkConf(loadDefaults=False).setAll(list(settings.items()))
    pyspark.SparkContext._ensure_initialized(conf=conf)


def end_connection() -> None:
    """Close PySpark's connection to Java, ignoring errors: Java may have died."""
    # PySpark's thread that waits for counts from the JVM would print that its connection has ended.
    for end in (
        attribute(_pyspark(), "SparkContext", "_active_spark_context", "_accumulatorServer", "shutdown"),
        attribute(_pyspark(), "SparkContext", "_gateway", "shutdown"),
    ):
        if end is not None:
            end()


def expect_end_of_java() -> None:
    """Keeps PySpark's thread that waits for counts from the JVM from printing a traceback when the JVM has ended, as it
    does for lack of memory: the job reports that.
    """
    server = attribute(_pyspark(), "SparkContext", "_active_spark_context", "_accumulatorServer")
    print_error = attribute(server, "handle_error")
    if print_error is None:
        return

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            print_error(request, address)

    server.handle_error = handle_error


def connect_endpoint(spark: SparkSession) -> str | None:
    """A pair of host and port of a Spark Connect session; None for channel builders other than the default one."""
    endpoint: str | None = attribute(spark, "client", "_builder", "endpoint")
    return endpoint


def java_trace(error: BaseException) -> str | None:
    """The Java stack trace, with all causes, of an error that Spark has raised in Python, as text; None for other
    errors.
    """
    through_connect = getattr(error, "getStackTrace", None)
    trace: str | None = through_connect() if through_connect is not None else getattr(error, "_stackTrace", None)
    return trace
