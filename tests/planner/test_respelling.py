"""Standard SQL in Spark's words: SIMILAR TO, EXTRACT, LOCALTIMESTAMP and intervals of columns."""

from __future__ import annotations

import re

import pytest

from sqlstream.planner.binder.respelling import similar_as_regex
from tests.planner.plans import error, optimized


def _is_similar(text: str, pattern: str, escape: str = "") -> bool:
    """By Python's regular expressions, which write the end of a text otherwise than Java's."""
    regex = similar_as_regex(pattern, escape).removesuffix(r"\z") + r"\Z"
    return re.search(regex, text) is not None


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "similar"),
    [
        ("abc", "a%", "", True), ("abc", "b%", "", False), ("abc", "a_c", "", True), ("abc", "ab", "", False),
        ("abc", "(ab|x)c", "", True), ("abcabc", "(abc){2}", "", True), ("aab", "a+b?", "", True),
        ("a.c", "a.c", "", True), ("abc", "a.c", "", False), ("a^$", "a^$", "", True), ("a\\d", "a\\d", "", True),
        ("a%c", "a/%c", "/", True), ("abc", "a/%c", "/", False), ("a/c", "a//c", "/", True),
        ("a\\c", "a!\\c", "!", True),
        ("b", "[a-c]", "", True), ("d", "[^a-c]", "", True), ("-", "[a-]", "", True), ("[", "[[]", "", True),
        ("a\nb", "a%b", "", True), ("ab\n", "ab", "", False), ("", "%", "", True), ("é", "_", "", True),
    ],
)  # fmt: skip
def test_similar_to_is_a_regular_expression_over_the_whole_text(text, pattern, escape, similar):
    assert _is_similar(text, pattern, escape) is similar


@pytest.mark.parametrize(
    ("written", "planned"),
    [
        ("item SIMILAR TO 'a%'", r"item RLIKE '(?s)\\A(?:a.*)\\z'"),
        ("item NOT SIMILAR TO 'a/%' ESCAPE '/'", r"NOT item RLIKE '(?s)\\A(?:a\\%)\\z'"),
        ("EXTRACT(EPOCH FROM ts)", "UNIX_SECONDS(ts)"),
        ("DATE_PART('epoch', ts)", "UNIX_SECONDS(ts)"),
        ("EXTRACT(EPOCH FROM CAST(ts AS DATE))", "(CAST(UNIX_DATE(CAST(ts AS DATE)) AS BIGINT) * 86400)"),
        ("EXTRACT(ISODOW FROM ts)", "DATE_PART('DAYOFWEEK_ISO', ts)"),
        ("EXTRACT(CENTURY FROM ts)", "((YEAR(ts) + 99) DIV 100)"),
        ("EXTRACT(YEAR FROM ts)", "EXTRACT(YEAR FROM ts)"),
        ("LOCALTIMESTAMP", "LOCALTIMESTAMP()"),
        ("ts + INTERVAL n MINUTE", "ts + (n * INTERVAL '1' MINUTE)"),
        ("ts + INTERVAL (n + 1) WEEK", "ts + ((n + 1) * INTERVAL '1' WEEK)"),
        ("ts + INTERVAL '2' QUARTER", "ts + INTERVAL '6' MONTH"),
    ],
)
def test_it_is_planned_in_sparks_words(written, planned):
    assert planned in optimized(f"SELECT {written} AS x FROM bids")


def test_a_type_that_has_no_epoch_is_told():
    assert error("SELECT EXTRACT(EPOCH FROM CAST(ts AS TIMESTAMP_NTZ)) FROM bids").startswith("SS356")


_VALUES = {
    "s SIMILAR TO 'a(b|c)%'": True, "s SIMILAR TO 'a.c'": False, "s SIMILAR TO '___'": True,
    "EXTRACT(EPOCH FROM ts)": 1583020800, "EXTRACT(EPOCH FROM dt)": 951782400, "EXTRACT(ISODOW FROM ts)": 7,
    "EXTRACT(DECADE FROM ts)": 202, "EXTRACT(CENTURY FROM dt)": 20, "EXTRACT(CENTURY FROM ts)": 21,
    "EXTRACT(MILLENNIUM FROM dt)": 2, "EXTRACT(DAYOFYEAR FROM ts)": 61, "EXTRACT(ISOYEAR FROM ts)": 2020,
    "UNIX_SECONDS(ts + INTERVAL n HOUR) - UNIX_SECONDS(ts)": 10800, "LOCALTIMESTAMP IS NULL": False,
    "0.1BD * 2 = 0.2": True, "(n IS NULL) IS FALSE": True,
}  # fmt: skip


@pytest.mark.spark
def test_values_are_those_of_the_standard(spark):
    from sqlstream.grammar import parse_query
    from sqlstream.planner.binder import bind_query
    from sqlstream.planner.nodes import Project
    from tests.planner.plans import created

    columns = "s STRING, n INT, dt DATE, ts TIMESTAMP"
    catalog = created(f"CREATE TABLE r ({columns}) WITH ('connector' = 'test')")
    (project,) = bind_query(parse_query(f"SELECT {', '.join(_VALUES)} FROM r"), catalog).inputs
    assert isinstance(project, Project)
    texts = [item.expression.sql(dialect="spark") for item in project.items]
    rows = spark.sql("SELECT 'abc' AS s, 3 AS n, DATE '2000-02-29' AS dt, TIMESTAMP '2020-03-01 00:00:00Z' AS ts")
    (only,) = rows.selectExpr(*texts).collect()
    assert dict(zip(_VALUES, only, strict=True)) == _VALUES


@pytest.mark.parametrize(
    ("written", "is_null"),
    [
        ("ARRAY_AGG(price) FILTER (WHERE price > 9)", True),
        ("ARRAY_AGG(price ORDER BY price) FILTER (WHERE price > 9)", True),
        ("ARRAY_AGG(DISTINCT price) FILTER (WHERE price > 9)", True),
        ("ARRAY_AGG(price IGNORE NULLS)", True),
        ("JSON_ARRAYAGG(price) FILTER (WHERE price > 9)", True),
        ("JSON_OBJECTAGG(KEY item VALUE price) FILTER (WHERE price > 9)", True),
        ("COLLECT(price) FILTER (WHERE price > 9)", True),
        ("ARRAY_AGG(price)", False),
        ("JSON_ARRAYAGG(price)", False),
        ("COLLECT_LIST(price) FILTER (WHERE price > 9)", False),
    ],
)
def test_lists_are_null_where_no_row_may_be_left(written: str, is_null: bool) -> None:
    """In a group; the aggregate with its state stays as it was."""
    grouped = optimized(f"SELECT auction, {written} AS x FROM bids GROUP BY auction")
    assert ("CASE WHEN SIZE(" in grouped) is is_null


@pytest.mark.parametrize(
    ("frame", "is_null"),
    [
        ("ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING", True),
        ("ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", False),
        ("RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND INTERVAL '1' SECOND PRECEDING", True),
    ],
)
def test_lists_are_null_where_a_frame_may_have_no_row(frame: str, is_null: bool) -> None:
    for call in ("ARRAY_AGG(price)", "JSON_ARRAYAGG(price)", "COLLECT(price)"):
        own = f"SELECT {call} OVER (PARTITION BY auction ORDER BY ts {frame}) AS x FROM bids"
        named = f"SELECT {call} OVER w AS x FROM bids WINDOW w AS (PARTITION BY auction ORDER BY ts {frame})"
        assert optimized(own) == optimized(named)
        assert ("CASE WHEN SIZE(" in optimized(own)) is is_null
