"""Kernels in bounded jobs of Spark: each job is a step of a test and starts from the state that the previous one left.

The files of a test are in one folder: the current step, its rows, and the state of each operator after each step.
Computing a step again gives the same result, because it starts from the same state.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Row

from sqlstream.udfs.garbage import spare_imports

if TYPE_CHECKING:
    from sqlstream.udfs.kernel import StateKey
    from sqlstream.udfs.spark.adapter import KernelProcessor


_STEP, _STATE, _TOLD = "step", "state", "told"


@dataclass(frozen=True)
class StepFolder:
    """The folder ``path`` in which a test keeps its state between micro-batches, which the test starts one by one
    (steps) instead of a streaming query.
    """

    path: str

    def begin(self, number: int, watermark_ms: int) -> None:
        """Records that the micro-batch ``number`` starts, with Spark's watermark ``watermark_ms`` in milliseconds."""
        Path(self.path, _STEP).write_bytes(pickle.dumps((number, watermark_ms)))

    @property
    def current(self) -> tuple[int, int]:
        """The number of the current micro-batch, and Spark's watermark at its start, in milliseconds."""
        number, watermark_ms = pickle.loads(Path(self.path, _STEP).read_bytes())
        return number, watermark_ms

    def state(self, operator: int, number: int) -> GroupStates:
        """The state of the operator with this number after the micro-batch ``number``; empty if there is none."""
        file = self._file(_STATE, operator, number)
        return pickle.loads(file.read_bytes()) if file.exists() else GroupStates()

    def keep(self, operator: int, number: int, state: GroupStates) -> None:
        """Stores the state of the operator with this number after the micro-batch ``number``."""
        _written(self._file(_STATE, operator, number), pickle.dumps(state))

    def reported(self, mark: int, number: int) -> int | None:
        """The newest event time, in milliseconds, that the rows of the micro-batch ``number`` had for the watermark
        definition with the index ``mark``; None if there was no row.
        """
        file = self._file(_TOLD, mark, number)
        return int(file.read_text()) if file.exists() else None

    def report(self, mark: int, number: int, time_ms: int) -> None:
        """Records the newest event time, in milliseconds, that the rows of the micro-batch ``number`` had for the
        watermark definition with the index ``mark``.
        """
        _written(self._file(_TOLD, mark, number), str(time_ms).encode())

    def _file(self, kind: str, which: int, number: int) -> Path:
        return Path(self.path, f"{kind}-{which}-{number}")


def _written(file: Path, content: bytes) -> None:
    temporary = file.with_name(f".{file.name}")
    temporary.write_bytes(content)
    temporary.replace(file)


@dataclass
class GroupStates:
    """The state of an operator in a test: for each key group the state entries and the timers, which are event times in
    Spark's milliseconds; and the number of late rows so far.
    """

    entries: dict[int, dict[StateKey, bytes]] = field(default_factory=dict)
    timers: dict[int, set[int]] = field(default_factory=dict)
    late: int = 0

    @property
    def next_timer(self) -> int | None:
        """The earliest event-time timer of all key groups, in Spark's milliseconds; None if there is no timer."""
        return min((timer for timers in self.timers.values() for timer in timers), default=None)


@dataclass(frozen=True)
class GroupEntries:
    """The ``state_server.Entries`` of a key group in a test, in memory."""

    entries: dict[StateKey, bytes]
    timers: set[int]

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        """The values of ``keys``, None for those that do not exist."""
        return [self.entries.get(key) for key in keys]

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None:
        """Writes and removes entries, and replaces ``deleted_timer`` by ``timer``, in Spark's milliseconds."""
        self.entries.update(entries)
        for key in removed:
            self.entries.pop(key, None)
        if deleted_timer is not None:
            self.timers.discard(deleted_timer)
        if timer is not None:
            self.timers.add(timer)


@dataclass(frozen=True)
class _Times:
    """Spark's ``TimerValues`` and ``ExpiredTimerInfo`` at once."""

    watermark_ms: int
    expiry_ms: int = 0

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self.watermark_ms

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self.expiry_ms


@dataclass(frozen=True)
class SteppedProcessor:
    """Calls a pickled ``KernelProcessor`` in a test as Spark would in a micro-batch: first for key groups with rows,
    then for timers that are due. ``output``: the columns of its output.
    """

    pickled: bytes
    operator: int
    steps: StepFolder
    output: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Processes the input of a micro-batch, in which each row is a blob with many input rows as bytes; yields the
        output.
        """
        spare_imports()
        number, watermark_ms = self.steps.current
        state = self.steps.state(self.operator, number - 1)
        processor: KernelProcessor = pickle.loads(self.pickled)
        blobs: dict[int, list[Row]] = {}
        for batch in batches:
            for blob in batch.to_pylist():
                blobs.setdefault(blob["key_group"], []).append(Row(**blob))
        rows = list(self._called(processor, blobs, state, watermark_ms))
        state.late += sum(row.late_rows or 0 for row in rows)
        self.steps.keep(self.operator, number, state)
        columns = [pa.array([row[f.name] for row in rows], f.type) for f in self.output]
        yield pa.RecordBatch.from_arrays(columns, schema=self.output)

    def _called(
        self, processor: KernelProcessor, blobs: dict[int, list[Row]], state: GroupStates, watermark_ms: int
    ) -> Iterator[Row]:
        now: Any = _Times(watermark_ms)
        for group in sorted(blobs):
            processor.begin(_entries_of(state, group))
            yield from processor.rows(iter(blobs[group]), now)
        due = [(time, group) for group, times in state.timers.items() for time in times if time <= watermark_ms]
        for time, group in sorted(due):
            processor.begin(_entries_of(state, group))
            fired: Any = _Times(watermark_ms, time)
            yield from processor.expired(now, fired)
            state.timers[group].discard(time)


def _entries_of(state: GroupStates, group: int) -> GroupEntries:
    return GroupEntries(state.entries.setdefault(group, {}), state.timers.setdefault(group, set()))


@dataclass(frozen=True)
class RowsOfStep:
    """The source of a test: for each micro-batch the rows of a Parquet file in ``folder``, whose name is the number of
    the micro-batch in nine digits; no rows without that file.
    """

    steps: StepFolder
    folder: str
    schema: pa.Schema

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the current micro-batch, but only in the one task whose input ``batches`` have a row."""
        spare_imports()
        number, _ = self.steps.current
        file = Path(self.folder, f"{number:09d}.parquet")
        if sum(batch.num_rows for batch in batches) and file.exists():
            yield from pq.read_table(file).cast(self.schema).to_batches()


@dataclass(frozen=True)
class NewestTime:
    """The watermark definition of a test: passes rows on unchanged, and records the newest time in one of their
    columns.
    """

    steps: StepFolder
    mark: int
    column: str

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The unchanged rows of ``batches``."""
        spare_imports()
        newest: int | None = None
        for batch in batches:
            value = pc.max(batch.column(batch.schema.get_field_index(self.column)).cast(pa.int64())).as_py()
            if value is not None:
                newest = value if newest is None else max(newest, value)
            yield batch
        if newest is not None:
            number, _ = self.steps.current
            self.steps.report(self.mark, number, newest // 1000)
