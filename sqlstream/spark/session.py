"""The Spark session of jobs: a local one, configured for streaming, or the user's own, classic or Connect."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlparse

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sqlstream.errors import Diagnostic, ExecutionError
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.spark.internals import end_connection, expect_end_of_java, java_process
from sqlstream.spark.java import java_heap, memory_limit, require_java
from sqlstream.spark.log import new_log
from sqlstream.spark.not_installed import MISSING_PACKAGE
from sqlstream.spark.private_settings import start_java
from sqlstream.spark.remembered_classes import remember_classes
from sqlstream.spark.running import require_master, running_session
from sqlstream.spark.tuning.applied import (
    be_quiet,
    java_options,
    tune_running,
    tuned_settings,
    while_starting,
    worker_command,
)
from sqlstream.spark.tuning.choices import ALL, NONE, Tuning
from sqlstream.spark.worker_package import send_package

# --- The end of the JVM that this process has started ----------------------------------------------------------


MOST_SECONDS = 20.0


def stop_jvm(spark: SparkSession) -> None:
    """Stop a local session and wait until its JVM has ended. This process cannot start another one."""
    spark.stop()
    end_jvm(None)


def end_jvm(most_seconds: float | None = MOST_SECONDS) -> None:
    """Let the JVM of this process end, and kill it after ``most_seconds``.

    RocksDB's compactions may still run when Spark has stopped. They call Java to report errors, Java blocks these
    calls while it shuts down and waits for them: such a JVM would never end.
    """
    process = java_process()
    if process is None or process.stdin is None:
        return
    with contextlib.suppress(Exception):  # it may have died
        end_connection()
    process.stdin.close()
    try:
        process.wait(most_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


UNSUITABLE_SESSION = "SS493"
NOT_STARTED = "SS494"

_JVM_OPTIONS = "spark.driver.extraJavaOptions"

# Spark walks down its plans and expressions on the stack of the thread that plans, where the usual megabyte takes less
# than long statements need. It is address space, of which only what is used becomes memory.
_STACK = "-Xss16m"

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

STREAMING = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.timeType.enabled": "true",
}
"""What the jobs rely on; these can be set on a running session."""

# Spark's own checkpoint file manager starts a process for each link that it looks at: 0.1 s and more per micro-batch.
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# Hive's file system, which Spark would take, replaces no file: a micro-batch that runs again would leave the state of
# the time before on the disk.
_FILE_SYSTEM = "org.apache.hadoop.fs.LocalFileSystem"

# What results depend on, and what they cost; for a session that nobody has set up before.
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    # To look at the bytes of a batch after each row costs as much as half of all else; the number of rows bounds it,
    # too. Jobs whose rows are blobs have a bound of their own (``jobs/lifecycle/launch.py``).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, only Spark reads well
}

_LOCAL = _SQL | {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    "spark.hadoop.fs.file.impl": _FILE_SYSTEM,
    "spark.sql.streaming.pollingDelay": "100",  # ms; Spark's 10 keep a third of a core busy while no rows come
    # Spark counts so much more for each file where it cuts files for tasks: with its 4 MB, two tasks share a file of 20
    # MB in parts of 12 and 8, and a micro-batch takes as long as its longest task.
    "spark.sql.files.openCostInBytes": "262144",
    # To compress what goes to a file of this machine, and comes from it, takes a third of what tasks of the JVM take.
    "spark.shuffle.compress": "false",
    # Sums that tell, where bytes do not fit, whether the disk or the network was wrong: a twentieth of what Java does
    # for large blobs, and there is no network.
    "spark.shuffle.checksum.enabled": "false",
    # Each partition of each operator with state has two such buffers, and RocksDB's own 64 MB are no faster here.
    "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "16",
    # It would plan a query without state again behind each of its shuffles, in every micro-batch.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # PySpark would look up, and tell Spark, for each column which of our lines has made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# Spark keeps the plans, stages and figures of the thousand queries that its pages show: each micro-batch adds some.
_UI = "spark.ui.enabled"
_WITHOUT_PAGES = {
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "5000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.ui.enabled": "false",
}

_HEAP = "spark.driver.memory"
_PARTITIONS = "spark.sql.shuffle.partitions"
_MOST_CORES = 10_000

_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_session(
    settings: Mapping[str, str] | None = None,
    master: str | None = None,
    secrets: Secrets = NO_SECRETS,
    tuning: Tuning = ALL,
) -> SparkSession:
    """Returns the running Spark session, or starts one on ``master`` (by default $SPARK_MASTER, else all cores of this
    machine) with Spark's ``settings``.

    ``tuning`` applies to a new one on this machine. Settings with secrets, which ``secrets`` or their key reveal, are
    kept off command lines.

    ``sc://host:port`` as master means Spark Connect. ExecutionError SS413 where another session is running, SS49x where
    Java is missing or too old, SS482 where Spark Connect lacks a package.
    """
    active = running_session()
    if active is not None:
        require_master(active, master)
        return prepared(active, tuning)
    if master is not None and master.startswith("sc://"):
        return prepared(_as_at_home(_remote_session(master)), tuning)
    return _local_session(master or os.environ.get("SPARK_MASTER", "local[*]"), settings or {}, secrets, tuning)


def _remote_session(master: str) -> SparkSession:
    """A session of Spark Connect. ExecutionError SS482 where a package that it needs is missing."""
    try:
        return SparkSession.builder.remote(master).getOrCreate()
    except PySparkImportError as error:
        raise ExecutionError(
            MISSING_PACKAGE,
            "Spark misses a Python package",
            detail=str(error),
            hint="Install what PySpark names: pip install 'pyspark[connect]' for Spark Connect.",
        ) from error


_in_effect = NONE


def tuning_in_effect() -> Tuning:
    """The optimizations with which this process has started Spark; all of them off if it has not started Spark."""
    return _in_effect


def _as_at_home(spark: SparkSession) -> SparkSession:
    """A new Connect session with the settings of a local one, and as many state partitions as there are cores: each
    costs a task in every micro-batch, and Spark's default is 200."""
    for key, value in _SQL.items():
        spark.conf.set(key, value)
    if spark.conf.get(_PARTITIONS) == "200":
        numbers = spark.range(_MOST_CORES).select(F.spark_partition_id().alias("number"))
        spark.conf.set(_PARTITIONS, str(numbers.agg(F.max("number")).collect()[0][0] + 1))
    return spark


def prepared(spark: SparkSession, tuning: Tuning = ALL) -> SparkSession:
    """Prepares a session that the user has made: sets the settings that jobs rely on where they are unset. Returns the
    session. Raises ExecutionError SS493 for settings with which results would be wrong.
    """
    for key, value in STREAMING.items():
        if spark.conf.get(key, None) is None:
            spark.conf.set(key, value)
    require_suitable(spark)
    remember_classes(spark)
    be_quiet(tuning)
    send_package(spark)
    return spark


def require_suitable(spark: SparkSession) -> None:
    """Raises ExecutionError SS493, which lists them, if the session has settings of Spark with which results would be
    wrong.
    """
    wrong = [
        Diagnostic(UNSUITABLE_SESSION, f'Spark\'s setting "{key}" is "{actual}"', hint=f'Set it to "{needed}".')
        for key, needed in STREAMING.items()
        if key.endswith(("noDataMicroBatches.enabled", "multipleWatermarkPolicy"))
        and (actual := spark.conf.get(key, needed)) != needed
    ]
    if wrong:
        raise ExecutionError.of(wrong)


def _local_session(master: str, settings: Mapping[str, str], secrets: Secrets, tuning: Tuning) -> SparkSession:
    global _in_effect
    require_java()
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_command(master, tuning)
    here = _THIS_MACHINE if _is_here(master) else {}
    if here:
        # Read before the settings: quiets a warning about host names.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("sqlstream")
    parallelism = {_PARTITIONS: str(_cores(master))}
    memory = {_HEAP: java_heap(memory_limit())}
    pages = {} if settings.get(_UI) == "true" else {_UI: "false", **_WITHOUT_PAGES}
    ours = {**_LOCAL, **pages, **here, **tuned_settings(master, tuning), **STREAMING, **parallelism, **memory}
    given = {**ours, **settings, **_jvm_options(settings, tuning)}
    for key, value in given.items():
        builder = builder.config(key, value)
    own = {"spark.master": master, "spark.app.name": "sqlstream"}
    spark = _started(builder, new_log(), lambda: start_java(own | given, secrets), tuning)
    _in_effect = tuning
    atexit.register(end_jvm)
    expect_end_of_java()
    remember_classes(spark)
    tune_running(spark, tuning)
    send_package(spark)
    return spark


def _is_here(master: str) -> bool:
    """True where all of Spark runs on this machine. Executors elsewhere need another address of the driver."""
    return master.startswith("local") or urlparse(master).hostname in ("localhost", "127.0.0.1")


def _jvm_options(settings: Mapping[str, str], tuning: Tuning = ALL) -> dict[str, str]:
    """The JVM options of the settings, with ours for what they leave open."""
    stated = settings.get(_JVM_OPTIONS, "")
    stack = "" if "-Xss" in stated else _STACK
    return {_JVM_OPTIONS: " ".join(filter(None, (stated, stack, *java_options(stated, tuning))))}


def _started(
    builder: SparkSession.Builder, log: Path, prepare: Callable[[], None] = lambda: None, tuning: Tuning = ALL
) -> SparkSession:
    try:
        with while_starting(log, tuning):
            prepare()
            return builder.getOrCreate()
    except Exception as error:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in lines if not line.startswith("\tat ")]  # frames of Java say nothing of the cause
        detail, hint = "\n".join(lines[-5:]) or str(error), f'All that Spark has said is in "{log}".'
        raise ExecutionError(NOT_STARTED, "Spark did not start", detail=detail, hint=hint) from error


def _cores(master: str) -> int:
    """The cores of ``local[n]``; all cores of this machine for ``local[*]`` and for other masters."""
    inside = master.removeprefix("local[").removesuffix("]")
    return int(inside) if inside.isdigit() else (1 if master == "local" else os.cpu_count() or 1)
