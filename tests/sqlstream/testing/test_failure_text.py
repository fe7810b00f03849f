"""A failure as users read it."""

from __future__ import annotations

from sqlstream.testing.golden_rows import LineComparison
from sqlstream.testing.golden_stream import Outcome, StepOutcome, failure_text
from sqlstream.types import parse_type

TYPES = {"": [parse_type("STRING"), parse_type("INT")]}


def outcome(*steps: StepOutcome, unordered: bool = False) -> Outcome:
    return Outcome((), False, (), steps, LineComparison(TYPES, unordered=unordered), ("shop", "n"))


def test_a_row_of_its_own_is_the_cause():
    step = StepOutcome("sales  b  1", ("+I a  1", "+I b  2"), ("+I a  1", "+I b  3"), False, inputs=("sales  b  1",))
    later = StepOutcome("finish", (), ("+I c  1",), False)
    assert (
        failure_text(outcome(StepOutcome("sales  a  1", inputs=("sales  a  1",)), step, later))
        == """\
step 2: > sales  b  1
caused by the row: sales  b  1

          kind  shop  n
          +I    a     1
expected  +I    b     2
actual    +I    b     3
                      ^  first difference

1 later step differs, too"""
    )


def test_rows_alike_are_told_of_a_step_of_the_clock():
    rows = StepOutcome("sales @rows.csv", inputs=("sales  a  7", "sales  b  8", "sales  a  9"))
    step = StepOutcome("watermark sales 00:01:00", ("+I a  1",), ("+I a  2",), False)
    text = failure_text(outcome(rows, step))
    assert "from the input rows:\n  step 1: > sales  a  7\n  step 1: > sales  a  9\n\n" in text


def test_a_row_that_is_not_there_is_said_to_be_none():
    step = StepOutcome("finish", ("+I a  1",), (), False)
    assert failure_text(outcome(step)).splitlines()[2:] == [
        "          kind  shop  n",
        "expected  +I    a     1",
        "actual          (no such row)",
        "          ^^    ^     ^  first difference",
    ]


def test_an_error_in_place_of_a_row_leaves_the_columns_narrow():
    step = StepOutcome("finish", ("+I a  1",), ("! SS400: something that takes many words to say",), False)
    lines = failure_text(outcome(step)).splitlines()
    assert lines[3:5] == ["expected  +I    a     1", "actual          ! SS400: something that takes many words to say"]


def test_many_rows_are_left_out():
    same = tuple(f"+I a  {n}" for n in range(10))
    step = StepOutcome("finish", same, (*same, *(f"+I b  {n}" for n in range(50))), False)
    text = failure_text(outcome(step))
    assert "7 more that are the same" in text
    assert "29 more that differ" in text
    assert text.count("\n") < 35


def test_other_blocks_are_shown_as_lines():
    text = failure_text(Outcome(("Scan(b)",), False, ("Scan(a)",)))
    assert text.endswith("-Scan(a)\n+Scan(b)")
