"""Runs the steps of a ``stream`` block, compares their output, and describes differences."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.errors import SqlStreamError
from sqlstream.testing.golden_format import FAILS, FILE, Step, StreamOptions
from sqlstream.testing.golden_rows import (
    Columns,
    Line,
    LineComparison,
    Pair,
    cut,
    read_rows_of_file,
    write_rows_to_file,
)
from sqlstream.testing.stream_test import StreamTest
from sqlstream.testing.values import Change, columns_of, merge, read_rows, spell_row
from sqlstream.types import DataType


@dataclass(frozen=True)
class StepOutcome:
    """The result of one step of a stream block: the ``expected`` and the ``actual`` lines, and whether they match.

    ``written``: the lines that replace the expected ones if the user accepts the actual output (``--bless``); they may
    name a file of rows. ``inputs``: a line for each row that the step inserts, with which the step can be repeated row
    by row.
    """

    words: str
    expected: tuple[str, ...] = ()
    actual: tuple[str, ...] = ()
    matches: bool = True
    written: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saved:
    """Actual rows that differ from a file of expected rows, to be written to that file when it is blessed."""

    path: Path
    columns: Columns
    changes: tuple[Change, ...]
    kinds: bool

    def write(self) -> None:
        """Write the rows to the file."""
        write_rows_to_file(self.path, self.columns, self.changes, kinds=self.kinds)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a block of a golden file: the ``expected`` and the actual ``lines``, and whether they match.

    For a stream block, ``steps`` has the outcome of each step, and ``comparison`` compared the lines. ``saved`` are
    actual rows that differ from those in files of expected rows.
    """

    lines: tuple[str, ...]
    matches: bool
    expected: tuple[str, ...]
    steps: tuple[StepOutcome, ...] = ()
    comparison: LineComparison | None = None
    names: tuple[str, ...] = ()
    saved: tuple[Saved, ...] = ()


class StreamRun:
    """Runs a stream block once, on a ``StreamTest``. With ``restarts`` the query is restarted before each call of
    ``steps`` except the first.
    """

    def __init__(self, test: StreamTest, options: StreamOptions, folder: Path, *, restarts: bool) -> None:
        self._test = test
        self._options = options
        self._folder = folder
        self._restarts = restarts
        self._changes: list[Change] = []
        self._begun = self._failed = False
        self.saved: list[Saved] = []
        self.comparison = LineComparison({}, options.tolerance)
        self.names: tuple[str, ...] = ()

    def steps(self, steps: Sequence[Step]) -> Iterator[StepOutcome]:
        """Performs several steps, then reads the query's output once. Yields an outcome for each step; the output of
        all of them is in the last one.
        """
        failure: tuple[str, ...] = ()
        came: list[Change] = []
        side: tuple[str, ...] = ()
        inputs: list[tuple[str, ...]] = []
        try:
            if self._failed:
                raise _After
            self._perform(steps, inputs)
            came = self._test.output()
            side = _side_lines(self._test)
        except _After:
            failure = (f"{FAILS} not performed: an earlier step failed",)
        except SqlStreamError as error:
            if not self._expects_failure(steps):
                raise
            self._failed = True
            failure = (f"{FAILS} {error.code}: {error.diagnostic.message}",)
        self._changes += came
        self._learn()
        inputs += [()] * (len(steps) - len(inputs))
        for step, rows in zip(steps[:-1], inputs, strict=False):
            yield StepOutcome(step.words, inputs=rows)
        yield replace(self._compared(steps, came, side, failure), inputs=inputs[-1])

    def _expects_failure(self, steps: Sequence[Step]) -> bool:
        return any(line.startswith(FAILS) for step in steps for line in step.output)

    def _perform(self, steps: Sequence[Step], inputs: list[tuple[str, ...]]) -> None:
        """Perform the steps and collect the input rows of each."""
        if self._begun and self._restarts:
            self._test.restart()
        self._begun = True
        for step in steps:
            inputs.append(perform(step.words, self._test, self._folder))
            if self._test.looks_up:
                self._test.checkpoint()

    def _learn(self) -> None:
        """Read names and types of the columns, which are known once the query runs."""
        if self._failed or self.names:
            return
        test = self._test
        types: dict[str, Sequence[DataType]] = {"": test.output_types}
        types |= {name.casefold(): test.output_types_of(name) for name in test.side_tables}
        if test.first_table is not None:
            types[test.first_table.casefold()] = test.output_types
        self.names = test.output_names
        unordered = self._options.unordered or self._options.table or not test.keeps_order
        self.comparison = LineComparison(types, self._options.tolerance, unordered)

    def _compared(
        self,
        steps: Sequence[Step],
        came: Sequence[Change],
        side: tuple[str, ...],
        failure: tuple[str, ...],
    ) -> StepOutcome:
        last = steps[-1]
        rows = self._merged() if self._options.table else list(came)
        actual = (*self._spelled(rows), *side, *failure)
        as_written = _in_order_of_tables(steps, self._test, self._options.table)
        expected, files = self._expanded(as_written)
        matches = self.comparison.same(expected, actual)
        if matches:
            return StepOutcome(last.words, expected, actual, True, as_written)
        written = actual
        if len(files) == 1:
            self.saved.append(Saved(files[0], self._columns, tuple(rows), kinds=not self._options.table))
            written = (next(line for line in as_written if line.startswith(FILE)), *side, *failure)
        return StepOutcome(last.words, expected, actual, False, written)

    @property
    def _columns(self) -> Columns:
        return tuple(zip(self.names, self.comparison.types.get("", ()), strict=False))

    def _merged(self) -> list[Change]:
        return [("+I", *row) for row in merge(self._changes, self._key())]

    def _key(self) -> tuple[int, ...] | None:
        if not self._options.key:
            return self._test.output_key
        names = [name.casefold() for name in self._test.output_names]
        missing = next((column for column in self._options.key if column.casefold() not in names), None)
        if missing is not None:
            raise ValueError(f'the result has no column "{missing}"; it has {", ".join(self._test.output_names)}')
        return tuple(names.index(column.casefold()) for column in self._options.key)

    def _spelled(self, rows: Sequence[Change]) -> list[str]:
        """A line for each row, prefixed by its table in a statement set; sorted where the order means nothing."""
        if not rows:
            return []
        types = self.comparison.types[""]
        if self._options.table:
            return sorted(spell_row(values, types).rstrip() for _, *values in rows)
        table = f"{self._test.first_table}: " if self._test.first_table is not None else ""
        lines = [f"{table}{_line(change, types)}" for change in rows]
        return sorted(lines) if self.comparison.unordered else lines

    def _expanded(self, lines: Sequence[str]) -> tuple[tuple[str, ...], list[Path]]:
        """The lines, with names of files replaced by the rows of the files, and these files."""
        expanded: list[str] = []
        files: list[Path] = []
        for line in lines:
            if not line.startswith(FILE):
                expanded.append(line)
                continue
            path = self._folder / line[len(FILE) :].strip()
            files.append(path)
            rows = read_rows_of_file(path, self._columns) if path.exists() else []
            expanded += self._spelled(rows)
        return tuple(expanded), files

    def check_changelog(self) -> None:
        """Raises ValueError if the query has retracted a row that it had not emitted before."""
        merge(self._changes, self._test.output_key)


class _After(Exception):
    """Raised for a step after one that failed."""


def _in_order_of_tables(steps: Sequence[Step], test: StreamTest, is_table: bool) -> tuple[str, ...]:
    """The expected lines of steps whose output is fetched together: rows of the result come first. Of a ``table`` the
    last step counts."""
    tables = [f"{name}: " for name in test.side_tables]

    def place(line: str) -> int:
        return next((n for n, start in enumerate(tables) if line.startswith(start)), -1)

    lines = (line for step in steps for line in step.output if step is steps[-1] or not is_table or place(line) >= 0)
    return tuple(sorted(lines, key=place))


def _side_lines(test: StreamTest) -> tuple[str, ...]:
    """The rows of other tables, each line prefixed by the name of its table."""
    changes = ((name, change, test.output_types_of(name)) for name in test.side_tables for change in test.output(name))
    return tuple(f"{name}: {_line(change, types)}" for name, change, types in changes)


def _line(change: Change, types: Sequence[DataType]) -> str:
    kind, *values = change
    return f"{kind} {spell_row(values, types)}".rstrip()


def perform(words: str, test: StreamTest, folder: Path = Path()) -> tuple[str, ...]:
    """Performs the step that a ``>`` line describes. Returns the rows that it inserts, a line for each; empty for other
    steps.

    ``words`` is the line without ``>``: ``bids  1  00:00:01``, ``-D bids  1  00:00:01``, ``bids @rows.csv`` (a file in
    ``folder``), ``watermark bids 00:00:40``, …
    """
    match words.split():
        case ["watermark", table, *time] if time:
            test.watermark(table, " ".join(time))
        case ["processing_time", *time] if time:
            test.processing_time(" ".join(time))
        case ["checkpoint"]:
            test.checkpoint()
        case ["restart"]:
            test.restart()
        case ["settle"]:
            test.settle()
        case ["finish"]:
            test.finish()
        case _:
            return _rows(words, test, folder)
    return ()


def _rows(words: str, test: StreamTest, folder: Path) -> tuple[str, ...]:
    kind = words[:2] if words[:1] in "+-" else "+I"
    table, _, row = words.removeprefix(kind).strip().partition(" ")
    types = test.input_types(table)
    changes: list[Change]
    if row.strip().startswith(FILE):
        columns = tuple(zip(test.input_columns(table), types, strict=True))
        changes = read_rows_of_file(folder / row.strip()[len(FILE) :].strip(), columns)
    else:
        changes = [(kind, *values) for values in read_rows(row, types)]
    test.changes(table, [(change[0], change[1:]) for change in changes])
    return tuple(_input_line(table, change, types) for change in changes)


def _input_line(table: str, change: Change, types: Sequence[DataType]) -> str:
    kind, *values = change
    return f"{'' if kind == '+I' else f'{kind} '}{table}  {spell_row(values, types)}"


# --- Differences as text ---------------------------------------------------------------------------------------


_SAME_BEFORE = 3
_DIFFERING = 20
_LONGEST_CELL, _LONGEST_ERROR = 40, 90
_ROWS_ALIKE = 5
_NO_ROW = "(no such row)"
_OF_ROW = 3
"""Table, kind and what stands in place of the columns."""
_LABELS = ("", "expected", "actual")


def failure_text(outcome: Outcome, cause: str | None = None) -> str:
    """The message for a block that failed. ``cause`` is the input row that causes the first difference, None if it is
    not known.
    """
    if outcome.comparison is None or not outcome.steps:
        return "\n".join(difflib.unified_diff(outcome.expected, outcome.lines, "expected", "actual", n=2, lineterm=""))
    number, step = first_difference(outcome)
    lines = [f"step {number}: > {step.words}", *_causes(outcome, number, cause), ""]
    lines += _table(step, outcome.comparison, outcome.names)
    later = sum(not each.matches for each in outcome.steps[number:])
    if later:
        lines += ["", f"{later} later step{'s differ' if later > 1 else ' differs'}, too"]
    return "\n".join(lines)


def first_difference(outcome: Outcome) -> tuple[int, StepOutcome]:
    """A pair: the number, from 1, of the first step whose output differs, and the outcome of that step."""
    return next((i, step) for i, step in enumerate(outcome.steps, 1) if not step.matches)


# --- causes ---------------------------------------------------------------------------------------------------


def _causes(outcome: Outcome, number: int, cause: str | None) -> Iterator[str]:
    """The input row that causes the difference; for a step of the clock the input rows that resemble the result."""
    step = outcome.steps[number - 1]
    if cause is not None:
        yield f"caused by the row: {cause}"
    elif len(step.inputs) == 1:
        yield f"caused by the row: {step.inputs[0]}"
    elif alike := _rows_alike(outcome, number):
        yield "from the input rows:"
        yield from (f"  step {i}: > {row}" for i, row in alike)


def _rows_alike(outcome: Outcome, number: int) -> list[tuple[int, str]]:
    """The last input rows, of those that share most values with the differing rows."""
    assert outcome.comparison is not None
    step = outcome.steps[number - 1]
    pair = next(pair for pair in outcome.comparison.aligned(step.expected, step.actual) if pair.differs)
    lines = [cut(line, outcome.comparison.types).columns for line in pair[1:] if line is not None]
    values = set.intersection(*map(set, lines))
    rows = [(i, row) for i, each in enumerate(outcome.steps[:number], 1) for row in each.inputs]
    shared = [len(values & set(columns_of(row)[1:])) for _, row in rows]
    most = max(shared, default=0)
    return [row for row, count in zip(rows, shared, strict=True) if count == most][-_ROWS_ALIKE:]


# --- the table ------------------------------------------------------------------------------------------------


def _table(step: StepOutcome, comparison: LineComparison, names: Sequence[str]) -> list[str]:
    """Equal rows once, differing ones one below the other, with a mark below the first difference."""
    pairs = comparison.aligned(step.expected, step.actual)
    first = next(i for i, (differs, *_) in enumerate(pairs) if differs)
    rows: list[tuple[str, tuple[str, ...]]] = [("", _cells_of_head(pairs, comparison, names))]
    before = pairs[:first]
    for _, line, _other in before[-_SAME_BEFORE:]:
        rows.append((_LABELS[0], _cells(line, comparison)))
    _, expected, actual = pairs[first]
    rows.append((_LABELS[1], _cells(expected, comparison)))
    rows.append((_LABELS[2], _cells(actual, comparison)))
    marked = len(rows)
    rest = [pair for pair in pairs[first + 1 :] if pair[0]]
    for _, one, other in rest[:_DIFFERING]:
        rows += [(label, _cells(line, comparison)) for label, line in ((_LABELS[1], one), (_LABELS[2], other))
                 if line is not None]  # fmt: skip
    widths = _widths([cells for _, cells in rows])
    texts = [_text(label, cells, widths) for label, cells in rows]
    texts.insert(marked, _marks(rows[marked - 2][1], rows[marked - 1][1], widths, comparison, expected, actual))
    if len(before) > _SAME_BEFORE:
        texts.insert(1, f"{'':8}  … {len(before) - _SAME_BEFORE} more that are the same")
    if len(rest) > _DIFFERING:
        texts.append(f"{'':8}  … {len(rest) - _DIFFERING} more that differ")
    return texts


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column; a text that stands for a whole row has no width."""
    cells = [row if len(row) > _OF_ROW or not row[-1].startswith((FAILS, _NO_ROW)) else row[:-1] for row in rows]
    longest = max(map(len, rows))
    return [max((len(row[i]) for row in cells if i < len(row)), default=1) for i in range(longest)]


def _cells_of_head(pairs: Sequence[Pair], comparison: LineComparison, names: Sequence[str]) -> tuple[str, ...]:
    lines = [cut(line, comparison.types) for _, *pair in pairs for line in pair if line is not None]
    return ("table" if any(line.table for line in lines) else "", "kind" if any(line.kind for line in lines) else "",
            *names)  # fmt: skip


def _cells(line: str | None, comparison: LineComparison) -> tuple[str, ...]:
    if line is None:
        return ("", "", _NO_ROW)
    if line.startswith(FAILS):
        return ("", "", _short(line, _LONGEST_ERROR))
    row: Line = cut(line, comparison.types)
    return (row.table, row.kind, *(_short(text) for text in row.columns))


def _short(text: str, longest: int = _LONGEST_CELL) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _text(label: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    columns = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False) if width]
    return f"{label:8}  {'  '.join(columns)}".rstrip()


def _marks(
    expected: Sequence[str],
    actual: Sequence[str],
    widths: Sequence[int],
    comparison: LineComparison,
    one: str | None,
    other: str | None,
) -> str:
    """Carets below the values that differ; below the whole row where one of the two is missing."""
    differing = {i for i, cells in enumerate(widths) if cells}
    if one is not None and other is not None and not one.startswith(FAILS) and not other.startswith(FAILS):
        first, second = cut(one, comparison.types), cut(other, comparison.types)
        differing = {i + 2 for i in comparison.differing_columns(first, second)}
        differing |= {i for i in range(2) if expected[i] != actual[i]}
    there = [cells for line, cells in ((one, expected), (other, actual)) if line is not None]
    longest = [max(len(cells[i]) if i < len(cells) else 0 for cells in there) for i in range(len(widths))]
    cells = ["^" * min(longest[i], widths[i]) if i in differing else "" for i in range(len(widths))]
    return f"{_text('', cells, widths)}  first difference"
