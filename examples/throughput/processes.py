"""What this process and all below it use."""

from __future__ import annotations

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Usage:
    resident_mb: int = 0
    processor_seconds: float = 0.0


def usage() -> Usage:
    """Of the processes that run now: what those that have ended used is gone."""
    this = psutil.Process()
    collected = [_of(process) for process in (this, *this.children(recursive=True))]
    return Usage(sum(size for size, _ in collected) >> 20, sum(seconds for _, seconds in collected))


def _of(process: psutil.Process) -> tuple[int, float]:
    """Bytes and seconds; none of one that has ended."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
    except psutil.Error:
        return 0, 0.0


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
