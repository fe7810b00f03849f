"""The Java that Spark runs on. ``python -m sqlstream.spark.java`` reports whether there is one.

The check needs nothing that has to be installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
