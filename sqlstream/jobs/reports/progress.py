"""The progress of a job, from Spark's reports of micro-batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqlstream.connectors import Source, connector
from sqlstream.connectors.environment import LATENCIES, LATENCY_METRIC
from sqlstream.errors import ExecutionError
from sqlstream.jobs.reports.counts import (
    LookupTotals,
    added_by_name,
    added_lookups,
    counts_of,
    ends_of,
    lookups_of,
    rows_by_table,
    rows_read,
    rows_read_by_table,
    values_of,
)
from sqlstream.jobs.reports.counts import observed as observed_sets
from sqlstream.planner.lowering.column_queries import DISCARDED_METRIC, DISCARDED_ROWS
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS, EPOCH_SHIFT_MS
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.results import exact_text
from sqlstream.spark.running import is_connect
from sqlstream.udfs.exchange import LATE_TABLE
from sqlstream.udfs.files.listed import FILES, MISSING_METRIC, SIZES, cut_file, size_of
from sqlstream.udfs.kernel import Pending
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# --- Rows and timers that wait for the next run ----------------------------------------------------------------


_WORDS = {
    Pending.ROWS_IN_WINDOWS: ("row", "in open windows"),
    Pending.ROWS: ("row", "to be taken in order of time"),
    Pending.TIMERS: ("timer", ""),
    Pending.HELD: ("row", "behind barriers"),
    Pending.WINDOWS: ("window", "to be closed"),
}


@dataclass(frozen=True)
class Waiting:
    """Rows, timers or windows that wait in an operator of a paused job.

    ``operator``: its number, from the top of the plan. ``what``: a value of ``Pending``. ``first_ms``, ``last_ms``: the
    watermarks, with ``by_clock`` the processing times, at which the first and the last of them fire, in milliseconds
    since 1970; None where they do not wait for a time.
    """

    operator: int
    what: str
    count: int
    by_clock: bool = False
    first_ms: int | None = None
    last_ms: int | None = None

    def __str__(self) -> str:
        thing, where = _WORDS[Pending(self.what)]
        words = [f"{self.count:,} {thing} waits" if self.count == 1 else f"{self.count:,} {thing}s wait", where]
        if self.first_ms is not None and self.last_ms is not None:
            several = self.last_ms > self.first_ms
            clock = f"{'time' if self.by_clock else 'watermark'}{'s' if several else ''}"
            words.append(f"for the {clock} {exact_text(self.first_ms)}")
            words += [f"to {exact_text(self.last_ms)}"] if several else []
        return " ".join(word for word in words if word)


def waiting_text(counts: Sequence[Waiting]) -> str:
    """Returns the rows, timers and windows that wait, as text for users. If several operators have some, the text lists
    them by operator.
    """
    several = len({waiting.operator for waiting in counts}) > 1
    return "; ".join(f"operator {waiting.operator}: {waiting}" if several else str(waiting) for waiting in counts)


def waiting_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Waiting, ...]:
    """The waiting rows, timers and windows, read from the JSON of a record."""
    return tuple(Waiting(**value) for value in values)


ROWS_OUT = "rows_out"
METRICS = "sqlstream"
LATE_ROWS = "late_rows"
PENDING = "pending"
BAD_METRIC, BAD_ROWS = "bad", "rows"

ROWS_TAKEN, ROWS_GIVEN = "rows_taken", "rows_given"

_OPERATOR = "operator"
_COUNTS = (LATE_ROWS, PENDING, ROWS_TAKEN, ROWS_GIVEN)
"""In the order of ``lowering.columnar.operator.COUNTS``."""


@dataclass(frozen=True)
class Progress:
    """Totals of a job since it was started, without control rows. Operators are numbered from the top of the plan.

    * ``watermark_ms``: that of the last micro-batch, in milliseconds since 1970; None before the first row of each
      source, and for queries that need no watermark. ``held_by``: the partitions of Kafka tables that hold it there,
      such as ``clicks[3]``.
    * ``latency_ms``: how old the messages of the last micro-batch were when they were read, in real time: the median,
      what 99 of 100 had, and the most. Empty for other jobs.
    * ``late_rows``: rows that windows dropped. On the native engine, Spark combines rows of equal key and window in a
      micro-batch before it counts them. ``late_by_operator``: late rows of each operator of the columnar engine.
    * ``read_by_table``: rows that all scans of a table have read. ``rows_by_table``: rows that a statement set has
      written into each table; empty for other jobs.
    * ``taken_by_operator``: rows that each operator received from its exchange, which may combine rows.
      ``given_by_operator``: the results of each operator.
    * ``lookups``: the totals of each lookup, by the operator's number.
    * ``pending``: rows that wait for deferred lookups or barriers after the last micro-batch; None before the first
      one, and for queries without these. ``pending_by_operator``: the same for each operator.
    * ``bad_rows``: bad rows of each table and function that tolerates them. ``missing_files``: how many files of each
      table were listed, but deleted before they were read.
    * ``restarts``: how often the job has failed and started again.
    * ``waiting``: what waits in the checkpoint for the next run, once the job has paused at the end of its input.
    * ``batch_ms``, ``state_rows``, ``state_bytes``: duration and state of the last micro-batch. A row of state is an
      entry, which may hold many rows of the query; bytes are in memory and in files.
    * ``state_by_operator``: entries and bytes of state of each operator of the columnar engine that has an exchange.
      Operators that are chained to it share its state.
    """

    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    busy_ms: int = 0
    watermark_ms: int | None = None
    held_by: tuple[str, ...] = ()
    latency_ms: tuple[int, ...] = ()
    late_rows: int = 0
    late_by_operator: Mapping[int, int] = field(default_factory=dict)
    lookups: Mapping[int, LookupTotals] = field(default_factory=dict)
    pending: int | None = None
    pending_by_operator: Mapping[int, int] = field(default_factory=dict)
    bad_rows: Mapping[str, int] = field(default_factory=dict)
    missing_files: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    last_batch: int = -1
    rows_by_table: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    batch_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    read_by_table: Mapping[str, int] = field(default_factory=dict)
    taken_by_operator: Mapping[int, int] = field(default_factory=dict)
    given_by_operator: Mapping[int, int] = field(default_factory=dict)
    state_by_operator: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        """Input rows per second of time spent on micro-batches."""
        return self.rows_in * 1000 / self.busy_ms if self.busy_ms else 0.0

    @property
    def input_ended(self) -> bool:
        """True where the watermark says that a bounded input has ended."""
        return self.watermark_ms is not None and self.watermark_ms >= END_OF_INPUT_MS

    @property
    def waiting_text(self) -> str:
        """The windows and timers that wait in the checkpoint for the next run, as text; empty without any."""
        return waiting_text(self.waiting)


_PLAIN = {"int": int, "float": int | float, "str": str, "bool": bool}


def require_plain(kind: type[Any], values: Mapping[str, Any]) -> None:
    """Raises TypeError where a value of JSON is no number, text or truth value, and the field of ``kind`` with its name
    is: who reads a damaged record learns it here, and not where a number is shown.
    """
    for f in fields(kind):
        name, _, optional = str(f.type).partition(" | ")
        value = values.get(f.name)
        is_given = f.name in values and not (optional and value is None)
        if is_given and name in _PLAIN and not isinstance(value, _PLAIN[name]):
            raise TypeError(f'"{f.name}" is {type(value).__name__}, not {name}')


def progress_from_json(values: Mapping[str, Any]) -> Progress:
    """Makes a progress from JSON values, as ``dataclasses.asdict`` gives them; fields that newer versions have added
    are ignored.
    """
    require_plain(Progress, values)
    names = {f.name for f in fields(Progress)}
    decoded = {name: _from_json(value) for name, value in values.items() if name in names}
    lists = {name: tuple(values.get(name, ())) for name in ("held_by", "latency_ms")}
    return Progress(**{**decoded, **lists, "waiting": waiting_from_json(values.get("waiting", ()))})


def _from_json(value: Any) -> Any:
    """JSON makes texts of the numbers of operators."""
    if not isinstance(value, dict):
        return value
    entries = {int(key) if key.isdigit() else key: entry for key, entry in value.items()}
    return {key: LookupTotals(**entry) if isinstance(entry, dict) else entry for key, entry in entries.items()}


def observed(rows: DataFrame) -> DataFrame:
    """Returns the output rows of a query with an observed metric that counts them. Rows of side outputs are not
    counted.
    """
    counted = F.count_if(F.isnull(LATE_TABLE)) if LATE_TABLE in rows.columns else F.count(F.lit(1))
    return rows.observe(METRICS, counted.alias(ROWS_OUT))


def has_run(report: Mapping[str, Any]) -> bool:
    """Whether a report is that of a micro-batch. Every ten seconds without new rows Spark also reports that nothing
    has run, with the number of the micro-batch that comes next.
    """
    return "addBatch" in report["durationMs"]


def micro_batches(query: StreamingQuery) -> list[Mapping[str, Any]]:
    """Spark's reports of the last complete micro-batches of a query, oldest first."""
    return [report for report in query.recentProgress if has_run(report)]


def advanced(progress: Progress, reports: Iterable[Mapping[str, Any]]) -> Progress:
    """Returns the progress with the numbers of more reports added. Reports that were counted before are skipped."""
    for report in sorted(reports, key=lambda r: int(r["batchId"])):
        if int(report["batchId"]) > progress.last_batch:
            progress = _after(progress, report)
    return progress


def _after(progress: Progress, report: Mapping[str, Any]) -> Progress:
    watermark = watermark_of(report.get("eventTime", {}).get("watermark"))
    pending = pending_rows(report)
    return replace(
        progress,
        rows_in=progress.rows_in + rows_read(report),
        rows_out=progress.rows_out + rows_out(report),
        batches=progress.batches + 1,
        rows_by_table=added_by_name(progress.rows_by_table, rows_by_table(report)),
        busy_ms=progress.busy_ms + int(report["batchDuration"]),
        watermark_ms=progress.watermark_ms if watermark is None else watermark,
        held_by=holders_of(report),
        latency_ms=latency_of(report) or progress.latency_ms,
        late_rows=progress.late_rows + late_rows(report),
        late_by_operator=_added(progress.late_by_operator, late_by_operator(report)),
        lookups=added_lookups(progress.lookups, lookups_of(report)),
        bad_rows=added_by_name(progress.bad_rows, bad_rows(report)),
        missing_files=added_by_name(progress.missing_files, missing_files(report)),
        pending=progress.pending if not pending else sum(pending.values()),
        pending_by_operator=pending or progress.pending_by_operator,
        last_batch=int(report["batchId"]),
        batch_ms=int(report["batchDuration"]),
        state_rows=state_rows(report),
        state_bytes=state_bytes(report),
        read_by_table=added_by_name(progress.read_by_table, rows_read_by_table(report)),
        taken_by_operator=_added(progress.taken_by_operator, _counted(report, ROWS_TAKEN)),
        given_by_operator=_added(progress.given_by_operator, _counted(report, ROWS_GIVEN)),
        state_by_operator=state_by_operator(report) or progress.state_by_operator,
    )


def holders_of(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the partitions of Kafka tables that hold a watermark back behind a micro-batch, each once."""
    holders = (end["holder"] for end in ends_of(report) if end.get("holder"))
    return tuple(dict.fromkeys(f"{topic}[{number}]" for topic, number in holders))


def latency_of(report: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the ages of messages in a micro-batch that ran in real time, those of the slowest table; empty for other
    micro-batches, and without messages.
    """
    ages = (values_of(metrics, LATENCIES) for _, metrics in observed_sets(report, LATENCY_METRIC))
    known = [tuple(map(int, values)) for values in ages if None not in values]
    return max(known, key=lambda values: values[1], default=())


def state_bytes(report: Mapping[str, Any]) -> int:
    """The bytes that all state stores hold after a micro-batch, in memory and in files of RocksDB."""
    return sum(bytes_of_store(operator) for operator in report["stateOperators"])


def state_rows(report: Mapping[str, Any]) -> int:
    """The entries that all state stores hold after a micro-batch."""
    return sum(int(operator.get("numRowsTotal", 0)) for operator in report["stateOperators"])


def bytes_of_store(operator: Mapping[str, Any]) -> int:
    """The bytes of one operator's state in Spark's report, in memory and in files of RocksDB."""
    files = operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
    return int(operator.get("memoryUsedBytes", 0)) + int(files)


def stores_by_operator(report: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Returns a dictionary from the number of an operator to Spark's report of its state. Only operators of the
    columnar engine that have an exchange are in it.

    A chain has the number of its topmost operator. Empty where Spark's report does not match these operators.
    """
    tops: dict[int, int] = {}
    for number, lowest, _ in _operators(report):
        tops[lowest] = min(number, tops.get(lowest, number))
    in_order, stores = sorted(tops, key=tops.__getitem__), report["stateOperators"]
    return dict(zip(in_order, stores, strict=True)) if len(in_order) == len(stores) else {}


def state_by_operator(report: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """Returns a dictionary from the number of an operator of ``stores_by_operator`` to a pair: the entries and the
    bytes of its state.
    """
    stores = stores_by_operator(report)
    return {number: (int(store.get("numRowsTotal", 0)), bytes_of_store(store)) for number, store in stores.items()}


def late_rows(report: Mapping[str, Any]) -> int:
    """How many rows windows dropped in a micro-batch because they were late. The number is exact on the columnar
    engine; on the native engine it is Spark's own count.
    """
    dropped = sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"])
    return int(dropped) + sum(late_by_operator(report).values())


def late_by_operator(report: Mapping[str, Any]) -> dict[int, int]:
    """Returns a dictionary from the number of an operator of the columnar engine to its late rows in a micro-batch."""
    return _counted(report, LATE_ROWS)


def bad_rows(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns a dictionary from table or function to its number of bad rows in a micro-batch, for those that tolerate
    them.
    """
    return _by_source(report, BAD_METRIC, BAD_ROWS)


def missing_files(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns a dictionary from table to the number of its files that were listed, but deleted before a micro-batch
    read them. Only where this is tolerated.
    """
    return {table: files for table, files in _by_source(report, MISSING_METRIC, FILES).items() if files}


def cut_in(report: Mapping[str, Any]) -> ExecutionError | None:
    """Returns the error SS531 if a file was truncated after the micro-batch had started, else None. Always None through
    Spark Connect, which does not check.
    """
    sizes = (values_of(metrics, (FILES, SIZES))[1] for _, metrics in observed_sets(report, MISSING_METRIC))
    return next((error for error in map(cut_file, sizes) if error is not None), None)


class FilesRead:
    """Remembers the last 1,000 files that a job has read, with their sizes, to detect files that change afterwards. A
    file is read only once, so such changes are lost.
    """

    _MOST = 1_000

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._noticed = False

    def notice(self, reports: Iterable[Mapping[str, Any]]) -> str | None:
        """Compares the remembered files with their present sizes, and remembers the files of new micro-batches
        (``reports``).

        Returns a message for the job's log about the first file whose size has changed. None if there is none, and
        always None after the first message.
        """
        if self._noticed:
            return None
        changed = next((path for path, size in self._sizes.items() if size_of(path) not in (None, size)), None)
        for report in reports:
            for _, metrics in observed_sets(report, MISSING_METRIC):
                self._sizes.update(json_of(values_of(metrics, (FILES, SIZES))[1] or "{}"))
        self._sizes = dict([*self._sizes.items()][-self._MOST :])
        if changed is None:
            return None
        self._noticed = True
        return (
            f'file "{changed}" has changed after it was read; what is new in it is not read. Add files under new names.'
        )


def _by_source(report: Mapping[str, Any], kind: str, counted: str) -> dict[str, int]:
    """The sums of a count over the metrics whose names end with a number and a source."""
    counts: dict[str, int] = {}
    for number_and_source, metrics in observed_sets(report, kind):
        source = unquote(number_and_source.partition("/")[2])
        counts[source] = counts.get(source, 0) + sum(counts_of(metrics, (counted,)))
    return counts


def pending_rows(report: Mapping[str, Any]) -> dict[int, int]:
    """Returns a dictionary from the number of an operator of the columnar engine to the number of its rows that wait
    after a micro-batch for lookups or barriers.
    """
    return _counted(report, PENDING)


def _counted(report: Mapping[str, Any], what: str) -> dict[int, int]:
    """One of the counts of each operator of the columnar engine by its number."""
    return {number: counts[what] for number, _, counts in _operators(report)}


def _operators(report: Mapping[str, Any]) -> Iterator[tuple[int, int, dict[str, int]]]:
    """The number of each operator of the columnar engine, that of the lowest of its chain, and its counts."""
    for names, metrics in observed_sets(report, _OPERATOR):
        number, _, lowest = names.partition("/")
        yield int(number), int(lowest or number), dict(zip(_COUNTS, counts_of(metrics, _COUNTS), strict=True))


def _added(left: Mapping[int, int], right: Mapping[int, int]) -> dict[int, int]:
    return {number: left.get(number, 0) + right.get(number, 0) for number in sorted({*left, *right})}


def rows_out(report: Mapping[str, Any]) -> int:
    """The number of rows that a micro-batch gave to its sinks."""
    results = ((METRICS, ROWS_OUT), (DISCARDED_METRIC, DISCARDED_ROWS))
    return sum(sum(counts_of(values, (rows,))) for kind, rows in results for _, values in observed_sets(report, kind))


def watermark_of(text: str | None) -> int | None:
    """Milliseconds since 1970 of Spark's watermark in a report; None before it first advances, where Spark reports
    1970.
    """
    match = re.fullmatch(r"\+?(\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z", text or "")
    if match is None:
        return None
    year, month, day, hour, minute, second, ms = (int(g) for g in match.groups())
    cycles, year = divmod(year - 2000, 400)  # the calendar repeats after 400 years of 146,097 days
    days = date(year + 2000, month, day).toordinal() - date(1970, 1, 1).toordinal() + cycles * 146_097
    shifted = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + ms
    return shifted - EPOCH_SHIFT_MS if shifted > 0 else None


# --- The finished share of a bounded job -----------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """How much is done: ``done`` of ``total``. ``what`` is the unit: rows, or the tasks that Spark runs now."""

    done: int
    total: int
    what: str

    @property
    def fraction(self) -> float:
        """The finished part of the work, from 0 to 1."""
        return min(1.0, self.done / self.total)


def share_done(
    plan: Node, progress: Progress, row_limit: int | None, tasks: Callable[[], Share | None]
) -> Share | None:
    """How much of a job is done: rows written of ``row_limit`` for a query with LIMIT, else rows read of all rows of
    its tables, if their number is known, else finished tasks of Spark (``tasks``). None if nothing of this is known.
    """
    if row_limit:
        return Share(progress.rows_out, row_limit, "rows")
    total = rows_of_tables(node for node in plan.walk() if isinstance(node, Scan))
    if total and progress.rows_in:
        return Share(progress.rows_in, total, "rows")
    return tasks()


def rows_of_tables(scans: Iterable[Scan]) -> int | None:
    """The total number of rows in the tables of ``scans``; None if that of one table is unknown."""
    tables = [(connector(scan.table.connector), scan.table) for scan in scans]
    counts = [kind.row_count(table) if isinstance(kind, Source) else None for kind, table in tables]
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def tasks_done(spark: SparkSession, group: str) -> Share | None:
    """How many tasks of the stages that Spark now runs for a job group are finished. None if none run, and through
    Spark Connect.
    """
    if is_connect(spark):
        return None
    tracker = spark.sparkContext.statusTracker()
    jobs = set(tracker.getJobIdsForGroup(group)) & set(tracker.getActiveJobsIds())
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    of_group = {stage for job in jobs if (info := tracker.getJobInfo(job)) is not None for stage in info.stageIds}
    active = [stage for stage in stages if stage is not None and stage.stageId in of_group]
    total = sum(stage.numTasks for stage in active)
    return Share(sum(stage.numCompletedTasks for stage in active), total, "tasks") if total else None


# --- Sizes -----------------------------------------------------------------------------------------------------


def size_text(size: int) -> str:
    """A number of bytes as text, in the largest unit that fits."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} B"
