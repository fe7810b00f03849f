"""One case: its steps on a ``StreamTest``, its output against what it expects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from sqlstream.testing import case_format as f
from sqlstream.testing.changelog import Change, merge
from sqlstream.testing.comparison import difference
from sqlstream.testing.stream_test import StreamTest


class Different(Exception):
    """An outcome, not a mistake: the first thing that is not as expected."""


class CaseRun:
    """Feeds the steps, takes the output where an expectation asks for it, and compares."""

    def __init__(self, case: f.Case, test: StreamTest) -> None:
        self._case = case
        self._test = test
        self._total: list[Change] = []
        self._unordered = 0

    def run(self) -> str | None:
        """A note on what a pass does not cover, if anything; ``Different`` with the first difference."""
        pending: list[Change] = []
        for index, step in enumerate(self._case.steps):
            perform(step, self._test)
            for expected in self._expected_after(index):
                if isinstance(expected, f.Changes) and expected.table is not None:
                    self._check_changes(expected, self._changes_of(expected.table, expected.columns))
                    continue
                came = self._test.output()
                self._total += came
                pending += came
                if isinstance(expected, f.State):
                    self._check_state(expected)
                else:
                    self._check_changes(expected, self._picked(pending, None, expected.columns))
                    pending = []
        if self._case.error is not None:
            self._test.output()  # nothing else asks what becomes of the last steps
        return "; ".join(self._notes()) or None

    def _expected_after(self, index: int) -> Iterator[f.Changes | f.State]:
        # An output is asked for only where something is expected of it: each question costs a micro-batch.
        return (expected for expected in self._case.expected if expected.after == index)

    def _changes_of(self, table: str, columns: tuple[str, ...] | None) -> list[Change]:
        """What came out to a table beside the result, such as late rows."""
        try:
            return self._picked(self._test.output(table), table, columns)
        except ValueError as error:
            raise Different(str(error)) from error

    def _picked(self, changes: list[Change], table: str | None, columns: tuple[str, ...] | None) -> list[Change]:
        """The changes with these columns only."""
        if columns is None:
            return changes
        names = [name.casefold() for name in self._test.output_columns(table)]
        positions = [names.index(column.casefold()) + 1 for column in columns]
        return [(change[0], *(change[i] for i in positions)) for change in changes]

    def _check_changes(self, expected: f.Changes, came: list[Change]) -> None:
        ordered = expected.ordered and self._test.keeps_order
        wrong = difference(expected.rows, came, ordered=ordered)
        if wrong:
            raise Different(f"after step {expected.after}: {wrong}")
        if expected.ordered and not ordered and difference(expected.rows, came, ordered=True):
            self._unordered += 1

    def _check_state(self, expected: f.State) -> None:
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


@singledispatch
def perform(step: f.Step, test: StreamTest) -> None:
    """Carry out one step."""
    raise TypeError(f"{step!r} is no step")


@perform.register
def _(step: f.CaseRows, test: StreamTest) -> None:
    test.changes(step.table, step.rows)


@perform.register
def _(step: f.Watermark, test: StreamTest) -> None:
    test.watermark(step.table, step.ms)


@perform.register
def _(step: f.ProcessingTime, test: StreamTest) -> None:
    test.processing_time(step.ms)


@perform.register
def _(step: f.Checkpoint, test: StreamTest) -> None:
    test.checkpoint()


@perform.register
def _(step: f.Restart, test: StreamTest) -> None:
    test.restart()


@perform.register
def _(step: f.Finish, test: StreamTest) -> None:
    test.finish()
