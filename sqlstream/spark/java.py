"""The Java that Spark runs on, and its class archive. ``python -m sqlstream.spark.java`` reports whether there is one.

The check needs nothing that has to be installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.paths import cache_folder, is_there

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


# --- The class archive -------------------------------------------------------------------------------------------
# The classes of the JVM, loaded and verified once and stored in a file, with which Spark starts faster. The module
# ``sqlstream.class_archive`` makes the file, and every local session uses it from then on. The JVM checks that Java and
# all jars are the same, and ignores the archive if not.


COMMAND = "python -m sqlstream.class_archive"
QUIET = "-Xlog:cds=off -Xlog:class+path=off"
"""An archive that does not fit is no news."""

_SLOW_SECONDS = 3.0


def archive_file() -> Path | None:
    """The archive for this Spark and this Java, if there is one; None where the user has no cache."""
    folder = cache_folder()
    if folder is None:
        return None
    installation = f"{Path(find_java() or '').resolve()} {Path(pyspark.__file__).parent}"
    return folder / f"spark-{pyspark.__version__}-{hashlib.sha256(installation.encode()).hexdigest()[:12]}.jsa"


def jvm_options() -> str:
    """The options with which a JVM uses the archive; empty where there is none."""
    archive = archive_file()
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive is not None and is_there(archive) else ""


def advice(seconds: float) -> str | None:
    """The advice, given once for a Spark and a Java, that an archive would shorten a start of so many seconds.

    None where there is an archive, where the start was fast, and where it cannot be recorded that the advice was given.
    """
    archive = archive_file()
    if archive is None:
        return None
    said = archive.with_suffix(".advised")
    if seconds < _SLOW_SECONDS or is_there(archive) or is_there(said):
        return None
    try:
        said.parent.mkdir(parents=True, exist_ok=True)
        said.touch()
    except OSError:
        return None
    return f'Spark took {seconds:.0f} s to start; "{COMMAND}", run once, about halves that. (This is said once.)'


if __name__ == "__main__":
    sys.exit(main())
