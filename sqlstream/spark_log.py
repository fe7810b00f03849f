"""The log of the Spark that this process has started: a file that is still there when somebody looks for a cause.

It lies below the user's folder for state, as command histories do. Of those that say something, the newest
``KEPT`` stay; empty ones vanish with their process.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

KEPT = 20
"""With Spark's log level, ERROR, a log is some kB."""

_current: Path | None = None


def log_folder() -> Path:
    """``$XDG_STATE_HOME/sqlstream/logs``, by default in ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "sqlstream", "logs")


def new_log() -> Path:
    """An empty file for what Spark writes; in the folder for temporary files where the user's cannot be written."""
    global _current
    try:
        folder = log_folder()
        folder.mkdir(parents=True, exist_ok=True)
        _current = _file_in(folder)
        _remove_old(folder)
    except (OSError, RuntimeError):  # a home that is read-only, or that there is not
        _current = _file_in(Path(tempfile.gettempdir()))
    atexit.register(_remove_empty, _current)
    return _current


def where_spark_tells() -> str:
    """Spark's log, within the sentence of a hint; with its path where this process has started Spark."""
    return "Spark's log" if _current is None else f'Spark\'s log "{_current}"'


def _file_in(folder: Path) -> Path:
    started = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    handle, name = tempfile.mkstemp(prefix=f"spark-{started}-{os.getpid()}-", suffix=".log", dir=folder)
    os.close(handle)
    return Path(name)


def _remove_old(folder: Path) -> None:
    """Names begin with the time; of a process that still runs the log goes too, which is then far from the newest."""
    for file in sorted(folder.glob("spark-*.log"))[:-KEPT]:
        with suppress(OSError):
            file.unlink()


def _remove_empty(file: Path) -> None:
    with suppress(OSError):
        if not file.stat().st_size:
            file.unlink()
