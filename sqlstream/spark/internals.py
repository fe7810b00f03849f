"""The one door to what PySpark keeps to itself, which any version of it may change.

Each function answers None, or does nothing, where this PySpark has not what it asks for: callers go on without. What
they ask for is listed in ``PROBES``; ``missing`` says what of that this PySpark has not. Operators have a door of their
own, ``udfs/spark/internals.py``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """The probed names that this PySpark lacks."""
    return tuple(f"{owner}.{name}" for owner, name in probes if not hasattr(_object(owner), name))


def _object(path: str) -> Any:
    from importlib import import_module

    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def attribute(value: object, *names: str) -> Any:
    """The attribute at the end of the names; None if one of them does not exist."""
    return reduce(lambda inner, name: getattr(inner, name, None), names, value)


def java_of(spark: SparkSession) -> Any:
    """The Java of a session that runs in this process, as py4j shows it."""
    return attribute(spark, "sparkContext", "_jvm")


def make_active(spark: SparkSession) -> None:
    """Lets Java take the session for that of this thread, as creating a DataFrame does: where a thread has another one,
    Spark refuses sources in Python that only the other one knows, because their names exist."""
    sessions: Callable[[Any], Any] | None = attribute(type(spark), "_get_j_spark_session_class")
    session, jvm = attribute(spark, "_jsparkSession"), java_of(spark)
    if sessions is not None and session is not None and jvm is not None:
        sessions(jvm).setActiveSession(session)


def hadoop_configuration(spark: SparkSession) -> Any:
    """Hadoop's configuration in Spark's JVM; None where PySpark does not give it."""
    ask: Callable[[], Any] | None = attribute(spark, "sparkContext", "_jsc", "hadoopConfiguration")
    return None if ask is None else ask()


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java that PySpark has started from this process."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = attribute(SparkContext, "_gateway", "proc")
    return process


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java of this process with Spark's settings, before there is a session. AttributeError where this
    PySpark starts it otherwise: the settings that are kept back must not go where they may be read."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)


def end_connection() -> None:
    """Close what PySpark has open to Java. Whatever fails there: Java may have died."""
    from pyspark import SparkContext

    # PySpark's thread that waits for counts from the JVM would print that its connection has ended.
    for end in (
        attribute(SparkContext, "_active_spark_context", "_accumulatorServer", "shutdown"),
        attribute(SparkContext, "_gateway", "shutdown"),
    ):
        if end is not None:
            end()


def connect_endpoint(spark: SparkSession) -> str | None:
    """Host and port of a session of Spark Connect; None for builders other than the default one."""
    endpoint: str | None = attribute(spark, "client", "_builder", "endpoint")
    return endpoint


def java_trace(error: BaseException) -> str | None:
    """Spark's stack trace in Java, with all causes."""
    through_connect = getattr(error, "getStackTrace", None)
    trace: str | None = through_connect() if through_connect is not None else getattr(error, "_stackTrace", None)
    return trace
