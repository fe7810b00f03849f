"""The registry of metrics: what is measured, in which unit, with which attributes, and how Flink calls it.

Names and units follow OpenTelemetry's conventions. The names that Prometheus shows are made from them by
OpenTelemetry's rules, so that a dashboard fits the endpoint and OTLP alike. All exports read the figures of a job by
``Instrument.read``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from sqlstream.jobs.reports.counts import LookupTotals
from sqlstream.telemetry.epochs import BUCKETS_S
from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.partitions import PartitionTotals
from sqlstream.telemetry.processes import ProcessFigures
from sqlstream.udfs.lookup.metrics import BUCKETS_MS, LATENCIES

_Figures = TypeVar("_Figures")


class Kind(Enum):
    """What the values of an instrument are: a sum that only grows, a value that goes up and down, a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Distribution:
    """The values of a histogram: ``counts`` of each bucket, the last without a bound, and the ``total`` of all values;
    None where only the buckets are known.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float | None = None


@dataclass(frozen=True)
class Sample:
    """One value of an instrument and the values of its attributes, in the order of ``Instrument.attributes``."""

    value: float | Distribution
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Instrument(Generic[_Figures]):
    """One metric. ``read``: the samples of some figures at a time in seconds since 1970. ``unit``: as UCUM writes it.
    ``flink``: what Flink calls the same, None where it has nothing like it.
    """

    name: str
    kind: Kind
    unit: str
    doc: str
    read: Callable[[_Figures, float], Iterable[Sample]]
    attributes: tuple[str, ...] = ()
    flink: str | None = None

    @property
    def prometheus_name(self) -> str:
        """The name of the metric family in Prometheus, without ``_total``, ``_bucket`` and so on."""
        name = self.name.replace(".", "_")
        unit = {"s": "seconds", "By": "bytes", "1": "ratio"}.get(self.unit)
        return name if unit is None or name.endswith(unit) else f"{name}_{unit}"

    @property
    def series(self) -> str:
        """The name by which queries of Prometheus ask for a counter or a gauge."""
        return f"{self.prometheus_name}_total" if self.kind is Kind.COUNTER else self.prometheus_name


def label(attribute: str) -> str:
    """The label of Prometheus for an attribute."""
    return attribute.replace(".", "_")


JOB = ("sqlstream.job.name",)
"""The attributes that all samples of a job have."""

TABLE, OPERATOR, LOOKUP, STATE = "sqlstream.table", "sqlstream.operator", "sqlstream.lookup", "sqlstream.job.state"
PART, PHASE, SOURCE = "sqlstream.epoch.part", "sqlstream.operator.phase", "sqlstream.source"
TOPIC, PARTITION = "messaging.destination.name", "messaging.destination.partition.id"
"""As OpenTelemetry's conventions call a topic of Kafka and its partition."""
STATES = ("RUNNING", "RESTARTING", "FINISHED", "FAILED", "STOPPED")


# --- How figures are read --------------------------------------------------------------------------------------


def _one(value: Callable[[JobFigures], float | None]) -> Callable[[JobFigures, float], Iterator[Sample]]:
    def read(figures: JobFigures, now: float) -> Iterator[Sample]:
        number = value(figures)
        if number is not None:
            yield Sample(number)

    return read


def _by_name(
    values: Callable[[JobFigures], Mapping[str, float]],
) -> Callable[[JobFigures, float], Iterator[Sample]]:
    return lambda figures, now: (Sample(value, (name,)) for name, value in values(figures).items())


def _by_operator(
    values: Callable[[JobFigures], Mapping[int, float]],
) -> Callable[[JobFigures, float], Iterator[Sample]]:
    return lambda figures, now: (
        Sample(value, (figures.names.operator(number),)) for number, value in values(figures).items()
    )


def _by_lookup(value: Callable[[LookupTotals], float]) -> Callable[[JobFigures, float], Iterator[Sample]]:
    return lambda figures, now: (
        Sample(value(totals), (figures.names.lookup(number),)) for number, totals in figures.progress.lookups.items()
    )


def _by_partition(
    value: Callable[[PartitionTotals], float | None],
) -> Callable[[JobFigures, float], Iterator[Sample]]:
    def read(figures: JobFigures, now: float) -> Iterator[Sample]:
        for partition, totals in figures.epochs.partitions.items():
            number = value(totals)
            if number is not None:
                yield Sample(number, (partition.topic, str(partition.number)))

    return read


def _state(place: int) -> Callable[[JobFigures, float], Iterator[Sample]]:
    """Reads entries (0) or bytes (1) of the state of each operator."""

    def read(figures: JobFigures, now: float) -> Iterator[Sample]:
        for number, state in figures.progress.state_by_operator.items():
            yield Sample(state[place], (figures.names.operator(number),))
        for name, native in figures.epochs.native_state.items():
            yield Sample(native[place], (name,))

    return read


def _states(figures: JobFigures, now: float) -> Iterator[Sample]:
    return (Sample(float(figures.state == state), (state,)) for state in STATES)


def _written(figures: JobFigures, now: float) -> Iterator[Sample]:
    if figures.names.sink is not None:
        yield Sample(figures.progress.rows_out, (figures.names.sink,))
    for table, rows in figures.progress.rows_by_table.items():
        yield Sample(rows, (table,))


def _watermark_s(figures: JobFigures) -> float | None:
    progress = figures.progress
    return None if progress.watermark_ms is None or progress.input_ended else progress.watermark_ms / 1000


def _watermark_lag(figures: JobFigures, now: float) -> Iterator[Sample]:
    watermark = _watermark_s(figures)
    if watermark is not None and figures.is_running:
        yield Sample(now - watermark)


def _event_lag(figures: JobFigures, now: float) -> Iterator[Sample]:
    epochs = figures.epochs
    if epochs.last_event_ms is not None and epochs.last_end is not None:
        yield Sample(epochs.last_end - epochs.last_event_ms / 1000)


def _since_epoch(figures: JobFigures, now: float) -> Iterator[Sample]:
    if figures.is_running:
        yield Sample(now - (figures.epochs.last_end or figures.started))


def _uptime(figures: JobFigures, now: float) -> Iterator[Sample]:
    if figures.is_running:
        yield Sample(now - figures.started)


def _epochs(figures: JobFigures, now: float) -> Iterator[Sample]:
    yield Sample(Distribution(BUCKETS_S, figures.epochs.buckets, figures.epochs.seconds))


def _task_seconds(figures: JobFigures, now: float) -> Iterator[Sample]:
    for (number, phase), seconds in figures.epochs.task_seconds.items():
        yield Sample(seconds, (figures.names.operator(number), phase))


_LATENCY_BOUNDS = tuple(ms / 1000 for ms in BUCKETS_MS)


def _latencies(figures: JobFigures, now: float) -> Iterator[Sample]:
    for number, totals in figures.progress.lookups.items():
        counts = tuple(totals.counts.get(name, 0) for name in LATENCIES)
        if any(counts):
            yield Sample(Distribution(_LATENCY_BOUNDS, counts), (figures.names.lookup(number),))


def _memory(figures: ProcessFigures, now: float) -> Iterator[Sample]:
    return (Sample(size, (part,)) for part, size in figures.memory.items())


# --- The registry ----------------------------------------------------------------------------------------------

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

JOB_INSTRUMENTS: tuple[Instrument[JobFigures], ...] = (
    Instrument(
        "sqlstream.job.status", _G, "{job}", "1 for the state that the job is in, 0 for the others.",
        _states, (STATE,), "runningState, failingState and so on",
    ),
    Instrument(
        "sqlstream.job.uptime", _G, "s", "Time since the job was started, while it runs.", _uptime, (), "uptime",
    ),
    Instrument(
        "sqlstream.job.restarts", _C, "{restart}", "Starts after a failure.",
        _one(lambda f: f.progress.restarts), (), "numRestarts",
    ),
    Instrument(
        "sqlstream.job.failures", _C, "{failure}", "Failures, those among them after which the job restarts.",
        _one(lambda f: f.failures), (), "numberOfFailedCheckpoints",
    ),
    Instrument(
        "sqlstream.source.rows", _C, "{row}", "Rows read of a table, those among them that a filter drops.",
        _by_name(lambda f: f.progress.read_by_table), (TABLE,), "numRecordsIn of the source's operator",
    ),
    Instrument(
        "sqlstream.source.io", _C, "By",
        "Bytes read of a table: of files on this machine, where one that is read in parts counts with its first one, "
        "and of messages of Kafka, their values, and their keys where the table has columns in them. Of other sources "
        "bytes are not counted.",
        _by_name(lambda f: f.bytes_in), (TABLE,), "numBytesIn",
    ),
    Instrument(
        "sqlstream.source.bad_rows", _C, "{row}", "Rows that cannot be read or converted, where these are tolerated.",
        _by_name(lambda f: f.progress.bad_rows), (TABLE,), "numRecordsInErrors",
    ),
    Instrument(
        "sqlstream.source.missing_files", _C, "{file}", "Files that were deleted before they were read.",
        _by_name(lambda f: f.progress.missing_files), (TABLE,),
    ),
    Instrument(
        "sqlstream.source.pending_rows", _G, "{row}",
        "Rows that a source has and no epoch has read, where it reports the offsets of both.",
        lambda f, now: (Sample(rows, (str(source),)) for source, rows in f.epochs.rows_waiting.items()),
        (SOURCE,), "pendingRecords",
    ),
    Instrument(
        "sqlstream.source.partition.rows", _C, "{row}",
        "Messages that epochs have read of a partition of a topic of Kafka, by their offsets, which transactions and "
        "compaction leave gaps in.",
        _by_partition(lambda p: p.rows), (TOPIC, PARTITION), "numRecordsIn of the source's operator",
    ),
    Instrument(
        "sqlstream.source.partition.io", _C, "By",
        "Bytes of the messages that tasks have fetched of a partition of a topic of Kafka, as of sqlstream.source.io.",
        lambda f, now: (Sample(size, (topic, str(n))) for (topic, n), size in f.bytes_by_partition.items()),
        (TOPIC, PARTITION), "KafkaConsumer.bytes-consumed-total",
    ),
    Instrument(
        "sqlstream.source.partition.offset", _G, "{row}",
        "The offset in a partition of a topic of Kafka that the next epoch reads first.",
        _by_partition(lambda p: p.offset), (TOPIC, PARTITION), "KafkaSourceReader.topic.*.partition.*.currentOffset",
    ),
    Instrument(
        "sqlstream.source.partition.pending_rows", _G, "{row}",
        "Messages that a partition of a topic of Kafka had when the last epoch was planned, and that it has not read.",
        _by_partition(lambda p: p.pending), (TOPIC, PARTITION), "KafkaConsumer.records-lag",
    ),
    Instrument(
        "sqlstream.source.watermark", _G, "s", "The watermark of a table, since 1970; of jobs with several sources.",
        _by_name(lambda f: {table: ms / 1000 for table, ms in f.epochs.watermarks_ms.items()}), (TABLE,),
        "currentOutputWatermark of the source",
    ),
    Instrument(
        "sqlstream.source.event_lag", _G, "s",
        "From the greatest event time of the last epoch with rows to the end of that epoch.",
        _event_lag, (), "currentEmitEventTimeLag",
    ),
    Instrument(
        "sqlstream.job.watermark.time", _G, "s", "The watermark after the last epoch, since 1970.",
        _one(_watermark_s), (), "currentInputWatermark",
    ),
    Instrument(
        "sqlstream.job.watermark.lag", _G, "s", "From the watermark to now, while the job runs.",
        _watermark_lag, (), "watermarkLag",
    ),
    Instrument(
        "sqlstream.sink.rows", _C, "{row}", "Rows that the sink of a table was given.",
        _written, (TABLE,), "numRecordsOut of the sink, numRecordsSend",
    ),
    Instrument(
        "sqlstream.sink.io", _C, "By",
        "Bytes written into a table: of files on this machine and in object stores, of files that are added to "
        "lakes, and of keys and values of messages of Kafka. Of other sinks bytes are not known.",
        _by_name(lambda f: f.bytes_out), (TABLE,), "numBytesOut of the sink, numBytesSend",
    ),
    Instrument(
        "sqlstream.epoch.duration", _H, "s", "How long epochs took, from their begin to their end.",
        _epochs, (), "lastCheckpointDuration",
    ),
    Instrument(
        "sqlstream.epoch.part.duration", _C, "s",
        "What epochs took, by part: sources (to ask for new rows), planning, execution (to read, compute, and write "
        "state and sinks, in one pipeline), checkpoint (its logs), other.",
        _by_name(lambda f: f.epochs.seconds_by_part), (PART,),
    ),
    Instrument(
        "sqlstream.epoch.last", _G, "{epoch}", "The number of the last complete epoch.",
        _one(lambda f: f.epochs.last_epoch), (), "lastCompletedCheckpointId",
    ),
    Instrument(
        "sqlstream.epoch.age", _G, "s", "Time since the last complete epoch, or since the start, while the job runs.",
        _since_epoch, (), "lastCheckpointCompletedTimestamp",
    ),
    Instrument(
        "sqlstream.operator.rows.in", _C, "{row}",
        "Rows that an operator with state was given by its exchange, which may combine rows.",
        _by_operator(lambda f: f.progress.taken_by_operator), (OPERATOR,), "numRecordsIn",
    ),
    Instrument(
        "sqlstream.operator.rows.out", _C, "{row}", "Results of an operator with state.",
        _by_operator(lambda f: f.progress.given_by_operator), (OPERATOR,), "numRecordsOut",
    ),
    Instrument(
        "sqlstream.operator.late_rows", _C, "{row}", "Rows that an operator dropped because they were late.",
        _by_operator(lambda f: f.progress.late_by_operator), (OPERATOR,), "numLateRecordsDropped",
    ),
    Instrument(
        "sqlstream.job.late_rows", _C, "{row}", "Rows that all operators dropped because they were late.",
        _one(lambda f: f.progress.late_rows), (), "numLateRecordsDropped",
    ),
    Instrument(
        "sqlstream.operator.pending_rows", _G, "{row}", "Rows that wait in an operator for lookups or barriers.",
        _by_operator(lambda f: f.progress.pending_by_operator), (OPERATOR,),
    ),
    Instrument(
        "sqlstream.operator.time", _C, "s",
        "What the tasks of an operator with state took, by phase: update (to take rows in), expire (to remove what has "
        "expired, and to fire), commit (to write state). Tasks run at the same time.",
        _task_seconds, (OPERATOR, PHASE), "busyTimeMsPerSecond",
    ),
    Instrument(
        "sqlstream.state.entries", _G, "{entry}",
        "Entries of state of an operator, each of which may hold many rows. Chained operators share their state. Of "
        "operators that Spark runs itself rows, with Spark's name of the operator.",
        _state(0), (OPERATOR,),
        "rocksdb.estimate-num-keys",
    ),
    Instrument(
        "sqlstream.state.size", _G, "By", "Bytes of state of an operator, in memory and in files.",
        _state(1), (OPERATOR,),
        "rocksdb.total-sst-files-size",
    ),
    Instrument(
        "sqlstream.job.state.entries", _G, "{entry}",
        "Entries of state of the job, in all its stores, those of operators that Spark runs itself among them, whose "
        "entries are rows.",
        _one(lambda f: f.progress.state_rows), (), "rocksdb.estimate-num-keys",
    ),
    Instrument(
        "sqlstream.job.state.size", _G, "By", "Bytes of state of the job, in memory and in files.",
        _one(lambda f: f.progress.state_bytes), (), "lastCheckpointFullSize",
    ),
    Instrument(
        "sqlstream.lookup.rows", _C, "{row}", "Rows with a key to look up.",
        _by_lookup(lambda t: t.rows), (LOOKUP,),
    ),
    Instrument(
        "sqlstream.lookup.requests", _C, "{request}", "Requests that a lookup has sent, each attempt counted.",
        _by_lookup(lambda t: t.requests), (LOOKUP,), "loadCount",
    ),
    Instrument(
        "sqlstream.lookup.cache.hits", _C, "{row}", "Rows that were answered from the cache.",
        _by_lookup(lambda t: t.hits), (LOOKUP,), "hitCount",
    ),
    Instrument(
        "sqlstream.lookup.cache.misses", _C, "{row}", "Rows whose key was not in the cache.",
        _by_lookup(lambda t: t.misses), (LOOKUP,), "missCount",
    ),
    Instrument(
        "sqlstream.lookup.retries", _C, "{request}", "Requests that were sent again after a failure.",
        _by_lookup(lambda t: t.retries), (LOOKUP,),
    ),
    Instrument(
        "sqlstream.lookup.timeouts", _C, "{row}", "Rows whose answer did not come in time.",
        _by_lookup(lambda t: t.timeouts), (LOOKUP,),
    ),
    Instrument(
        "sqlstream.lookup.errors", _C, "{row}", "Rows whose lookup failed.",
        _by_lookup(lambda t: t.errors), (LOOKUP,), "numLoadFailures",
    ),
    Instrument(
        "sqlstream.lookup.deferred", _C, "{row}", "Rows that were not answered in time and wait in state.",
        _by_lookup(lambda t: t.deferred), (LOOKUP,),
    ),
    Instrument(
        "sqlstream.lookup.max_in_flight", _G, "{request}", "The most requests that a task had under way at a time.",
        _by_lookup(lambda t: t.max_in_flight), (LOOKUP,),
    ),
    Instrument(
        "sqlstream.lookup.duration", _H, "s", "How long requests of a lookup took.",
        _latencies, (LOOKUP,), "latestLoadTime",
    ),
)  # fmt: skip

PROCESS_PART = "sqlstream.process"

PROCESS_INSTRUMENTS: tuple[Instrument[ProcessFigures], ...] = (
    Instrument(
        "process.memory.usage", _G, "By",
        "Physical memory: of this process (driver), of its Java (jvm), and of all Python processes that compute for it "
        "on this machine (workers). On Linux.",
        _memory, (PROCESS_PART,), "Status.JVM.Memory.Heap.Used",
    ),
    Instrument(
        "process.cpu.time", _C, "s", "Processor time of the same processes. On Linux.",
        lambda f, now: (Sample(seconds, (part,)) for part, seconds in f.cpu_seconds.items()), (PROCESS_PART,),
        "Status.JVM.CPU.Time",
    ),
)  # fmt: skip

ALL: tuple[Instrument[JobFigures] | Instrument[ProcessFigures], ...] = (*JOB_INSTRUMENTS, *PROCESS_INSTRUMENTS)
