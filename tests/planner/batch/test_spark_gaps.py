"""What Spark SQL lacks of the dialect: written for it otherwise, run as a stream, or refused alike in every mode."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.analysis import Planner
from sqlstream.batch import Batch, chosen
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.batch import spark_text
from sqlstream.session import Session

FILES = "WITH ('connector' = 'filesystem', 'path' = '/data/{0}', 'format' = 'json')"
TABLES = f"""
CREATE TABLE t (a INT, b INT, arr ARRAY<INT>, mp MAP<STRING, INT>, at TIMESTAMP, WATERMARK FOR at AS at)
    {FILES.format("t")};
CREATE TABLE u (a INT, b INT) {FILES.format("u")};
"""


@pytest.fixture(scope="module")
def session() -> Session:
    session = sqlstream.connect()
    session.sql(TABLES)
    return session


def text_for_spark(session: Session, text: str, mode: str = "auto") -> str | None:
    """The text of a batch with the names of its tables; None for a stream."""
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Query)
    plan = chosen(statement, session.workspace)
    if not isinstance(plan, Batch):
        return None
    spelled = spark_text(plan.query).text
    for table, name in plan.names.items():
        spelled = spelled.replace(name, table)
    return spelled.replace("`", "")


SPELLED = {
    # An alias is written out unless FROM gives its name to a column; other tables and queries of WITH do not count.
    "WITH q AS (SELECT 1 AS c, 2 AS d) SELECT a AS c, c + 1 AS e, COUNT(*) AS n FROM u GROUP BY ALL": (
        "WITH q AS (SELECT 1 AS c, 2 AS d) SELECT a AS c, a + 1 AS e, COUNT(*) AS n FROM u AS u GROUP BY ALL"
    ),
    "SELECT a AS mp, mp + 1 AS e, COUNT(*) AS n FROM u WHERE a IN (SELECT a FROM t) GROUP BY ALL": (
        "SELECT a AS mp, a + 1 AS e, COUNT(*) AS n FROM u AS u WHERE a IN (SELECT a FROM t AS t) GROUP BY ALL"
    ),
    "WITH q AS (SELECT a AS c, b AS d FROM u), r AS (SELECT * FROM q) "
    "SELECT d AS c, SUM(c) AS d, d + 1 AS e FROM r GROUP BY ALL": (
        "WITH q AS (SELECT a AS c, b AS d FROM u AS u), r AS (SELECT * FROM q) "
        "SELECT d AS c, SUM(c) AS d, d + 1 AS e FROM r GROUP BY ALL"
    ),
    "SELECT a FROM u WHERE ROW(a, b) IN (SELECT ROW(a, b) FROM t)": (
        "SELECT a FROM u AS u WHERE (a, b) IN (SELECT a AS col1, b AS col2 FROM t AS t)"
    ),
    "SELECT COUNT(*) AS n FROM t GROUP BY ()": "SELECT COUNT(*) AS n FROM t AS t HAVING TRUE",
    "SELECT 1 AS one FROM t GROUP BY ()": "SELECT 1 AS one FROM t AS t HAVING TRUE",
    "SELECT COUNT(*) AS n FROM t GROUP BY () HAVING COUNT(*) > 1": (
        "SELECT COUNT(*) AS n FROM t AS t HAVING COUNT(*) > 1"
    ),
    "SELECT a, b, COUNT(*) AS n FROM t GROUP BY (a, b), ()": ("SELECT a, b, COUNT(*) AS n FROM t AS t GROUP BY a, b"),
    "SELECT a, COUNT(*) AS n, (SELECT MAX(b) AS m FROM u WHERE u.a = t.a) AS m FROM t GROUP BY a": (
        "SELECT a, COUNT(*) AS n, ANY_VALUE((SELECT MAX(b) AS m FROM u AS u WHERE u.a = t.a)) AS m FROM t AS t "
        "GROUP BY a"
    ),
    "SELECT a, COUNT(*) AS n, (SELECT MAX(b) AS m FROM u) AS m FROM t GROUP BY a": (
        "SELECT a, COUNT(*) AS n, (SELECT MAX(b) AS m FROM u AS u) AS m FROM t AS t GROUP BY a"
    ),
    "SELECT ROW_NUMBER() OVER (PARTITION BY a) AS n FROM t": (
        "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY 1 NULLS LAST) AS n FROM t AS t"
    ),
    "SELECT a FROM t ORDER BY EXISTS (SELECT b FROM u), a DESC LIMIT 3": (
        "SELECT * EXCEPT (__order_0, __order_1) FROM (SELECT a, EXISTS(SELECT b FROM u AS u) AS __order_0, "
        "a AS __order_1 FROM t AS t) AS sorted ORDER BY __order_0, __order_1 DESC LIMIT 3"
    ),
    "SELECT a, b, GROUPING(b, a) AS g, COUNT(*) AS n FROM u GROUP BY CUBE (a, b)": (
        "SELECT a, b, CAST((GROUPING(b)) * 2 + GROUPING(a) AS BIGINT) AS g, COUNT(*) AS n FROM u AS u "
        "GROUP BY CUBE (a, b)"
    ),
    "SELECT a + 1 AS k, GROUPING(k) AS g FROM u GROUP BY ROLLUP (k) HAVING GROUPING_ID(a + 1) = 0": (
        "SELECT a + 1 AS k, GROUPING(a + 1) AS g FROM u AS u GROUP BY ROLLUP (k) "
        "HAVING CAST(GROUPING(a + 1) AS BIGINT) = 0"
    ),
    "SELECT a + 1 AS k, GROUPING(k) AS g, GROUPING(k, b) AS h FROM u GROUP BY k, b": (
        "SELECT a + 1 AS k, CAST(0 AS TINYINT) AS g, CAST(0 AS BIGINT) AS h FROM u AS u GROUP BY k, b"
    ),
    "SELECT a >= ANY (SELECT b FROM u WHERE u.a = t.a) AS v FROM t": (
        "SELECT ((SELECT COUNT(*) AS count(*) FROM u AS u WHERE u.a = t.a) > 0 AND (((a >= (SELECT MIN(b) AS min(b) "
        "FROM u AS u WHERE u.a = t.a))) OR CASE WHEN (SELECT COUNT(b) AS count(b) FROM u AS u WHERE u.a = t.a) = "
        "(SELECT COUNT(*) AS count(*) FROM u AS u WHERE u.a = t.a) THEN FALSE END)) AS v FROM t AS t"
    ),
    "SELECT a FROM t WHERE ROW(a, b) IN (SELECT a, b FROM u)": (
        "SELECT a FROM t AS t WHERE (a, b) IN (SELECT a, b FROM u AS u)"
    ),
    "SELECT (SELECT MAX(b) FROM u) FROM t": (
        "SELECT (SELECT MAX(b) AS max(b) FROM u AS u) AS (SELECT max(b) FROM u) FROM t AS t"
    ),
}


@pytest.mark.parametrize("text", SPELLED)
def test_spark_reads_it_in_other_words(session: Session, text: str) -> None:
    spelled = text_for_spark(session, text)
    assert spelled is not None
    assert spelled.replace(" NULLS FIRST", "").replace("DESC NULLS LAST", "DESC") == SPELLED[text]


NEWEST = "SELECT a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY {}) AS n FROM timed) WHERE n {}"


@pytest.mark.parametrize(
    ("text", "is_newest"),
    [
        (NEWEST.format("ts DESC", "= 1"), True),
        (NEWEST.format("ts DESC", "<= 1 AND a > 0"), True),
        (NEWEST.format("ts DESC", "< 2"), True),
        ("WITH r AS (SELECT *, ROW_NUMBER() OVER (ORDER BY ts DESC) AS n FROM timed) SELECT a FROM r WHERE 1=n", True),
        ("SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS n FROM timed QUALIFY n = 1", True),
        ("SELECT a FROM timed QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) = 1", True),
        (NEWEST.format("ts", "= 1"), False),
        (NEWEST.format("ts DESC", "<= 2"), False),
        (NEWEST.format("ts DESC, b", "= 1"), False),
        (NEWEST.format("b DESC", "= 1"), False),
        (NEWEST.format("ts DESC", "= 1").replace("ROW_NUMBER", "RANK"), False),
        ("SELECT MAX(ts) AS m FROM timed GROUP BY a QUALIFY ROW_NUMBER() OVER (ORDER BY m DESC) = 1", False),
    ],
)
def test_of_equal_event_times_the_row_that_was_read_last_is_the_newest(
    session: Session, text: str, is_newest: bool
) -> None:
    """Where streams deduplicate, which keeps it; other ranks keep the first that came."""
    session.sql(
        "CREATE TABLE IF NOT EXISTS timed (a INT, b INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '/nowhere')"
    )
    spelled = text_for_spark(session, text)
    assert spelled is not None
    assert (" DESC, MONOTONICALLY_INCREASING_ID() DESC" in spelled) is is_newest


STREAMS = (
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM u AS v WHERE v.b = t.b))",
    "SELECT t.a, x.b FROM t, LATERAL (SELECT b, SUM(a) AS s FROM u WHERE u.a > t.a GROUP BY ROLLUP (b)) AS x",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(ARRAY(t.a, t.b)) AS v(x) WHERE x > 3)",
    "SELECT a, COUNT(*), (SELECT MAX(b) FROM u WHERE u.a = t.a) FROM t GROUP BY ROLLUP (a)",
    "SELECT COUNT(DISTINCT a) OVER (ORDER BY b) FROM t",
    "SELECT DISTINCT mp FROM t",
    "SELECT ARRAY[mp] FROM t UNION SELECT ARRAY[mp] FROM t",
    "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a AND t.b > (SELECT MAX(b) FROM u WHERE u.a = t.a)",
    "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a AND (t.b IN (SELECT a FROM u) = (u.b NOT IN (SELECT b FROM t)))",
    "SELECT t.a FROM t ASOF JOIN u ON t.b >= u.b AND EXISTS (SELECT 1 FROM u AS w WHERE w.a = t.a)",
    "SELECT t.a FROM t ASOF LEFT JOIN u MATCH_CONDITION (t.b >= u.b) ON t.a IN (SELECT a FROM u AS w WHERE w.b = t.b)",
)


@pytest.mark.parametrize("text", STREAMS)
def test_a_stream_executes_what_spark_does_not(session: Session, text: str) -> None:
    assert text_for_spark(session, text) is None
    assert text_for_spark(session, text, "batch") is None


NO_KERNEL = {
    "SELECT a, MAX(arr) FROM t GROUP BY a": ("max", "MAX(arr)"),
    "SELECT MAX((a, b)) FROM t GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)": ("max", "MAX((a, b))"),
    "SELECT a, BIT_AND(a + 0.5) FROM t GROUP BY a": ("bit_and", "BIT_AND(a + 0.5)"),
    "SELECT a, HISTOGRAM_NUMERIC(b, 5) FILTER (WHERE b > 1) FROM u GROUP BY a": (
        "histogram_numeric",
        "HISTOGRAM_NUMERIC(b, 5)",
    ),
    "SELECT MIN(arr) OVER (PARTITION BY a ORDER BY at) FROM t": ("min", "MIN(arr)"),
}


@pytest.mark.parametrize("text", NO_KERNEL)
def test_aggregates_that_no_kernel_computes_run_over_finished_data_alone(session: Session, text: str) -> None:
    name, place = NO_KERNEL[text]
    if "TUMBLE" not in text:  # which streams alone execute
        assert text_for_spark(session, text) is not None
        assert text_for_spark(session, text, "batch") is not None
    with pytest.raises(SqlStreamError, match=f'SS395: aggregate function "{name}" is not executed on streams') as error:
        text_for_spark(session, text, "streaming")
    span = error.value.diagnostic.span
    assert span is not None and text[span.start : span.end] == place
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    (problem,) = Planner().with_session(session).check(text)
    assert problem.code == "SS395"


REFUSED = {
    "SELECT u.a FROM t NATURAL JOIN t AS u": ("SS206", "NATURAL JOIN t AS u"),
    "SELECT u.a FROM t JOIN t AS u USING (mp)": ("SS206", "mp"),
    "SELECT GREATEST('x', a) FROM t": ("SS206", "GREATEST('x', a)"),
    "SELECT SUM(a) OVER (ORDER BY b GROUPS 2 PRECEDING) FROM t": ("SS304", "2"),
    "SELECT NTILE(4) OVER (ORDER BY b ROWS 2 PRECEDING) FROM t": ("SS239", "NTILE(4)"),
    "SELECT a > ALL (arr) FROM t ORDER BY 1": ("SS355", "ALL (arr)"),
    "SELECT a = ANY (arr) FROM t ORDER BY 1": ("SS355", "ANY (arr)"),
    "SELECT ARRAY(SELECT b FROM u) FROM t": ("SS308", "SELECT b FROM u"),
    "SELECT UPPER(s => 'x') FROM t ORDER BY 1": ("SS338", "s => 'x'"),
    "SELECT a FROM t WHERE nope IN (SELECT a FROM u) ORDER BY 1": ("SS201", "nope"),
    "SELECT t.a FROM t FULL JOIN u ON t.a < u.a WHERE u.nope > 1": ("SS201", "u.nope"),
    "SELECT t.a, u.b FROM t FULL JOIN u ON t.a < u.a GROUP BY t.a": ("SS208", "u.b"),
    "SELECT t.b FROM t ASOF JOIN u ON t.a = u.a AND t.b >= u.b WHERE nope": ("SS201", "nope"),
    "SELECT x FROM t RIGHT JOIN UNNEST(arr) AS e(x) ON TRUE": ("SS301", "UNNEST(arr) AS e(x)"),
    "SELECT x, y FROM UNNEST(ARRAY[1]) AS u(x) FULL JOIN UNNEST(ARRAY[2]) AS v(y) ON x = y": (
        "SS301",
        "UNNEST(ARRAY[2]) AS v(y)",
    ),
    "SELECT x FROM t FULL JOIN LATERAL EXPLODE(t.arr) AS e(x) ON TRUE": (
        "SS301",
        "LATERAL EXPLODE(t.arr) AS e(x)",
    ),
    "SELECT a FROM t LEFT ANTI JOIN UNNEST(t.arr) AS e(x) ON x = a": (
        "SS301",
        "UNNEST(t.arr) AS e(x)",
    ),
    "SELECT t.a, m FROM t FULL JOIN LATERAL (SELECT b AS m FROM u) AS x ON TRUE": (
        "SS308",
        "FULL JOIN LATERAL (SELECT b AS m FROM u) AS x ON TRUE",
    ),
    "SELECT (a, b) > (1, 2, 3) FROM t ORDER BY 1": ("SS206", "(a, b) > (1, 2, 3)"),
    "SELECT CASE WHEN a > 1 THEN ROW(a, b) ELSE ROW(1, NULL, 3) END FROM t": ("SS206", "ROW(1, NULL, 3)"),
    "SELECT ROW(a, b) FROM t UNION ALL SELECT ROW(a, arr) FROM t": ("SS219", "SELECT ROW(a, arr) FROM t"),
    "SELECT * FROM (VALUES (1), (DATE '2020-01-01')) AS v": ("SS206", "DATE '2020-01-01'"),
    "SELECT a FROM t WHERE (a, b) > ANY (SELECT a, b, a + b FROM u)": ("SS650", "SELECT a, b, a + b FROM u"),
    "SELECT a FROM t WHERE a <= ALL (SELECT * FROM u)": ("SS650", "SELECT * FROM u"),
    "SELECT a FROM t WHERE a > 'x' || 1 AND a IN (SELECT nope FROM u) ORDER BY 1": ("SS201", "nope"),
}


@pytest.mark.parametrize("mode", ["auto", "batch", "streaming"])
@pytest.mark.parametrize("text", REFUSED)
def test_what_no_mode_executes_is_refused_with_its_place(session: Session, text: str, mode: str) -> None:
    if mode == "streaming" and ("ORDER BY 1" in text or "NTILE" in text):
        return  # which streams refuse first
    with pytest.raises(SqlStreamError) as error:
        text_for_spark(session, text, mode)
    places = {(d.code, text[d.span.start : d.span.end]) for d in error.value.diagnostics if d.span is not None}
    assert REFUSED[text] in places, error.value.diagnostics


def test_queries_in_queries_take_no_longer_than_their_text(session: Session) -> None:
    text = "SELECT a FROM t"
    for level in range(60):  # each level would double the time
        text = f"SELECT a FROM ({text}) AS q{level} WHERE a > (SELECT MAX(b) FROM u) GROUP BY a"
    assert text_for_spark(session, text) is not None


def test_what_streams_refuse_makes_no_mistake_of_what_is_around_it(session: Session) -> None:
    text = "SELECT (SELECT MAX(n) FROM UNNEST(t.arr) WITH ORDINALITY AS e(x, n)) AS most FROM t ORDER BY a"
    assert text_for_spark(session, text) is not None
