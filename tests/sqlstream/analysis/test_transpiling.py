"""Texts in the words of Flink and Spark: the same, or refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.functions.catalogue import CLAUSE_FUNCTIONS, FUNCTIONS, same_in_flink
from tests.sqlstream.analysis.test_planner import PLANNER, TOPS, WINDOWS

ROOT = Path(__file__).parents[3]


def words(text, source, target):
    return " ".join(PLANNER.transpile(text, source=source, target=target).text.split())


def refusals(text, source, target):
    with pytest.raises(SqlStreamError) as raised:
        PLANNER.transpile(text, source=source, target=target)
    assert {d.code for d in raised.value.diagnostics} == {"SS381"}
    return [d.message for d in raised.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "flink"),
    [
        (TOPS, "SELECT auction, MAX(price) AS top FROM dear GROUP BY auction;"),
        ("SELECT item FROM bids WHERE item <=> 'it\\'s'",
         "SELECT item FROM bids WHERE item IS NOT DISTINCT FROM 'it''s';"),
        ("SELECT CAST(item AS TIMESTAMP) AS t FROM bids", "SELECT CAST(item AS TIMESTAMP_LTZ(6)) AS t FROM bids;"),
        ("SELECT r'\\d' AS d FROM bids", "SELECT '\\d' AS d FROM bids;"),
        ("SELECT AVG(price) AS a, auction / CAST(2 AS DOUBLE) AS h FROM bids GROUP BY auction / CAST(2 AS DOUBLE)",
         "SELECT AVG(price) AS a, auction / CAST(2 AS DOUBLE) AS h FROM bids GROUP BY auction / CAST(2 AS DOUBLE);"),
        ("INSERT INTO tops SELECT auction, price FROM bids", "INSERT INTO tops SELECT auction, price FROM bids;"),
        ("CREATE VIEW v AS SELECT price FROM bids", "CREATE VIEW v AS SELECT price FROM bids;"),
    ],
)  # fmt: skip
def test_what_flink_has_is_written_in_its_words(text, flink):
    assert words(text, "sqlstream", "flink") == flink


def test_windows_are_flinks_own():
    assert "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)" in words(WINDOWS, "sqlstream", "flink")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT auction / 2 AS half FROM bids", "the quotient of integers or decimals is something else in Flink"),
        ("SELECT AVG(auction) AS a FROM bids", "AVG of integers or decimals is something else in Flink"),
        ("SELECT SUBSTRING(item, -2) AS s FROM bids",
         "SUBSTRING from a place that may be before the text is something else in Flink"),
        ("SELECT GREATEST(auction, 3) AS g FROM bids", "GREATEST is something else in Flink"),
        ("SELECT SOUNDEX(item) AS s FROM bids", '"soundex" is no function that is the same in Flink'),
        ("SELECT COUNT(*) AS n FROM bids GROUP BY COUNT WINDOW (5 ROWS)", "this window is not in Flink SQL"),
        ("SELECT auction, COUNT(*) FROM bids GROUP BY 1",
         "GROUP BY with ALL or numbers of columns is not in Flink SQL"),
        ("SELECT * FROM bids LEFT SEMI JOIN people ON id = auction", "a SEMI JOIN is not in Flink SQL"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')",
         "only queries, INSERT and CREATE VIEW are written in Flink's words"),
    ],
)  # fmt: skip
def test_what_flink_has_not_is_refused(text, message):
    assert message in refusals(text, "sqlstream", "flink")


def test_all_differences_are_told_at_once():
    text = "SELECT auction / 2 AS half, GREATEST(auction, 3) AS g, SOUNDEX(item) AS s FROM bids"
    assert len(refusals(text, "sqlstream", "flink")) == 3


def test_functions_of_flink_are_those_of_the_documentation():
    """Each has a line in the list that tests try; what gives something else there has a rule of its own."""
    listed = tomllib.loads((ROOT / "docs" / "flink_functions.toml").read_text("utf-8"))
    calls = " ".join(entry["call"] for entries in listed.values() for entry in entries).lower()
    not_called = {"cumulate_start", "cumulate_end", "hop_start", "hop_end", "hop_rowtime", "session_start",
                  "session_end", "nth_value", "exists", "map", "array"}  # fmt: skip
    assert {name for name in (*FUNCTIONS, *CLAUSE_FUNCTIONS) if same_in_flink(name) and name not in calls} <= not_called


def test_flinks_words_are_ours_where_they_mean_the_same():
    assert "TUMBLE" in words(WINDOWS, "flink", "sqlstream")
    text = "CREATE TABLE t (a INT, at TIMESTAMP(3)) WITH ('connector' = 'datagen')"
    assert "The session's time zone is UTC." in PLANNER.transpile(text, "flink").notes
    elsewhere = PLANNER.with_settings({"table.local-time-zone": "Europe/Berlin"})
    with pytest.raises(SqlStreamError, match="SS381: a TIMESTAMP is an instant"):
        elsewhere.transpile(text, "flink")


def test_what_flink_means_otherwise_is_refused():
    assert refusals("SELECT AVG(auction) AS a FROM bids", "flink", "sqlstream")
    assert refusals("SELECT LTRIM(item, 'x') AS s FROM bids", "flink", "sqlstream")


def test_queries_over_finished_data_are_written_in_sparks_words():
    text = words("SELECT item, LISTAGG(item) AS l FROM dear GROUP BY item", "sqlstream", "spark")
    assert "FROM (SELECT * FROM `bids` AS `bids` WHERE price > 100) AS `dear`" in text
    assert "','" in text, "what separates is said, because Spark's is another one"


def test_clauses_of_streams_are_not_in_spark():
    assert refusals(WINDOWS, "sqlstream", "spark") == ["TUMBLE(TABLE …) is not in Spark SQL"]


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("SELECT item, FIRST_VALUE(price) AS f FROM bids GROUP BY item", "FIRST_VALUE(price) RESPECT NULLS"),
        ("SELECT ARRAY_AGG(price) AS a FROM bids", "ARRAY_AGG(price) IGNORE NULLS"),
        ("SELECT LISTAGG(item) AS l FROM bids", "LISTAGG(item, '')"),
    ],
)
def test_sparks_words_are_ours_but_for_some(text, ours):
    assert ours in words(text, "spark", "sqlstream")


def test_escapes_that_spark_does_not_know_are_refused():
    (message,) = refusals("SELECT item RLIKE '\\\\d' AS a, item RLIKE '\\d' AS b FROM bids", "spark", "sqlstream")
    assert message == "Spark leaves the backslash of \\d out, and here it stays"


def test_there_are_three_dialects():
    with pytest.raises(ValueError, match="no dialect 'oracle'; dialects are sqlstream, flink, spark"):
        PLANNER.transpile(TOPS, target="oracle")  # type: ignore[arg-type]
