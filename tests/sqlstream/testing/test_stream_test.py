"""``StreamTest``: steps in, changes out, the same ones after a restart."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.testing import StreamTest
from sqlstream.testing.spark import LocalSession

EVENTS = "CREATE TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');"
DELAYED = EVENTS.replace("AS ts)", "AS ts - INTERVAL '5' SECOND)")
COUNTS = "SELECT k, COUNT(*) AS n, window_end FROM events GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
HOPS = "SELECT COUNT(*) AS n FROM events GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '3' SECOND)"


def at(seconds: int) -> datetime:
    return datetime(1970, 1, 1, 0, 0, seconds)


@pytest.fixture
def session():
    with LocalSession() as session:
        yield session


# --- without Spark --------------------------------------------------------------------------------------------


def test_a_wrong_query_is_refused_with_its_place(session):
    with pytest.raises(SqlStreamError, match="SS201") as error:
        StreamTest(EVENTS + "SELECT vv FROM events", session)
    assert "LINE 1" in str(error.value)


def test_only_the_last_statement_runs(session):
    with pytest.raises(ValueError, match="only the last statement of a test may run"):
        StreamTest(EVENTS + "SELECT k FROM events; SELECT v FROM events", session)
    with pytest.raises(ValueError, match="ends with a query, an INSERT or a statement set"):
        StreamTest("CREATE TABLE t (a INT) WITH ('connector' = 'test')", session)


def test_tests_that_share_a_session_define_the_same_names(session):
    for _ in range(2):
        with StreamTest(EVENTS + COUNTS, session) as test:
            assert test.output() == []
    assert session.sql("SHOW TABLES").fetchall() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.rows("event", []), 'reads no table "event" with the connector test; it reads "events"'),
        (lambda t: t.rows("events", [("a", 1)]), "3 physical columns, and a row 2 values"),
        (lambda t: t.rows("events", [("a", 1, 0)], "+Z"), '"\\+Z" is no row kind'),
        (lambda t: t.watermark("others", 1), 'reads no table "others"'),
        (lambda t: t.processing_time(-1), "cannot go back"),
        (lambda t: t.output("others"), 'does not write to table "others"'),
        (lambda t: (t.finish(), t.rows("events", [("a", 1, 0)])), "came after finish"),
    ],
)
def test_misuse_is_explained(session, call, message):
    with StreamTest(EVENTS + COUNTS, session) as test, pytest.raises(ValueError, match=message):
        call(test)


def test_a_value_of_another_type_is_refused(session):
    with StreamTest(EVENTS + COUNTS, session) as test, pytest.raises(TypeError, match="is not a value of type INT"):
        test.rows("events", [("a", 1.5, 0)])


def test_rows_of_other_kinds_are_refused_as_not_executed(session):
    with StreamTest(EVENTS + COUNTS, session) as test, pytest.raises(SqlStreamError, match="SS325"):
        test.rows("events", [("a", 1, 0)], kind="-D")


def test_nothing_goes_in_and_nothing_comes_out(session):
    session.sql("SET 'sqlstream.engine' = 'native'")
    with StreamTest(EVENTS + COUNTS, session) as test:
        assert test.output() == []
        assert test.output_names == ("k", "n", "window_end")
        assert not test.keeps_order


# --- with Spark -----------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_windows_fire_when_the_watermark_passes_them_also_after_a_restart(session):
    with StreamTest(EVENTS + COUNTS, session) as test:
        test.rows("events", [("a", 1, 1000), ("a", 2, "00:00:02"), ("b", 3, at(11))])
        assert test.output() == []
        test.restart()
        test.watermark("events", "00:00:09.999")
        assert test.output() == [("+I", "a", 2, at(10))]
        test.rows("events", [("a", 4, 5000)])
        test.checkpoint()
        test.finish()
        assert test.output() == [("+I", "b", 1, at(20))]
        assert (test.late_dropped(), test.late_dropped_is_exact) == (1, True)


@pytest.mark.spark
def test_rows_move_the_watermark_of_tables_with_a_delay(session):
    with StreamTest(DELAYED + COUNTS, session) as test:
        test.rows("events", [("a", 1, 14_998)])
        assert test.output() == []
        test.rows("events", [("b", 1, 0), ("a", 1, 14_999)])
        assert test.output() == [("+I", "b", 1, at(10))]


@pytest.mark.spark
def test_the_mode_of_watermarks_can_be_chosen(session):
    with StreamTest(EVENTS + COUNTS, session, watermarks="rows") as test:
        test.rows("events", [("a", 1, 1000), ("a", 1, 10_000)])
        assert test.output() == [("+I", "a", 1, at(10))]


@pytest.mark.spark
def test_buffered_steps_come_to_the_same_as_single_ones():
    steps: list[tuple[str, int] | int] = [
        ("a", 0),
        500,
        ("a", 3400),
        2999,
        ("a", 2999),
        ("b", 2500),
        3300,
        ("b", 4000),
        ("a", 100),
        9000,
    ]

    def run(*, asking: bool) -> tuple:
        with LocalSession() as session, StreamTest(EVENTS + HOPS, session) as test:
            changes: list = []
            for step in steps:
                if isinstance(step, int):
                    test.watermark("events", step)
                else:
                    test.rows("events", [(step[0], 1, step[1])])
                changes += test.output() if asking else []
            return sorted(changes + test.output()), test.late_dropped()

    assert run(asking=True) == run(asking=False)


@pytest.mark.spark
def test_a_late_row_counts_once_for_all_its_windows(session):
    with StreamTest(EVENTS + HOPS, session) as test:
        test.rows("events", [("a", 1, 1000)])
        test.watermark("events", 4000)
        test.rows("events", [("a", 1, 1000), ("a", 1, 1999), ("a", 1, 2000), ("a", 1, 2001)])
        assert (test.late_dropped(), test.late_dropped_is_exact) == (2, True)


@pytest.mark.spark
def test_late_rows_among_others_are_not_counted_exactly_on_the_native_engine(session):
    session.sql("SET 'sqlstream.engine' = 'native'")
    with StreamTest(DELAYED + COUNTS, session) as test:
        test.rows("events", [("a", 1, 30_000)])
        test.rows("events", [("a", 1, 40_000), ("b", 1, 1000), ("b", 1, 1001)])
        assert (test.late_dropped(), test.late_dropped_is_exact) == (1, False)


@pytest.mark.spark
def test_values_of_all_types_come_back(session):
    table = (
        "CREATE TABLE t (b BOOLEAN, i TINYINT, f FLOAT, d DECIMAL(10, 2), day DATE, ts TIMESTAMP(3), raw BINARY,"
        " xs ARRAY<STRUCT<a: INT>>, m MAP<STRING, TIMESTAMP>) WITH ('connector' = 'test');"
    )
    row = (True, -3, 0.5, "1.10", "2024-02-29", -1, b"\x00", [[1], {"a": None}], {"x": 1000})
    with StreamTest(table + "SELECT * FROM t", session) as test:
        test.rows("t", [row, (None,) * 9])
        (first, second) = test.output()
    moment = datetime(1969, 12, 31, 23, 59, 59, 999000)
    expected = (True, -3, 0.5, Decimal("1.10"), datetime(2024, 2, 29).date(), moment, b"\x00")
    assert first == ("+I", *expected, [{"a": 1}, {"a": None}], {"x": at(1)})
    assert second == ("+I", *(None,) * 9)


@pytest.mark.spark
def test_a_row_without_event_time_fails_the_job(session):
    with StreamTest(EVENTS + COUNTS, session) as test:
        test.rows("events", [("a", 1, None)])
        with pytest.raises(SqlStreamError, match='SS401: event time "ts" of table "events" is NULL'):
            test.output()


@pytest.mark.spark
def test_insert_writes_to_its_table(session):
    target = "CREATE TABLE target (name STRING, n BIGINT) WITH ('connector' = 'test');"
    with StreamTest(EVENTS + target + "INSERT INTO target SELECT k, v FROM events", session) as test:
        test.rows("events", [("a", 1, 0)])
        assert test.output("TARGET") == [("+I", "a", 1)]
        assert test.output_names == ("name", "n")


@pytest.mark.spark
def test_the_row_before_is_there_again_where_the_last_one_of_a_key_goes(session):
    script = """
        CREATE TABLE users (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('connector' = 'test', 'changelog-mode' = 'I,UB,UA,D');
        CREATE TABLE by_name (name STRING, id INT, PRIMARY KEY (name) NOT ENFORCED) WITH ('connector' = 'test');
        INSERT INTO by_name SELECT name, id FROM users
    """
    with StreamTest(script, session) as test:
        test.rows("users", [(1, "a"), (2, "a")])
        assert test.output("by_name")[-1][1:] == ("a", 2)
        test.restart()
        test.rows("users", [(2, "a")], kind="-D")
        assert test.output("by_name")[-1] == ("+U", "a", 1)
        test.rows("users", [(1, "a")], kind="-D")
        assert test.output("by_name")[-1] == ("-D", "a", 1)


# --- on kernels -----------------------------------------------------------------------------------------------


@pytest.fixture
def columnar(session):
    session.sql("SET 'sqlstream.engine' = 'columnar'")
    return session


@pytest.mark.spark
def test_kernels_put_rows_out_in_order_count_late_ones_and_send_them_to_their_table(columnar):
    late = "CREATE TABLE late (window_end TIMESTAMP(3), v INT) WITH ('connector' = 'test');"
    with StreamTest(EVENTS + late + COUNTS + " LATE DATA TO late", columnar) as test:
        assert (test.keeps_order, test.side_tables, test.output_columns("LATE")) == (
            True,
            ("late",),
            ("window_end", "v"),
        )
        test.rows("events", [("b", 1, 1000), ("a", 2, 12_000), ("a", 3, 2000)])
        test.watermark("events", 9999)
        assert test.output() == [("+I", "b", 1, at(10)), ("+I", "a", 1, at(10))]
        assert test.output("late") == []
        test.restart()
        test.rows("events", [("c", 4, 5000), ("a", 5, 13_000), ("c", 6, 6000)])
        test.finish()
        assert test.output("late") == [("+I", at(10), 4), ("+I", at(10), 6)]
        assert test.output() == [("+I", "a", 2, at(20))]
        assert (test.late_dropped(), test.late_dropped_is_exact) == (2, True)
        assert test.output("late") == []


@pytest.mark.spark
def test_kernels_fire_early_by_the_clock_and_withdraw_what_they_emitted(columnar):
    early = COUNTS + " TRIGGER AFTER WATERMARK EARLY EVERY INTERVAL '2' SECOND RETRACTING"
    with StreamTest(EVENTS + early, columnar) as test:
        test.rows("events", [("a", 1, 1000)])
        test.processing_time(1999)
        assert test.output() == []
        test.processing_time(2000)
        assert test.output() == [("+I", "a", 1, at(10))]
        test.rows("events", [("a", 1, 2000)])
        test.restart()
        test.processing_time(4000)
        test.processing_time(6000)
        assert test.output() == [("-U", "a", 1, at(10)), ("+U", "a", 2, at(10))]
        test.rows("events", [("a", 1, 3000)])
        test.finish()
        assert test.output() == [("-U", "a", 2, at(10)), ("+U", "a", 3, at(10))]
