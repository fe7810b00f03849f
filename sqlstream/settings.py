"""SET and RESET: the settings that have an effect, with their types and defaults. Unknown keys are errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from sqlstream.connectors.secrets import resolved, variables_of
from sqlstream.connectors.table_options import ON_ERROR
from sqlstream.errors import ConnectorError, Diagnostic, Span, UnsupportedError
from sqlstream.flink_settings import RENAMED, TAKEN
from sqlstream.latency import OPTION as LATENCY_OPTION
from sqlstream.options import (
    BOOLEAN,
    DURATION,
    FACTOR,
    NAME,
    NOT_EXECUTED,
    PATH,
    RATIO,
    Option,
    OptionKind,
    check_value,
    find,
    hint_of,
    integer,
    one_of,
    parsed,
    size_bytes,
)
from sqlstream.planner.catalog import MetadataColumns
from sqlstream.secrets import Secrets, secret_texts, shown_value
from sqlstream.spark.tuning.choices import OPTIONS as TUNING
from sqlstream.telemetry.choices import OPTIONS as TELEMETRY
from sqlstream.udfs.barriers import MOST_HELD

UNKNOWN_SETTING = "SS521"
NEEDS_SETTING = "SS522"
STATIC_SETTING = "SS523"


COLUMN_EXPANSION = "table.column-expansion-strategy"
MULTI_JOIN = "table.optimizer.multi-join.enabled"
REUSE = "table.optimizer.reuse-sub-plan-enabled"
REUSE_SOURCE = "table.optimizer.reuse-source-enabled"
UPSERT_MATERIALIZE = "table.exec.sink.upsert-materialize"
PARTIAL_INSERT = "sqlstream.partial-insert"
RESULT_MODE = "sql-client.execution.result-mode"
JOBS_OF_SHELL = "shell.jobs"
WARM_UP = "shell.warm-up"
MICRO_BATCH_DURATION = "sqlstream.micro-batch-duration"
STATE_MEMORY = "state.memory"


_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])0?(\d{1,2})(?::00)?")


def _zone(text: str) -> str:
    """``GMT-08:00`` is the zone that is called Etc/GMT+8: its sign is that of POSIX."""
    if offset := _OFFSET.fullmatch(text.strip()):
        text = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{offset[2]}"
    return str(ZoneInfo(text.strip()))


TIME_ZONE = OptionKind("time zone", "the name of a time zone such as 'UTC' or 'Europe/Berlin'", _zone)


def _job_name(text: str) -> str:
    """A folder has it, and who lists folders leaves out those that begin with a dot or an underscore."""
    if "/" in text or text != text.strip() or text.startswith((".", "_")) or not text or not text.isprintable():
        raise ValueError(text)
    return text


def _memory(text: str) -> int:
    return 0 if text.strip() == "0" else size_bytes(text)


MEMORY = OptionKind("size", "a size such as '64 mb' or '1 gb', or '0' for none", _memory)

JOB_NAME = OptionKind("name of a job", "a text without /, which does not begin with a dot or an underscore", _job_name)


def _expansion(text: str) -> frozenset[MetadataColumns]:
    words = (word.strip().upper() for word in text.split(";"))
    return frozenset(MetadataColumns(word) for word in words if word)


_EXPANSION = OptionKind(
    "list of kinds of columns", " or ".join(f"'{kind.value}'" for kind in MetadataColumns), _expansion
)


def _fire_options(kind: str, when: str) -> tuple[Option, Option]:
    enabled, delay = (f"table.exec.emit.{kind}-fire.{key}" for key in ("enabled", "delay"))
    return (
        Option(enabled, BOOLEAN, f"Windows fire {when}, where the query does not say when they do.", "false"),
        Option(delay, DURATION, f"How often they do; 0 at each row. Needs {enabled}."),
    )


_STRATEGIES = one_of("none", "fixed-delay", "exponential-delay", "failure-rate")
_SPELLED = {
    "disable": "none", "off": "none", "fixeddelay": "fixed-delay", "exponentialdelay": "exponential-delay",
    "failurerate": "failure-rate",
}  # fmt: skip


def _strategy(text: str) -> str:
    """The strategy by any of the names that Flink has for it."""
    word: str = _STRATEGIES.parse(_SPELLED.get(text.strip().lower(), text))
    return word


def _restart_options() -> tuple[Option, ...]:
    """Flink's restart strategies, with Flink's defaults but for the type, which is none."""
    prefix = "restart-strategy"
    fixed, growing, rate = (f"{prefix}.{kind}" for kind in ("fixed-delay", "exponential-delay", "failure-rate"))
    kinds = OptionKind("enumeration", _STRATEGIES.accepted, _strategy, words=_STRATEGIES.words)
    growing_again = "After so long without a failure the delay is the initial one again, and attempts count anew."
    return (
        Option(f"{prefix}.type", kinds, "Whether a failed job starts again from its checkpoint, and when.", "none"),
        Option(f"{fixed}.attempts", integer(1), "How often a job starts again at most.", "1"),
        Option(f"{fixed}.delay", DURATION, "How long it waits before it does.", "1 s"),
        Option(f"{growing}.initial-backoff", DURATION, "How long a job waits after its first failure.", "1 s"),
        Option(f"{growing}.max-backoff", DURATION, "The longest delay.", "1 min"),
        Option(f"{growing}.backoff-multiplier", FACTOR, "How many times longer it waits after each failure.", "1.5"),
        Option(f"{growing}.reset-backoff-threshold", DURATION, growing_again, "1 h"),
        Option(f"{growing}.jitter-factor", RATIO, "The part of a delay that chance adds or takes away.", "0.1"),
        Option(
            f"{growing}.attempts-before-reset-backoff",
            integer(1),
            "How often a job starts again at most, before that. Not given, without end.",
        ),
        Option(f"{rate}.max-failures-per-interval", integer(1), "So many failures within the interval are borne.", "1"),
        Option(f"{rate}.failure-rate-interval", DURATION, "The interval in which failures are counted.", "1 min"),
        Option(f"{rate}.delay", DURATION, "How long a job waits before it starts again.", "1 s"),
    )


OPTIONS = (
    Option(
        "execution.checkpointing.interval",
        DURATION,
        "How often a job checkpoints: the interval of its micro-batches. Not given, as fast as the data comes.",
    ),
    Option(
        "execution.checkpointing.dir",
        PATH,
        "Where jobs keep their checkpoints, one folder per job name. Not given, in the session's scratch folder, "
        "which goes away with the session.",
    ),
    Option(
        "execution.checkpointing.min-pause",
        DURATION,
        "The least time from the end of an epoch to the start of the next, for jobs over unbounded input.",
        "0 ms",
    ),
    Option(
        "execution.checkpointing.timeout",
        DURATION,
        "How long an epoch may take. One that takes longer is given up and begun again, where failed ones are "
        "tolerated, or else fails the job. Not given, as long as it needs.",
    ),
    Option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        integer(0, 1_000_000),
        "How many epochs in a row may take too long before the job fails.",
        "0",
    ),
    Option(
        "execution.checkpointing.externalized-checkpoint-retention",
        one_of("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
        "What becomes of the checkpoint when its job ends. The first keeps it where the job was stopped or failed, the "
        "second where it failed, the third never. Not given, it stays in any case.",
    ),
    Option(
        "execution.checkpointing.num-retained",
        integer(1, 1_000_000),
        "How many epochs stay in a checkpoint, to go back to, at least ten. Not given, Spark's 100, and ten of a "
        "temporary checkpoint.",
    ),
    Option(
        "execution.checkpointing.savepoint-dir",
        PATH,
        "Where savepoints go that are given no path. Not given, in savepoints beside the checkpoint of the job.",
    ),
    Option(
        "execution.end-of-input",
        one_of("final", "pause"),
        "What happens when a job has read all of its bounded input. final: the watermark goes to infinity, all open "
        "windows and timers fire, and the job is over. pause: they stay in the checkpoint, and the next run goes on "
        "with the rows that have come by then. Not given, pause for INSERT where execution.checkpointing.dir is set "
        "and keeps the checkpoints of finished jobs, else final.",
    ),
    LATENCY_OPTION,
    Option(
        "execution.runtime-mode",
        one_of("auto", "streaming", "batch"),
        "How queries over finished data run. auto: as one query of Spark SQL where the clauses need that, else as "
        "streams. streaming: as streams. batch: all of them as finished data, in which no row is late.",
        "auto",
    ),
    Option(
        "execution.state-recovery.path",
        PATH,
        "A savepoint, or the checkpoint of a job that has ended, from which the jobs started next begin. They must "
        "have no checkpoint of their own, and a query that the state fits.",
    ),
    Option(
        "execution.state-recovery.trust-any-owner",
        BOOLEAN,
        "Queries with Python aggregates or triggers go on from state whatever user its files belong to, not only from "
        "that of the one who runs the job, or of root. Such state is unpickled, which runs code of its writer.",
        "false",
    ),
    Option(
        "parallelism.default",
        integer(1, 4096),
        "Partitions of shuffles. Not given, one per core, or those of the checkpoint; with a savepoint the state is "
        "spread anew.",
    ),
    Option(
        "pipeline.max-parallelism",
        integer(1, 32768),
        "Key groups: the parts that state is kept in, and so the most tasks that can share the work of an operator. "
        "A job keeps that of its checkpoint. Not given, eight for each partition of shuffles, at least 16, and at most "
        "64 or one for each; one for each where 'execution.latency' is low.",
    ),
    Option(
        STATE_MEMORY,
        MEMORY,
        "Memory of each machine in which the workers of all jobs keep state from one micro-batch to the next, to read "
        "less of it from Spark: a copy of what the checkpoint has, of which what does not fit is left out. It is there "
        "where Spark runs on one machine with 'sqlstream.spark.lean-workers'. Not given, a 24th of the memory that "
        "this process may use; 0: none.",
    ),
    Option("pipeline.name", JOB_NAME, "Name of the jobs started next. Not given, made from the target table."),
    Option(
        "pipeline.operator-chaining.enabled",
        BOOLEAN,
        "Windows over the results of windows with the same keys run in one call with these, without an exchange "
        "between them. A job keeps that of its checkpoint.",
        "true",
    ),
    *_restart_options(),
    Option(
        JOBS_OF_SHELL,
        one_of("attached", "detached"),
        "Where INSERTs, statement sets and materialized views that are typed into the shell run. attached: in the "
        "shell, whose end stops them. detached: each as a process of its own, which goes on.",
        "attached",
    ),
    Option(
        WARM_UP,
        BOOLEAN,
        "A shell that somebody types at runs a small query of its own once Spark on this machine is there and idle, so "
        "that the next one starts sooner. What is asked for stops it. To be given before the first prompt.",
        "true",
    ),
    Option(
        RESULT_MODE,
        one_of("changelog", "table", "tableau", "tail"),
        "How the shell and sqlstream run show a result that is updated. changelog or tableau: each change behind its "
        "kind. table: the rows that are left, which change in place on a terminal and are written when the query ends. "
        "tail: as changelog, and on the terminal of the shell the last rows of any query, which move in place. By "
        "default a shell that somebody types at shows the table, and everything else the changes.",
    ),
    Option(
        "sqlstream.barriers.max-buffered-rows",
        integer(1, 1_000_000_000),
        "How many rows an ALIGN BARRIERS holds at most, behind markers that wait for those of other channels. A job "
        "that would hold more fails; with a higher bound it goes on from its checkpoint.",
        str(MOST_HELD),
    ),
    Option(
        "sqlstream.clock-interval",
        DURATION,
        "How often the clock ticks for windows and triggers on processing time, for lookups that defer rows, which are "
        "asked for again then, and for barriers; without them it does not tick. Not given, 100 ms where "
        "'execution.latency' is low.",
        "1 s",
    ),
    Option(
        MICRO_BATCH_DURATION,
        DURATION,
        "How long a micro-batch should take at most while more messages or changes wait than it reads: the next one "
        "reads as many as the last one did in that time, and no more than 'source.max-rows-per-trigger' of its table. "
        "At least twice 'execution.checkpointing.interval' and '…min-pause'; 0: as long as it takes. Files, tables of "
        "lakes and Spark's own connector of Kafka have other bounds alone.",
        "30 s",
    ),
    Option(
        "sqlstream.functions.on-error",
        ON_ERROR.kind,
        "What happens to rows for which a scalar, table or process function raises an exception.",
        "fail",
    ),
    Option(
        PARTIAL_INSERT,
        one_of("overwrite", "keep", "error"),
        "INSERT names some of the columns of a table that replaces rows by its PRIMARY KEY. overwrite: the others are "
        "NULL then, with a warning; keep: they keep their values, in postgres and jdbc; error: such a statement is "
        "refused (SS668).",
        "overwrite",
    ),
    Option(
        "sqlstream.engine",
        one_of("auto", "columnar", "native"),
        "Which operators keep state: kernels over columns (columnar), or Spark's own (native), which can do less.",
        "auto",
    ),
    Option(
        "sqlstream.file-reader",
        one_of("auto", "spark"),
        "Who reads files on this machine: Python tasks in columns, text for all queries, which also filter and project "
        "it where a query keeps no state, and Parquet for windows over columns that are no expressions, in the "
        "exchange of the columnar engine itself; or Spark.",
        "auto",
    ),
    Option(
        "sqlstream.views.dir",
        PATH,
        "Where materialized views keep the checkpoints of their jobs, without 'execution.checkpointing.dir', and the "
        "embedded database. Not given, views in the user's state directory.",
    ),
    Option(
        "sqlstream.views.url",
        NAME,
        "The PostgreSQL server that materialized views are kept in: postgresql://user@host:5432/database. Not given, "
        "that of the environment variable SQLSTREAM_VIEWS_URL, or else one of this machine that is started.",
    ),
    *TUNING,
    *TELEMETRY,
    Option(
        COLUMN_EXPANSION,
        _EXPANSION,
        "Virtual metadata columns that * does not stand for, with ; between: EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS "
        "those that are called like their key, EXCLUDE_ALIASED_VIRTUAL_METADATA_COLUMNS those with another name.",
        "",
    ),
    Option(
        "table.dynamic-table-options.enabled",
        BOOLEAN,
        "OPTIONS hints of tables count. false: statements that have some are refused (SS374).",
        "true",
    ),
    Option("table.dml-sync", BOOLEAN, "INSERT waits until its job has ended.", "false"),
    Option(
        "table.exec.async-lookup.key-ordered-enabled",
        BOOLEAN,
        "Where answers may come in any order, those for one key of an update come in the order of their rows.",
        "false",
    ),
    Option(
        "table.exec.async-lookup.buffer-capacity",
        integer(1, 1_000_000),
        "How many lookups a task has in flight at most, where the query does not say CAPACITY.",
        "100",
    ),
    Option(
        "table.exec.async-lookup.output-mode",
        one_of("ORDERED", "ALLOW_UNORDERED"),
        "In which order rows leave asynchronous lookups: as they came, or as answers come.",
        "ORDERED",
    ),
    Option(
        "table.exec.async-lookup.timeout",
        DURATION,
        "How long the lookup of a row may take with all its attempts, where the query does not say TIMEOUT.",
        "3 min",
    ),
    *_fire_options("early", "before a window closes"),
    *_fire_options("late", "when late rows come that are allowed"),
    Option(
        "table.exec.emit.allow-lateness",
        DURATION,
        "How late rows may be for windows, where the query has no LATE DATA clause. "
        "Needs table.exec.emit.late-fire.enabled, without which it has no effect.",
    ),
    Option(
        "table.exec.sink.not-null-enforcer",
        one_of("ERROR", "DROP"),
        "What happens to a row without a value for a column that is NOT NULL in the table that is written. ERROR: the "
        "job fails. DROP: the row is left out.",
        "ERROR",
    ),
    Option(
        "table.exec.sink.type-length-enforcer",
        one_of("IGNORE", "TRIM_PAD", "ERROR"),
        "What happens to a value that is not as long as CHAR(n), VARCHAR(n), BINARY(n) or VARBINARY(n) of its column. "
        "IGNORE: it is written as it is. TRIM_PAD: it is cut, and filled up for CHAR and BINARY. ERROR: the job fails "
        "at one that is longer.",
        "IGNORE",
    ),
    Option(
        MULTI_JOIN,
        BOOLEAN,
        "Inner joins of streams on the same keys become one operator, which keeps the rows of each stream once and no "
        "results of joins in between; not where rows have a time to live. Flink's default is 'false'. A job keeps that "
        "of its checkpoint.",
        "true",
    ),
    Option(
        REUSE_SOURCE,
        BOOLEAN,
        "Files and messages that a query or a statement set reads more than once are read and decoded once where tasks "
        "do it; EXPLAIN PHYSICAL says Reused. A job keeps that of its checkpoint.",
        "true",
    ),
    Option(
        REUSE,
        BOOLEAN,
        "Equal parts of a plan are computed once: windows that are joined with their own maximum or minimum, which "
        "becomes a Top-N (see EXPLAIN TRACE), and operators with state whose rows several sides of a join, branches "
        "of UNION ALL or queries of a statement set filter and project (EXPLAIN PHYSICAL says Reused). A job keeps "
        "that of its checkpoint.",
        "true",
    ),
    Option(
        "table.plan.force-recompile",
        BOOLEAN,
        "COMPILE PLAN writes over a file that is there.",
        "false",
    ),
    Option(
        "table.exec.state.ttl",
        DURATION,
        "Rows of operators whose state does not end by itself are forgotten so long after they were last written. "
        "0: never. Windows, OVER and lookups forget by themselves, and do not look at it.",
        "0",
    ),
    Option(
        "table.exec.source.idle-timeout",
        DURATION,
        "A source, or a partition of a Kafka topic, without rows for so long holds no watermark back where there are "
        "several; its rows that come later may be late. 0: never. A table may say another one ('source.idle-timeout').",
        "0",
    ),
    Option(
        "table.exec.source.cdc-events-duplicate",
        BOOLEAN,
        "Tables with a PRIMARY KEY and changes may give a change twice: the last row of each key is kept, to tell.",
        "false",
    ),
    Option(
        UPSERT_MATERIALIZE,
        one_of("none", "auto", "force", "error"),
        "A sink replaces rows by its PRIMARY KEY, the query updates them by another key, so that several may collide. "
        "auto and force: all rows of a key are kept, and the last one that is left counts; none: the last change "
        "counts, without state; error: such a statement is refused (SS667).",
        "auto",
    ),
    Option(
        "table.local-time-zone",
        TIME_ZONE,
        "Zone in which timestamps are read and shown, and on whose wall clock windows of time begin.",
        "UTC",
    ),
    *TAKEN,
)

PLANNED: dict[str, str] = {
    "execution.job-status-changed-listeners": "Listeners are classes of Java.",
    "table.catalog-modification.listeners": "Listeners are classes of Java.",
    "table.catalog-store.file.path": "sqlstream.toml names catalogs that stay: type = 'file', path = '…'.",
}
"""Keys of the dialect that have no effect yet, and what holds instead."""


RETAINED_BY_SPARK = "spark.sql.streaming.minBatchesToRetain"
LEAST_RETAINED = 10
"""As many epochs as lie between the compact entries of Spark's log of a file source. Spark removes entries by the same
setting, and takes another distance where a start finds the second compact entry alone: a later one misses an entry."""

_BOUNDED_IN_SPARK = (
    Option(RETAINED_BY_SPARK, integer(LEAST_RETAINED), "As execution.checkpointing.num-retained, which sets it."),
)


_WITH_SECRETS = ("spark.", "lineage.", "metrics.", "traces.")
"""The beginnings of keys whose values may hold secrets."""


@cache
def _by_key() -> dict[str, Option]:
    return {option.key: option for option in OPTIONS}


@dataclass
class Settings:
    """The settings of a session. Invalid ones raise ConnectorError SS5xx; settings that are not supported raise
    UnsupportedError SS350.

    A value may contain ``${NAME}``, an environment variable. It is replaced each time the value is read.
    """

    _given: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Settings:
        """Returns an independent copy."""
        return Settings(dict(self._given))

    def set(self, key: str, value: str, span: Span | None = None) -> None:
        """Sets a value. Raises SqlStreamError for an unknown key or an invalid value. ``span``: the place in the SQL
        text for the error.
        """
        kept = current(key)
        check(kept, value, span)
        self._given[kept] = value

    def reset(self, key: str | None = None, span: Span | None = None) -> None:
        """Resets one key to its default, or all keys if ``key`` is None."""
        if key is None:
            self._given.clear()
        else:
            _require_known(current(key), span)
            self._given.pop(current(key), None)

    def __getitem__(self, key: str) -> Any:
        """The value of a known key as a Python object; None where it has neither value nor default."""
        given = {key: self._given[key]} if key in self._given else {}
        return parsed((_by_key()[key],), resolved(given))[key]

    @property
    def given(self) -> Mapping[str, str]:
        """The values that were set explicitly, by key, exactly as they were written: ``${NAME}`` is not replaced, so
        no variable's value is shown.
        """
        return dict(sorted(self._given.items()))

    def text(self, key: str) -> str | None:
        """Returns the value of a key as it is written in SQL, or its default; None if it has neither."""
        option = find(OPTIONS, key)
        return self._given.get(key, option.default if option else None)

    @property
    def spark(self) -> Mapping[str, str]:
        """The settings that are passed to Spark (keys ``spark.…``), with ``${NAME}`` replaced."""
        return resolved(self._for_spark)

    @property
    def _for_spark(self) -> dict[str, str]:
        return {key: value for key, value in self._given.items() if key.startswith("spark.")}

    @property
    def secrets(self) -> Secrets:
        """The texts that must not appear in messages: passwords in Spark's settings, tokens of what jobs report to, and
        the values of all environment variables that settings refer to.
        """
        given = {key: value for key, value in self._given.items() if key.startswith(_WITH_SECRETS)}
        literal = [text for key, value in given.items() for text in secret_texts(key, value)]
        return Secrets.of((*literal, *variables_of(self._given.values())))

    def rows(self) -> list[tuple[str, str | None]]:
        """Returns pairs of key and value for SET without a key: all known keys, sorted, with secrets masked."""
        values = {o.key: self.text(o.key) for o in OPTIONS if not o.is_pattern} | self._given
        return sorted((key, None if value is None else shown_value(key, value)) for key, value in values.items())


def current(key: str) -> str:
    """Returns the current name of a setting: for one that Flink has renamed the new name, otherwise ``key`` itself."""
    return RENAMED.get(key, key)


def without_effect(key: str) -> str | None:
    """Returns why setting this key has no effect; None where it has an effect."""
    option = find(OPTIONS, current(key))
    return option.doc if option in TAKEN else None


def check(key: str, value: str, span: Span | None = None) -> None:
    """Raises SqlStreamError if the key is unknown or the value invalid, also SS560 if it refers to an environment
    variable that is not set.
    """
    _require_known(key, span)
    text = resolved({key: value}, span=span)[key]
    option = find((*OPTIONS, *_BOUNDED_IN_SPARK), key)
    wrong = check_value(option, key, text, span) if option else None
    if wrong is not None:
        raise ConnectorError.of([wrong]).with_texts(Secrets.of(variables_of([value])).hidden)


def _require_known(key: str, span: Span | None) -> None:
    if key in PLANNED:
        raise UnsupportedError(NOT_EXECUTED, f'setting "{key}" is not executed yet', span, hint=PLANNED[key])
    if find(OPTIONS, key) is None and not (key.startswith("spark.") and len(key) > len("spark.")):
        message = f'setting "{key}" does not exist'
        hint = hint_of(key, [*(o.key for o in OPTIONS), "spark.*"], "Settings")
        raise ConnectorError.of([Diagnostic(UNKNOWN_SETTING, message, span, hint=hint)])
