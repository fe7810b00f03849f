"""The Python that Spark starts as workers on this machine.

Spark puts a zip of PySpark's sources before the installed package. Python keeps no compiled modules of a zip, so each
worker would compile what it imports anew: half a second for every streaming query with state.
"""

from __future__ import annotations

import atexit
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

_SCRIPT = """#!/bin/sh
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in */python/lib/pyspark.zip) ;; *) kept=${{kept:+$kept:}}$entry ;; esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


_MOST_SECONDS = 60


def worker_python() -> str:
    """A command that starts this Python without the zip; it vanishes with this process.

    OSError where no program can be written or run in the folder for temporary files, which may be mounted so.
    """
    if os.name != "posix":
        return sys.executable
    handle, name = tempfile.mkstemp(prefix="sqlstream-python-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_SCRIPT.format(python=shlex.quote(sys.executable)))
    Path(name).chmod(0o700)
    atexit.register(Path(name).unlink, missing_ok=True)
    subprocess.run([name, "--version"], check=True, capture_output=True, timeout=_MOST_SECONDS)
    return name
