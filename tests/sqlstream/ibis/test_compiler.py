"""Expressions as SQL of the dialect: the text, which the planner accepts, and what is refused by its name."""

from __future__ import annotations

import pytest

ibis = pytest.importorskip("ibis")

import ibis.common.exceptions as com  # noqa: E402
import ibis.expr.datatypes as dt  # noqa: E402

from sqlstream.ibis.backend import Backend  # noqa: E402
from sqlstream.ibis.datatypes import SqlStreamType, ibis_type  # noqa: E402
from sqlstream.session import Session  # noqa: E402
from sqlstream.types import parse_type  # noqa: E402

_ = ibis._
SCHEMA = {
    "k": "string", "n": "!int64", "x": "float64", "ts": "timestamp(3)", "day": "date", "tags": "array<string>",
    "doc": "json",
}  # fmt: skip


@pytest.fixture(scope="module")
def con():
    connection = Backend().connect(Session())
    options = {"connector": "filesystem", "path": "events", "format": "json", "source.monitor-interval": "1 s"}
    late = ibis.watermark("ts", ibis.interval(seconds=5))
    connection.create_table("events", schema=SCHEMA, tbl_properties=options, watermark=late)
    del options["source.monitor-interval"]
    connection.create_table("finished", schema=SCHEMA, tbl_properties=options)
    yield connection
    connection.disconnect()


GROUPED = (
    "SELECT `t1`.`window_start`, `t1`.`window_end`, `t1`.`k`, COUNT(*) AS `rows` FROM TABLE({}) AS `t1` "
    "GROUP BY `t1`.`window_start`, `t1`.`window_end`, `t1`.`k`"
)
FILTERED = "TABLE (SELECT * FROM `events` AS `t0` WHERE `t0`.`n` > 1)"

STREAMS = {
    "tumble": (
        lambda t: t.filter(_.n > 1).window_by(_.ts).tumble(size=ibis.interval(minutes=1)).agg(by="k", rows=_.count()),
        GROUPED.format(f"TUMBLE({FILTERED}, DESCRIPTOR(`ts`), INTERVAL '1' MINUTE)"),
    ),
    "tumble of a table with an offset": (
        lambda t: t.window_by(t.ts).tumble(size=ibis.interval(hours=1), offset=ibis.interval(minutes=5))
        .agg(x=_.x.max()),
        "SELECT `t0`.`window_start`, `t0`.`window_end`, MAX(`t0`.`x`) AS `x` FROM TABLE(TUMBLE(TABLE `events`, "
        "DESCRIPTOR(`ts`), INTERVAL '1' HOUR, INTERVAL '5' MINUTE)) AS `t0` "
        "GROUP BY `t0`.`window_start`, `t0`.`window_end`",
    ),
    "hop": (
        lambda t: t.filter(_.n > 1)
        .window_by(_.ts)
        .hop(size=ibis.interval(minutes=1), slide=ibis.interval(seconds=10))
        .agg(by="k", rows=_.count()),
        GROUPED.format(f"HOP({FILTERED}, DESCRIPTOR(`ts`), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)"),
    ),
    "GROUP BY with a condition": (
        lambda t: t.group_by("k").agg(rows=_.count(where=_.n > 1), mean=_.x.mean(where=_.n > 1)),
        "SELECT `t0`.`k`, COUNT(*) FILTER(WHERE `t0`.`n` > 1) AS `rows`, "
        "AVG(CASE WHEN `t0`.`n` > 1 THEN `t0`.`x` END) AS `mean` FROM `events` AS `t0` GROUP BY `t0`.`k`",
    ),
    "times": (
        lambda t: t.select(y=_.ts.year(), d=_.ts.day_of_year(), s=_.n.as_timestamp("ms"), m=_.ts.truncate("M")),
        "SELECT EXTRACT(year FROM `t0`.`ts`) AS `y`, DAYOFYEAR(`t0`.`ts`) AS `d`, "
        "CAST(TO_TIMESTAMP_LTZ(`t0`.`n`, 3) AS TIMESTAMP_NTZ) AS `s`, DATE_TRUNC('month', `t0`.`ts`) AS `m` "
        "FROM `events` AS `t0`",
    ),
    "literals": (
        lambda t: t.filter(_.ts > ibis.timestamp("2024-01-31 12:00:00"), _.day == ibis.date("2024-01-31")).select("n"),
        "SELECT `t0`.`n` FROM `events` AS `t0` WHERE `t0`.`ts` > CAST('2024-01-31 12:00:00.000000' AS TIMESTAMP_NTZ) "
        "AND `t0`.`day` = CAST('2024-01-31' AS DATE)",
    ),
    "elements of an array": (
        lambda t: t.select(tag=_.tags.unnest()),
        "SELECT EXPLODE(`t0`.`tags`) AS `tag` FROM `events` AS `t0`",
    ),
}  # fmt: skip

FINISHED = {
    "asof_join": (lambda t: t.asof_join(t.view(), "ts", predicates="k"), "ASOF LEFT JOIN"),
    "OFFSET": (lambda t: t.order_by("n").limit(5, offset=3), "LIMIT 5 OFFSET 3"),
    "ARRAY_AGG": (
        lambda t: t.group_by("k").agg(all=_.n.collect(where=_.x > 0)),
        "ARRAY_AGG(`t0`.`n`) FILTER(WHERE `t0`.`x` > 0 AND `t0`.`n` IS NOT NULL)",
    ),
    "ARRAY_AGG in an order": (
        lambda t: t.group_by("k").agg(all=_.n.collect(order_by=_.ts.desc(), distinct=False)),
        "ARRAY_AGG(`t0`.`n` ORDER BY `t0`.`ts` DESC",
    ),
    "microseconds since 1970": (
        lambda t: t.select(u=_.ts.cast("int64"), t=_.n.cast("timestamp")),
        "UNIX_MICROS(CAST(`t0`.`ts` AS TIMESTAMP)) AS BIGINT) AS `u`, "
        "CAST(TIMESTAMP_SECONDS(`t0`.`n`) AS TIMESTAMP_NTZ)",
    ),
    "names of other engines": (lambda t: t.agg(n=_.k.approx_nunique()), "APPROX_COUNT_DISTINCT(`t0`.`k`)"),
    "ROW_NUMBER": (lambda t: t.mutate(r=ibis.row_number().over(group_by="k", order_by="ts")), "ROW_NUMBER() OVER"),
    "digits of a second": (lambda t: t.select(u=_.ts.microsecond()), "DATE_FORMAT(`t0`.`ts`, 'SSSSSS')"),
    "median": (lambda t: t.agg(m=_.x.median()), "PERCENTILE(`t0`.`x`, 0.5)"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_written_so_and_planned(con, name):
    expression, text = STREAMS[name]
    written = con.compile(expression(con.table("events")))
    assert written == text
    assert con.session.check(written) == ()
    con.session.explain(written)


@pytest.mark.parametrize("name", FINISHED)
def test_finished_data_is_asked_so_and_planned(con, name):
    expression, part = FINISHED[name]
    written = con.compile(expression(con.table("finished")))
    assert part in written
    assert con.session.check(written) == ()


def test_infinity_is_not_told_by_its_tree(con):
    t = con.table("finished")
    assert con.compile(t.select(i=t.x.isinf())) == (
        "SELECT ABS(`t0`.`x`) = CAST('Inf' AS DOUBLE) AS `i` FROM `finished` AS `t0`"
    )


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (lambda t: t.mutate(b=t.ts.bucket(months=5)), "TimestampBucket"),
        (lambda t: t.any_inner_join(t.view(), "k"), "any_inner"),
        (lambda t: t.select(u=ibis.uuid()), "RandomUUID"),
        (lambda t: t.agg(k=t.x.kurtosis()), "Kurtosis"),
        (lambda t: t.select(s=t.doc.cast("json").str), "UnwrapJSONString"),
        (lambda t: t.select(s=t.n.as_timestamp("ns")), "nanosecond"),
    ],
)
def test_what_is_lacking_is_refused_by_name(con, expression, name):
    with pytest.raises(com.UnsupportedOperationError, match=name):
        con.compile(expression(con.table("finished")))


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("timestamp", "TIMESTAMP_NTZ"), ("timestamp(3)", "TIMESTAMP_NTZ(3)"), ("timestamp('UTC')", "TIMESTAMP"),
        ("timestamp(9)", "TIMESTAMP_NTZ"), ("uint8", "SMALLINT"), ("uint64", "DECIMAL(20, 0)"), ("json", "STRING"),
        ("uuid", "STRING"), ("binary", "BINARY"), ("time", "TIME"), ("decimal", "DECIMAL(38, 18)"),
        ("array<struct<a: int8, b: map<string, date>>>", "ARRAY<STRUCT<`a`: TINYINT, `b`: MAP<STRING, DATE>>>"),
    ],
)  # fmt: skip
def test_types_of_ibis_are_spelled_so(dtype, text):
    assert SqlStreamType.to_string(dt.dtype(dtype)) == text
    parse_type(text)


@pytest.mark.parametrize("dtype", ["point", "unknown"])
def test_types_without_a_counterpart_are_refused(dtype):
    with pytest.raises(com.UnsupportedBackendType, match="sqlstream"):
        SqlStreamType.to_string(dt.dtype(dtype) if dtype != "unknown" else dt.unknown)


def test_types_of_the_dialect_are_those_of_ibis():
    assert ibis_type(parse_type("TIMESTAMP"), "Europe/Berlin") == dt.Timestamp("Europe/Berlin")
    assert ibis_type(parse_type("TIMESTAMP_NTZ"), "UTC", precision=3) == dt.Timestamp(scale=3)
    assert ibis_type(parse_type("STRUCT<a: INT>"), "UTC", nullable=False) == dt.dtype("!struct<a: int32>")
    assert ibis_type(parse_type("DECIMAL(5, 2)"), "UTC") == dt.Decimal(5, 2)
