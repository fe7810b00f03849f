"""What this process and all below it use."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from sqlstream.telemetry.processes import PROC, shared_bytes

_TASK = "Executor task"
"""A child of Java with this name is about to become another program; until then it seems to have all of its memory."""


@dataclass(frozen=True)
class Usage:
    resident_mb: int = 0
    processor_seconds: float = 0.0


def usage() -> Usage:
    """Of the processes that run now: what those that have ended used is gone. Memory that forks share, in which state
    is kept, counts once."""
    this = psutil.Process()
    collected = [_of(process) for process in (this, *this.children(recursive=True))]
    own, shared = sum(size for size, _, _ in collected), max(size for _, size, _ in collected)
    return Usage((own + shared) >> 20, sum(seconds for _, _, seconds in collected))


def _of(process: psutil.Process) -> tuple[int, int, float]:
    """Bytes of its own, bytes that it shares with others, and seconds; none of one that has ended."""
    try:
        with process.oneshot():
            times, size = process.cpu_times(), process.memory_info().rss
            if process.name().startswith(_TASK):
                return 0, 0, times.user + times.system
            shared = shared_bytes(PROC / str(process.pid))
            return size - shared, shared, times.user + times.system
    except psutil.Error:
        return 0, 0, 0.0


@dataclass(frozen=True)
class Memory:
    """Megabytes: of this process, of Java, of Spark's Python workers."""

    driver: int
    java: int
    workers: int


def memory() -> Memory:
    this = psutil.Process()
    java = workers = 0
    for process in this.children(recursive=True):
        try:
            size, command = process.memory_info().rss, " ".join(process.cmdline())
        except psutil.Error:
            continue
        if "java" in command.split(" ", 1)[0]:
            java += size
        elif "pyspark" in command:
            workers += size
    return Memory(this.memory_info().rss >> 20, java >> 20, workers >> 20)
