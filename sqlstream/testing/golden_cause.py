"""Which row of a step that brings several is the one after which the first difference came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlstream.errors import SqlStreamError
from sqlstream.testing.failure_text import first_difference
from sqlstream.testing.golden import SessionFactory, run_block
from sqlstream.testing.golden_format import Block, lines_of, steps_of
from sqlstream.testing.golden_stream import Outcome
from sqlstream.testing.line_rows import LineComparison
from sqlstream.testing.spark import LocalSession

_MOST_ROWS = 30
"""Each is a micro-batch of its own."""


def cause_of(
    blocks: Sequence[Block], index: int, outcome: Outcome, folder: Path, sessions: SessionFactory = LocalSession
) -> str | None:
    """The row, where a step of several rows differs; the block runs once more for it, with each row of
    this step as a step. None where one row is all that the step brings, or no single row brings the difference."""
    if not outcome.steps or outcome.comparison is None:
        return None
    number, step = first_difference(outcome)
    rows = step.inputs
    if not 1 < len(rows) <= _MOST_ROWS:
        return None
    unexpected = _surplus(step.expected, step.actual, outcome.comparison)
    steps = [replace(each, output=()) for each in steps_of(blocks[index])]
    apart = [*steps[: number - 1], *(replace(steps[number - 1], words=words) for words in rows)]
    again = [*blocks[:index], blocks[index].with_expected(lines_of(tuple(apart)))]
    try:
        came = run_block(again, index, folder=folder, sessions=sessions).steps[number - 1 :]
    except (SqlStreamError, ValueError):
        return None
    for words, after in zip(rows, came, strict=True):
        if any(outcome.comparison.alike(line, other) for line in after.actual for other in unexpected):
            return words
    return None


def _surplus(expected: Sequence[str], actual: Sequence[str], comparison: LineComparison) -> list[str]:
    """The actual lines that are not expected."""
    return [line for differs, _, line in comparison.aligned(expected, actual) if differs and line is not None]
