"""Rows and watermarks share a micro-batch where that changes nothing."""

from __future__ import annotations

from sqlstream.testing.stepped_job import Buffer


def test_rows_and_watermarks_go_out_together():
    buffer = Buffer(tables=frozenset("a"))
    buffer.add_row("a", (1,), 0)
    buffer.lift("a", 10)
    buffer.add_row("a", (2,), 5)
    buffer.lift("b", 3)
    flush = buffer.take()
    assert flush.rows == {"a": [((1,), 0, "+I"), ((2,), 5, "+I")]}
    assert flush.watermarks == {"a": 10, "b": 3}
    assert buffer.empty
    assert buffer.flushed == {"a": 10, "b": 3}


def test_a_row_later_than_the_pending_watermark_may_join():
    buffer = Buffer(tables=frozenset("a"))
    assert buffer.takes("a", 0)
    buffer.lift("a", 10)
    assert buffer.takes("a", 12)
    assert buffer.takes("b", 0)


def test_a_row_that_a_closed_session_touches_must_wait():
    buffer = Buffer(tables=frozenset("a"))
    buffer.lift("a", 10)
    assert not buffer.takes("a", 11)
    assert not buffer.takes("a", None)


def test_a_row_that_the_job_has_passed_may_be_late():
    buffer = Buffer(tables=frozenset("a"))
    buffer.lift("a", 10)
    assert not buffer.may_be_late("a", 10)
    buffer.take()
    assert buffer.may_be_late("a", 10)
    assert not buffer.may_be_late("a", 11)
    assert not buffer.may_be_late("b", 0)


def test_watermarks_never_fall():
    buffer = Buffer(tables=frozenset("a"))
    buffer.lift("a", 10)
    buffer.lift("a", 5)
    assert buffer.take().watermarks == {"a": 10}
    buffer.lift("a", 10)
    buffer.lift("a", -5)
    assert buffer.empty


def test_eager_operators_see_every_step_by_itself():
    buffer = Buffer(False, frozenset("a"))
    assert buffer.takes("a", 0)
    buffer.add_row("a", (1,), 0)
    assert buffer.takes("a", 0)
    assert not buffer.takes("b", 0)
    buffer.lift("a", 10)
    assert not buffer.takes("a", 50)
    assert not buffer.takes("b", 50)


def test_a_watermark_that_rows_lift_goes_out_with_them():
    buffer = Buffer(tables=frozenset("a"))
    buffer.add_row("a", (1,), 0)
    buffer.reach("a", 10)
    assert not buffer.takes("a", 10)
    assert buffer.take().watermarks == {}
    assert buffer.flushed == {"a": 10}
