"""Lines of rows: the same but for last digits, in any order where they have none, and the likest beside each other."""

from __future__ import annotations

from sqlstream.testing.golden_rows import LineComparison, cut
from sqlstream.types import parse_type

TYPES = {"": [parse_type("STRING"), parse_type("DOUBLE"), parse_type("ARRAY<FLOAT>")], "late": [parse_type("INT")]}
ORDERED, UNORDERED = LineComparison(TYPES), LineComparison(TYPES, unordered=True)


def test_a_line_is_cut_into_table_kind_and_columns():
    line = cut("late: -D 1  NULL", TYPES)
    assert (line.table, line.kind, line.columns) == ("late", "-D", ("1", "NULL"))
    line = cut('"a: b"  [1, 2]', TYPES)
    assert (line.table, line.kind, line.columns) == ("", "", ('"a: b"', "[1, 2]"))


def test_last_digits_of_floating_point_numbers_may_differ():
    assert ORDERED.alike("+I a  0.3  [1.0]", "+I a  0.30000000000000004  [1.0000001]")
    assert not ORDERED.alike("+I a  0.3  [1.0]", "+I a  0.3001  [1.0]")
    assert not ORDERED.alike("+I a  0.3  [1.0]", "+U a  0.3  [1.0]")
    assert not ORDERED.alike("+I 1.0  0.3  [1.0]", "+I 1.00  0.3  [1.0]")


def test_a_tolerance_of_the_block_takes_the_place_of_the_usual_one():
    wide, exact = LineComparison(TYPES, 0.01), LineComparison(TYPES, 0.0)
    assert wide.alike("+I a  100.0  []", "+I a  100.9  []")
    assert not wide.alike("+I a  100.0  []", "+I a  102.0  []")
    assert not exact.alike("+I a  0.3  []", "+I a  0.30000000000000004  []")


def test_the_beginning_of_an_error_will_do():
    assert ORDERED.alike("! SS400", "! SS400: it failed")
    assert not ORDERED.alike("!", "! SS400: it failed")
    assert not ORDERED.alike("! SS401", "! SS400: it failed")


def test_order_counts_unless_there_is_none():
    one, other = ("+I a  1.0  []", "+I b  2.0  []"), ("+I b  2.0  []", "+I a  1.0  []")
    assert not ORDERED.same(one, other)
    assert UNORDERED.same(one, other)
    assert not UNORDERED.same(one, one + one[:1])


def test_a_row_that_is_missing_moves_no_others():
    pairs = ORDERED.aligned(("a", "b", "c"), ("a", "c"))
    assert [tuple(pair) for pair in pairs] == [(False, "a", "a"), (True, "b", None), (False, "c", "c")]


def test_unordered_rows_stand_beside_their_likest():
    pairs = UNORDERED.aligned(("+I a  1.0  []", "+I b  2.0  []"), ("+I b  3.0  []", "+I c  9.0  [1.0]"))
    assert next((pair.expected, pair.actual) for pair in pairs if pair.differs) == ("+I b  2.0  []", "+I b  3.0  []")
