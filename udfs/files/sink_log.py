"""The log of Spark's file sink: which files of a directory count.

``_spark_metadata`` has an entry per micro-batch. Each tenth is a compact one, for which Spark needs all entries since
the previous compact one (``CompactibleFileStreamLog``). Spark skips micro-batches that the log has already. A job that
continues in another directory, or after a gap, must begin the log anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlstream.udfs.files.directories import path_of_url
from sqlstream.udfs.texts import json_of

LOG = "_spark_metadata"

_HEADER = "v1"
_COMPACT = ".compact"
_IN_PATHS = "/!$&'()*+,;=:@"  # what Java leaves as it is
_BLOCK_SIZE = 1 << 25  # of local files, for Hadoop
_INTERVAL = 10  # Spark's default of spark.sql.streaming.fileSink.log.compactInterval


def newest_logged(folder: Path) -> int | None:
    """Returns the last micro-batch in Spark's log of a directory. None without a log, or if entries after the last
    compact one are missing.
    """
    entries = _entries(folder / LOG)
    newest = max(entries, default=-1)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    return newest if newest >= 0 and all(n in entries for n in range(start, newest + 1)) else None


def begin_after(folder: Path, batch: int) -> None:
    """Adds empty entries to Spark's log up to micro-batch ``batch``, so that Spark's file sink continues with the next
    one.
    """
    log = folder / LOG
    entries = _entries(log)
    newest = max(entries, default=-1)
    if newest >= batch:
        return
    log.mkdir(parents=True, exist_ok=True)
    if newest < 0:
        whole = (batch + 1) // _INTERVAL * _INTERVAL - 1
        if whole >= 0:
            _write(log, f"{whole}{_COMPACT}", [])
        newest = whole
    interval = _interval(entries)
    for number in range(newest + 1, batch + 1):
        if (number + 1) % interval == 0:
            _write(log, f"{number}{_COMPACT}", _known(log))
        else:
            _write(log, str(number), [])


def log_batch(folder: Path, batch: int, files: Sequence[tuple[Path, int, int]]) -> None:
    """Adds the entry of micro-batch ``batch``, the one after the newest, to Spark's log of a directory, by one step of
    the file system. ``files``: their paths, sizes in bytes, and modification times in milliseconds.
    """
    log = folder / LOG
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_entry(*file), separators=(",", ":")) for file in files]
    is_compact = (batch + 1) % _interval(_entries(log)) == 0
    name, whole = (f"{batch}{_COMPACT}", [*_known(log), *lines]) if is_compact else (str(batch), lines)
    next_ = log / f".{name}.tmp"
    with next_.open("w", encoding="utf-8") as file:
        file.write("\n".join([_HEADER, *whole]))
        file.flush()
        os.fsync(file.fileno())
    next_.rename(log / name)


_TAIL = 1 << 20
"""So much of a compact entry is read for one micro-batch: some thousand files."""


def bytes_of_batch(folder: Path, batch: int, begin_ms: int) -> int | None:
    """Returns the bytes of the files that the log has of a micro-batch; None without an entry. In a compact entry they
    are the last ones, and not older than ``begin_ms``, when the micro-batch began. Raises OSError or ValueError where
    the log cannot be read.
    """
    plain, compact = folder / LOG / str(batch), folder / LOG / f"{batch}{_COMPACT}"
    if compact.is_file():
        return sum(int(file["size"]) for file in takewhile(lambda f: f["modificationTime"] >= begin_ms, _last(compact)))
    if not plain.is_file():
        return None
    lines = plain.read_text(encoding="utf-8").splitlines()[1:]
    return sum(int(json_of(line)["size"]) for line in lines if line)


def _last(entry: Path) -> Iterator[Any]:
    """The files of an entry from the last one on."""
    with entry.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
        lines = file.read().decode(errors="replace").splitlines()[1:]  # after the header, or what is cut
    return (json_of(line) for line in reversed(lines) if line)


def _entry(path: Path, size: int, modified: int) -> dict[str, object]:
    """A file as Spark's ``SinkFileStatus``."""
    place = {
        "path": f"file://{quote(str(path), safe=_IN_PATHS)}",
        "size": size,
        "isDir": False,
        "modificationTime": modified,
    }
    return place | {"blockReplication": 1, "blockSize": _BLOCK_SIZE, "action": "add"}


def logged_paths(folder: Path) -> list[str] | None:
    """Returns the paths of the files that count in a directory with Spark's log; None without a log. Other files there
    are of micro-batches that were never complete, or have been written again. Raises OSError or ValueError where the
    log cannot be read.
    """
    return [path_of_url(json_of(line)["path"]) for line in logged_lines(folder)] if (folder / LOG).is_dir() else None


def logged_lines(folder: Path) -> list[str]:
    """Returns the JSON lines of Spark's log, one per valid file; empty without a log."""
    return [line for line in _known(folder / LOG) if line]


def _entries(log: Path) -> dict[int, str]:
    """The names of entries by number; where a number has a compact and a plain one, the compact."""
    if not log.is_dir():
        return {}
    names = sorted(p.name for p in log.iterdir() if p.name.removesuffix(_COMPACT).isdecimal())
    return {int(name.removesuffix(_COMPACT)): name for name in names}


def _interval(entries: dict[int, str]) -> int:
    """The interval of compaction, derived from the compact entries as Spark does."""
    compact = sorted(number for number, name in entries.items() if name.endswith(_COMPACT))
    if not compact:
        return _INTERVAL
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    length = compact[0] + 1
    if length // 2 <= _INTERVAL:
        return length
    return next((i for i in range(_INTERVAL, length // 2 + 1) if length % i == 0), length)


def _known(log: Path) -> list[str]:
    """The lines of the last compact entry and of all entries after it."""
    entries = _entries(log)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    names = (name for number, name in sorted(entries.items()) if number >= start)
    return [line for name in names for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]]


def _write(log: Path, name: str, lines: list[str]) -> None:
    (log / name).write_text("\n".join([_HEADER, *lines]), encoding="utf-8")
