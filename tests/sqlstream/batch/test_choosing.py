"""Which way a statement runs, and what is said of it, without Spark."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.batch import Batch, chosen
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.results import Rows
from sqlstream.session import Session

TABLES = """
CREATE TABLE t (a INT, b INT, at TIMESTAMP, WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/data/t', 'format' = 'csv');
CREATE TABLE u (a INT, b INT) WITH ('connector' = 'filesystem', 'path' = '/data/u', 'format' = 'csv');
CREATE TABLE endless (a INT, at TIMESTAMP, WATERMARK FOR at AS at) WITH ('connector' = 'datagen');
CREATE TABLE letters (source STRING) WITH ('connector' = 'memory');
CREATE TABLE tolerant (a INT) WITH ('connector' = 'filesystem', 'path' = '/data/u', 'format' = 'csv',
    'on-error' = 'dead-letter:letters');
CREATE TABLE people (id INT, name STRING) WITH ('connector' = 'sqlite', 'path' = '/data/p', 'table-name' = 'p');
CREATE TABLE service (id INT, name STRING) WITH ('connector' = 'http', 'url' = 'http://localhost/{id}');
CREATE TABLE out (a INT, n BIGINT) WITH ('connector' = 'memory');
CREATE VIEW counts AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
"""


@pytest.fixture(scope="module")
def shared() -> Session:
    session = sqlstream.connect()
    session.sql(TABLES)
    return session


@pytest.fixture
def session(shared: Session) -> Session:
    return shared.fork()


def way(session: Session, text: str, mode: str = "auto") -> str:
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Query | nodes.Insert)
    return "batch" if isinstance(chosen(statement, session.workspace), Batch) else "stream"


WINDOW = "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE)"
BATCHES = (
    "SELECT 1",
    "VALUES (1), (2)",
    "SELECT COUNT(*) FROM t",
    "SELECT a FROM t ORDER BY a",
    "SELECT a FROM t LIMIT 3",
    "SELECT DISTINCT a FROM t",
    "SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT t.a FROM t CROSS JOIN u",
    "SELECT t.a FROM t ASOF LEFT JOIN u ON t.a = u.a AND t.b >= u.b",
    "SELECT a FROM t NATURAL JOIN u",
    "SELECT a FROM t UNION SELECT a FROM u",
    "SELECT a FROM t WHERE b IN (SELECT b FROM u)",
    "SELECT a FROM t WHERE b > (SELECT MAX(b) FROM u)",
    "SELECT RANK() OVER (ORDER BY b) FROM t",
    "SELECT * FROM t PIVOT (SUM(b) FOR a IN (1, 2))",
    "SELECT a FROM t TABLESAMPLE (10 ROWS)",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT x.b FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a) AS x",
    "SELECT * FROM UNNEST(ARRAY(1, 2)) AS v(x)",
    "SELECT * FROM range(5)",
    "SELECT * FROM counts WHERE n > 1",
    "SELECT name FROM people",
    "INSERT INTO out VALUES (1, 2)",
    "INSERT INTO out SELECT a, COUNT(*) FROM t GROUP BY a",
    "INSERT INTO out SELECT t.a, u.b FROM t LEFT JOIN u ON t.a = u.a",
)
STREAMS = (
    "SELECT a FROM t WHERE b > 1",
    "SELECT a FROM t TABLESAMPLE (50 PERCENT)",
    "SELECT a FROM t UNION ALL SELECT a FROM u",
    "SELECT at FROM t ASOF JOIN u MATCH_CONDITION (t.b >= u.b) USING (a)",
    f"SELECT COUNT(*) FROM {WINDOW} GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM t GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)",
    "SELECT SUM(b) OVER (ORDER BY at) FROM t",
    "SELECT x.a FROM t AS x JOIN t AS y ON x.a = y.a AND x.at = y.at EMIT CHANGES",
    "INSERT INTO out SELECT a, b FROM t",
    "INSERT INTO out SELECT t.a, u.b FROM t JOIN u ON t.a = u.a",
)


@pytest.mark.parametrize("text", BATCHES)
def test_what_needs_all_rows_is_a_batch(session: Session, text: str) -> None:
    assert way(session, text) == "batch"
    assert session.check(text) == ()


@pytest.mark.parametrize("text", STREAMS)
def test_what_streams_execute_stays_one(session: Session, text: str) -> None:
    assert way(session, text) == "stream"


REFUSED = {
    "SELECT a FROM endless ORDER BY a": "SS217",
    "SELECT RANK() OVER (ORDER BY (SELECT MAX(a) FROM endless)) FROM t": "SS308",
    f"SELECT window_start FROM {WINDOW} ORDER BY 1": "SS217",
    "SELECT COUNT(*) FROM t EMIT FINAL": "SS313",
    "SELECT a FROM tolerant ORDER BY a": "SS217",
    "SELECT name FROM service": "SS506",
    # what is wrong of names is told without Spark, where only the rows are sorted or cut
    "SELECT nope FROM t ORDER BY a LIMIT 3": "SS201",
    "SELECT DISTINCT nosuch(a) FROM t": "SS203",
    "SELECT * FROM nobody LIMIT 1": "SS202",
    "INSERT INTO nobody SELECT COUNT(*) FROM t": "SS202",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_neither_is_refused_as_before(session: Session, text: str) -> None:
    wrong = session.check(text)
    assert [d.code for d in wrong] == [REFUSED[text]], wrong


@pytest.mark.parametrize(
    "text", ["SELECT a FROM t TABLESAMPLE (10 ROWS)", "SELECT RANK() OVER (ORDER BY (SELECT MAX(a) FROM u)) FROM t"]
)
def test_streaming_refuses_what_streams_cannot_do(session: Session, text: str) -> None:
    with pytest.raises(SqlStreamError, match="SS3"):
        way(session, text, "streaming")


def test_batch_takes_all_but_tables_without_an_end(session: Session) -> None:
    assert {way(session, text, "batch") for text in BATCHES} == {"batch"}
    assert [way(session, text, "batch") for text in STREAMS] == [
        "batch", "batch", "batch", "stream", "stream", "stream", "batch", "stream", "batch", "batch",
    ]  # fmt: skip
    text = "SELECT e.a FROM t, endless AS e"
    (wrong,) = session.check(text)
    assert (wrong.code, wrong.span and text[wrong.span.start : wrong.span.end]) == (
        "SS600",
        "endless AS e",
    )
    sets = "EXECUTE STATEMENT SET BEGIN INSERT INTO out SELECT a, a FROM endless; END"
    assert [d.code for d in session.check(sets)] == ["SS600"]


def test_a_table_without_an_end_in_a_view_is_named_there(session: Session) -> None:
    session.sql("CREATE VIEW later AS SELECT a FROM endless")
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    (wrong,) = session.check("SELECT * FROM later")
    assert (wrong.code, wrong.detail, wrong.source) == (
        "SS600", 'In view "later".', "CREATE VIEW later AS SELECT a FROM endless",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT a, COUNT(*) FROM t GROUP BY a", "batch: all inputs are bounded"),
        ("SELECT a FROM t", "stream: all inputs are bounded, and no clause needs all rows at once"),
        ("SELECT a FROM endless", 'stream: table "endless" has no end'),
        (
            "SELECT COUNT(*) FROM t GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)",
            "stream: a window in GROUP BY makes a stream of it",
        ),
        (
            f"SELECT COUNT(*) FROM {WINDOW} GROUP BY window_start, window_end",
            "stream: TUMBLE(TABLE …) makes a stream of it",
        ),
    ],
)
def test_explain_says_which_way_and_why(session: Session, text: str, why: str) -> None:
    rows = session.sql(f"EXPLAIN {text}")
    assert isinstance(rows, Rows)
    assert why in [line for (line,) in rows]


def test_explain_shows_what_a_batch_reads(session: Session) -> None:
    text = "SELECT c.n FROM counts AS c JOIN people ON id = a"
    assert session.explain(text) == (
        f'batch: all inputs are bounded\nSpark SQL: {text}\n└─ t: table of connector "filesystem"\n'
        '└─ people: table of connector "sqlite"'
    )
    assert '"mode": "batch"' in session.explain(text, format="json")
    with pytest.raises(SqlStreamError, match="SS603"):
        session.explain(text, stage="trace")


def test_the_columns_of_a_view_over_finished_data_are_those_of_spark(session: Session) -> None:
    session.sql("CREATE VIEW best AS SELECT b FROM t TABLESAMPLE (10 ROWS)")
    with pytest.raises(SqlStreamError, match="SS601"):
        session.sql("DESCRIBE best")


def test_what_is_made_of_a_batch_counts_as_known(session: Session) -> None:
    text = "CREATE TABLE best WITH ('connector' = 'memory') AS SELECT MAX(a) AS m FROM t; SELECT m FROM best"
    assert session.check(text) == ()


def test_a_text_in_double_quotes_that_is_a_column_is_refused(session: Session) -> None:
    assert [d.code for d in session.check('SELECT "b", COUNT(*) FROM t GROUP BY 1')] == ["SS234"]
    assert session.check('SELECT "q", COUNT(*) FROM t GROUP BY 1') == ()
