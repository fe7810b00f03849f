"""Names in savepoints, which may come from anywhere: each must be that of a file in the folder where it stands."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from sqlstream.errors import ExecutionError
from sqlstream.jobs.savepoints.create import OWN_FILES

LEADS_OUT = "SS418"

_FOLDERS = ("spark", "control", "control-clock")
_HINT = "Do not use it: no savepoint that sqlstream has written is like that. Start from another one."


def require_confined(folder: Path, names: Iterable[str]) -> None:
    """ExecutionError SS418 where a file is not inside the folder, be it by its name or by a link, is none of those that
    a savepoint has, or is an archive with such names."""
    root = folder.resolve()
    for name in names:
        first, *rest = PurePosixPath(name).parts or ("",)
        is_own = name in OWN_FILES or (first in _FOLDERS and rest)
        if not is_own or not _is_plain(name) or not _is_inside(folder / name, root):
            raise _leads_out(folder, name)
        if name.endswith(".zip") and (folder / name).is_file():
            require_inside(folder / name, _in_archive(folder / name))


def require_inside(file: Path, names: Iterable[str]) -> None:
    """ExecutionError SS418 where a name that stands in a file leads out of the folder that the file is about."""
    for name in names:
        if not _is_plain(name):
            raise _leads_out(file, name)


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return str(path) == name and "\0" not in name and not path.is_absolute() and not {".", ".."} & {*path.parts}


def _is_inside(file: Path, root: Path) -> bool:
    """False also of names that no file can have here: too long ones, and such of surrogates."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            file.stat()
        return file.resolve().is_relative_to(root)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a link to itself
        return False


def _in_archive(path: Path) -> list[str]:
    """The names in an archive; none if it is no archive, which Spark notices when it reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []


def _leads_out(where: Path, name: str) -> ExecutionError:
    message = f'"{name}" in "{where}" is no name of a file of a savepoint'
    return ExecutionError(LEADS_OUT, message, detail="It would be read or written somewhere else.", hint=_HINT)
