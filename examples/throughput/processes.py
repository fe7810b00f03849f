"""What this process and all below it use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import psutil

_TASK = "Executor task"
"""A child of Java with this name is about to become another program; until then it seems to have all of its memory."""


@dataclass(frozen=True)
class Usage:
    resident_mb: int = 0
    processor_seconds: float = 0.0


def usage() -> Usage:
    """Of the processes that run now: what those that have ended used is gone. What processes of one program have in
    common counts once: memory that they share, in which state is kept, and files, above all libraries. What a fork has
    not written since it began counts for each.
    """
    this = psutil.Process()
    collected = [_of(process) for process in (this, *this.children(recursive=True))]
    shared: dict[str, int] = {}
    for each in collected:
        shared[each.program] = max(each.shared, shared.get(each.program, 0))
    size = sum(each.own for each in collected) + sum(shared.values())
    return Usage(size >> 20, sum(each.seconds for each in collected))


class _Used(NamedTuple):
    """By a process: bytes of its own, bytes of files and of memory that others may have too, and processor time."""

    program: str
    own: int = 0
    shared: int = 0
    seconds: float = 0.0


def _of(process: psutil.Process) -> _Used:
    """Nothing of a process that has ended."""
    try:
        with process.oneshot():
            program, times, size = process.name(), process.cpu_times(), process.memory_info()
    except psutil.Error:
        return _Used("")
    seconds = times.user + times.system
    if program.startswith(_TASK):
        return _Used(program, seconds=seconds)
    shared = getattr(size, "shared", 0)  # Linux says it
    return _Used(program, size.rss - shared, shared, seconds)


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
