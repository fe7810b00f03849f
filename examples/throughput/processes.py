"""What this process and all below it use, from Linux's ``/proc``; elsewhere nothing is found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PARENT, _USER, _SYSTEM, _PAGES = 1, 11, 12, 21  # fields of /proc/<pid>/stat behind the name


@dataclass(frozen=True)
class Usage:
    resident_mb: int = 0
    processor_seconds: float = 0.0


def usage() -> Usage:
    """Of the processes that run now: what those that have ended used is gone."""
    found = dict(_processes())
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {pid for pid, fields in found.items() if fields[_PARENT] in family}
    fields = [found[pid] for pid in family if pid in found]
    pages = sum(of_process[_PAGES] for of_process in fields)
    ticks = sum(of_process[_USER] + of_process[_SYSTEM] for of_process in fields)
    return Usage(pages * os.sysconf("SC_PAGE_SIZE") >> 20, ticks / os.sysconf("SC_CLK_TCK"))


def _processes() -> list[tuple[int, list[int]]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:  # it has ended
            continue
        _, *fields = text[text.rindex(")") + 2 :].split()
        found.append((int(path.parent.name), [0, *map(int, fields)]))
    return found
