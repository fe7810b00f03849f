"""Which process runs a job, and whether it is still there."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """``started`` tells processes with the same number apart: ticks since the machine's start, where it is known."""

    host: str
    pid: int
    started: int | None = None

    @property
    def is_here(self) -> bool:
        """True for processes of this machine, whose end can be seen."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """True for a running process of this machine."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it is there, and somebody else's
        return _start_of(self.pid) == self.started


@cache
def this_process() -> Process:
    return process_here(os.getpid())


def process_here(pid: int) -> Process:
    """A process of this machine by its number."""
    return Process(socket.gethostname(), pid, _start_of(pid))


def _start_of(pid: int) -> int | None:
    """Linux tells it; a zombie has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state == "Z" else int(fields[18])
