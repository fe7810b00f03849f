"""Memory and processor time of a job's processes on this machine: Python, its Java, and the workers of Java."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessFigures:
    """Bytes of physical memory and seconds of processor time, by ``driver``, ``jvm`` and ``workers``; empty where the
    system does not say.
    """

    memory: Mapping[str, int] = field(default_factory=dict)
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Process:
    pid: int
    name: str
    parent: int
    ticks: int
    reaped: int
    pages: int
    shared: int
    """Bytes of memory that forks share, in which workers keep state: each of them has all of it."""


def process_figures(proc: Path = _PROC, pid: int | None = None) -> ProcessFigures:
    """The figures of a process, by default this one, and its descendants. ``proc``: the folder that Linux shows
    processes in. Workers that have ended count with their processor time, so that it only grows: Linux adds it to that
    of the children of the process that has started them.
    """
    own = os.getpid() if pid is None else pid
    processes = {process.pid: process for process in _processes(proc)}
    if own not in processes:
        return ProcessFigures()
    memory: dict[str, int] = {}
    shared: dict[str, int] = {}
    cpu: dict[str, float] = {}
    page, hertz = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    for process in processes.values():
        part = _part(process, own, processes)
        if part is not None:
            memory[part] = memory.get(part, 0) + process.pages * page - process.shared
            shared[part] = max(shared.get(part, 0), process.shared)
            cpu[part] = cpu.get(part, 0.0) + process.ticks / hertz
        if part in ("jvm", "workers"):
            cpu["workers"] = cpu.get("workers", 0.0) + process.reaped / hertz
    return ProcessFigures({part: size + shared[part] for part, size in memory.items()}, cpu)


def _part(process: _Process, own: int, processes: Mapping[int, _Process]) -> str | None:
    """What a process is for ``own``; None where it is no descendant of it."""
    if process.pid == own:
        return "driver"
    parent: _Process | None = process
    while parent is not None and parent.pid != own:
        parent = processes.get(parent.parent)
    if parent is None:
        return None
    return "jvm" if process.name == "java" else "workers"


def _processes(proc: Path) -> Iterator[_Process]:
    try:
        folders = [folder for folder in proc.iterdir() if folder.name.isdigit()]
    except OSError:
        return
    for folder in folders:
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has just ended
        begin, _, rest = text.rpartition(")")
        fields = rest.split()
        name = begin.partition("(")[2]
        own, reaped = (int(fields[i]) + int(fields[i + 1]) for i in (11, 13))
        shared = _shared_bytes(folder)
        yield _Process(int(folder.name), name, int(fields[1]), own, reaped, int(fields[21]), shared)


def _shared_bytes(process: Path) -> int:
    """Bytes of memory that a process shares and that are no file's; 0 where the system does not say. ``process``: its
    folder below /proc.
    """
    try:
        lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssShmem:")), 0)
