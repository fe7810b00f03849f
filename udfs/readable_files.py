"""Files that no reader takes, or that readers skip without a word: told apart by their first bytes."""

from __future__ import annotations

import os
from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.udfs.texts import reason_of

UNREADABLE = "SS528"
VANISHED = "SS529"
CUT = "SS531"

_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
_COLUMNAR = {"parquet": (b"PAR1", "a Parquet file"), "orc": (b"ORC", "an ORC file")}
_TEXTS = frozenset({"canal-json", "csv", "debezium-json", "json", "maxwell-json", "ogg-json", "text"})


def unreadable(path: str, why: str) -> ExecutionError:
    """SS528. ``why``: the end of a message ``file "…" cannot be read: …``."""
    hint = "Put a whole file in its place, or take it out of the directory; then start the job again."
    return ExecutionError(UNREADABLE, f'file "{shown_name(path)}" cannot be read: {why}', hint=hint)


def vanished(path: str, table: str | None = None) -> ExecutionError:
    """SS529 for a file that was there when the files of a micro-batch were listed."""
    of_table = f' of table "{table}"' if table else ""
    hint = (
        "Put it back and start the job again, which then reads it; with 'source.missing-files' = 'skip' in the WITH of "
        "the table the job goes on without such files."
    )
    return ExecutionError(VANISHED, f'file "{shown_name(path)}"{of_table} was listed, and is gone', hint=hint)


def cut(path: str, before: int, now: int) -> ExecutionError:
    """SS531 for a file that lost bytes while a micro-batch read it: readers take what is left for all there is."""
    message = f'file "{shown_name(path)}" was cut from {before:,} to {now:,} bytes while it was read'
    hint = (
        "Rows of it may be missing in what the job has written: put the whole file back under another name, or start "
        "anew. Replace files by moving others into their place."
    )
    return ExecutionError(CUT, message, hint=hint)


def shown_name(path: str) -> str:
    """The name with ``\\xff`` for bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def version_of(status: os.stat_result) -> tuple[int, ...]:
    """What differs where a file has changed: copies may keep the size and the time of change, as ``cp -p`` does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def require_readable(path: str, format: str) -> None:  # noqa: A002
    """SS528 where the file is not what its format or the end of its name says; SS529 where it is not there."""
    try:
        begins = _beginning(path)
    except FileNotFoundError:
        raise vanished(path) from None
    except OSError as error:
        raise unreadable(path, reason_of(error)) from None
    why = _fault(path, begins, format)
    if why is not None:
        raise unreadable(path, why)


def _beginning(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(4)


def _fault(path: str, begins: bytes, format: str) -> str | None:  # noqa: A002
    if format in _COLUMNAR:
        magic, kind = _COLUMNAR[format]
        if not begins:
            return f"it is empty, and not {kind}"
        return None if begins.startswith(magic) else f"it does not begin as {kind} does"
    suffix = Path(path).suffix.lower()
    packed = _MAGIC.get(suffix) if format in _TEXTS else None
    if packed is not None and not begins.startswith(packed):
        return f'it does not begin as a file "*{suffix}" does' if begins else f'it is empty, and no file "*{suffix}"'
    return None
