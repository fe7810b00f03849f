"""Paths: folders for state, caches and temporary files, names of users as file names, folders of Python modules.

A home may be missing, read-only or somebody else's, as in containers. State and caches are then stored elsewhere or not
at all; temporary files are required.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

NO_TEMPORARY_FILES = "SS437"

_NAME = "sqlstream"


def state_folder() -> Path | None:
    """The folder ``$XDG_STATE_HOME/sqlstream``, by default in ``~/.local/state``; None without a home folder."""
    return _of_user("user_state_path")


def cache_folder() -> Path | None:
    """The folder ``$XDG_CACHE_HOME/sqlstream``, by default in ``~/.cache``; None without a home folder."""
    return _of_user("user_cache_path")


def config_folder() -> Path | None:
    """The folder ``$XDG_CONFIG_HOME/sqlstream``, by default in ``~/.config``; None without a home folder."""
    return _of_user("user_config_path")


def _of_user(kind: str) -> Path | None:
    import platformdirs  # which workers, who have their own Python, may lack

    try:
        folder: Path = getattr(platformdirs, kind)(_NAME)
    except RuntimeError:
        return None
    return folder


def made(folder: Path | None) -> Path | None:
    """The folder, created if necessary; None where it cannot be written."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        return None
    return folder if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def is_there(path: Path) -> bool:
    """Whether the file or folder exists and may be accessed."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def temporary_folder(prefix: str) -> Path:
    """A new folder for temporary files. ExecutionError SS437 where none can be created."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise no_temporary_files(error) from error


def no_temporary_files(error: OSError) -> ExecutionError:
    """The error SS437 that no folder for temporary files, $TMPDIR or another, can be written."""
    hint = "Set the environment variable TMPDIR to a directory that can be written and has room."
    return ExecutionError(NO_TEMPORARY_FILES, f"temporary files cannot be made: {reason_of(error)}", hint=hint)


# --- Names of users as file names: they must never lead out of the folder that they stand in --------------------


def is_segment(name: str) -> bool:
    """True where a name is that of one file or folder, even if a URL's escapes in it are decoded."""
    return all(text not in ("", ".", "..") and not {*text} & {"/", "\0"} for text in (name, unquote(name)))


def as_segment(name: str) -> str:
    """The name as that of one file or folder, unique for each name; names of letters, digits, - and _ are unchanged."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


# --- Python modules beside scripts, golden files and case files ------------------------------------------------


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """A context in which modules of ``folders`` can be imported, after all others."""
    entries = dict.fromkeys(str(folder.resolve()) for folder in folders)
    added = [entry for entry in entries if entry not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for entry in added:
            sys.path.remove(entry)
