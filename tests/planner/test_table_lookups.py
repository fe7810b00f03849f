"""What the options of a table say of lookups in it, as EXPLAIN shows it."""

from __future__ import annotations

import pytest

from sqlstream.results import Rows
from sqlstream.session import Session

URL = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://h/d', 'table-name' = 'c'"
PARTIAL = "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '500'"


def explained(options: str, clause: str = "", hint: str = "") -> str:
    with Session() as session:
        session.sql(
            f"CREATE TABLE c (id INT, name STRING) WITH ({URL}, {options}); "
            "CREATE TABLE o (id INT, pt AS PROCTIME()) WITH ('connector' = 'datagen')"
        )
        query = f"SELECT {hint} o.id, c.name FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt {clause} ON c.id = o.id"
        plan = session.sql(f"EXPLAIN {query}")
        assert isinstance(plan, Rows)
        return "\n".join(str(row[0]) for row in plan)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (PARTIAL, "cache 500 rows"),
        (f"{PARTIAL}, 'lookup.partial-cache.expire-after-write' = '10 min'", "cache 500 rows for 10 min"),
        (f"{PARTIAL}, 'lookup.partial-cache.cache-missing-key' = 'false'", "cache 500 rows, misses for 0 ms"),
        ("'lookup.cache.max-rows' = '7', 'lookup.cache.ttl' = '1 h'", "cache 7 rows for 1 h"),
    ],
)
def test_a_partial_cache_is_that_of_the_lookup(options: str, shown: str) -> None:
    plan = explained(options)
    assert shown in plan
    assert shown in explained(options, hint="/*+ LOOKUP('table' = 'c', 'async' = 'true') */")


def test_the_clause_of_a_join_counts_first() -> None:
    assert "cache 9 rows" in explained(PARTIAL, "LOOKUP ASYNC (CACHE 9 ROWS)")
    assert "cache 500 rows" in explained(PARTIAL, "LOOKUP ASYNC (CAPACITY 5)")
    assert "cache" not in explained("'lookup.cache' = 'NONE'")


def test_retries_are_those_of_errors() -> None:
    assert "retry on error 3 times after 1 s" in explained("'lookup.max-retries' = '3'")
    assert "retry" not in explained("'lookup.max-retries' = '0'")


@pytest.mark.parametrize("text", ["60000", "60000 ms", "60000millis", " 60 secs", "60 s", "1 min", "1 minute"])
def test_times_are_spelled_as_in_options(text: str) -> None:
    options = f"'lookup.cache.max-rows' = '7', 'lookup.cache.ttl' = '{text}'"
    assert "cache 7 rows for 1 min" in explained(options)
