"""The log of the Spark that this process has started: a file that outlives the process.

It is in the user's state folder. The newest ``KEPT`` logs that are not empty are retained.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlstream.paths import made, no_temporary_files, state_folder

KEPT = 20
"""With Spark's log level, ERROR, a log is some kB."""

_OURS = re.compile(r"spark-\d{8}-\d{6}-\d+-\w+\.log")
_current: Path | None = None


def log_folder() -> Path | None:
    """``$XDG_STATE_HOME/sqlstream/logs``, by default in ``~/.local/state``; None where it cannot be written."""
    state = made(state_folder())
    return None if state is None else made(state / "logs")


def new_log() -> Path:
    """Creates an empty log file in the log folder, or in the temporary folder if that cannot be written, and returns
    its path.

    ExecutionError SS437 where neither can be written.
    """
    global _current
    folder = log_folder()
    try:
        _current = _file_in(folder)
    except OSError:  # it is full
        try:
            _current = _file_in(None)
        except OSError as error:
            raise no_temporary_files(error) from error
    if folder is not None:
        _remove_old(folder)
    atexit.register(_remove_empty, _current)
    return _current


def where_spark_tells() -> str:
    """Returns the words for Spark's log in a hint: ``Spark's log``, with the path of the file if this process has
    started Spark.
    """
    return "Spark's log" if _current is None else f'Spark\'s log "{_current}"'


def end_of_log(most_bytes: int = 1 << 18) -> str:
    """The last bytes of the log of the Spark that this process has started, as text; empty without one."""
    with suppress(OSError):
        if _current is not None:
            with _current.open("rb") as file:
                file.seek(max(0, _current.stat().st_size - most_bytes))
                return file.read().decode("utf-8", "replace")
    return ""


def _file_in(folder: Path | None) -> Path:
    started = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    handle, name = tempfile.mkstemp(prefix=f"spark-{started}-{os.getpid()}-", suffix=".log", dir=folder)
    os.close(handle)
    return Path(name)


def _remove_old(folder: Path) -> None:
    """Remove the oldest logs. File names begin with the time."""
    logs = sorted(path for path in folder.glob("spark-*.log") if _OURS.fullmatch(path.name))
    for file in logs[:-KEPT]:
        with suppress(OSError):
            file.unlink()


def _remove_empty(file: Path) -> None:
    with suppress(OSError):
        if not file.stat().st_size:
            file.unlink()
