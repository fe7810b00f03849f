"""The disk of a checkpoint, which can be full: a tmpfs of its own, or, where none may be mounted, a limit of processes.

Without the right to mount, every write of the job's processes to a file fails while the disk is "full" (RLIMIT_FSIZE of
0), those to the directory of its results too.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.processes import descendants

_SIZE = "2g"
_FILLER = "filler"


@dataclass(frozen=True)
class Disk:
    """``mounted``: the folder is a tmpfs, else processes are limited."""

    folder: Path
    mounted: bool

    def fill(self, pid: int, left: int) -> None:
        """Leave ``left`` bytes free."""
        if not self.mounted:
            for number in (pid, *(process.pid for process in descendants(pid))):
                with suppress(ProcessLookupError, PermissionError):
                    resource.prlimit(
                        number, resource.RLIMIT_FSIZE, (0, resource.prlimit(number, resource.RLIMIT_FSIZE)[1])
                    )
            return
        with (self.folder / _FILLER).open("wb") as filler:
            while (free := shutil.disk_usage(self.folder).free) > left:
                with suppress(OSError):  # the job writes, too
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), max(1, min(free - left, 1 << 26)))

    def free(self) -> None:
        """Processes that are started from now on can write again."""
        (self.folder / _FILLER).unlink(missing_ok=True)


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@contextmanager
def disk_at(folder: Path) -> Iterator[Disk]:
    mounted = may_mount() and _ran("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder))
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            _ran("umount", "--lazy", str(folder))


def _ran(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0
