"""Folders of the user and of the machine where sqlstream keeps what is its own: state, caches, temporary files.

Homes may be missing, read-only or somebody else's, as in containers. State and caches are kept elsewhere then, or not
at all; without temporary files nothing runs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

NO_TEMPORARY_FILES = "SS437"

_NAME = "sqlstream"


def state_folder() -> Path | None:
    """``$XDG_STATE_HOME/sqlstream``, by default in ``~/.local/state``; None where nobody knows a home."""
    return _of_user("user_state_path")


def cache_folder() -> Path | None:
    """``$XDG_CACHE_HOME/sqlstream``, by default in ``~/.cache``; None where nobody knows a home."""
    return _of_user("user_cache_path")


def config_folder() -> Path | None:
    """``$XDG_CONFIG_HOME/sqlstream``, by default in ``~/.config``; None where nobody knows a home."""
    return _of_user("user_config_path")


def _of_user(kind: str) -> Path | None:
    import platformdirs  # which workers, who have their own Python, may lack

    try:
        folder: Path = getattr(platformdirs, kind)(_NAME)
    except RuntimeError:
        return None
    return folder


def made(folder: Path | None) -> Path | None:
    """The folder, which is made where it is not there; None where nothing can be written in it."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        return None
    return folder if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder that can be seen."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def temporary_folder(prefix: str) -> Path:
    """A new folder for temporary files. ExecutionError SS437 where there can be none."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise no_temporary_files(error) from error


def no_temporary_files(error: OSError) -> ExecutionError:
    """That neither $TMPDIR nor any other folder for temporary files can be written."""
    hint = "Set the environment variable TMPDIR to a directory that can be written and has room."
    return ExecutionError(NO_TEMPORARY_FILES, f"temporary files cannot be made: {reason_of(error)}", hint=hint)
