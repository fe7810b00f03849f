"""When windows fire: classes of the user's, settings, late rows, and what the plan is left with."""

import re
from pathlib import Path

import pytest

from sqlstream.errors import BindError
from sqlstream.grammar import parse_query
from sqlstream.planner.binder import BinderSettings, bind_query
from sqlstream.planner.catalog import RowKind, TimeDomain
from sqlstream.planner.firing import (
    Accumulation,
    AfterProcessingTime,
    AfterWatermark,
    Combinator,
    Combined,
    EachBatch,
    EveryInterval,
    EveryRows,
    Firing,
    LateAction,
    LateData,
)
from sqlstream.planner.node import Node
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.windows import Session, Tumble
from tests.planner.plans import created, error, errors, plan

TUMBLE = "SELECT auction, COUNT(*) AS c FROM bids GROUP BY auction, TUMBLE(ts, INTERVAL '1' MINUTE)"
SESSION = "SELECT auction, COUNT(*) AS c FROM bids GROUP BY auction, SESSION(ts, INTERVAL '1' MINUTE)"
CLICKS = "SELECT k, COUNT(*) AS c FROM clicks GROUP BY k, TUMBLE(pt, INTERVAL '1' MINUTE)"


def aggregate(root: Node) -> WindowAggregate:
    (only,) = [n for n in root.walk() if isinstance(n, WindowAggregate)]
    return only


def with_settings(text: str, settings: BinderSettings) -> WindowAggregate:
    return aggregate(bind_query(parse_query(text), created(), settings))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("TRIGGER USING nobody()", 'SS203: function "nobody" does not exist [nobody()]'),
        ("TRIGGER USING evictor()", 'SS209: "evictor" is a function of the kind evictor, not trigger [evictor()]'),
        ("EVICT USING trigger()", 'SS209: "trigger" is a function of the kind trigger, not evictor [trigger()]'),
        ("TRIGGER USING trigger(n)", 'SS209: arguments of "trigger" must be constants [n]'),
    ],
)
def test_using_takes_classes_of_its_kind_and_constants(call, expected):
    assert error(f"{TUMBLE} {call}").startswith(expected)


def test_an_assigner_takes_as_many_arguments_as_it_declares():
    text = error("SELECT COUNT(*) FROM bids GROUP BY WINDOW USING assigner()")
    assert text.startswith('SS207: function "assigner" takes 1 argument, not 0')


# --- settings -------------------------------------------------------------------------------------------------


def test_settings_fire_early_and_late_with_retractions_as_in_flink():
    node = with_settings(TUMBLE, BinderSettings(early_ms=1000, late_ms=0, allow_ms=60_000))
    trigger = AfterWatermark(EveryInterval(1000, TimeDomain.PROCESSING), EveryRows(1))
    assert node.firing == Firing(trigger, Accumulation.RETRACTING, late=LateData(60_000))
    assert node.changelog_mode == frozenset(RowKind) - {RowKind.DELETE}


def test_lateness_of_the_settings_has_no_effect_without_late_firings_as_in_flink():
    assert with_settings(TUMBLE, BinderSettings(allow_ms=60_000)).firing.is_default
    early = with_settings(TUMBLE, BinderSettings(early_ms=1000, allow_ms=60_000)).firing
    assert early.late == LateData()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (BinderSettings(late_ms=0), 'SS237: setting "table.exec.emit.late-fire.enabled" fires for late rows, and none'),
        (BinderSettings(late_ms=0, allow_ms=0), "SS237: "),
        (
            BinderSettings(late_ms=2000, allow_ms=1000),
            'SS238: setting "table.exec.emit.late-fire.delay" is 2 s, and rows may be late by 1 s only',
        ),
    ],
)
def test_late_firings_of_the_settings_need_late_rows_as_in_flink(settings, expected):
    with pytest.raises(BindError, match=re.escape(expected)):
        with_settings(TUMBLE, settings)
    assert with_settings(f"{TUMBLE} TRIGGER EVERY 2 ROWS", settings).firing.late == LateData(settings.allowed_ms)
    assert with_settings(f"{TUMBLE} LATE DATA ALLOW INTERVAL '2' SECOND", settings).firing.late == LateData(2000)


def test_late_firings_of_the_settings_are_ignored_in_processing_time_as_in_flink():
    assert with_settings(CLICKS, BinderSettings(late_ms=1000)).firing.trigger is None


def test_lateness_of_a_clause_accumulates():
    allowed = f"{TUMBLE} LATE DATA ALLOW INTERVAL '1' SECOND"
    for settings in (BinderSettings(), BinderSettings(allow_ms=60_000)):
        assert with_settings(allowed, settings).firing == Firing(late=LateData(1000))


def test_settings_fire_windows_of_the_clock_early_too():
    node = with_settings(CLICKS, BinderSettings(early_ms=1000))
    early = EveryInterval(1000, TimeDomain.PROCESSING)
    assert node.firing.trigger == Combined(Combinator.OR, early, AfterProcessingTime())


def test_clauses_go_before_settings():
    settings = BinderSettings(early_ms=1000, late_ms=1000, allow_ms=60_000)
    late = "LATE DATA ALLOW INTERVAL '0' SECOND"
    assert with_settings(f"{TUMBLE} TRIGGER AFTER WATERMARK {late}", settings).firing.is_default
    assert with_settings(f"{TUMBLE} {late} EMIT ON WINDOW CLOSE", settings).firing.is_default
    changes = with_settings(f"{TUMBLE} EMIT CHANGES", settings)
    assert changes.firing == Firing(EachBatch(), Accumulation.RETRACTING, late=LateData(60_000))


def test_settings_leave_windows_of_rows_alone():
    text = "SELECT COUNT(*) FROM bids GROUP BY COUNT WINDOW (3 ROWS)"
    assert with_settings(text, BinderSettings(early_ms=1, late_ms=1, allow_ms=1)).firing.is_default


def test_a_time_zone_aligns_windows_of_fixed_size_only():
    berlin = BinderSettings(zone="Europe/Berlin")
    assert with_settings(f"{TUMBLE} EMIT CHANGES", berlin).window == Tumble(60_000, 0, "Europe/Berlin")
    assert with_settings(f"{SESSION} EMIT CHANGES", berlin).window == Session(60_000)


def test_rows_without_a_time_are_counted_above_windows_of_event_time():
    text = f"SELECT SUM(c) FROM ({TUMBLE}) GROUP BY auction COUNT WINDOW (3 ROWS)"
    counted, timed = [n for n in plan(text).walk() if isinstance(n, WindowAggregate)]
    assert (counted.time, counted.domain, timed.domain) == (None, TimeDomain.PROCESSING, TimeDomain.EVENT)


# --- late rows ------------------------------------------------------------------------------------------------


def test_late_rows_go_to_the_columns_of_the_table_by_name():
    late = aggregate(plan(f"{TUMBLE} LATE DATA TO late")).firing.late
    assert (late.action, late.table.name if late.table else None) == (LateAction.TO, "late")
    assert [v.sql("spark") for v in late.values] == ["`auction`", "CAST(`price` AS STRING)", "`window_end`"]


def test_late_rows_of_a_window_table_function_have_the_columns_of_its_input():
    text = (
        "SELECT auction, COUNT(*) FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS w "
        "WHERE n > 1 GROUP BY auction, window_start, window_end LATE DATA TO late"
    )
    assert len(aggregate(plan(text)).firing.late.values) == 3


def test_a_column_of_another_type_cannot_store_late_values():
    table = "CREATE TABLE other (auction MAP<STRING, INT>) WITH ('connector' = 'test');"
    assert error(f"{table} {TUMBLE} LATE DATA TO other").startswith(
        'SS206: column "auction" of type MAP<STRING, INT> cannot store late values of type BIGINT'
    )


# --- properties -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (TUMBLE, "+I"),
        (f"{TUMBLE} TRIGGER EVERY 3 ROWS", "+I"),
        (f"{TUMBLE} TRIGGER EVERY 3 ROWS DISCARDING", "+I"),
        (f"{TUMBLE} TRIGGER EVERY 3 ROWS RETRACTING", "+I -U +U"),
        (f"{SESSION} TRIGGER EVERY 3 ROWS RETRACTING", "+I -U +U -D"),
        (f"{SESSION} TRIGGER AFTER WATERMARK RETRACTING", "+I"),
        (f"{TUMBLE} TRIGGER AFTER WATERMARK RETRACTING LATE DATA ALLOW INTERVAL '1' SECOND", "+I -U +U"),
        (f"{TUMBLE} EMIT AFTER WATERMARK WITH DELAY INTERVAL '1' SECOND", "+I"),
        (f"{SESSION} EMIT CHANGES", "+I -U +U -D"),
        (f"SELECT * FROM ({TUMBLE}) EMIT CHANGES", "+I -U +U"),
    ],
)
def test_row_kinds_of_a_window(text, kinds):
    assert plan(text).changelog_mode == {k for k in RowKind if k.value in kinds.split()}


def test_a_window_that_fires_often_has_a_key_only_where_it_retracts():
    key = frozenset({frozenset({"auction", "window_start", "window_end"})})
    assert aggregate(plan(TUMBLE)).unique_keys == key
    assert aggregate(plan(f"{TUMBLE} EMIT CHANGES")).unique_keys == key
    assert aggregate(plan(f"{TUMBLE} TRIGGER EVERY 3 ROWS")).unique_keys == frozenset()
    count = "SELECT auction, COUNT(*) FROM bids GROUP BY auction COUNT WINDOW (3 ROWS)"
    assert aggregate(plan(count)).unique_keys == frozenset()


def test_examples_of_the_dialect_bind():
    tables = """
    CREATE TABLE bids (auction BIGINT, bidder BIGINT, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'test');
    CREATE TABLE departures (carrier STRING, origin STRING, delay INT, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'test');
    CREATE TABLE orders (id BIGINT, customer BIGINT, amount INT, currency STRING, pt AS PROCTIME(), ts TIMESTAMP(3),
        WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
    CREATE TABLE rates (currency STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts,
        PRIMARY KEY (currency) NOT ENFORCED) WITH ('connector' = 'test');
    CREATE TABLE trades (id BIGINT, item STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
    CREATE TABLE quotes (item STRING, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
    CREATE TABLE customers (id BIGINT, name STRING) WITH ('connector' = 'test', 'role' = 'lookup');
    CREATE TABLE failures (id BIGINT, error STRING) WITH ('connector' = 'test');
    CREATE TABLE sales (shop STRING, kind STRING, day DATE, amount INT) WITH ('connector' = 'test');
    CREATE TABLE dear (auction BIGINT, price INT) WITH ('connector' = 'test');
    CREATE TABLE counts (auction BIGINT, n BIGINT) WITH ('connector' = 'test');
    """
    page = (Path(__file__).parents[2] / "docs" / "dialect.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    # The process function "f" is no function of the tests; docs/process_functions.md has examples that run.
    # What is said of finished data is for Spark to read.
    parts = ("…", " | ", "CREATE TABLE bids", "FROM f(", "LIMIT 10")
    whole = [b for b in blocks if not any(part in b for part in parts)]
    assert len(whole) >= 4
    assert [errors(block, tables) for block in whole] == [[]] * len(whole)


def test_emit_speaks_of_the_windows_below():
    text = f"SELECT c FROM ({TUMBLE}) WHERE c > 1 UNION ALL SELECT c FROM ({SESSION}) EMIT CHANGES"
    nodes = [n for n in plan(text).walk() if isinstance(n, WindowAggregate)]
    assert [n.firing.trigger for n in nodes] == [EachBatch(), EachBatch()]


def test_two_clauses_do_not_say_when_a_window_fires():
    assert error(f"SELECT c FROM ({TUMBLE} TRIGGER EVERY 3 ROWS) EMIT CHANGES").startswith(
        "SS229: TRIGGER and EMIT both say when windows fire [EMIT CHANGES]"
    )
