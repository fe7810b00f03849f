"""A difference as people read it: the step, the row that caused it, expected and actual rows as a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from sqlstream.testing.golden_format import FAILS
from sqlstream.testing.golden_stream import Outcome, StepOutcome
from sqlstream.testing.line_rows import Line, LineComparison, Pair, cut
from sqlstream.testing.spelling import columns_of

_SAME_BEFORE = 3
_DIFFERING = 20
_LONGEST_CELL, _LONGEST_ERROR = 40, 90
_ROWS_ALIKE = 5
_NO_ROW = "(no such row)"
_OF_ROW = 3
"""Table, kind and what stands in place of the columns."""
_LABELS = ("", "expected", "actual")


def failure_text(outcome: Outcome, cause: str | None = None) -> str:
    """Why a block fails. ``cause`` is the row of the step after which the first difference came, where it brings
    several."""
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
    """The first step, from 1, after which something else came out."""
    return next((i, step) for i, step in enumerate(outcome.steps, 1) if not step.matches)


# --- causes ---------------------------------------------------------------------------------------------------


def _causes(outcome: Outcome, number: int, cause: str | None) -> Iterator[str]:
    """The input row after which the difference came; for a step of the clock the rows that the result is about."""
    step = outcome.steps[number - 1]
    if cause is not None:
        yield f"caused by the row: {cause}"
    elif len(step.inputs) == 1:
        yield f"caused by the row: {step.inputs[0]}"
    elif alike := _rows_alike(outcome, number):
        yield "from the input rows:"
        yield from (f"  step {i}: > {row}" for i, row in alike)


def _rows_alike(outcome: Outcome, number: int) -> list[tuple[int, str]]:
    """The last rows that came before, of those that share most values with the differing rows."""
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
    """Same rows once, differing ones one below the other, the first difference marked below."""
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
    """Of each column; what stands for a whole row takes none."""
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
    """Carets below the values that differ; below the whole row where one of the two is not there."""
    differing = {i for i, cells in enumerate(widths) if cells}
    if one is not None and other is not None and not one.startswith(FAILS) and not other.startswith(FAILS):
        first, second = cut(one, comparison.types), cut(other, comparison.types)
        differing = {i + 2 for i in comparison.differing_columns(first, second)}
        differing |= {i for i in range(2) if expected[i] != actual[i]}
    there = [cells for line, cells in ((one, expected), (other, actual)) if line is not None]
    longest = [max(len(cells[i]) if i < len(cells) else 0 for cells in there) for i in range(len(widths))]
    cells = ["^" * min(longest[i], widths[i]) if i in differing else "" for i in range(len(widths))]
    return f"{_text('', cells, widths)}  first difference"
