"""Runs case files: ``PASS``, ``REFUSED`` with a code, or ``FAIL`` with the first difference; nothing crashes.

``DIFFERS`` is a difference in a case whose ``why``, or whose reason in the table of the caller, says that the dialect
decides otherwise on purpose.

A case is refused where its script uses what is not executed (SS3xx). A case with ``error`` passes where its script is
refused as wrong (SS1xx, SS2xx, SS5xx), or its steps fail (SS4xx). A case below SQL is refused, unless the caller has a
driver for it.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream.errors import SqlStreamError
from sqlstream.paths import importable
from sqlstream.testing.case_format import (
    Case,
    CaseFormatError,
    CaseRows,
    Changes,
    Checkpoint,
    Finish,
    ProcessingTime,
    Restart,
    State,
    Step,
    Watermark,
    case_files,
    cases_root,
    difference,
    load_case,
)
from sqlstream.testing.report import Result, Summary, Verdict
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.values import Change, merge

if TYPE_CHECKING:
    from sqlstream.session import Session

SessionFactory = Callable[[], "Session"]

KERNEL_CASE = "SS396"
MISSING_FUNCTIONS = "SS397"
_FUNCTIONS = "peer_functions"

Driver = Callable[[Case], None]
"""Runs a case below SQL: ``Different`` with the first difference, ``NotDriven`` where it cannot."""


class NotDriven(Exception):
    """Raised for a case that tests a part of the engine directly, without SQL, where the caller has provided no driver
    that can run it.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def no_driver(case: Case) -> None:
    """The default for ``below_sql``, for callers that cannot run cases without SQL: raises ``NotDriven``."""
    raise NotDriven("it has no script, and drives a part of some engine", "Only cases in SQL run here.")


def main(
    cases: Path,
    json_file: Path | None = None,
    select: str | None = None,
    settings: Mapping[str, str] | None = None,
    printing: Callable[[], AbstractContextManager[None]] = nullcontext,
    below_sql: Driver = no_driver,
    argued: Mapping[str, str] = MappingProxyType({}),
    *,
    streaming: bool = True,
) -> int:
    """Runs the cases below a directory for ``sqlstream test``, all on one Spark session. Returns the exit code: 0 if
    none fails.

    ``select``: run only the cases whose path contains this text. ``json_file``: a report is written to it. ``printing``
    returns a context manager within which lines are printed. ``below_sql``, ``argued`` and ``streaming`` are those of
    ``run_cases``.
    """

    def on_result(result: Result) -> None:
        with printing():
            _print(result)

    sessions = partial(LocalSession, settings)
    files = selected(case_files(cases), select)
    summary = run_cases(
        files, sessions, cases_root(cases), json_file, on_result, below_sql, argued, streaming=streaming
    )
    with printing():
        sys.stdout.writelines(f"{line}\n" for line in ("", *summary.lines()))
    return 1 if summary.failed else 0


def selected(paths: Iterable[Path], select: str | None) -> list[Path]:
    """The files whose path contains ``select``."""
    return [path for path in paths if select is None or select in path.as_posix()]


def _print(result: Result) -> None:
    sys.stdout.write(f"{result.line()}\n")
    sys.stdout.flush()


def run_cases(
    paths: Iterable[Path],
    session_factory: SessionFactory,
    root: Path,
    json_path: Path | None = None,
    on_result: Callable[[Result], object] = _print,
    below_sql: Driver = no_driver,
    argued: Mapping[str, str] = MappingProxyType({}),
    *,
    streaming: bool = True,
) -> Summary:
    """Runs the cases of the given files one after the other, each in a session of its own. Returns all results.

    Paths in the cases are relative to ``root``. ``json_path``: the results are also written to this file. ``on_result``
    is called with each result. ``below_sql`` runs cases without SQL. ``argued`` maps ids of cases to the reason why
    they need not pass. ``streaming``: run them as streaming queries of Spark; otherwise step by step as bounded jobs
    where possible (see ``StreamTest``).
    """
    results = []
    with importable(root):
        for path in paths:
            results.append(run_file(path, session_factory, root, below_sql, argued, streaming=streaming))
            on_result(results[-1])
    summary = Summary(tuple(results))
    if json_path is not None:
        summary.write_json(json_path)
    return summary


def run_file(
    path: Path,
    session_factory: SessionFactory,
    root: Path,
    below_sql: Driver = no_driver,
    argued: Mapping[str, str] = MappingProxyType({}),
    *,
    streaming: bool = True,
) -> Result:
    """Runs the case in one file and returns its result. An unexpected exception is a FAIL that names the exception's
    type.
    """
    started = time.monotonic()
    try:
        case = load_case(path, root)
    except CaseFormatError as error:
        return Result(_name_of(path, root), Verdict.FAIL, f"no case file: {error}")
    try:
        verdict, code, message, note = _on_purpose(case, _outcome(case, session_factory, below_sql, streaming), argued)
    except (Exception, SystemExit) as error:  # functions of users may raise either
        words = str(error).strip().splitlines()
        verdict, code, note = Verdict.FAIL, None, None
        message = f"{type(error).__name__}: {words[0] if words else ''}"
    return Result(case.id, verdict, message, code, note, time.monotonic() - started, case.level)


def _name_of(path: Path, root: Path) -> str:
    """The path relative to the root, if the file is below it: a link need not be."""
    absolute = path.absolute()
    below = absolute.relative_to(root) if absolute.is_relative_to(root) else path
    return below.with_suffix("").as_posix()


_Outcome = tuple[Verdict, str | None, str, str | None]


def _on_purpose(case: Case, outcome: _Outcome, argued: Mapping[str, str]) -> _Outcome:
    """The outcome, or DIFFERS with the reason where the dialect differs on purpose."""
    verdict, code, message, _ = outcome
    why = argued.get(case.id)
    if why is not None and verdict is not Verdict.PASS:
        return Verdict.DIFFERS, code, message, why
    return (Verdict.DIFFERS, code, message, case.why) if case.why and verdict is Verdict.FAIL else outcome


def _outcome(case: Case, session_factory: SessionFactory, below_sql: Driver, streaming: bool) -> _Outcome:
    if case.level == "kernel":
        return _outcome_below_sql(case, below_sql)
    if f"'{_FUNCTIONS}:" in case.script and importlib.util.find_spec(_FUNCTIONS) is None:
        return Verdict.REFUSED, MISSING_FUNCTIONS, f'the module "{_FUNCTIONS}" is not beside the cases', None
    try:
        with session_factory() as session, StreamTest(case.script, session, streaming=streaming) as test:
            note = CaseRun(case, test).run()
    except Different as different:
        return Verdict.FAIL, None, str(different), None
    except SqlStreamError as error:
        return _refusal(case, error)
    if case.error is not None:
        return Verdict.FAIL, None, f"accepted, and should be refused: {case.error}", None
    return Verdict.PASS, None, "", note


def _outcome_below_sql(case: Case, drive: Driver) -> _Outcome:
    try:
        drive(case)
    except Different as different:
        return Verdict.FAIL, None, str(different), None
    except NotDriven as refused:
        return Verdict.REFUSED, KERNEL_CASE, refused.reason, refused.hint
    return Verdict.PASS, None, "", None


def _refusal(case: Case, error: SqlStreamError) -> _Outcome:
    message = error.diagnostic.message
    if error.code.startswith("SS3"):
        return Verdict.REFUSED, error.code, message, None
    if case.error is not None:
        return Verdict.PASS, None, "", f"refused: {error.code} {message}"
    return Verdict.FAIL, error.code, message, None


# --- One case --------------------------------------------------------------------------------------------------


class Different(Exception):
    """Raised if the results of a case differ from what it expects; the message is the first difference."""


class CaseRun:
    """Runs one case once: performs its steps, reads output where the case expects some, and compares."""

    def __init__(self, case: Case, test: StreamTest) -> None:
        self._case = case
        self._test = test
        self._total: list[Change] = []
        self._unordered = 0

    def run(self) -> str | None:
        """Runs the case. Returns a note on what the run does not verify, None if it verifies everything. Raises
        ``Different`` at the first difference.
        """
        pending: list[Change] = []
        for index, step in enumerate(self._case.steps):
            perform(step, self._test)
            for expected in self._expected_after(index):
                if isinstance(expected, Changes) and expected.table is not None:
                    self._check_changes(expected, self._changes_of(expected.table, expected.columns))
                    continue
                came = self._test.output()
                self._total += came
                pending += came
                if isinstance(expected, State):
                    self._check_state(expected)
                else:
                    self._check_changes(expected, self._picked(pending, None, expected.columns))
                    pending = []
        if self._case.error is not None:
            self._test.output()  # nothing else asks what becomes of the last steps
        return "; ".join(self._notes()) or None

    def _expected_after(self, index: int) -> Iterator[Changes | State]:
        # An output is asked for only where something is expected of it: each question costs a micro-batch.
        return (expected for expected in self._case.expected if expected.after == index)

    def _changes_of(self, table: str, columns: tuple[str, ...] | None) -> list[Change]:
        """The rows of a table beside the result, such as late rows."""
        try:
            return self._picked(self._test.output(table), table, columns)
        except ValueError as error:
            raise Different(str(error)) from error

    def _picked(self, changes: list[Change], table: str | None, columns: tuple[str, ...] | None) -> list[Change]:
        """The changes, reduced to these columns."""
        if columns is None:
            return changes
        names = [name.casefold() for name in self._test.output_columns(table)]
        positions = [names.index(column.casefold()) + 1 for column in columns]
        return [(change[0], *(change[i] for i in positions)) for change in changes]

    def _check_changes(self, expected: Changes, came: list[Change]) -> None:
        ordered = expected.ordered and self._test.keeps_order
        wrong = difference(expected.rows, came, ordered=ordered)
        if wrong:
            raise Different(f"after step {expected.after}: {wrong}")
        if expected.ordered and not ordered and difference(expected.rows, came, ordered=True):
            self._unordered += 1

    def _check_state(self, expected: State) -> None:
        names = [name.casefold() for name in self._test.output_names]
        key = [names.index(k.casefold()) for k in expected.key] if isinstance(expected.key, tuple) else None
        try:
            rows = merge(self._total, key)
        except ValueError as error:
            raise Different(f"after step {expected.after}: {error}") from error
        wrong = difference(expected.rows, rows, ordered=False)
        if wrong:
            raise Different(f"merged after step {expected.after}: {wrong}")

    def _notes(self) -> Iterator[str]:
        if self._unordered:
            yield f"order within a step not compared in {self._unordered} of its expectations"
        if self._case.late_dropped is not None:
            yield from self._check_late_dropped(self._case.late_dropped)
        if self._case.lookup_tries_max is not None:
            self._check_tries(self._case.lookup_tries_max)

    def _check_tries(self, most: int) -> None:
        got = self._test.lookup_tries()
        if not 0 < got <= most:
            raise Different(f"lookup_tries_max: expected 1 to {most} requests per key, got {got}")

    def _check_late_dropped(self, expected: int) -> Iterator[str]:
        got = self._test.late_dropped()
        if not self._test.late_dropped_is_exact:
            yield f"late_dropped not compared: late rows shared a micro-batch; expected {expected}, counted {got}"
        elif got != expected:
            raise Different(f"late_dropped: expected {expected}, got {got}")


def perform(step: Step, test: StreamTest) -> None:
    """Carry out one step of a case on the query under test."""
    match step:
        case CaseRows():
            test.changes(step.table, step.rows)
        case Watermark():
            test.watermark(step.table, step.ms)
        case ProcessingTime():
            test.processing_time(step.ms)
        case Checkpoint():
            test.checkpoint()
        case Restart():
            test.restart()
        case Finish():
            test.finish()
