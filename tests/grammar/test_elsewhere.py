"""Functions that other systems have, and what to write here: all of it runs."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.functions.catalogue import kind_of
from sqlstream.functions.elsewhere import INSTEAD, LETTERS
from sqlstream.planner.functions.calls import hint_for
from sqlstream.session import Session

_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in LETTERS.items() if name != "ts")
_WINDOW = "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
_BEHIND = {"GROUPING_ID()": "GROUP BY GROUPING SETS ((k), ()), TUMBLE(ts, INTERVAL '1' MINUTE)"}
_EXPRESSIONS = sorted(set(INSTEAD.values()))


@pytest.fixture(scope="module")
def letters() -> Session:
    session = sqlstream.connect()
    session.sql(
        f"CREATE TABLE t ({_COLUMNS}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '/nowhere')"
    )
    return session


def _behind(expression: str) -> str:
    aggregates = ("COLLECT_LIST", "APPROX_COUNT_DISTINCT", "ANY_VALUE", "LISTAGG")
    return _BEHIND.get(expression, _WINDOW if any(word in expression for word in aggregates) else "")


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_functions_of_others_do_not_exist_here_and_lead_to_one_that_does(name: str, letters: Session) -> None:
    assert kind_of(name) is None
    (diagnostics,) = letters.check(f"SELECT {name}(s, d) FROM t")
    assert (diagnostics.code, diagnostics.hint) == ("SS203", f"Write {INSTEAD[name]}, for example.")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("JSON_AGG(s RETURNING INT)", "json_agg"),
        ("UPPER(JSON_EXTRACT(s, '$.x' WITH WRAPPER))", "json_extract"),
        ("JSON_BUILD_OBJECT(KEY UPPER(k) VALUE v)", "json_build_object"),
    ],
)
def test_their_own_syntax_leads_there_as_well(call: str, name: str, letters: Session) -> None:
    (diagnostics,) = letters.check(f"SELECT {call} FROM t")
    assert (diagnostics.code, diagnostics.hint) == ("SS101", f"Write {INSTEAD[name]}, for example.")


@pytest.mark.parametrize("expression", _EXPRESSIONS)
def test_what_to_write_is_accepted(expression: str, letters: Session) -> None:
    assert letters.check(f"SELECT {expression} AS found FROM t {_behind(expression)}") == ()


@pytest.mark.spark
def test_spark_takes_all_that_is_to_be_written(spark) -> None:
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in LETTERS.items())
    spark.sql(f"SELECT {nulls}").createOrReplaceTempView("letters")
    for expression in _EXPRESSIONS:
        grouped = "GROUP BY CUBE(k)" if expression == "GROUPING_ID()" else ""
        spark.sql(f"SELECT {expression} AS found FROM letters {grouped}")  # analyzed at once
    spark.catalog.dropTempView("letters")


def test_a_name_that_is_only_somewhat_near_is_no_suggestion() -> None:
    assert hint_for("nofun", []) == "SHOW FUNCTIONS lists all there are; CREATE FUNCTION adds one in Python."
    assert hint_for("upperr", []) == 'Did you mean "upper"?'
    assert hint_for("geocod", ["geocode"]) == 'Did you mean "geocode"?'
