"""Paths: folders for state, caches and temporary files, names of users as file names, folders of Python modules,
and files that are written whole.

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
from typing import IO
from urllib.parse import quote, unquote

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

NO_TEMPORARY_FILES = "SS437"

_NAME = "sqlstream"


def state_folder() -> Path | None:
    """Returns ``$XDG_STATE_HOME/sqlstream``, by default in ``~/.local/state``; None if there is no home folder."""
    return _of_user("user_state_path")


def cache_folder() -> Path | None:
    """Returns ``$XDG_CACHE_HOME/sqlstream``, by default in ``~/.cache``; None if there is no home folder."""
    return _of_user("user_cache_path")


def config_folder() -> Path | None:
    """Returns ``$XDG_CONFIG_HOME/sqlstream``, by default in ``~/.config``; None if there is no home folder."""
    return _of_user("user_config_path")


def _of_user(kind: str) -> Path | None:
    import platformdirs  # which workers, who have their own Python, may lack

    try:
        folder: Path = getattr(platformdirs, kind)(_NAME)
    except RuntimeError:
        return None
    return folder


def made(folder: Path | None) -> Path | None:
    """Creates the folder if necessary and returns it. Returns None if it cannot be created or written, or for None."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        return None
    return folder if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def is_there(path: Path) -> bool:
    """True where the file or folder exists and is accessible; errors of the file system count as False."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def temporary_folder(prefix: str) -> Path:
    """Creates a folder for temporary files and returns it. Raises ExecutionError SS437 where that is impossible."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise no_temporary_files(error) from error


def no_temporary_files(error: OSError) -> ExecutionError:
    """Returns the error SS437: no folder for temporary files, such as $TMPDIR, can be written."""
    hint = "Set the environment variable TMPDIR to a directory that can be written and has room."
    return ExecutionError(NO_TEMPORARY_FILES, f"temporary files cannot be made: {reason_of(error)}", hint=hint)


# --- Names of users as file names: they must never lead out of the folder that they stand in --------------------


def is_segment(name: str) -> bool:
    """True where the text can be the name of one file or folder, also after URL escapes in it are decoded."""
    return all(text not in ("", ".", "..") and not {*text} & {"/", "\0"} for text in (name, unquote(name)))


def as_segment(name: str) -> str:
    """Encodes a text as a valid file name, different texts differently. Letters, digits, ``-`` and ``_`` are not
    changed.
    """
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


# --- Python modules beside scripts, golden files and case files ------------------------------------------------


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """A context manager in which Python modules in ``folders`` can be imported. All other import paths have
    precedence.
    """
    entries = dict.fromkeys(str(folder.resolve()) for folder in folders)
    added = [entry for entry in entries if entry not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for entry in added:
            sys.path.remove(entry)


# --- files that stay when the machine dies ----------------------------------------------------------------------


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which is there, and on disk, when it is whole."""
    hidden = path.with_name(f".{path.name}")
    with hidden.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)


def flush_names(folder: Path) -> None:
    """Waits until the names in a folder are on disk, where ``whole_file`` leaves that to the file system."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
