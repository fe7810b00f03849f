"""The log of Spark's file sink, which a job that goes on in another directory, or after a gap, has to begin anew.

``_spark_metadata`` has an entry per micro-batch, and each tenth is a compact one, for which Spark wants to find all
since the compact one before (``CompactibleFileStreamLog``). Spark skips micro-batches that the log has already.
"""

from __future__ import annotations

import re
from pathlib import Path

LOG = "_spark_metadata"

_BATCH = re.compile(r"sqlstream_batch=(\d+)")
_HEADER = "v1"
_COMPACT = ".compact"
_INTERVAL = 10  # Spark's default of spark.sql.streaming.fileSink.log.compactInterval


def newest_batch(folder: Path) -> int | None:
    """The last micro-batch that a job has written into a directory; None where none has."""
    newest = (newest_logged(folder), newest_folder(folder))
    return max((number for number in newest if number is not None), default=None)


def newest_logged(folder: Path) -> int | None:
    """The last micro-batch in the log; None where there is none, or not all since its last compact entry."""
    entries = _entries(folder / LOG)
    newest = max(entries, default=-1)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    return newest if newest >= 0 and all(n in entries for n in range(start, newest + 1)) else None


def newest_folder(folder: Path) -> int | None:
    """The last micro-batch with a folder of its own; None where there is none."""
    return max((int(match[1]) for path in folder.iterdir() if (match := _BATCH.fullmatch(path.name))), default=None)


def begin_after(folder: Path, batch: int) -> None:
    """Let the log go on after ``batch``, with nothing written in the micro-batches that it does not have."""
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


def logged_lines(folder: Path) -> list[str]:
    """What the log says of each file that counts, as JSON; nothing where there is no log."""
    return [line for line in _known(folder / LOG) if line]


def _entries(log: Path) -> dict[int, str]:
    """The names of entries by number, a compact one before a plain one."""
    if not log.is_dir():
        return {}
    names = sorted(p.name for p in log.iterdir() if p.name.removesuffix(_COMPACT).isdecimal())
    return {int(name.removesuffix(_COMPACT)): name for name in names}


def _interval(entries: dict[int, str]) -> int:
    """Spark's interval of compaction, as it derives it from the compact entries that are there."""
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
    """The lines of the last compact entry and of all since."""
    entries = _entries(log)
    start = max((n for n, name in entries.items() if name.endswith(_COMPACT)), default=0)
    names = (name for number, name in sorted(entries.items()) if number >= start)
    return [line for name in names for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]]


def _write(log: Path, name: str, lines: list[str]) -> None:
    (log / name).write_text("\n".join([_HEADER, *lines]), encoding="utf-8")
