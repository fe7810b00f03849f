"""EXECUTE UNIT TEST without running it: names, columns, types and tables that must be mocked."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import UnitTest
from sqlstream.planner.catalog import TimeDomain
from sqlstream.plans import Planned, plan_of
from sqlstream.session import Session
from sqlstream.statements.mocking import bind_unit_test
from sqlstream.testing.tested_session import define_mocked

TABLES = """
CREATE TABLE sales (shop STRING, amount INT, ts TIMESTAMP(3), off BIGINT METADATA FROM 'offset', WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'sales', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json');
CREATE VIEW large AS SELECT shop, amount, ts FROM sales WHERE amount > 10;
CREATE VIEW counts AS SELECT shop, COUNT(*) AS n FROM large GROUP BY shop, TUMBLE(ts, INTERVAL '1' MINUTE);
"""


@pytest.fixture
def session():
    with Session() as session:
        session.sql(TABLES)
        yield session


def bound(session, text):
    (statement,) = parse_script(text)
    assert isinstance(statement, UnitTest)
    return bind_unit_test(statement, session.workspace)


def mistakes(session, text):
    return [f"{d.code}: {d.message}" for d in session.check(text)]


def test_mocks_take_the_place_of_tables(session):
    test = bound(session, "EXECUTE UNIT TEST t FOR counts AT TIME '2026-01-01 00:00:00' "
                          "MOCK sales (SHOP STRING) AS (VALUES ('a')) EXPECTED (n BIGINT) AS (VALUES (1))")  # fmt: skip
    (mock,) = test.mocks
    assert mock.table is not None
    assert (mock.table.connector, [name for name, _ in mock.columns]) == ("test", ["shop"])
    assert [c.name for c in mock.table.physical_columns] == ["shop", "amount", "ts", "off"]
    assert (test.view, test.at, [name for name, _ in test.expected.columns]) == ("counts", "2026-01-01 00:00:00", ["n"])
    assert session.workspace.catalog.relation("sales").connector == "kafka"


def test_a_view_may_be_mocked_with_its_event_time(session):
    test = bound(
        session, "EXECUTE UNIT TEST t FOR counts MOCK large AS (SELECT 'a', 1, NULL) EXPECTED AS (VALUES ('a', 1))"
    )
    (mock,) = test.mocks
    assert mock.table is not None
    assert [c.name for c in mock.table.columns if c.time is TimeDomain.EVENT] == ["ts"]
    assert [name for name, _ in test.expected.columns] == ["shop", "n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FOR counts EXPECTED AS (VALUES ('a', 1))", 'SS298: table "sales" is read and not mocked'),
        ("FOR nothing EXPECTED AS (VALUES (1))", 'SS202: table or view "nothing" does not exist'),
        ("FOR large MOCK sale AS (VALUES (1)) EXPECTED AS (VALUES (1))", 'SS202: table or view "sale" does not exist'),
        (
            "FOR large MOCK sales (shopp STRING) AS (VALUES ('a')) EXPECTED AS (VALUES (1, 2, 3))",
            'SS297: table "sales" has no column "shopp"',
        ),
        (
            "FOR large MOCK sales (amount STRING) AS (VALUES ('a')) EXPECTED AS (VALUES (1, 2, 3))",
            'SS297: column "amount" of table "sales" is INT, not STRING',
        ),
        (
            "FOR large MOCK sales (amount INT) AS (VALUES (1)) EXPECTED AS (VALUES (1, 2))",
            "SS297: EXPECTED has rows of 2 values for 3 columns",
        ),
        (
            "FOR large AT TIME NOW() MOCK sales (amount INT) AS (VALUES (1)) EXPECTED AS (VALUES (1, 2, 3))",
            "SS299: AT TIME takes a time as text",
        ),
    ],
)
def test_what_does_not_fit_is_refused(session, text, message):
    assert mistakes(session, f"EXECUTE UNIT TEST t {text}") == [message]


def test_a_right_one_has_no_mistakes(session):
    text = "EXECUTE UNIT TEST t FOR large MOCK sales (amount INT) AS (VALUES (1)) EXPECTED AS (VALUES ('a', 1, NULL))"
    assert mistakes(session, text) == []


@pytest.mark.parametrize(
    ("sink", "refusal"),
    [
        ("'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json'", "SS510"),
        ("'connector' = 'print'", None),
    ],
)
def test_a_mocked_sink_takes_the_changes_that_its_connector_does(sink, refusal):
    counts = "CREATE TABLE sales (shop STRING) WITH ('connector' = 'test');"
    text = f"{counts} CREATE TABLE out (shop STRING, n BIGINT) WITH ({sink});"
    with sqlstream.Session() as session:
        define_mocked(text, session)
        (insert,) = parse_script("INSERT INTO out SELECT shop, COUNT(*) FROM sales GROUP BY shop")
        assert isinstance(insert, Planned)
        if refusal is None:
            plan_of(insert, session.workspace)
            return
        with pytest.raises(SqlStreamError, match=refusal):
            plan_of(insert, session.workspace)
