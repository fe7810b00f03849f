"""Lookup tables of tests: fed by steps, asked by the query, failing when told to."""

from __future__ import annotations

import pytest

from sqlstream.errors import ExecutionError
from sqlstream.testing import StreamTest
from sqlstream.testing.spark import LocalSession

TABLES = """
CREATE TABLE orders (id INT, who INT, pt AS PROCTIME()) WITH ('connector' = 'test');
CREATE TABLE people (id INT, name STRING) WITH ('connector' = 'test', 'role' = 'lookup'{options});
"""
NAMES = """
SELECT o.id, p.name FROM orders AS o JOIN people FOR SYSTEM_TIME AS OF o.pt AS p LOOKUP ASYNC ({clause}) ON p.id = o.who
"""


@pytest.fixture
def session():
    with LocalSession() as session:
        yield session


def script(clause: str = "CAPACITY 10", options: str = "") -> str:
    return TABLES.format(options=options) + NAMES.format(clause=clause)


def test_a_table_that_the_query_neither_reads_nor_asks_takes_no_rows(session):
    with StreamTest(script(), session) as test, pytest.raises(ValueError, match='it reads "orders", "people"'):
        test.rows("persons", [])


@pytest.mark.spark
def test_rows_see_what_a_lookup_table_held_when_they_came(session):
    with StreamTest(script(), session) as test:
        assert test.lookup_tries() == 0
        test.rows("people", [(1, "Ann")])
        test.rows("orders", [(10, 1), (11, 1), (12, None)])
        test.rows("people", [(1, "Anton"), (2, "Bob")])
        test.rows("orders", [(13, 1), (14, 2)])
        collected = [("+I", 10, "Ann"), ("+I", 11, "Ann"), ("+I", 13, "Ann"), ("+I", 13, "Anton"), ("+I", 14, "Bob")]
        assert test.output() == collected
        assert test.requests("people") == {("1",): 2, ("2",): 1}  # equal keys in flight are asked for once
        assert test.lookup_tries() == 2


@pytest.mark.spark
def test_a_lookup_that_fails_ends_the_job_and_nothing_is_lost_when_it_goes_on(session):
    with StreamTest(script(options=", 'test.fail' = '1'"), session) as test:
        test.rows("people", [(1, "Ann")])
        test.rows("orders", [(10, 1), (11, None)])
        with pytest.raises(ExecutionError) as error:
            test.output()
        assert str(error.value).startswith('SS432: the lookup in "people" for id = 1 failed: request 1 for [1] fails')
        assert "checkpoint" in (error.value.diagnostic.detail or "")
        assert "ON ERROR NULL" in (error.value.diagnostic.hint or "")
        assert "Traceback" not in str(error.value)
        test.rows("orders", [(12, 1)])
        assert test.output() == [("+I", 10, "Ann"), ("+I", 12, "Ann")]


@pytest.mark.spark
def test_an_answer_that_takes_too_long_ends_the_job(session):
    clause, options = "TIMEOUT INTERVAL '0.01' SECOND", ", 'test.delay' = '1 min'"
    with StreamTest(script(clause, options), session) as test:
        test.rows("orders", [(10, 1)])
        with pytest.raises(ExecutionError, match='SS433: the lookup in "people" for id = 1 got no answer') as error:
            test.output()
        assert "TIMEOUT" in (error.value.diagnostic.hint or "")
