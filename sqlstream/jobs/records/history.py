"""The epochs of a job: as Spark reported them (``epochs.json``), and as its checkpoint has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from sqlstream.jobs.checkpoints.storage import Storage, StoredFile
from sqlstream.jobs.reports.counts import rows_read
from sqlstream.jobs.reports.progress import state_rows
from sqlstream.udfs.texts import json_of

HISTORY_FILE = "epochs.json"
MOST_EPOCHS = 200
"""The number of epochs in the history, which may be more than Spark retains in the checkpoint."""

_SPARK = "spark"
_COMMIT = re.compile(r"commits/(\d+)")
_LOG = re.compile(r"(?:commits|offsets)/(\d+)")
_STATE = re.compile(r"state/.*/(\d+)(?:_[^/.]+)*\.(?:changelog|delta|snapshot|zip)")


@dataclass(frozen=True)
class Epoch:
    """A complete micro-batch as reported. ``time`` is its end in seconds since 1970, ``rows`` the number of
    rows read.
    """

    epoch: int
    time: float
    rows: int
    duration_ms: int
    state_rows: int


@dataclass(frozen=True)
class CheckpointLine:
    """A line of SHOW CHECKPOINTS. ``time`` is in seconds since 1970. ``size`` is how many bytes the epoch has added;
    None if unknown.

    ``retained``: the job could continue from this epoch.
    """

    epoch: int
    time: float
    rows: int | None
    duration_ms: int | None
    size: int | None
    state_rows: int | None
    retained: bool


class History:
    """The last epochs of a running job, from Spark's reports."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._epochs = read_epochs(storage)
        self._changed = False
        self._lock = Lock()

    def add(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Add the epochs of new reports; known epochs do not change."""
        with self._lock:
            for report in reports:
                number = int(report["batchId"])
                if number not in self._epochs:
                    self._epochs[number] = self._epoch(report)
                    self._changed = True

    def write(self) -> None:
        """Write the history if it has changed since the last time."""
        with self._lock:
            if self._changed:
                self._epochs = {number: self._epochs[number] for number in sorted(self._epochs)[-MOST_EPOCHS:]}
                self._storage.write(HISTORY_FILE, json.dumps([asdict(epoch) for epoch in self._epochs.values()]))
                self._changed = False

    def _epoch(self, report: Mapping[str, Any]) -> Epoch:
        duration_ms = int(report["batchDuration"])
        return Epoch(
            epoch=int(report["batchId"]),
            time=datetime.fromisoformat(report["timestamp"]).timestamp() + duration_ms / 1000,
            rows=rows_read(report),
            duration_ms=duration_ms,
            state_rows=state_rows(report),
        )


def read_epochs(storage: Storage) -> dict[int, Epoch]:
    """Returns a dictionary from number to epoch of a job's history; empty if the file is damaged, because no job
    depends on it.
    """
    try:
        epochs = [Epoch(**entry) for entry in json_of(storage.read(HISTORY_FILE) or "[]")]
    except (ValueError, TypeError):
        return {}
    return {epoch.epoch: epoch for epoch in epochs}


def checkpoints(storage: Storage) -> tuple[CheckpointLine, ...]:
    """Returns the epochs of a job that are in its history or in its checkpoint, as lines of SHOW CHECKPOINTS, newest
    first.
    """
    files, epochs = storage.files(_SPARK), read_epochs(storage)
    commits = {int(match[1]): file for path, file in files.items() if (match := _COMMIT.fullmatch(path))}
    sizes = _sizes(files)
    numbers = sorted({*commits, *epochs}, reverse=True)
    return tuple(_line(number, epochs.get(number), commits.get(number), sizes.get(number)) for number in numbers)


def last_committed(storage: Storage) -> int | None:
    """Returns the number of the newest complete epoch in a checkpoint; None if there is none."""
    return _last(storage, "commits")


def last_begun(storage: Storage) -> int | None:
    """Returns the number of the newest micro-batch that has begun, and may have written some of its rows; None if there
    is none.
    """
    return _last(storage, "offsets")


def begun_at(storage: Storage, number: int) -> datetime | None:
    """Returns when a micro-batch has begun, as Spark's log of offsets says it; None if that is unknown."""
    lines = (storage.read(f"{_SPARK}/offsets/{number}") or "").splitlines()
    try:
        time_ms = json_of(lines[1])["batchTimestampMs"] if len(lines) > 1 else 0
    except (ValueError, TypeError, KeyError):
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms else None


def _last(storage: Storage, log: str) -> int | None:
    numbers = (re.fullmatch(r"\d+", path) for path in storage.files(f"{_SPARK}/{log}"))
    return max((int(number[0]) for number in numbers if number), default=None)


def _line(number: int, epoch: Epoch | None, commit: StoredFile | None, size: int | None) -> CheckpointLine:
    retained = commit is not None
    if epoch is not None:
        return CheckpointLine(
            number, epoch.time, epoch.rows, epoch.duration_ms, size if retained else None, epoch.state_rows, retained
        )
    assert commit is not None
    return CheckpointLine(number, commit.time, None, None, size, None, retained)


def _sizes(files: Mapping[str, StoredFile]) -> dict[int, int]:
    """Offsets, commit and changes of state by epoch; the state's version 1 is that after epoch 0."""
    sizes: dict[int, int] = {}
    for number, size in _parts(files):
        sizes[number] = sizes.get(number, 0) + size
    return sizes


def _parts(files: Mapping[str, StoredFile]) -> Iterator[tuple[int, int]]:
    for path, file in files.items():
        log, state = _LOG.fullmatch(path), _STATE.fullmatch(path)
        if log:
            yield int(log[1]), file.size
        elif state:
            yield int(state[1]) - 1, file.size
