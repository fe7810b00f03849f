"""The process of Spark can end on its own; sessions then say so once and close."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from sqlstream.jobs.lifecycle.failure import is_cancellation, job_error
from sqlstream.settings import Settings
from sqlstream.spark.handle import SparkHandle
from sqlstream.spark.internals import expect_end_of_java
from sqlstream.spark.running import is_spark_gone


class Conf:
    """The settings of a Spark whose process has ended, once ``error`` is there."""

    error: Exception | None = None

    def get(self, key, default=None):
        return default

    def set(self, key, value):
        return None

    def unset(self, key):
        assert self.error is not None
        raise self.error


class Spark:
    def __init__(self):
        self.conf = Conf()


GONE = [
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
    Py4JNetworkError("An error occurred while trying to connect to the Java server (127.0.0.1:1)"),
    Py4JError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o43.awaitTermination"),
]


def released(error):
    handle = SparkHandle(None)
    spark: Any = Spark()
    handle._spark = spark
    settings = Settings()
    settings.set("spark.sql.shuffle.partitions", "3")
    handle.apply(settings)
    spark.conf.error = error
    handle.release()


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
def test_a_session_closes_without_spark(error):
    released(error)
    assert str(job_error(error, "j", "/c")).splitlines()[0] == "SS464: the process of Spark has ended"


def test_other_errors_are_told():
    with pytest.raises(Py4JError, match="no such setting"):
        released(Py4JError("no such setting"))
    assert not is_spark_gone(FileNotFoundError("x"))
    assert not is_spark_gone(Py4JError("An error occurred while calling o4.stop. Trace:\njava.lang.Error"))


MEMORY = {
    "Job aborted … (TID 3): java.lang.OutOfMemoryError: Java heap space": ("Java heap space", '"spark.driver.memory"'),
    "Caused by: java.lang.OutOfMemoryError: GC overhead limit exceeded\n\tat x.Y": ("GC overhead", "micro-batches"),
    "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 16 byte(s) of direct memory": (
        "failed to allocate 16 byte(s)", "-XX:MaxDirectMemorySize"),
    "java.lang.OutOfMemoryError: Cannot reserve 8 bytes of direct buffer memory": ("Cannot", "MaxDirectMemorySize"),
    "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 64 bytes of memory": (
        "Unable to acquire 64 bytes", '"spark.executor.memory"'),
    "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory": ("native thread", "ulimit"),
    "java.lang.OutOfMemoryError: Metaspace": ("Metaspace", "MaxMetaspaceSize"),
}  # fmt: skip
STOPPED = Py4JError(
    'Cannot invoke "org.apache.spark.scheduler.DAGScheduler.cleanupQueryJobs(…)" because the return value of '
    '"org.apache.spark.SparkContext.dagScheduler()" is null'
)


@pytest.mark.parametrize("text", MEMORY)
def test_a_lack_of_memory_is_named_with_what_to_raise(text, tmp_path, monkeypatch):
    reason, setting = MEMORY[text]
    said = job_error(RuntimeError(text), "j", "/c").diagnostic
    assert (said.code, reason in said.message, setting in str(said.hint)) == ("SS474", True, True), said
    (tmp_path / "log").write_text(f"ERROR something\n{text}\nERROR Executor: stopped\n")
    monkeypatch.setattr("sqlstream.spark.log._current", tmp_path / "log")
    assert not is_cancellation(RuntimeError("Job 3 cancelled because SparkContext was shut down"))
    for error in (*GONE, STOPPED, RuntimeError("Job 3 cancelled because SparkContext was shut down")):
        assert job_error(error, "j", "/c").diagnostic.message == said.message
    assert job_error(RuntimeError("other"), "j", "/c").code == "SS400"


def test_a_killed_java_is_reported_as_that_and_a_stopped_spark_as_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("sqlstream.spark.log._current", tmp_path / "none")
    monkeypatch.setattr("sqlstream.jobs.lifecycle.failure.java_process", lambda: None)
    assert job_error(STOPPED, "j", "/c").diagnostic.message == "Spark has stopped"
    assert is_cancellation(RuntimeError("Job 3 cancelled because SparkContext was shut down"))
    killed = subprocess.Popen(["sleep", "60"])
    killed.kill()
    killed.wait()
    monkeypatch.setattr("sqlstream.jobs.lifecycle.failure.java_process", lambda: killed)
    said = job_error(GONE[0], "j", "/c").diagnostic
    assert (said.code, "was killed" in said.message, "local[2]" in str(said.hint)) == ("SS474", True, True)
    released(STOPPED)


@pytest.mark.parametrize(
    ("exit_code", "log", "expected"),
    [
        (52, "", "Java has run out of memory: its exit code says so, and its log nothing"),
        (1, "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n"
            "# Native memory allocation (mmap) failed to map 65536 bytes. Error detail: …\n",
         "the machine has given the process of Spark no more memory: "
         "Native memory allocation (mmap) failed to map 65536 bytes"),
        (1, "", "the process of Spark has ended"),
    ],
)  # fmt: skip
def test_a_java_without_memory_to_say_so_is_known_by_its_end(exit_code, log, expected, tmp_path, monkeypatch):
    (tmp_path / "log").write_text(log)
    monkeypatch.setattr("sqlstream.spark.log._current", tmp_path / "log")
    ended = subprocess.Popen(["sh", "-c", f"sleep 0.1; exit {exit_code}"])
    monkeypatch.setattr("sqlstream.jobs.lifecycle.failure.java_process", lambda: ended)
    assert job_error(GONE[0], "j", "/c").diagnostic.message == expected
    ended.wait()


def test_pyspark_prints_nothing_where_java_has_ended(monkeypatch):
    """Its thread that waits for counts would print a traceback behind the error of the job."""
    printed = []

    class Server:
        def handle_error(self, request, address):
            printed.append(sys.exception())

    server = Server()
    monkeypatch.setattr("sqlstream.spark.internals.attribute", lambda value, *names: _follow(value, names, server))
    expect_end_of_java()
    for error in (EOFError(), ConnectionResetError(), ValueError("wrong token")):
        try:
            raise error
        except Exception:
            server.handle_error(None, None)
    assert [str(error) for error in printed] == ["wrong token"]


def _follow(value, names, server):
    return server if names[0] == "SparkContext" else getattr(value, names[0], None)
