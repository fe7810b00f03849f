"""The lines of the page "From Flink SQL" hold."""

from __future__ import annotations

import pytest

from sqlstream.session import Session

TABLE = "CREATE TABLE t (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen'); "


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("BEGIN STATEMENT SET; INSERT INTO s SELECT id FROM t; END;", None),
        ("COMPILE PLAN '/tmp/p.json' FOR INSERT INTO s SELECT id FROM t;", None),
        ("EXPLAIN ESTIMATED_COST, CHANGELOG_MODE SELECT id FROM t;", None),
        ("SELECT id FROM t /*+ OPTIONS('rows-per-second' = '5') */;", None),
        ("SELECT /*+ STATE_TTL('t' = '1d') */ id, COUNT(*) FROM t GROUP BY id;", None),
        ("SELECT /*+ BROADCAST(t) */ t.id FROM t JOIN t AS u ON t.id = u.id;", None),
        ("CREATE TABLE c (a VARCHAR(3), b CHAR(3)) WITH ('connector' = 'blackhole');", None),
        ("CREATE TABLE c (a TIMESTAMP(9)) WITH ('connector' = 'blackhole');", "SS105"),
        ("SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';", None),
        ("SET 'taskmanager.numberOfTaskSlots' = '4';", None),
        ("CREATE TABLE c (a TIMESTAMP, WATERMARK FOR a AS SOURCE_WATERMARK()) WITH ('connector' = 'datagen');", None),
        (
            "CREATE TABLE c (a TIMESTAMP, WATERMARK FOR a AS SOURCE_WATERMARK()) WITH ('connector' = 'memory');",
            "SS214",
        ),
        ("SET 'table.sql-dialect' = 'hive';", "SS350"),
        ("SELECT id FROM t WHERE id = ?;", "SS345"),
        ("SELECT JSON_VALUE('{}', '$.a' NULL ON EMPTY), CEIL(ts TO HOUR) FROM t;", None),
        ("SELECT op, id FROM TO_CHANGELOG(input => TABLE t);", None),
        ("CREATE FUNCTION f AS 'com.example.F';", "SS352"),
        (
            "CREATE TABLE c (a TIMESTAMP, b INT, WATERMARK FOR a AS IF(b > 0, a, NULL)) WITH ('connector'='datagen');",
            None,
        ),
        ("SELECT CURRENT_WATERMARK(ts) FROM t;", None),
        ("SET 'table.exec.source.idle-timeout' = '10 s';", None),
        ("SELECT TIME '10:11:12', CURRENT_TIME;", None),
        (
            "CREATE TABLE c (a INT) DISTRIBUTED BY (a) INTO 4 BUCKETS WITH ('connector' = 'datagen'); SELECT a FROM c;",
            None,
        ),
        (
            "CREATE TABLE c (a INT) DISTRIBUTED BY (a) WITH ('connector'='blackhole'); INSERT INTO c SELECT id FROM t;",
            "SS358",
        ),
        ("INSERT INTO s /*+ OPTIONS('sink.parallelism' = '4') */ SELECT id FROM t;", None),
        ("SHOW MODULES; USE MODULES core;", None),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1;", None),
    ],
)
def test_a_line_of_the_page_holds(text: str, code: str | None) -> None:
    sink = "CREATE TABLE s (id INT) WITH ('connector' = 'blackhole'); "
    with Session() as session:
        found = session.check(TABLE + sink + text)
    assert [d.code for d in found][:1] == ([code] if code else []), [d.render() for d in found]
