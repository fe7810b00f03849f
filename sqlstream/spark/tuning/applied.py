"""The one place from which Spark is tuned: what its start is told, what surrounds it, and what follows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.spark.tuning.archived_classes import jvm_options
from sqlstream.spark.tuning.choices import Tuning
from sqlstream.spark.tuning.guarded import guarded, guarded_context
from sqlstream.spark.tuning.kept_memory import huge_pages, malloc_of_processes, malloc_settings
from sqlstream.spark.tuning.quick_files import use_quick_files
from sqlstream.spark.tuning.quiet_errors import quiet_reported_errors
from sqlstream.spark.tuning.standard_error import messages_to
from sqlstream.spark.tuning.worker_python import worker_python
from sqlstream.spark.tuning.worker_sockets import socket_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVM optimizes what has been called some thousand times: all of Spark's planning, micro-batch after micro-batch,
# for a minute and a third of all processor time. Loops over rows still come to it within a second.
COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=30000 -XX:Tier4CompileThreshold=100000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def tuned_settings(master: str, tuning: Tuning) -> Mapping[str, str]:
    """Spark's settings for what is done."""
    sockets: Mapping[str, str] = {}
    if tuning.local_sockets:
        sockets = guarded("sqlstream.spark.local-sockets", lambda: socket_settings(master), sockets)
    return {**sockets, **malloc_settings()} if tuning.kept_memory else sockets


def java_options(stated: str, tuning: Tuning) -> tuple[str, ...]:
    """Options of Java, where those that the user states say nothing of the same."""
    compiler = COMPILER if tuning.late_compilation and "Tier" not in stated else ""
    pages = huge_pages() if tuning.kept_memory and "Pages" not in stated else ""
    uses_archive = tuning.class_archive and "Archive" not in stated
    archive = guarded("sqlstream.spark.class-archive", jvm_options, "") if uses_archive else ""
    return tuple(filter(None, (compiler, pages, archive)))


def worker_command(master: str, tuning: Tuning) -> str:
    """The command that starts the Python of tasks."""
    lean = tuning.lean_workers and master.startswith("local")
    return guarded("sqlstream.spark.lean-workers", worker_python, sys.executable) if lean else sys.executable


@contextmanager
def while_starting(log: Path, tuning: Tuning) -> Iterator[None]:
    """Around the start of Java, which keeps what it finds: where standard error leads, and its environment."""
    with ExitStack() as stack:
        if tuning.log_file:
            stack.enter_context(guarded_context("sqlstream.spark.log-file", messages_to(log)))
        if tuning.kept_memory:
            stack.enter_context(malloc_of_processes())
        yield


def tune_running(spark: SparkSession, tuning: Tuning) -> None:
    """Tunes a Spark of ours that has started."""
    if tuning.quick_files:
        guarded("sqlstream.spark.quick-files", lambda: use_quick_files(spark), None)
    be_quiet(tuning)


def be_quiet(tuning: Tuning) -> None:
    if tuning.quiet_errors:
        guarded("sqlstream.spark.quiet-errors", quiet_reported_errors, None)
