"""A query over finished data that runs: its rows, its end and its error, with the interface of a ``Job``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from sqlstream.batch.choosing import Batch
from sqlstream.connectors import is_scanned
from sqlstream.errors import Diagnostic, ExecutionError, SqlStreamError
from sqlstream.jobs.lifecycle.failure import is_cancellation, job_error
from sqlstream.jobs.lifecycle.job import JobState
from sqlstream.jobs.lifecycle.runtime import JobRuntime
from sqlstream.jobs.reports.progress import Progress, Share, tasks_done
from sqlstream.planner.bad_rows import OnError, action_of
from sqlstream.planner.batch import SparkText, conditions_of, spark_text
from sqlstream.planner.binder.tables import read_table
from sqlstream.planner.catalog import Table, View
from sqlstream.planner.expressions import as_expression, conjunction
from sqlstream.planner.fields import Item, field_of
from sqlstream.planner.functions.calls import hint_for
from sqlstream.planner.lowering import lower
from sqlstream.planner.lowering.context import too_deep_for_spark
from sqlstream.planner.lowering.functions import with_registered_functions
from sqlstream.planner.lowering.hidden_columns import column
from sqlstream.planner.nodes import Filter, Output, Project
from sqlstream.planner.physical import physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.plans import RULES, engine_settings_of, require_sources
from sqlstream.results import Columns
from sqlstream.secrets import Secrets
from sqlstream.settings import Settings
from sqlstream.spark.running import is_connect
from sqlstream.types import from_spark
from sqlstream.udfs.hiding import without_secrets
from sqlstream.workspace import Workspace

_AGAIN_SECONDS = 0.2
_PACK = 10_000
"""Rows per table of results, so that a reader need not hold all as Python values."""


class BatchRun:
    """A running batch query or INSERT: calls ``work`` in a new thread. The rows that ``work`` returns are the result.

    ``error_of``: converts exceptions of ``work``. ``done``: called at the end. There is no checkpoint, so a batch that
    fails or is stopped has no effect.
    """

    is_bounded = is_batch = True
    waiting = None

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        work: Callable[[], pa.Table | None],
        error_of: Callable[[BaseException], SqlStreamError],
        done: Callable[[], None],
    ) -> None:
        self.name = name
        self.id = str(uuid4())
        self.started = datetime.now(UTC)
        self._spark = spark
        self._work = work
        self._error_of = error_of
        self._done = done
        self._state = JobState.RUNNING
        self._error: SqlStreamError | None = None
        self._table: pa.Table | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"sqlstream-{name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> JobState:
        """RUNNING, FINISHED, FAILED or STOPPED, as a ``JobState``."""
        return self._state

    @property
    def exception(self) -> SqlStreamError | None:
        """The error of a FAILED batch; else None."""
        return self._error

    def progress(self) -> Progress:
        """Returns the number of result rows as ``Progress``; 0 until the batch ends."""
        return Progress(rows_out=0 if self._table is None else self._table.num_rows)

    def share(self) -> Share | None:
        """Returns how many tasks of the running Spark jobs are finished, and how many there are; None where that is
        unknown.
        """
        return tasks_done(self._spark, self.id) if self._state is JobState.RUNNING else None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end. Returns False if it does not end within ``timeout`` seconds, else True. Raises the error
        of a FAILED batch.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Cancels the batch if it is running, and waits for its end."""
        self._stopping.set()
        while self._thread.is_alive():  # what it does next may not have begun yet
            self._cancel()
            self._thread.join(_AGAIN_SECONDS)

    def results(self) -> Iterator[pa.Table]:
        """Waits for the end and yields the rows as Arrow tables. Raises the error of a FAILED batch."""
        self.wait()
        if self._table is not None and self._state is JobState.FINISHED:
            for start in range(0, max(1, self._table.num_rows), _PACK):
                yield self._table.slice(start, _PACK)

    def _be_cancellable(self) -> None:
        """Tag the Spark jobs of the running thread; a classic session cancels by job group, Connect by tag."""
        if is_connect(self._spark):
            self._spark.addTag(self.id)
        else:
            self._spark.sparkContext.setJobGroup(self.id, self.name, interruptOnCancel=True)

    def _cancel(self) -> None:
        if is_connect(self._spark):
            self._spark.interruptTag(self.id)
        else:
            self._spark.sparkContext.cancelJobGroup(self.id)

    def _run(self) -> None:
        try:
            self._be_cancellable()
            if not self._stopping.is_set():
                self._table = self._work()
            self._state = JobState.STOPPED if self._stopping.is_set() else JobState.FINISHED
        except Exception as error:
            if self._stopping.is_set() or is_cancellation(error):
                self._state = JobState.STOPPED
            else:
                self._error, self._state = self._error_of(error), JobState.FAILED
        finally:
            self._done()


# --- errors of Spark about a query as diagnostics: located in the script, with a code of ours where there is one -


REFUSED = "SS602"

_CODE = re.compile(r"\[([A-Z_]+)(?:\.([A-Z_]+))?\] (.*?)(?: SQLSTATE: \w+.*)?$", re.MULTILINE)
_PLACE = re.compile(r"== SQL[^\n]*\(line (\d+), position (\d+)\) ==\n(?:[^\n]*\n)*? *(\^+)", re.MULTILINE)
_SYNTAX = re.compile(r"\(line (\d+), pos (\d+)\)")
_NAME = re.compile(r"`((?:[^`]|``)+)`")


def refused(error: Exception, text: SparkText, views: Iterable[View], functions: Iterable[str]) -> SqlStreamError:
    """Converts the error with which Spark rejected a query when analyzing it into an error of sqlstream.

    It has the code SS201, SS203, SS204, SS206 or SS219 if the reason is known, otherwise SS602 with Spark's message.
    ``text`` maps positions in Spark's query to the user's text, to which the span refers; ``views`` are the views that
    the query reads, ``functions`` the names that a hint may suggest.
    """
    deep = too_deep_for_spark(str(error))
    if deep is not None:
        return SqlStreamError.of([deep])
    return SqlStreamError.of([_placed(_mistake(error, functions), error, text, views)])


def failed(error: BaseException, text: SparkText, views: Iterable[View]) -> SqlStreamError:
    """Converts the error of a batch query that failed while it ran into an error of sqlstream. If Spark reported a
    position, the error has a span in the user's text; ``text`` and ``views`` as in ``refused``.
    """
    failure = job_error(error, None, "")
    if not isinstance(error, Exception) or isinstance(error, SqlStreamError):
        return failure
    placed = _placed(failure.diagnostic, error, text, views)
    by_spark = _CODE.search(str(error))
    if placed.code == "SS400" and by_spark is not None:
        placed = replace(placed, message=_sentence(by_spark[3]))
    return ExecutionError.of([placed])


# --- what is wrong --------------------------------------------------------------------------------------------


def _mistake(error: Exception, functions: Iterable[str]) -> Diagnostic:
    match = _CODE.search(str(error))
    if match is None:
        return Diagnostic(REFUSED, f"Spark refuses the query: {str(error).strip().splitlines()[0]}")
    explain = _KNOWN.get(match[1])
    given = _parameters(error)
    if explain is not None and (known := explain(given, match[3], functions)) is not None:
        return known
    return Diagnostic(REFUSED, f"Spark refuses the query: {_sentence(match[3])}")


def _parameters(error: Exception) -> Mapping[str, str]:
    ask: Any = getattr(error, "getMessageParameters", None)
    return (ask() if ask is not None else None) or {}


def _sentence(text: str) -> str:
    """A message of Spark's without its full stop."""
    return text.strip().rstrip(".")


def _parts(text: str) -> list[str]:
    return [name.replace("``", "`") for name in _NAME.findall(text)]


_NOT_VISIBLE = "The column is not visible in this place; compute the value in a query of FROM."


def _column(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("objectName", ""))
    if not names:
        return None
    in_table = f' in "{names[-2]}"' if len(names) > 1 else ""
    proposed = [parts for proposal in given.get("proposal", "").split(", ") if (parts := _parts(proposal))]
    same = [".".join(parts) for parts in proposed if parts[-1].casefold() == names[-1].casefold()]
    if not same:
        hint = did_you_mean(names[-1], [parts[-1] for parts in proposed], "nearest columns")
    else:
        hint = _NOT_VISIBLE if ".".join(names) in same else f"Write {' or '.join(same)}."
    return Diagnostic("SS201", f'column "{names[-1]}" does not exist{in_table}', hint=hint)


def _routine(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("routineName", ""))
    hint = hint_for(names[-1], functions) if names else None
    return Diagnostic("SS203", f'function "{names[-1]}" does not exist', hint=hint) if names else None


def _ambiguous(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("name", ""))
    listed = re.findall(r"`[^`]+`(?:\.`[^`]+`)*", given.get("referenceNames", ""))
    tables = list(dict.fromkeys(".".join(_parts(candidate)) for candidate in listed))
    hint = f"Write {' or '.join(tables)}." if len(tables) > 1 else None
    return Diagnostic("SS204", f'column "{names[-1]}" is ambiguous', hint=hint) if names else None


def _types(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    return Diagnostic("SS206", _sentence(text.partition("due to data type mismatch: ")[2] or text))


def _widths(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    if "firstNumColumns" not in given or "invalidNumColumns" not in given:
        return None
    widths = f"{given['firstNumColumns']} and {given['invalidNumColumns']}"
    return Diagnostic("SS219", f"{given.get('operator', 'UNION')} needs equally many columns: {widths}")


_KNOWN: Mapping[str, Callable[[Mapping[str, str], str, Iterable[str]], Diagnostic | None]] = {
    "UNRESOLVED_COLUMN": _column,
    "UNRESOLVED_ROUTINE": _routine,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "DATATYPE_MISMATCH": _types,
    "NUM_COLUMNS_MISMATCH": _widths,
}


# --- where it is ----------------------------------------------------------------------------------------------


def _placed(diagnostic: Diagnostic, error: Exception, text: SparkText, views: Iterable[View]) -> Diagnostic:
    """The diagnostic with its place in the script, or in the text of the view that the query goes through."""
    where = _range(error, text.text)
    fragment = text.part_at(*where) if where is not None else None
    if fragment is None:
        return diagnostic
    if fragment.view is None:
        return replace(diagnostic, span=fragment.span)
    view = next((v for v in views if v.name == fragment.view), None)
    if view is None or not view.text:
        return replace(diagnostic, detail=f'In view "{fragment.view}".')
    return replace(diagnostic, span=fragment.span, source=view.text, detail=f'In view "{view.name}".')


def _range(error: Exception, text: str) -> tuple[int, int] | None:
    """The characters of Spark's text that it speaks of."""
    ask: Any = getattr(error, "getQueryContext", None)
    contexts = (ask() if ask is not None else None) or []
    for context in contexts:
        start, stop = _asked(context, "startIndex"), _asked(context, "stopIndex")
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start <= stop < len(text):
            return start, stop + 1
    shown = _PLACE.search(str(error))
    if shown is not None:
        start = _offset(text, int(shown[1]), int(shown[2]) - 1)
        return start, start + len(shown[3])
    syntax = _SYNTAX.search(str(error))
    if syntax is not None:
        start = _offset(text, int(syntax[1]), int(syntax[2]))
        return start, min(start + 1, len(text))
    return None


def _asked(context: Any, name: str) -> object:
    try:
        return getattr(context, name)()
    except Exception:  # contexts of DataFrames have no place
        return None


def _offset(text: str, line: int, position: int) -> int:
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + position


def plan_of_table(table: Table, name: str, query: exp.Expr) -> Output:
    """Returns a plan that reads one table for a batch, reduced to the columns and rows that the query may need.

    ``name``: the table's name in ``query``.
    """
    relation = read_table(table, OnError(action_of(table)[0]))
    named = {name.casefold() for name in _names(query)}
    every = _wants_all(query)
    wanted = [c for c in table.columns if every or c.name.casefold() in named] or list(table.columns[:1])
    fields = {f.name: f for f in relation.fields}
    items = tuple(Item(c.name, field_of(c.name), fields[c.name].type, fields[c.name].nullable) for c in wanted)
    node, given = relation.node, conditions_of(table, name, query) if is_scanned(table) else []
    if given:
        node = Filter(node, conjunction(given))
    plan = optimize(Output(Project(node, items), tuple(c.name for c in wanted)), RULES)
    assert isinstance(plan, Output)
    return plan


def _names(query: exp.Expr) -> Iterator[str]:
    """All names in the query: some of them are those of columns."""
    return (identifier.name for identifier in query.find_all(exp.Identifier))


def _wants_all(query: exp.Expr) -> bool:
    stars = (star for star in query.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    natural = any((join.args.get("method") or "").upper() == "NATURAL" for join in query.find_all(exp.Join))
    return natural or any(True for _ in stars)


def rows_of(plan: Output, settings: Settings, runtime: JobRuntime) -> DataFrame:
    """Lowers a plan that reads one table and returns the DataFrame. Raises ConnectorError if files do not exist or
    lack columns.
    """

    require_sources(plan)
    rows = lower(physical_plan(plan, engine_settings_of(settings)), runtime)
    return rows.select(*map(column, plan.names))


@dataclass(frozen=True)
class Analyzed:
    """A batch that Spark has analyzed but not executed. The columns of ``rows`` have made-up unique names; ``columns``
    has the names that users see, and types.
    """

    batch: Batch
    text: SparkText
    rows: DataFrame
    columns: Columns
    secrets: Secrets

    def error_of(self, error: BaseException) -> SqlStreamError:
        """Converts an exception of the batch's execution into an SqlStreamError, without secrets of its tables."""
        return without_secrets(failed(error, self.text, self.batch.resolved.views), self.secrets)


def analyzed_by_spark(batch: Batch, workspace: Workspace, runtime: JobRuntime, secrets: Secrets) -> Analyzed:
    """Registers the batch's tables as temporary views and lets Spark analyze its query. Raises SqlStreamError where
    Spark rejects it.
    """
    for table in batch.tables:
        name = batch.names[table.name]
        plan = plan_of_table(table, name, batch.query)
        rows_of(plan, workspace.settings, runtime).createOrReplaceTempView(name)
    text = spark_text(with_registered_functions(as_expression(batch.query), runtime))
    try:
        rows = runtime.spark.sql(text.text)
        names = rows.columns
        columns = tuple((field.name, from_spark(field.dataType.jsonValue())) for field in rows.schema)
        return Analyzed(batch, text, rows.toDF(*(f"c{i}" for i, _ in enumerate(names))), columns, secrets)
    except (PySparkException, Py4JError) as error:
        views, functions = batch.resolved.views, workspace.catalog.function_names()
        raise without_secrets(refused(error, text, views, functions), secrets) from error
