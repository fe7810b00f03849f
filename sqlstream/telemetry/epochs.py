"""What epochs took, and for what: sums over the epochs of a job, from Spark's reports."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from sqlstream.jobs.checkpoints.watermarks import reached_watermarks
from sqlstream.jobs.reports.counts import added_by_name, observed, values_of
from sqlstream.jobs.reports.progress import bytes_of_store, stores_by_operator, watermark_of
from sqlstream.telemetry.partitions import PartitionsTotals, with_partitions
from sqlstream.udfs.files.listed import FILES, MISSING_METRIC, SIZES
from sqlstream.udfs.texts import json_of

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets of durations of epochs; longer ones are in the last bucket, which has none."""

PARTS = ("sources", "planning", "execution", "checkpoint", "other")
"""What an epoch consists of, in order. Reading, kernels, state and sink run in one pipeline: ``execution``."""

_PARTS_OF_SPARK = {
    "latestOffset": "sources",
    "getBatch": "sources",
    "queryPlanning": "planning",
    "addBatch": "execution",
    "walCommit": "checkpoint",
    "commitOffsets": "checkpoint",
    "commitBatch": "checkpoint",
}
_WHOLE = "triggerExecution"
_PHASES = {"update": "allUpdatesTimeMs", "expire": "allRemovalsTimeMs", "commit": "commitTimeMs"}
PHASES = tuple(_PHASES)
"""What tasks of an operator with state do: take rows in, remove what has expired and fire timers, and write state."""


@dataclass(frozen=True)
class EpochTotals:
    """Sums over the epochs of a job since its start.

    * ``buckets``: how many epochs fall into each bucket of ``BUCKETS_S``. ``seconds``: what all epochs took.
    * ``seconds_by_part``: the same by ``PARTS``. ``task_seconds``: what tasks of operators with state took, by number
      of the operator and phase; tasks run at the same time, so that may be more than the epochs took.
    * ``last_epoch``, ``last_end``: number and end of the last one, in seconds since 1970; None before the first.
    * ``last_event_ms``: the greatest event time of the last epoch that had rows with one.
    * ``watermarks_ms``: the last watermark of each table, of jobs with several sources.
    * ``bytes_by_table``: sizes of the files that were read; ``bytes_out``: of those that were written, by table.
    * ``partitions``: what was read of the partitions of Kafka's topics. ``rows_waiting``: rows that sources have and
      no epoch has read, by number of the source, where Spark reports the offsets of both.
    * ``native_state``: rows and bytes of the state of operators that Spark runs itself, by number and Spark's name.
    """

    count: int = 0
    seconds: float = 0.0
    buckets: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    seconds_by_part: Mapping[str, float] = field(default_factory=dict)
    task_seconds: Mapping[tuple[int, str], float] = field(default_factory=dict)
    last_epoch: int | None = None
    last_end: float | None = None
    last_event_ms: int | None = None
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    bytes_by_table: Mapping[str, int] = field(default_factory=dict)
    bytes_out: Mapping[str, int] = field(default_factory=dict)
    partitions: PartitionsTotals = field(default_factory=dict)
    rows_waiting: Mapping[int, int] = field(default_factory=dict)
    native_state: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def with_one(self, number: int, seconds: float, end: float) -> EpochTotals:
        """The totals with one more epoch, of which only its number, how long it took, and its end are known."""
        buckets = list(self.buckets)
        buckets[bisect_left(BUCKETS_S, seconds)] += 1
        return replace(
            self,
            count=self.count + 1,
            seconds=self.seconds + seconds,
            buckets=tuple(buckets),
            last_epoch=number,
            last_end=end,
        )


def with_epoch(
    totals: EpochTotals, report: Mapping[str, Any], read: Mapping[str, int], written: Mapping[str, int]
) -> EpochTotals:
    """Returns the totals with one more epoch. ``read`` and ``written``: bytes of its files, by table."""
    seconds = int(report["batchDuration"]) / 1000
    event_ms = watermark_of(report.get("eventTime", {}).get("max"))
    return replace(
        totals.with_one(int(report["batchId"]), seconds, begin_of(report) + seconds),
        seconds_by_part=_sum(totals.seconds_by_part, parts_of(report)),
        task_seconds=_sum(totals.task_seconds, task_seconds(report)),
        last_event_ms=totals.last_event_ms if event_ms is None else event_ms,
        watermarks_ms={**totals.watermarks_ms, **reached_watermarks(report)},
        bytes_by_table=added_by_name(totals.bytes_by_table, read),
        bytes_out=added_by_name(totals.bytes_out, written),
        partitions=with_partitions(totals.partitions, report),
        rows_waiting=rows_waiting(report),
        native_state=native_state(report),
    )


def begin_of(report: Mapping[str, Any]) -> float:
    """When an epoch began, in seconds since 1970."""
    return datetime.fromisoformat(report["timestamp"]).timestamp()


def parts_of(report: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of an epoch by ``PARTS``; ``other`` is what Spark's parts do not explain."""
    durations: Mapping[str, Any] = report.get("durationMs", {})
    parts = dict.fromkeys(PARTS, 0.0)
    for name, part in _PARTS_OF_SPARK.items():
        parts[part] += int(durations.get(name, 0)) / 1000
    whole = int(durations.get(_WHOLE, report["batchDuration"])) / 1000
    parts["other"] = max(0.0, whole - sum(parts.values()))
    return parts


def task_seconds(report: Mapping[str, Any]) -> dict[tuple[int, str], float]:
    """The seconds of the tasks of each operator with state in an epoch, by its number and phase."""
    return {
        (number, phase): int(store.get(name, 0)) / 1000
        for number, store in stores_by_operator(report).items()
        for phase, name in _PHASES.items()
    }


def native_state(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Rows and bytes of the state of operators that Spark runs itself, by their number in the report, and Spark's name,
    such as ``0: stateStoreSave``. Empty where all stores are those of our operators.
    """
    stores: Sequence[Mapping[str, Any]] = report["stateOperators"]
    if stores_by_operator(report):
        return {}
    return {
        f"{number}: {store.get('operatorName', 'state')}": (int(store.get("numRowsTotal", 0)), bytes_of_store(store))
        for number, store in enumerate(stores)
    }


class FilesRead:
    """Which files a job has read, to count the bytes of each once: micro-batches may read parts of one file."""

    _MOST = 10_000

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}

    def bytes_of(self, report: Mapping[str, Any]) -> dict[str, int]:
        """The bytes of the files that an epoch was the first to read, by table."""
        sizes: dict[str, int] = {}
        for number_and_table, metrics in observed(report, MISSING_METRIC):
            table = unquote(number_and_table.partition("/")[2])
            files: Mapping[str, int] = json_of(values_of(metrics, (FILES, SIZES))[1] or "{}")
            new = {path: size for path, size in files.items() if path not in self._paths}
            self._paths.update(dict.fromkeys(new))
            sizes[table] = sizes.get(table, 0) + sum(new.values())
        if len(self._paths) > self._MOST:
            self._paths = dict.fromkeys([*self._paths][-self._MOST :])
        return sizes


def rows_waiting(report: Mapping[str, Any]) -> dict[int, int]:
    """The rows from the end of an epoch to what each source has, by number of the source, where both are offsets."""
    sources: Sequence[Mapping[str, Any]] = report.get("sources", ())
    counts = [_distance(_json(source.get("endOffset")), _json(source.get("latestOffset"))) for source in sources]
    return {number: count for number, count in enumerate(counts) if count is not None}


def _json(offset: Any) -> Any:
    """Spark gives an offset as a value or as its text."""
    if not isinstance(offset, str):
        return offset
    try:
        return json_of(offset)
    except ValueError:
        return None


def _distance(end: Any, latest: Any) -> int | None:
    """How many rows lie between two offsets of partitions; None where they are something else."""
    differences = list(_differences(end, latest))
    return sum(d for d in differences if d is not None) if differences and None not in differences else None


def _differences(end: Any, latest: Any) -> Iterator[int | None]:
    match end, latest:
        case dict(), dict():
            for name, offset in latest.items():
                yield from _differences(end.get(name, 0 if isinstance(offset, int) else {}), offset)
        case int(), int():
            yield max(0, latest - end)
        case _:
            yield None


def _sum(left: Mapping[Any, float], right: Mapping[Any, float]) -> dict[Any, float]:
    return {key: left.get(key, 0.0) + right.get(key, 0.0) for key in dict.fromkeys([*left, *right])}
