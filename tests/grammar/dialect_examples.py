# ruff: noqa: E501  (one example is one line, as users write it)
"""The language by example: every statement and clause of the dialect in each of its forms, by chapter.

Each entry is a statement, or a script of several; bracketed and alternative forms are written out.
"""

from __future__ import annotations

_TUMBLE = "SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)"


def _fired(trigger: str) -> str:
    return f"{_TUMBLE} TRIGGER {trigger}"


def _evicting(evict: str) -> str:
    return f"SELECT k, SUM(v) FROM t GROUP BY k GLOBAL WINDOW TRIGGER EVERY 5 ROWS EVICT {evict}"


def _lookup(options: str) -> str:
    return (
        "SELECT o.id, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c "
        f"LOOKUP ASYNC ({options}) ON c.id = o.customer_id"
    )


def _aligned(options: str) -> str:
    return f"SELECT barrier_id, v FROM t ALIGN BARRIERS (CHANNEL c OF 3, MARKER kind = 'm', ID bid{options})"


STATEMENTS = [
    "CREATE TABLE t (a BIGINT)",
    "CREATE TEMPORARY TABLE t (a BIGINT) WITH ('connector' = 'datagen')",
    "CREATE TABLE IF NOT EXISTS t (a BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5')",
    "CREATE TEMPORARY TABLE IF NOT EXISTS db.t (a BIGINT NOT NULL COMMENT 'key') COMMENT 'rows' WITH ('connector' = 'x')",
    "CREATE TABLE t (ts TIMESTAMP(3) METADATA, o BIGINT METADATA FROM 'offset', p INT METADATA FROM 'partition' VIRTUAL,"
    " topic STRING METADATA VIRTUAL) WITH ('connector' = 'kafka')",
    "CREATE TABLE t (a INT, b AS a + 1, c AS UPPER(d) COMMENT 'loud', d STRING) WITH ('connector' = 'x')",
    "CREATE TABLE t (a INT, pt AS PROCTIME(), it AS INGESTION_TIME()) WITH ('connector' = 'x')",
    "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'x')",
    "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'x')",
    "CREATE TABLE t (k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'x')",
    "CREATE TABLE t (k STRING, j INT, CONSTRAINT pk PRIMARY KEY (k, j) NOT ENFORCED) WITH ('connector' = 'x')",
    "CREATE TABLE t (k STRING PRIMARY KEY NOT ENFORCED, v INT NULL) WITH ('changelog-mode' = 'I,UA,D')",
    "CREATE TABLE t (a TINYINT, b SMALLINT, c INT, d INTEGER, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10, 2), i DECIMAL)",
    "CREATE TABLE t (a STRING, b VARCHAR(20), c CHAR(3), d BYTES, e BINARY(3), f VARBINARY(4), g BOOLEAN, h VARIANT)",
    "CREATE TABLE t (a DATE, b TIME(0), c TIMESTAMP, d TIMESTAMP(3), e TIMESTAMP_LTZ(3), f TIMESTAMP_NTZ,"
    " g TIMESTAMP(3) WITH LOCAL TIME ZONE, h TIMESTAMP(6) WITHOUT TIME ZONE)",
    "CREATE TABLE t (a ARRAY<INT>, b MAP<STRING, ARRAY<BIGINT>>, c ROW<x INT, y STRING>, d STRUCT<x: INT, y: DATE>,"
    " e ROW(x INT NOT NULL, y ROW<z INT>))",
    "CREATE TABLE t (`order` INT, `a b` INT, `select` INT, watermark TIMESTAMP(3), `primary` INT, key INT, `it``s` INT)",
    "CREATE TABLE t WITH ('connector' = 'print') AS SELECT a FROM u",
    "CREATE TABLE t AS SELECT a FROM u",
    "CREATE VIEW v AS SELECT a FROM t",
    "CREATE TEMPORARY VIEW v AS SELECT a FROM t",
    "CREATE OR REPLACE TEMPORARY VIEW v (x, y) COMMENT 'pairs' AS SELECT a, b FROM t",
    "CREATE VIEW IF NOT EXISTS v AS WITH c AS (SELECT 1 AS a) SELECT a FROM c UNION ALL SELECT 2",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS db.t",
    "DROP VIEW v",
    "DROP TEMPORARY VIEW IF EXISTS v",
    "DROP FUNCTION f",
    "CREATE FUNCTION f AS 'package.module:name' LANGUAGE PYTHON",
    "CREATE TEMPORARY FUNCTION IF NOT EXISTS f AS 'a:b'",
    "INSERT INTO t SELECT a FROM u",
    "INSERT INTO db.t (a, b) SELECT a, b FROM u WHERE a > 1",
    "INSERT INTO t VALUES (1, 'x'), (2, NULL)",
    "INSERT INTO t (SELECT a FROM u)",
    "INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT * FROM t; INSERT INTO b SELECT k FROM t; END",
    "EXECUTE UNIT TEST keeps_all FOR v EXPECTED AS (SELECT 1 AS a)",
    "EXECUTE UNIT TEST counts FOR db.v MOCK t (a INT, b ARRAY<INT>) AS (VALUES (1, ARRAY(2))) EXPECTED (n BIGINT) AS (VALUES (1))",
    "EXECUTE UNIT TEST at_noon FOR v AT TIME '2026-01-01 12:00:00' MOCK t (a INT) AS (SELECT * FROM VALUES (1), (2)),"
    " MOCK u AS (VALUES (NULL)) EXPECTED (n BIGINT) AS (VALUES (1))",
    "EXPLAIN SELECT a FROM t",
    "EXPLAIN FORMAT TEXT SELECT a FROM t",
    "EXPLAIN FORMAT JSON LOGICAL SELECT a FROM t",
    "EXPLAIN FORMAT MERMAID OPTIMIZED SELECT a FROM t",
    "EXPLAIN PHYSICAL INSERT INTO u SELECT a FROM t",
    "EXPLAIN SPARK SELECT a FROM t",
    "EXPLAIN TRACE SELECT a FROM t",
    "EXPLAIN CHANGELOG_MODE SELECT a FROM t",
    "EXPLAIN ADVICE SELECT a FROM t",
    "EXPLAIN PLAN FOR SELECT a FROM t",
    "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW FUNCTIONS",
    "SHOW USER FUNCTIONS",
    "SHOW TABLES LIKE 'bid%'",
    "SHOW FUNCTIONS NOT ILIKE 'JSON%'",
    "SHOW CONNECTORS",
    "SHOW JOBS",
    "SHOW CHECKPOINTS",
    "SHOW CHECKPOINTS FOR JOB j",
    "SHOW CREATE TABLE t",
    "DESCRIBE t",
    "DESC db.t",
    "DESCRIBE JOB j",
    "DESCRIBE job",
    "STOP JOB j",
    "STOP JOB j WITH SAVEPOINT",
    "STOP JOB j WITH SAVEPOINT '/tmp/s'",
    "STOP JOB j WITH DRAIN",
    "STOP JOB 'f2-1' WITH SAVEPOINT '/tmp/s' WITH DRAIN",
    "CHECKPOINT JOB j",
    "SAVEPOINT JOB j",
    "SAVEPOINT JOB j '/tmp/s'",
    "SET 'execution.checkpointing.interval' = '10 s'",
    "SET 'table.exec.state.ttl' = 'it''s'",
    "SET",
    "RESET 'execution.checkpointing.interval'",
    "RESET",
    "USE MODULE hive",
    "USE MODULES hive",
    "USE CATALOG c",
    "USE DATABASE d",
    "USE d",
    "SELECT a FROM t; -- a comment\nSELECT b /* another; one */ FROM t;;\n SET 'a' = 'b;c'",
]

EXPRESSIONS = [
    "SELECT ARRAY[1, 2], ARRAY(1, 2), MAP['a', 1], MAP('a', 1), ROW(1, 'x'), STRUCT(1 AS a), m['k'], a[0], a[0].b",
    "SELECT (SELECT MAX(a) FROM u) AS m FROM t",
    "SELECT INTERVAL '0.005' SECOND, INTERVAL '90' MINUTE, INTERVAL '5' MILLISECOND, INTERVAL '33:20' MINUTE TO SECOND",
    "SELECT INTERVAL '-8' HOUR, -INTERVAL '8' HOUR, INTERVAL 5 DAYS, INTERVAL '1 2:3:4.5' DAY TO SECOND",
    "SELECT INTERVAL '1 day 2 hours', INTERVAL '5 seconds', INTERVAL '1-2' YEAR TO MONTH, 3 * INTERVAL '1' SECOND",
    "SELECT a IS NOT DISTINCT FROM b, a IS DISTINCT FROM b, a <=> b, a DIV 2, a % 2, a || b, a & b, a | b, a ^ b, ~a",
    "SELECT CAST(a AS DECIMAL(10, 2)), TRY_CAST(b AS INT), a::STRING, CAST(c AS ROW<x INT>), CAST(d AS TIMESTAMP(3))",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, CASE WHEN a > 1 THEN 1 END, IF(a, 1, 2), COALESCE(a, b), NULLIF(a, b)",
    "SELECT a LIKE 'x%', a NOT LIKE 'y' ESCAPE '!', a RLIKE 'z', a BETWEEN 1 AND 2, a NOT IN (1, 2), a IS NOT NULL",
    "SELECT SUM(a) FILTER (WHERE b > 1), COUNT(DISTINCT a, b), LISTAGG(a, ','), LISTAGG(DISTINCT a), COLLECT_SET(a)",
    "SELECT TRANSFORM(a, x -> x + 1), FILTER(a, x -> x > 1), AGGREGATE(a, 0, (s, x) -> s + x), EXISTS(a, x -> x > 1)",
    "SELECT EXTRACT(HOUR FROM ts), SUBSTRING(a FROM 2 FOR 3), TRIM(BOTH 'x' FROM a), POSITION('x' IN a), FLOOR(ts TO DAY)",
    "SELECT OVERLAY(a PLACING 'x' FROM 2 FOR 3), CURRENT_TIMESTAMP, CURRENT_DATE, LOCALTIMESTAMP, DATE '2020-01-01'",
    "SELECT 'it''s', 'a\\nb', \"double\", 'one' 'two', r'raw\\d', 1e3, 1.5, .5, 10L, X'1F', TRUE, NULL",
    "SELECT t.*, a.`b c`, `f`(x => 1, y => 2), db.f(1), f(*)",
    "SELECT * FROM t, UNNEST(t.a) AS u(x)",
    "SELECT * FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS u(x, i)",
    "SELECT * FROM t LATERAL VIEW EXPLODE(a) x AS y LATERAL VIEW OUTER POSEXPLODE(b) z AS p, q",
    "SELECT * FROM t, LATERAL TABLE(f(t.a, 'x')) AS g(v, w)",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)",
    "VALUES (1), (2)",
]

TIME = [
    "SELECT a FROM t WATERMARK ts DELAY OF INTERVAL '5' SECONDS",
    "SELECT a FROM db.t AS x WATERMARK ts DELAY OF INTERVAL '5' SECONDS WHERE a > 1",
    "SELECT a FROM (SELECT * FROM t) AS s WATERMARK ts DELAY OF INTERVAL '1' MINUTE",
    "SELECT CURRENT_WATERMARK(ts), PROCTIME() FROM t",
]

TABLE_FUNCTIONS = [
    "SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '8' HOUR) AS w",
    "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))",
    "SELECT * FROM TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' DAY, `OFFSET` => INTERVAL '-8' HOUR)",
    "SELECT * FROM TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' DAY, OFFSET => INTERVAL '8' HOUR)",
    "SELECT * FROM TUMBLE(TABLE (SELECT * FROM t WHERE a > 1), DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "SELECT * FROM HOP(TABLE db.t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND, INTERVAL '1' SECOND)",
    "SELECT * FROM HOP(TABLE t PARTITION BY k, DESCRIPTOR(ts), SLIDE => 5 ROWS, SIZE => INTERVAL '10' SECOND)",
    "SELECT * FROM HOP(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND, 100 ROWS)",
    "SELECT * FROM HOP(TABLE t PARTITION BY k, DESCRIPTOR(ts), 5 ROWS, 10 ROWS)",
    "SELECT * FROM CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "SELECT * FROM CUMULATE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '5' SECOND, SIZE => INTERVAL '15' SECOND)",
    "SELECT * FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '33:20' MINUTE TO SECOND, INTERVAL '1' DAY, INTERVAL '1' HOUR))",
    "SELECT * FROM SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY k, j, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY (k, j), DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND, MAX_DURATION => INTERVAL '1' HOUR)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND, START_WHEN => a = 'in',"
    " END_WHEN => a = 'out' OR b > 5)",
    "SELECT * FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts),"
    " CASE WHEN vip THEN INTERVAL '30' MINUTE ELSE INTERVAL '5' MINUTE END)",
    "SELECT * FROM COUNT_WINDOW(TABLE t, 100 ROWS)",
    "SELECT * FROM COUNT_WINDOW(TABLE t PARTITION BY k, 100 ROWS, 10 ROWS)",
    "SELECT * FROM COUNT_WINDOW(TABLE t PARTITION BY k, SIZE => 5 ROWS, SLIDE => 3 ROWS, FULL_ONLY => TRUE)",
    "SELECT window_start, window_end, window_time, SUM(a) FROM TUMBLE(TABLE t, DESCRIPTOR(pt), INTERVAL '5' SECOND)"
    " GROUP BY window_start, window_end, window_time, GROUPING SETS ((k), ())",
]

WINDOW_CLAUSES = [
    _TUMBLE,
    "SELECT window_start, k FROM t GROUP BY k, TUMBLE(ts, INTERVAL '1' DAY, INTERVAL '8' HOUR)",
    "SELECT k FROM t GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), k",
    "SELECT k FROM t GROUP BY k, CUMULATE(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "SELECT k FROM t GROUP BY k, SESSION(ts, INTERVAL '5' SECOND)",
    "SELECT k FROM t GROUP BY k, HOP(ts, 5 ROWS, INTERVAL '10' SECOND)",
    "SELECT k FROM t GROUP BY k COUNT WINDOW (100 ROWS)",
    "SELECT k FROM t GROUP BY k COUNT WINDOW (100 ROWS SLIDE 10 ROWS)",
    "SELECT k FROM t GROUP BY k COUNT WINDOW (100 ROWS SLIDE INTERVAL '5' SECOND)",
    "SELECT k FROM t GROUP BY k COUNT WINDOW (INTERVAL '5' SECOND SLIDE 3 ROWS)",
    "SELECT k FROM t GROUP BY k COUNT WINDOW (5 ROWS SLIDE 3 ROWS FULL ONLY)",
    "SELECT COUNT(*) FROM t GROUP BY COUNT WINDOW (100 ROWS)",
    "SELECT k FROM t GROUP BY k GLOBAL WINDOW TRIGGER EVERY 5 ROWS",
    "SELECT COUNT(*) FROM t GROUP BY GLOBAL WINDOW TRIGGER ON BARRIER",
    "SELECT k FROM t GROUP BY k WINDOW USING weekly(1, 'MON')",
    "SELECT COUNT(*) FROM t GROUP BY WINDOW USING my.weekly()",
    "SELECT k FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), GROUPING SETS ((k, j), (k), ())",
    "SELECT k FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), CUBE (k, j), ROLLUP (i)",
    "SELECT TUMBLE_START(ts, INTERVAL '5' SECOND), TUMBLE_END(ts, INTERVAL '5' SECOND),"
    " TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)",
    "SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), SESSION_END(ts, INTERVAL '5' SECOND) FROM t",
    "SELECT window.start, COUNT(*) FROM t GROUP BY window(ts, '10 seconds', '5 seconds')",
    "SELECT COUNT(*) FROM t GROUP BY session_window(ts, '5 minutes')",
    f"{_TUMBLE} HAVING COUNT(*) > 1 QUALIFY ROW_NUMBER() OVER (ORDER BY k) = 1 TRIGGER AFTER WATERMARK LATE DATA DROP",
    f"{_TUMBLE} TRIGGER AFTER WATERMARK EVICT KEEP LAST 5 ROWS LATE DATA DROP HAVING COUNT(*) > 1 EMIT CHANGES",
    "SELECT window_start FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY window_start, window_end"
    " TRIGGER AFTER WATERMARK LATE DATA ALLOW INTERVAL '5' SECOND",
]

TRIGGERS = [
    _fired(trigger)
    for trigger in (
        "AFTER WATERMARK",
        "AFTER WATERMARK EARLY EVERY 5 ROWS",
        "AFTER WATERMARK LATE EVERY 1 ROWS",
        "AFTER WATERMARK EARLY EVERY INTERVAL '1' SECOND LATE EVERY INTERVAL '2' SECOND RETRACTING",
        "AFTER WATERMARK EARLY WHEN (v > 5 OR w) LATE WHEN (v < 5) ACCUMULATING",
        "AFTER WATERMARK DISCARDING",
        "USING f(1, 'x')",
        "USING my.trigger()",
        "EVERY 5 ROWS",
        "EVERY INTERVAL '5' SECOND",
        "EVERY INTERVAL '5' SECOND EVENT TIME",
        "EVERY INTERVAL '0.005' SECOND PROCESSING TIME DISCARDING",
        "AFTER PROCESSING TIME",
        "DELTA (distance) > 50",
        "DELTA (a + b) > 50.5 RETRACTING",
        "ABSOLUTE DELTA (distance) > 50",
        "WHEN (v > 5 AND w IS NULL)",
        "AFTER INTERVAL '5' SECOND OF SILENCE",
        "ON BARRIER",
        "NEVER",
        "PURGING (EVERY 5 ROWS)",
        "PURGING (AFTER WATERMARK)",
        "EVERY 5 ROWS OR AFTER WATERMARK",
        "EVERY 5 ROWS AND EVERY INTERVAL '5' SECOND",
        "AFTER WATERMARK EARLY EVERY 5 ROWS OR EVERY 9 ROWS",
        "EVERY 5 ROWS THEN EVERY INTERVAL '5' SECOND",
        "EVERY 1 ROWS OR EVERY 2 ROWS AND EVERY 3 ROWS THEN NEVER",
        "(EVERY 1 ROWS OR EVERY 2 ROWS) AND (EVERY 3 ROWS THEN NEVER)",
        "PURGING (EVERY 1 ROWS OR DELTA (v) > 5 AND WHEN (v > 1)) THEN AFTER INTERVAL '5' SECOND OF SILENCE DISCARDING",
    )
]

EMITS = [
    f"SELECT a FROM t {emit}"
    for emit in (
        "EMIT ON WINDOW CLOSE",
        "EMIT FINAL",
        "EMIT AFTER WATERMARK",
        "EMIT AFTER WATERMARK WITH DELAY INTERVAL '5' SECOND",
        "EMIT CHANGES",
        "EMIT ON UPDATE",
        "EMIT EVERY INTERVAL '5' SECOND",
        "WHERE a > 1 ORDER BY a LIMIT 5 EMIT CHANGES",
        "UNION ALL SELECT b FROM u EMIT CHANGES",
    )
]

EVICTORS = [
    _evicting(evict)
    for evict in (
        "USING f(1)",
        "KEEP LAST 5 ROWS",
        "KEEP LAST INTERVAL '5' SECOND",
        "DELTA (v) >= 2",
        "ABSOLUTE DELTA (v - w) >= 2.5",
        "BEFORE KEEP LAST 5 ROWS",
        "AFTER KEEP LAST INTERVAL '5' SECOND",
        "AFTER DELTA (v) >= 2",
        "BEFORE (USING my.evictor())",
        "AFTER (KEEP LAST 5 ROWS)",
    )
]

LATE_DATA = [
    f"{_TUMBLE} LATE DATA {late}"
    for late in (
        "DROP",
        "FAIL",
        "TO late_rows",
        "ALLOW INTERVAL '5' SECOND",
        "ALLOW INTERVAL '5' SECOND DROP",
        "ALLOW INTERVAL '5' SECOND TO db.late_rows",
        "ALLOW INTERVAL '5' SECOND FAIL",
    )
]

LOOKUPS = [
    "SELECT * FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c ON c.id = o.customer_id",
    "SELECT * FROM orders AS o JOIN customers AS c FOR SYSTEM_TIME AS OF o.pt ON c.id = o.customer_id",
    "SELECT * FROM orders AS o LEFT JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c LOOKUP ASYNC ON c.id = o.customer_id",
    "SELECT * FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt LOOKUP ASYNC () ON id = o.customer_id",
    *(
        _lookup(options)
        for options in (
            "OUTPUT ORDERED",
            "OUTPUT UNORDERED",
            "OUTPUT KEY ORDERED",
            "CAPACITY 100",
            "TIMEOUT INTERVAL '1' SECOND",
            "ON TIMEOUT FAIL",
            "ON TIMEOUT NULL",
            "ON TIMEOUT DEFER",
            "ON ERROR FAIL",
            "ON ERROR NULL",
            "ON ERROR TO failures",
            "RETRY 3 TIMES (FIXED DELAY INTERVAL '1' SECOND)",
            "RETRY ON MISS 3 TIMES (FIXED DELAY INTERVAL '1' SECOND), RETRY ON ERROR 2 TIMES (FIXED DELAY INTERVAL '2' SECOND)",
            "RETRY ON ERROR 3 TIMES (EXPONENTIAL FROM INTERVAL '1' SECOND)",
            "RETRY ON MISS 3 TIMES (EXPONENTIAL FROM INTERVAL '1' SECOND TO INTERVAL '1' MINUTE)",
            "CACHE 1000 ROWS",
            "CACHE 1000 ROWS TTL INTERVAL '5' MINUTE",
            "CACHE 1000 ROWS TTL INTERVAL '5' MINUTE NEGATIVE TTL INTERVAL '1' MINUTE",
            "CACHE 1000 ROWS NEGATIVE TTL INTERVAL '1' MINUTE",
            "BATCH 50",
            "BATCH 50 WITHIN INTERVAL '10' MILLISECOND",
            "OUTPUT UNORDERED, CAPACITY 10, TIMEOUT INTERVAL '1' SECOND, ON TIMEOUT NULL, ON ERROR TO f, BATCH 5",
        )
    ),
    "SELECT /*+ LOOKUP('table' = 'c', 'async' = 'true', 'output-mode' = 'allow_unordered', 'capacity' = '10') */ o.id"
    " FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c ON c.id = o.customer_id",
    "SELECT g.city FROM orders AS o, LATERAL TABLE(geo(o.ip)) AS g(city) LOOKUP ASYNC (CAPACITY 5)",
    "SELECT g.city FROM orders AS o LEFT JOIN LATERAL TABLE(geo(o.ip)) AS g(city) LOOKUP ASYNC (CAPACITY 5) ON TRUE",
]

BARRIERS = [
    _aligned(options)
    for options in (
        "",
        ", CANCEL WHEN kind = 'c'",
        ", END WHEN kind = 'e' OR done",
        ", MODE AT_LEAST_ONCE",
        ", MODE EXACTLY_ONCE",
        ", TIMEOUT INTERVAL '5' SECOND",
        ", CANCEL WHEN kind = 'c', END WHEN kind = 'e', MODE AT_LEAST_ONCE, TIMEOUT INTERVAL '1' MINUTE",
    )
] + [
    "SELECT k FROM t AS x ALIGN BARRIERS (CHANNEL x.c + 1 OF 3, ID x.bid, MARKER x.kind IN ('m', 'n'))"
    " WHERE v > 1 GROUP BY k GLOBAL WINDOW TRIGGER ON BARRIER",
    "SELECT x FROM UNNEST(xs) AS v(x) ALIGN BARRIERS (CHANNEL x OF 2, MARKER x = 0, ID x)",
    "SELECT x FROM (VALUES (1), (2)) AS v(x) ALIGN BARRIERS (CHANNEL x OF 2, MARKER x = 0, ID x)",
    "SET 'execution.checkpointing.min-pause' = '1 s'",
    "SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION'",
]

PROCESS_FUNCTIONS = [
    "SELECT * FROM f(input => TABLE t PARTITION BY k ORDER BY ts, on_time => DESCRIPTOR(ts), uid => 'u1', threshold => 3)",
    "SELECT * FROM f(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts)) AS x",
    "SELECT * FROM f(a => TABLE t PARTITION BY (k, j) ORDER BY (ts DESC, v), b => TABLE u PARTITION BY l, x => 1 + 2)",
    "SELECT * FROM TABLE(f(TABLE (SELECT * FROM t), 5, 'x', DESCRIPTOR(ts, v)))",
    "SELECT * FROM my.f(threshold => 3, input => TABLE t)",
]

REST = [
    "SELECT k, COUNT(DISTINCT v), SUM(v) FILTER (WHERE v > 1) FROM t GROUP BY k",
    "SELECT a, b, GROUPING_ID(a, b) FROM t GROUP BY GROUPING SETS ((a, b), (a), ())",
    "SELECT a FROM t GROUP BY CUBE (a, b)",
    "SELECT a FROM t GROUP BY a, b WITH ROLLUP",
    "SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT SUM(v) OVER w, AVG(v) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts"
    " RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND INTERVAL '1' SECOND FOLLOWING)",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) AS r WHERE rn <= 3",
    "SELECT k, v FROM t QUALIFY RANK() OVER (PARTITION BY k ORDER BY v DESC) <= 3",
    "SELECT k, v FROM t WHERE v > 1 QUALIFY DENSE_RANK() OVER (PARTITION BY k ORDER BY v) = 1 ORDER BY k LIMIT 5",
    "SELECT DISTINCT a FROM t",
    "SELECT a FROM t UNION SELECT b FROM u",
    "SELECT a FROM t UNION ALL SELECT b FROM u",
    "SELECT a FROM t INTERSECT SELECT b FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
    "(SELECT a FROM t) UNION ALL (SELECT b FROM u) ORDER BY a LIMIT 5",
    "SELECT a FROM t WHERE a IN (SELECT b FROM u) AND EXISTS (SELECT 1 FROM v WHERE v.x = t.a) AND a > ALL (SELECT c FROM w)",
    "SELECT * FROM l JOIN r ON l.k = r.k LEFT JOIN s ON s.k = l.k RIGHT JOIN u ON TRUE FULL OUTER JOIN v USING (k, j)",
    "SELECT * FROM l LEFT SEMI JOIN r ON l.k = r.k",
    "SELECT * FROM l LEFT ANTI JOIN r ON l.k = r.k",
    "SELECT * FROM l NATURAL JOIN r CROSS JOIN s, u",
    "SELECT * FROM l JOIN r ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '5' SECOND AND r.ts + INTERVAL '5' SECOND",
    "SELECT * FROM (SELECT * FROM TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND)) AS l"
    " JOIN (SELECT * FROM TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND)) AS r"
    " ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
    "SELECT * FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON r.currency = o.currency",
    "SELECT * FROM l ASOF JOIN r ON l.k = r.k AND l.x >= r.x",
    "SELECT * FROM l ASOF LEFT JOIN r MATCH_CONDITION (l.x >= r.x) ON l.k = r.k",
    "SELECT /*+ STATE_TTL('l' = '1d', 'r' = '2 h') */ * FROM l JOIN r ON l.k = r.k",
    "SELECT * FROM t /*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */ AS x",
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.ts AS start_ts, LAST(B.v) AS last_v"
    " ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C?) DEFINE B AS B.v > A.v) AS m",
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FINAL COUNT(A.v) AS n ALL ROWS PER MATCH"
    " AFTER MATCH SKIP TO LAST B PATTERN (A{2,3} (B | C)*? D+ E{2}) WITHIN INTERVAL '1' HOUR DEFINE A AS v > 1, B AS v > 2) AS m",
    "WITH a AS (SELECT * FROM t EMIT CHANGES), b (x) AS (SELECT 1) SELECT * FROM a, b",
    "SELECT window_pane(), window_pane_index() FROM t",
]

CHAPTERS = {
    "statements": STATEMENTS,
    "expressions": EXPRESSIONS,
    "time": TIME,
    "table functions": TABLE_FUNCTIONS,
    "window clauses": WINDOW_CLAUSES,
    "triggers": TRIGGERS,
    "emits": EMITS,
    "evictors": EVICTORS,
    "late data": LATE_DATA,
    "lookups": LOOKUPS,
    "barriers": BARRIERS,
    "process functions": PROCESS_FUNCTIONS,
    "rest": REST,
}
