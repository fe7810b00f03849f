"""The Java that Spark runs on, and what jobs take of the memory of the machine.

``python -m sqlstream.spark.java`` reports whether there is one.

The check needs nothing that has to be installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sqlstream.errors import ExecutionError, SqlStreamError

OLDEST_JAVA = 17
_INSTALL = (
    'Install one: on Debian or Ubuntu "sudo apt-get install openjdk-17-jre-headless", '
    'on macOS "brew install openjdk@17", and have JAVA_HOME or PATH point to it.'
)


def find_java() -> str | None:
    """The Java executable that Spark starts: that of JAVA_HOME if set, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home, "bin", "java")
        return str(executable) if executable.is_file() else None
    return shutil.which("java")


def java_version(executable: str) -> int | None:
    """The feature release (8, 17, 21, …) of a Java executable; None where it does not run."""
    try:
        process = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr + process.stdout)
    return int(match.group(1)) if match and process.returncode == 0 else None


def require_java() -> None:
    """Raise SS491 where there is no Java, SS492 where it is too old for Spark; both say what to install."""
    executable = find_java()
    if executable is None:
        home = os.environ.get("JAVA_HOME")
        where = f'JAVA_HOME is "{home}", which has no bin/java' if home else "there is no java on PATH"
        raise ExecutionError("SS491", f"Java {OLDEST_JAVA} or newer is needed, and {where}", hint=_INSTALL)
    version = java_version(executable)
    if version is None or version < OLDEST_JAVA:
        defect = "does not run" if version is None else f"is Java {version}"
        raise ExecutionError(
            "SS492", f'Java {OLDEST_JAVA} or newer is needed, and "{executable}" {defect}', hint=_INSTALL
        )


# --- memory ---------------------------------------------------------------------------------------------------

_LEAST_MB, _MOST_MB, _UNKNOWN_MB = 1024, 3072, 2048
_SHARE = 4
_SHARE_OF_STATE = 24
_ENOUGH_FOR_MICRO_BATCHES = 16 << 30


def java_heap(memory: int | None) -> str:
    """The heap of a Spark that this process starts, as ``spark.driver.memory``: a quarter of ``memory`` (bytes; None
    if unknown, for which it is 2 GB), at least 1 GB and at most 3 GB. Python's processes hold the rows and need the
    rest.
    """
    share = _UNKNOWN_MB if memory is None else (memory >> 20) // _SHARE
    return f"{min(max(share, _LEAST_MB), _MOST_MB)}m"


def default_state_memory(memory: int | None) -> int:
    """The bytes in which workers keep state between micro-batches where no setting says it: a 24th of ``memory``
    (bytes; None if unknown, for which it is nothing).
    """
    return 0 if memory is None else memory // _SHARE_OF_STATE


def share_of_micro_batches(memory: int | None) -> float:
    """How much of the usual bounds of micro-batches ``memory`` (bytes; None if unknown) is enough for: all of them from
    16 GB on, and proportionally less below, but an eighth.
    """
    return 1.0 if memory is None else min(max(memory / _ENOUGH_FOR_MICRO_BATCHES, 1 / 8), 1.0)


def memory_limit(root: Path = Path("/")) -> int | None:
    """The bytes of memory that this process may use: what the machine has, or less where a container or a service (a
    control group of Linux, version 1 or 2) has a limit; None if the system does not say. ``root``: where /proc and /sys
    are.
    """
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return min((machine, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """The limits of the control groups above this process. Those above a container, it cannot see."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        folder, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        for group in (PurePosixPath(own), *PurePosixPath(own).parents):
            with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                yield int((root / "sys/fs/cgroup" / folder / str(group).lstrip("/") / name).read_text(encoding="ascii"))


def main() -> int:
    """Print the reason why Spark cannot run on the installed Java; returns the exit code."""
    try:
        require_java()
    except SqlStreamError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
