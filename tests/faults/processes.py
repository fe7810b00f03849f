"""Processes below a process: found with ``ps``, ended with kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: str


def descendants(pid: int) -> list[Process]:
    """The processes that a process has started, and those that they have."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    fields = (line.split(None, 2) for line in listed.splitlines())
    known = [Process(int(own), int(parent), rest[0] if rest else "") for own, parent, *rest in fields]
    return list(_below(pid, known))


def _below(pid: int, known: list[Process]) -> Iterator[Process]:
    for process in known:
        if process.parent == pid:
            yield process
            yield from _below(process.pid, known)


def python_workers(pid: int) -> list[Process]:
    """The processes below ``pid`` that run Python for Spark's tasks: forks of PySpark's daemon, or of the one that
    ``sqlstream.udfs.spark.daemon`` starts in its place. Both are told which module the forks run."""
    collected = [process for process in descendants(pid) if process.command.endswith("pyspark.worker")]
    daemons = {process.pid for process in collected}
    return [process for process in collected if process.parent in daemons]


def executors(pid: int) -> list[Process]:
    """The executors of a standalone cluster whose Worker runs below ``pid``."""
    return [process for process in descendants(pid) if "CoarseGrainedExecutorBackend" in process.command]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_all(pid: int) -> None:
    """A process and all below it, those that it has started last."""
    for item in [pid, *(process.pid for process in descendants(pid))]:
        kill(item)
