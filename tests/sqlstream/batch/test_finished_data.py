"""Queries over finished data end to end: results beside plain Spark SQL, errors with places, tables that get them."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import sqlstream
from sqlstream.batch.run import BatchRun
from sqlstream.errors import SqlStreamError
from sqlstream.jobs import Job, JobState
from sqlstream.jobs.lifecycle import session_jobs
from sqlstream.planner.lowering.stateless import whole_table
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.udfs.lookup.source import LookupSource

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("finished")
    (folder / "sales.csv").write_text("1,10,x,1.5\n2,20,y,\n1,30,z,2.5\n3,,x,0.5\n")
    (folder / "shops.jsonl").write_text(
        '{"shop": 1, "city": "Ulm", "tags": ["a", "b"]}\n{"shop": 2, "city": "Bonn", "tags": []}\n'
        '{"shop": 9, "city": "Köln", "tags": ["c"]}\n'
    )
    (folder / "notes.jsonl").write_text(
        "".join(json.dumps({"id": n, "body": json.dumps({"sku": f"s{n % 2}", "tags": [n]})}) + "\n" for n in range(3))
    )
    (folder / "counted.jsonl").write_text(
        '{"shop": 1, "counts": {"b": 3, "a": 4}}\n{"shop": 2, "counts": {}}\n{"shop": 3, "counts": null}\n'
    )
    (folder / "odd.csv").write_text("1,a\n,b\nc,c\n2,d\n")
    with closing(sqlite3.connect(folder / "people.db")) as database, database:
        database.execute("CREATE TABLE people (id INT, name TEXT, born TEXT)")
        database.executemany(
            "INSERT INTO people VALUES (?, ?, ?)",
            [(1, "Ann", "1990-01-01"), (2, "Bob", None), (3, "Cid", "2000-05-05")],
        )
    with sqlstream.connect(spark) as own_session:
        own_session.sql(f"""
        CREATE TABLE sales (shop INT, amount INT, kind STRING, rate DECIMAL(4, 2), twice AS amount * 2)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/sales.csv');
        CREATE TABLE shops (shop INT, city STRING, tags ARRAY<STRING>)
        WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/shops.jsonl');
        CREATE TABLE people (id INT, name STRING, born DATE, label AS UPPER(name))
        WITH ('connector' = 'sqlite', 'path' = '{folder}/people.db', 'table-name' = 'people');
        CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence',
            'fields.n.start' = '1', 'fields.n.end' = '20');
        CREATE TABLE tolerant (shop INT NOT NULL, kind STRING, day AS UPPER(kind), pt AS PROCTIME())
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/odd.csv', 'on-error' = 'skip');
        CREATE TABLE strict (shop INT NOT NULL, kind STRING)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/odd.csv');
        CREATE TABLE notes (id INT, body STRING)
        WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/notes.jsonl');
        CREATE TABLE counted (shop INT, counts MAP<STRING, INT>)
        WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/counted.jsonl');
        CREATE VIEW skus AS SELECT id, body:sku AS sku FROM notes;
        CREATE DATABASE texts;
        CREATE FUNCTION texts.shout(t STRING) RETURNS STRING LANGUAGE PYTHON AS $$ return t.upper() $$;
        CREATE VIEW totals (shop, total) AS SELECT shop, SUM(amount) FROM sales GROUP BY shop
        """)
        yield own_session


def batch(session: Session, text: str) -> list[tuple]:
    """The rows of a query, which must have been a batch."""
    result = session.sql(text)
    assert isinstance(result, Query) and isinstance(result.job, BatchRun), text
    return result.fetchall()


def test_a_sample_with_a_seed_comes_again(session: Session) -> None:
    query = "SELECT n FROM numbers TABLESAMPLE (50 PERCENT) REPEATABLE ({})"
    samples = {seed: batch(session, query.format(seed)) for seed in range(4)}
    assert samples == {seed: batch(session, query.format(seed)) for seed in range(4)}
    assert len({tuple(sample) for sample in samples.values()}) > 1


def error(session: Session, text: str) -> str:
    with pytest.raises(SqlStreamError) as caught:
        batch(session, text)
    return str(caught.value)


QUERIES = {
    "SELECT 1, 'a' AS letter": [(1, "a")],
    "SELECT NULL AS n, X'ff' AS b, STRUCT(1 AS x) AS s, MAP('k', 2) AS m, INTERVAL '1' DAY AS d": [
        (None, b"\xff", {"x": 1}, {"k": 2}, timedelta(days=1))
    ],
    "SELECT COUNT(*), COUNT(amount), SUM(twice) FROM sales": [(4, 3, 120)],
    "SELECT shop, amount FROM sales ORDER BY amount DESC NULLS LAST LIMIT 2 OFFSET 1": [(2, 20), (1, 10)],
    "SELECT DISTINCT kind FROM sales ORDER BY kind": [("x",), ("y",), ("z",)],
    "SELECT s.shop, city FROM sales AS s JOIN shops AS c ON s.shop = c.shop ORDER BY amount": [
        (1, "Ulm"),
        (2, "Bonn"),
        (1, "Ulm"),
    ],
    "SELECT city, amount FROM shops LEFT JOIN sales USING (shop) WHERE shop > 1 ORDER BY city": [
        ("Bonn", 20),
        ("Köln", None),
    ],
    "SELECT c.city, s.amount FROM shops AS c ASOF LEFT JOIN (SELECT * FROM sales WHERE amount > 10) AS s "
    "ON c.shop = s.shop AND c.shop * 20 <= s.amount ORDER BY city": [("Bonn", None), ("Köln", None), ("Ulm", 30)],
    "SELECT c.shop, s.kind FROM shops AS c ASOF JOIN sales AS s MATCH_CONDITION (c.shop > s.shop) ORDER BY 1": [
        (2, "x"),
        (9, "x"),
    ],
    "SELECT shop FROM shops WHERE shop NOT IN (SELECT shop FROM sales) OR city = (SELECT MIN(city) FROM shops) "
    "ORDER BY 1": [(2,), (9,)],
    "SELECT city FROM shops AS c WHERE EXISTS (SELECT 1 FROM sales AS s WHERE s.shop = c.shop AND amount > 25)": [
        ("Ulm",)
    ],
    "SELECT shop = ANY (SELECT shop FROM sales) AS sells FROM shops ORDER BY shop": [(True,), (True,), (False,)],
    "SELECT x, x > ALL (SELECT v FROM (VALUES (1), (2)) AS t(v)) AS a, "
    "x <= SOME (SELECT v FROM (VALUES (1), (2)) AS t(v)) AS b, "
    "x < ALL (SELECT v FROM (VALUES (2), (NULL)) AS t(v)) AS c, "
    "x > ANY (SELECT v FROM (VALUES (2), (NULL)) AS t(v)) AS d, "
    "x > ALL (SELECT 1 WHERE FALSE) AS e, x > ANY (SELECT 1 WHERE FALSE) AS f, x = ALL (SELECT 3) AS g, "
    "x <> ANY (SELECT v FROM (VALUES (3), (3)) AS t(v)) AS h FROM (VALUES (1), (2), (3)) AS q(x) ORDER BY x": [
        (1, False, True, None, None, True, False, False, True),
        (2, False, True, False, None, True, False, False, True),
        (3, True, False, False, True, True, False, True, False),
    ],
    "SELECT COUNT(*) AS n FROM sales WHERE shop > 99 GROUP BY ()": [(0,)],
    "SELECT 1 AS one FROM sales WHERE shop > 99 GROUP BY ()": [(1,)],
    "SELECT shop, kind, COUNT(*) AS n FROM sales WHERE shop < 3 GROUP BY (shop, kind), () ORDER BY 1, 2": [
        (1, "x", 1),
        (1, "z", 1),
        (2, "y", 1),
    ],
    "SELECT shop, COUNT(*) AS n, (SELECT MAX(city) FROM shops AS c WHERE c.shop = s.shop) AS city FROM sales AS s "
    "GROUP BY shop HAVING COUNT(*) >= (SELECT MIN(c.shop) FROM shops AS c WHERE c.shop = s.shop) ORDER BY 1": [
        (1, 2, "Ulm"),
    ],
    "SELECT kind, ROW_NUMBER() OVER () AS n, RANK() OVER (PARTITION BY kind) AS r FROM sales WHERE shop = 2": [
        ("y", 1, 1),
    ],
    "SELECT city FROM shops AS c ORDER BY (SELECT SUM(amount) FROM sales AS s WHERE s.shop = c.shop) DESC NULLS LAST": [
        ("Ulm",),
        ("Bonn",),
        ("Köln",),
    ],
    "SELECT city AS shop FROM shops ORDER BY shops.shop IN (SELECT shop FROM sales), shop DESC LIMIT 2": [
        ("Köln",),
        ("Ulm",),
    ],
    "SELECT shop, SINGLE_VALUE(city) AS city FROM shops GROUP BY shop HAVING COUNT(*) >= ALL (SELECT 1) ORDER BY 1": [
        (1, "Ulm"),
        (2, "Bonn"),
        (9, "Köln"),
    ],
    "SELECT shop FROM sales INTERSECT SELECT shop FROM shops ORDER BY shop": [(1,), (2,)],
    "SELECT shop FROM sales EXCEPT ALL SELECT shop FROM shops ORDER BY shop": [(1,), (3,)],
    "SELECT shop, amount, SUM(amount) OVER (ORDER BY amount) AS s FROM sales WHERE amount > 5 ORDER BY 2": [
        (1, 10, 10),
        (2, 20, 30),
        (1, 30, 60),
    ],
    "SELECT shop, kind FROM sales QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC) = 1 ORDER BY 1": [
        (1, "z"),
        (2, "y"),
        (3, "x"),
    ],
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r ORDER BY n": [
        (1,),
        (2,),
        (3,),
    ],
    "SELECT x FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y) WHERE y = 'b'": [(2,)],
    "SELECT * FROM (SELECT shop, kind, amount FROM sales) PIVOT (SUM(amount) FOR kind IN ('x', 'y')) ORDER BY 1": [
        (1, 10, None),
        (2, None, 20),
        (3, None, None),
    ],
    "SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (v FOR k IN (a, b)) ORDER BY k": [("a", 1), ("b", 2)],
    "SELECT shop, kind, COUNT(*) FROM sales WHERE shop < 3 GROUP BY GROUPING SETS ((shop), (kind)) ORDER BY ALL": [
        (None, "x", 1),
        (None, "y", 1),
        (None, "z", 1),
        (1, None, 2),
        (2, None, 1),
    ],
    "SELECT shop, GROUPING(shop) + 1, COUNT(*) FROM sales WHERE shop < 3 GROUP BY ALL ORDER BY 1": [
        (1, 1, 2),
        (2, 1, 1),
    ],
    # Two SELECTs that give the same alias, and one whose alias is a column of the subquery below, which precedes it.
    "(SELECT shop AS s, COUNT(*) AS n, n * 2 AS d FROM sales WHERE shop < 3 GROUP BY ALL) UNION ALL "
    "(SELECT shop AS s, COUNT(*) AS n, n * 3 AS d FROM sales WHERE shop < 3 GROUP BY ALL) ORDER BY s, d": [
        (1, 2, 4),
        (1, 2, 6),
        (2, 1, 2),
        (2, 1, 3),
    ],
    "SELECT s AS n, SUM(n) AS s FROM (SELECT shop AS s, COUNT(*) AS n FROM sales WHERE shop < 3 GROUP BY ALL) AS q "
    "GROUP BY ALL ORDER BY 1": [(1, 2), (2, 1)],
    # Names that WITH and other tables give, but not the FROM of the SELECT with the alias.
    "WITH w AS (SELECT 1 AS s) SELECT shop AS s, s + 1 AS d, COUNT(*) AS n FROM sales WHERE shop < 3 GROUP BY ALL "
    "UNION ALL SELECT s, 0, 0 FROM w ORDER BY s, d": [(1, 0, 0), (1, 2, 2), (2, 3, 1)],
    "SELECT shop AS city, city + 1 AS d, COUNT(*) AS n FROM sales WHERE shop < 3 GROUP BY ALL "
    "UNION ALL SELECT 0, MIN(CHAR_LENGTH(city)) * 0, 0 FROM shops ORDER BY 1": [(0, 0, 0), (1, 2, 2), (2, 3, 1)],
    "WITH w AS (SELECT shop AS c8, kind AS c9 FROM sales WHERE shop < 3) SELECT c8 AS c9, COUNT(c9) AS c8, c8 + 1 AS d "
    "FROM w GROUP BY ALL ORDER BY 1": [(1, 2, 2), (2, 1, 3)],
    "SELECT shop, GROUPING_ID() AS i, CASE WHEN GROUPING(shop) = 1 THEN 'all' ELSE 'some' END AS w FROM sales "
    "WHERE shop < 3 GROUP BY shop HAVING GROUPING_ID(shop) = 0 ORDER BY GROUPING(shop), shop": [
        (1, 0, "some"),
        (2, 0, "some"),
    ],
    "SELECT shop, SUM(amount) AS s FROM sales GROUP BY shop "
    "QUALIFY RANK() OVER (ORDER BY SUM(amount) DESC) <= COUNT(*) ORDER BY MIN(amount)": [(1, 40)],
    "SELECT kind, COUNT(*) AS n FROM sales GROUP BY kind HAVING COUNT(*) > 0 "
    "QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, MAX(kind)) < 3 ORDER BY n DESC LIMIT 1": [("x", 2)],
    "SELECT UPPER(kind) AS u, SUM(amount) AS s FROM sales GROUP BY UPPER(kind) QUALIFY UPPER(kind) <> 'Y' "
    "AND MIN(SUM(amount)) OVER (PARTITION BY UPPER(kind)) + 1 < 30 ORDER BY UPPER(kind)": [("X", 10)],
    "SELECT amount % 20 AS m, SUM(shop) AS s FROM sales WHERE amount > 0 GROUP BY amount % 20 "
    "QUALIFY SUM(SUM(shop)) OVER () = 4 AND m = 10 AND GROUPING(amount % 20) = 0": [(10, 2)],
    "SELECT x, city FROM UNNEST(ARRAY[1, 2, 7]) AS u(x) LEFT JOIN shops ON shop = x ORDER BY x": [
        (1, "Ulm"),
        (2, "Bonn"),
        (7, None),
    ],
    "SELECT n, city FROM STACK(2, 1, 'p', 2, 'q') AS s(n, letter) JOIN shops ON shop = n ORDER BY n": [
        (1, "Ulm"),
        (2, "Bonn"),
    ],
    "SELECT city, d, e FROM shops AS c, LATERAL (SELECT c.shop * 2 AS d, d + 1 AS e WHERE shop < 9) AS q ORDER BY d": [
        ("Ulm", 2, 3),
        ("Bonn", 4, 5),
    ],
    "SELECT city, x FROM shops AS c LEFT JOIN LATERAL (VALUES (c.shop), (c.shop * 2)) AS q(x) ON x > 3 ORDER BY 1, 2": [
        ("Bonn", 4),
        ("Köln", 9),
        ("Köln", 18),
        ("Ulm", None),
    ],
    "SELECT city, x, y FROM shops AS c, UNNEST(ARRAY[ROW(c.shop, 'p'), ROW(c.shop * 2, 'q')]) AS q(x, y) "
    "WHERE shop = 1 ORDER BY x": [("Ulm", 1, "p"), ("Ulm", 2, "q")],
    "SELECT COUNT(*) FROM sales TABLESAMPLE (100 PERCENT)": [(4,)],
    "SELECT city, s.amount FROM shops AS c, LATERAL (SELECT MAX(amount) AS amount FROM sales WHERE shop = c.shop) AS s "
    "ORDER BY city": [("Bonn", 20), ("Köln", None), ("Ulm", 30)],
    "SELECT city, tag, n FROM shops CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t(tag, n) ORDER BY city, n": [
        ("Köln", "c", 1),
        ("Ulm", "a", 1),
        ("Ulm", "b", 2),
    ],
    "SELECT k, v, n FROM (VALUES (MAP['b', 1, 'a', 2])) AS t(m) CROSS JOIN UNNEST(m) WITH ORDINALITY AS u(k, v, n) "
    "ORDER BY n": [("b", 1, 1), ("a", 2, 2)],
    "SELECT k, v FROM (VALUES (MAP['b', 1, 'a', 2])) AS t(m), UNNEST(m) AS u(k, v) ORDER BY k": [("a", 2), ("b", 1)],
    "SELECT * FROM UNNEST(MAP['b', 1]) WITH ORDINALITY": [("b", 1, 1)],
    "SELECT shop, k, n FROM counted LEFT JOIN UNNEST(counts) WITH ORDINALITY AS u(k, v, n) ON TRUE ORDER BY 1, 3": [
        (1, "b", 1),
        (1, "a", 2),
        (2, None, None),
        (3, None, None),
    ],
    "WITH c AS (SELECT * FROM counted) SELECT SUM(v) FROM c JOIN UNNEST(c.counts) AS u(k, v) ON TRUE": [(7,)],
    "WITH c(m) AS (SELECT counts FROM counted UNION ALL SELECT NULL) SELECT SUM(v) FROM c, UNNEST(m) AS u(k, v)": [
        (7,)
    ],
    "SELECT a, b, n FROM (SELECT * FROM (SELECT ARRAY[STRUCT(1 AS x, 'p' AS y), STRUCT(2 AS x, 'q' AS y)] AS s) AS z) "
    "AS w, UNNEST(w.s) WITH ORDINALITY AS u(a, b, n) ORDER BY n": [(1, "p", 1), (2, "q", 2)],
    "SELECT (SELECT MAX(n) FROM UNNEST(c.tags) WITH ORDINALITY AS t(tag, n)) AS most FROM shops AS c ORDER BY shop": [
        (2,),
        (None,),
        (1,),
    ],
    "SELECT city, tag FROM shops LEFT JOIN UNNEST(tags) AS t(tag) ON TRUE ORDER BY city, tag": [
        ("Bonn", None),
        ("Köln", "c"),
        ("Ulm", "a"),
        ("Ulm", "b"),
    ],
    "SELECT * FROM totals WHERE total > 15 ORDER BY total": [(2, 20), (1, 40)],
    "SELECT MAX(n), COUNT(DISTINCT n % 3) FROM numbers": [(20, 3)],
    # our dialect's own spellings and meanings
    "SELECT LISTAGG(kind) FROM (SELECT kind FROM sales WHERE shop = 2)": [("y",)],
    "SELECT ARRAY_AGG(amount), FIRST_VALUE(amount) FROM sales WHERE shop = 3": [([None], None)],
    "SELECT EXTRACT(EPOCH FROM DATE '1970-01-02'), EXTRACT(EPOCH FROM TIMESTAMP '1970-01-02 00:00:01')": [
        (86400, 86401)
    ],
    r"SELECT kind SIMILAR TO '[xy]', 'a1' RLIKE '\d' FROM sales WHERE shop = 2 LIMIT 1": [(True, True)],
    "SELECT a.day, COUNT(*) FROM tolerant AS a JOIN tolerant AS b ON a.shop <= b.shop GROUP BY a.day ORDER BY 1": [
        ("A", 2),
        ("D", 1),
    ],
    "SELECT COUNT(DISTINCT pt) FROM tolerant": [(1,)],
    "SELECT sku, COUNT(*) FROM skus GROUP BY sku ORDER BY sku": [("s0", 2), ("s1", 1)],
    "SELECT MAX(n.Body:tags[0]) FROM notes AS n JOIN shops ON n.id = shop": [("2",)],
    "SELECT texts.shout(kind) AS k FROM sales GROUP BY kind ORDER BY k": [("X",), ("Y",), ("Z",)],
    # tables of databases
    "SELECT id, label, born FROM people WHERE id > 1 ORDER BY id": [(2, "BOB", None), (3, "CID", date(2000, 5, 5))],
    "SELECT name, SUM(rate) FROM people JOIN sales ON id = shop GROUP BY name ORDER BY name": [
        ("Ann", Decimal("4.00")),
        ("Bob", None),
        ("Cid", Decimal("0.50")),
    ],
    "SELECT name FROM people WHERE id IN (VALUES (1), (3)) ORDER BY name": [("Ann",), ("Cid",)],
    "SELECT name FROM people": [("Ann",), ("Bob",), ("Cid",)],
}


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_over_finished_data_gives_final_rows(session: Session, text: str) -> None:
    assert batch(session, text) == QUERIES[text]


def test_columns_are_named_as_those_of_streams(session: Session) -> None:
    result = session.sql(
        "SELECT count(*), MAX(amount) + 1, kind AS k, shop, shop FROM sales GROUP BY kind, shop LIMIT 1"
    )
    assert isinstance(result, Query)
    assert result.columns == ("count(*)", "max(amount) + 1", "k", "shop", "shop")
    assert [type_.name for type_ in result.types] == ["BIGINT", "INT", "STRING", "INT", "INT"]
    assert result.to_pandas().shape == (1, 5)


def test_an_empty_result_has_its_columns(session: Session) -> None:
    result = session.sql("SELECT DISTINCT shop, rate FROM sales WHERE shop > 99")
    assert isinstance(result, Query)
    assert (result.to_arrow().num_rows, result.to_arrow().column_names) == (0, ["shop", "rate"])


ERRORS = {
    "SELECT shop, nope FROM sales WHERE shop IN (SELECT shop FROM shops)": ("SS201", "nope"),
    "SELECT city FROM shops AS c WHERE EXISTS (SELECT 1 FROM sales AS s WHERE s.zip = c.shop)": ("SS201", "s.zip"),
    "SELECT nosuch(shop) FROM sales GROUP BY 1": ("SS203", "nosuch(shop)"),
    "SELECT shop FROM sales JOIN shops ON sales.shop = shops.shop": ("SS204", "shop"),
    "SELECT amount + tags FROM sales CROSS JOIN shops": ("SS206", "amount + tags"),
    "SELECT shop FROM sales UNION SELECT shop, city FROM shops": ("SS219", "SELECT shop, city FROM shops"),
    "SELECT shop, COUNT(*) FROM sales": ("SS208", "shop"),
    "SELECT CAST(kind AS INT) FROM sales ORDER BY 1": ("SS400", "CAST(kind AS INT)"),
}


def test_a_row_that_cannot_be_read_fails_the_query(session: Session) -> None:
    assert error(session, "SELECT MAX(shop) FROM strict").startswith(("SS402: ", "SS403: "))


@pytest.mark.parametrize("text", ERRORS)
def test_what_is_refused_has_our_code_and_its_place(session: Session, text: str) -> None:
    code, part = ERRORS[text]
    lines = error(session, text).splitlines()
    assert lines[0].startswith(f"{code}: ")
    start = len("LINE 1: ") + text.index(part)
    assert lines[1:3] == [f"LINE 1: {text}", " " * start + "^" * len(part)]
    assert "sqlstream_" not in lines[0]


def test_what_spark_alone_refuses_has_a_code(session: Session) -> None:
    text = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT COUNT(*) FROM r) SELECT * FROM r"
    assert error(session, text).startswith("SS602: ")


def test_a_mistake_in_a_view_has_its_place_there(session: Session) -> None:
    view = "CREATE VIEW broken AS SELECT nope FROM sales TABLESAMPLE (10 ROWS)"
    session.sql(view)
    assert error(session, "SELECT * FROM broken").splitlines()[1:4] == [
        f"LINE 1: {view}",
        " " * (len("LINE 1: ") + view.index("nope")) + "^^^^",
        'DETAIL: In view "broken".',
    ]


def test_what_a_stream_executes_stays_one(session: Session) -> None:
    result = session.sql("SELECT n FROM numbers WHERE n > 18")
    assert isinstance(result, Query) and isinstance(result.job, Job)
    assert result.fetchall() == [(19,), (20,)]


def test_a_batch_that_is_stopped_ends(session: Session) -> None:
    text = (
        "SELECT COUNT(*) FROM numbers AS a, numbers AS b, numbers AS c, numbers AS d, numbers AS e, numbers AS f, "
        "numbers AS g, numbers AS h WHERE a.n + b.n + c.n + d.n + e.n + f.n + g.n + h.n = RAND()"
    )
    result = session.sql(text)
    assert isinstance(result, Query)
    assert not result.job.wait(1)
    result.stop()
    assert result.job.state is JobState.STOPPED
    assert result.fetchall() == []


def test_results_are_written_into_tables(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE counts (shop INT, n BIGINT, note STRING) WITH ('connector' = 'memory')")
    for text in (
        "INSERT INTO counts SELECT shop, COUNT(*), NULL FROM sales GROUP BY shop",
        "INSERT INTO counts VALUES (7, 0, 'none')",
        f"CREATE TABLE best WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/best') AS "
        "SELECT shop, MAX(amount) AS most FROM sales GROUP BY shop",
    ):
        job = session.sql(text)
        assert isinstance(job, Job) and job.wait()
    assert batch(session, "SELECT * FROM counts ORDER BY shop") == [
        (1, 2, None),
        (2, 1, None),
        (3, 1, None),
        (7, 0, "none"),
    ]
    assert batch(session, "SELECT * FROM best ORDER BY shop") == [(1, 30), (2, 20), (3, None)]
    with pytest.raises(SqlStreamError, match="SS216"):
        session.sql("INSERT INTO counts VALUES (1, 2)")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        # Spark begins with the largest of the files that several tasks write.
        ("VALUES " + ", ".join(f"({i}, '{random.Random(i).randbytes(i * i).hex()}')" for i in range(40)), 40),
        ("SELECT 0, 'x' UNION ALL SELECT 1, 'x' UNION ALL SELECT 2, 'x'", 3),
        ("SELECT id, repeat(uuid(), 10) FROM range(30000) ORDER BY id", 30_000),  # above the size of Spark's splits
    ],
)
def test_rows_that_have_an_order_are_written_in_it(session: Session, tmp_path: Path, query: str, count: int) -> None:
    session.sql(
        f"CREATE OR REPLACE TABLE kept (id BIGINT, note STRING) "
        f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}')"
    )
    job = session.sql(f"INSERT INTO kept {query}")
    assert isinstance(job, Job) and job.wait()
    (file,) = tmp_path.glob("*.csv")
    assert [int(line.partition(",")[0]) for line in file.read_text().splitlines()] == list(range(count))


def test_spark_keeps_nothing_of_a_batch(session: Session) -> None:
    batch(session, "SELECT COUNT(*) FROM sales")
    error(session, "SELECT nope FROM sales GROUP BY 1")
    names = [table.name for table in session.spark.catalog.listTables()]
    assert not [name for name in names if name.startswith("sqlstream_")]


def test_explain_physical_shows_the_plan_of_spark(session: Session) -> None:
    text = session.explain("SELECT shop, COUNT(*) FROM sales WHERE amount > 5 GROUP BY shop", stage="physical")
    assert text.startswith("batch: all inputs are bounded\n== Physical Plan ==")
    assert "HashAggregate" in text and "MapInArrow" in text and re.search(r"amount#\d+ > 5", text)


def test_a_database_leaves_out_rows_and_columns_that_nobody_asks_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[LookupSource] = []

    def noted(spark: SparkSession, source: LookupSource) -> DataFrame:
        seen.append(source)
        return whole_table(spark, source)

    monkeypatch.setattr(session_jobs, "whole_table", noted)
    assert batch(session, "SELECT COUNT(*) FROM people AS p WHERE p.id IN (1, 2) AND name <> 'Bob'") == [(1,)]
    request = seen[0].request
    assert [name for name, _ in request.columns] == ["id", "name"]
    assert [(c.column, c.operator, c.value) for c in request.filters] == [("id", "IN", (1, 2)), ("name", "<>", "Bob")]


# --- batch --------------------------------------------------------------------------------------------------------


def test_in_a_batch_no_row_is_late(session: Session, tmp_path: Path) -> None:
    """The second file holds a row that is older than all windows of the first one."""
    forked = session.fork()
    (tmp_path / "a.csv").write_text("a,2020-01-01 00:01:00\nb,2020-01-01 00:00:01\n")
    (tmp_path / "b.csv").write_text("a,2020-01-01 00:00:02\n")
    os.utime(tmp_path / "a.csv", (1, 1))
    forked.sql(f"""CREATE TABLE seen (k STRING, at TIMESTAMP, WATERMARK FOR at AS at) WITH ('connector' = 'filesystem',
        'format' = 'csv', 'path' = '{tmp_path}', 'source.max-files-per-trigger' = '1')""")
    window = "TUMBLE(TABLE seen, DESCRIPTOR(at), INTERVAL '10' SECOND)"
    text = f"SELECT k, COUNT(*) FROM {window} GROUP BY k, window_start, window_end"
    stream = forked.sql(text)
    assert isinstance(stream, Query) and sorted(stream.fetchall()) == [("a", 1), ("b", 1)]
    forked.sql("SET 'execution.runtime-mode' = 'batch'")
    finished = forked.sql(text)
    assert isinstance(finished, Query) and sorted(finished.fetchall()) == [("a", 1), ("a", 1), ("b", 1)]
    assert batch(forked, "SELECT k FROM seen WHERE k = 'b'") == [("b",)]


# --- beside Spark -------------------------------------------------------------------------------------------------

_RANDOM = (
    "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(w) AS m FROM l GROUP BY k",
    "SELECT l.k, l.v, r.w FROM l JOIN r ON l.k = r.k AND l.v < r.v",
    "SELECT l.k, r.v FROM l FULL JOIN r ON l.k = r.k AND l.w = r.w",
    "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v) AS place FROM l",
    "SELECT k, v FROM l UNION SELECT k, v FROM r",
    "SELECT v FROM l WHERE k IN (SELECT k FROM r WHERE r.v > l.v) OR v IS NULL",
    "SELECT k, w, AVG(v) AS a, GROUPING_ID() AS g FROM l GROUP BY CUBE (k, w)",
)


def test_results_are_those_of_spark(session: Session, spark, tmp_path: Path) -> None:
    chosen = random.Random(7)
    forked = session.fork()
    for name in ("l", "r"):
        rows = [
            (chosen.randrange(5), chosen.choice([None, *range(20)]), chosen.choice(["p", "q", None]))
            for _ in range(200)
        ]
        path = f"{tmp_path}/{name}"
        frame = spark.createDataFrame(rows, "k INT, v INT, w STRING")
        frame.coalesce(1).write.parquet(path)
        frame.createOrReplaceTempView(name)
        forked.sql(
            f"CREATE TABLE {name} (k INT, v INT, w STRING) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{path}')"
        )
    forked.sql("SET 'execution.runtime-mode' = 'batch'")
    try:
        for text in _RANDOM:
            ours, theirs = batch(forked, text), [tuple(row) for row in spark.sql(text).collect()]
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), text
    finally:
        for name in ("l", "r"):
            spark.catalog.dropTempView(name)
