"""What a session does without Spark: definitions, SHOW, DESCRIBE, EXPLAIN, check, and its errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlstream
from sqlstream.errors import ExecutionError, SqlStreamError, SqlStreamWarning
from sqlstream.results import Rows
from sqlstream.session import Session

TABLES = """
CREATE TABLE bids (
    auction BIGINT NOT NULL,
    `the price` DECIMAL(10, 2),
    item STRUCT<name: STRING, tags: ARRAY<STRING>>,
    ts TIMESTAMP(3),
    file STRING METADATA FROM 'file.name',
    doubled AS `the price` * 2,
    pt AS PROCTIME(),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
    PRIMARY KEY (auction) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '/data/it''s', 'format' = 'json');
CREATE VIEW dear (auction, price) AS SELECT auction, `the price` FROM bids WHERE `the price` > 100;
CREATE TABLE out (auction BIGINT) WITH ('connector' = 'print');
"""


@pytest.fixture
def session() -> Iterator[Session]:
    with sqlstream.connect() as own_session:
        own_session.sql(TABLES)
        yield own_session


def rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


def error(session: Session, text: str) -> SqlStreamError:
    with pytest.raises(SqlStreamError) as caught:
        session.sql(text)
    return caught.value


# --- SHOW and DESCRIBE ----------------------------------------------------------------------------------------


def test_what_flink_has_and_is_not_here_is_an_empty_list(session: Session) -> None:
    for what in ("JARS", "PROCEDURES", "MODELS", "MATERIALIZED TABLES"):
        assert rows(session, f"SHOW {what}") == []
    session.sql("DROP MODEL IF EXISTS m; DROP MATERIALIZED TABLE IF EXISTS m")
    assert "SS202" in str(error(session, "DROP MODEL m"))


def test_how_rows_go_to_buckets_stays_in_the_definition(session: Session) -> None:
    session.sql(
        "CREATE TABLE spread (id INT, n INT) DISTRIBUTED BY HASH (id) INTO 4 BUCKETS WITH ('connector' = 'blackhole'); "
        "CREATE TABLE alike WITH ('connector' = 'datagen') LIKE spread; ALTER TABLE alike RENAME id TO k; "
        "CREATE TABLE plain WITH ('connector' = 'blackhole') LIKE spread (EXCLUDING DISTRIBUTION)"
    )
    shown = str(rows(session, "SHOW CREATE TABLE alike")[0][0])
    assert "DISTRIBUTED BY HASH (k) INTO 4 BUCKETS" in " ".join(shown.split())
    assert "DISTRIBUTED BY" in str(error(session, "ALTER TABLE alike DROP k"))
    assert "SS358" in str(error(session, "INSERT INTO spread SELECT 1, 2"))
    assert "SS358" in str(error(session, "INSERT INTO spread SELECT k, n FROM alike"))
    assert session.check("INSERT INTO plain SELECT k, n FROM alike") == ()
    text = "CREATE TABLE wrong (a INT) DISTRIBUTED BY (b) WITH ('connector' = 'blackhole')"
    assert "SS295" in str(error(session, text))


def test_there_is_one_module(session: Session) -> None:
    assert rows(session, "SHOW MODULES") == [("core",)]
    assert rows(session, "SHOW FULL MODULES") == [("core", "true")]
    session.sql("USE MODULES core")
    assert "SS329" in str(error(session, "USE MODULES hive"))


def test_show_lists_what_there_is(session: Session) -> None:
    assert rows(session, "SHOW TABLES") == [("bids",), ("dear",), ("out",)]
    assert rows(session, "SHOW VIEWS") == [("dear",)]
    assert rows(session, "SHOW USER FUNCTIONS") == []
    connectors = {row[0]: row[1:4] for row in rows(session, "SHOW CONNECTORS")}
    assert connectors["datagen"] == ("yes", "no", "no") and connectors["redis"] == ("no", "yes", "yes")


def test_show_functions_lists_those_of_users_and_what_is_built_in(session: Session) -> None:
    collected = {row[0]: row[1:3] for row in rows(session, "SHOW FUNCTIONS")}
    assert collected["get_json_object"] == ("scalar", "built-in")
    assert collected["listagg"] == ("aggregate", "built-in")
    assert collected["proctime"] == ("time attribute", "built-in")
    assert collected["tumble_start"] == ("window property", "built-in")
    assert "nth_value" not in collected  # it needs OVER, which is not executed


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SHOW TABLES LIKE '%r'", ["dear"]),
        ("SHOW TABLES NOT LIKE '%r'", ["bids", "out"]),
        ("SHOW VIEWS ILIKE 'D_ar'", ["dear"]),
        ("SHOW VIEWS LIKE 'D_ar'", []),
        ("SHOW FUNCTIONS LIKE 'window\\\\_pa%'", ["window_pane", "window_pane_index"]),
        ("SHOW CONNECTORS LIKE '%sql%'", ["mysql-cdc", "sqlite"]),
    ],
)
def test_show_takes_a_pattern(session: Session, statement: str, names: list[str]) -> None:
    assert [row[0] for row in rows(session, statement)] == names


def test_show_create_table_parses_again_to_the_same_table(session: Session) -> None:
    ((text,),) = rows(session, "SHOW CREATE TABLE bids")
    before = session.workspace.catalog.relation("bids")
    session.sql("DROP TABLE bids")
    session.sql(text)
    assert session.workspace.catalog.relation("bids") == before


def test_show_create_table_keeps_comments(session: Session) -> None:
    session.sql(
        "CREATE TABLE noted (a INT COMMENT 'stored', b AS a + 1 COMMENT 'computed') COMMENT 'whole' "
        "WITH ('connector' = 'blackhole')"
    )
    ((text,),) = rows(session, "SHOW CREATE TABLE noted")
    assert [word for word in ("'stored'", "'computed'", "'whole'") if f"COMMENT {word}" not in text] == []


def test_describe_tells_types_keys_and_watermarks(session: Session) -> None:
    described = {row[0]: row[1:] for row in rows(session, "DESCRIBE bids")}
    assert described["auction"] == ("BIGINT", "FALSE", "PRI(auction)", None, None)
    assert described["item"][0] == "STRUCT<name: STRING, tags: ARRAY<STRING>>"
    assert described["ts"][0] == "TIMESTAMP *ROWTIME*" and described["ts"][4] == "ts - INTERVAL '5' SECOND"
    assert described["file"][3] == "METADATA FROM 'file.name'"
    assert described["doubled"][0] == "DECIMAL(12, 2)" and described["doubled"][3] == "AS `the price` * 2"
    assert described["pt"][:2] == ("TIMESTAMP *PROCTIME*", "FALSE")


def test_describe_tells_the_columns_of_a_view(session: Session) -> None:
    assert [row[:2] for row in rows(session, "DESCRIBE dear")] == [("auction", "BIGINT"), ("price", "DECIMAL(10, 2)")]


def test_show_create_table_is_for_tables(session: Session) -> None:
    assert error(session, "SHOW CREATE TABLE dear").code == "SS202"


# --- definitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        "CREATE TABLE IF NOT EXISTS bids (x INT) WITH ('connector' = 'blackhole')",
        "CREATE VIEW IF NOT EXISTS dear AS SELECT auction FROM bids",
        "DROP TABLE IF EXISTS nothing",
        "DROP VIEW IF EXISTS nothing",
        "DROP FUNCTION IF EXISTS nothing",
    ],
)
def test_if_exists_changes_nothing(session: Session, again: str) -> None:
    catalog = session.workspace.catalog
    before = [catalog.relation(name) for name in catalog.relation_names()]
    assert rows(session, again) == [("OK",)]
    assert [catalog.relation(name) for name in catalog.relation_names()] == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE TABLE bids (x INT) WITH ('connector' = 'blackhole')", "SS224"),
        ("CREATE VIEW bids AS SELECT auction FROM bids", "SS224"),
        ("DROP VIEW bids", "SS202"),
        ("DROP TABLE bidz", "SS202"),
        ("CREATE TABLE x (a INT) WITH ('connector' = 'nothing')", "SS501"),
        ("CREATE TABLE x (a INT) WITH ('connector' = 'print', 'colour' = 'red')", "SS502"),
        ("CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'path' = '/x')", "SS503"),
        ("CREATE TABLE x (a INT, b STRING METADATA FROM 'x') WITH ('connector' = 'rate')", "SS505"),
        ("CREATE TABLE other.x (a INT) WITH ('connector' = 'print')", "SS225"),
        ("CREATE FUNCTION f AS 'no_such_module:f' LANGUAGE PYTHON", "SS552"),
        ("CREATE FUNCTION f AS 'org.example.F' LANGUAGE JAVA", "SS352"),
        ("SET 'no.such.key' = '1'", "SS521"),
        ("SET 'parallelism.default' = 'many'", "SS504"),
        ("SELECT * FROM out", "SS506"),
        ("CREATE TABLE g (a BIGINT) WITH ('connector' = 'datagen'); INSERT INTO g SELECT auction FROM bids", "SS507"),
        ("SELECT * FROM bids", "SS508"),
        ("USE CATALOG x", "SS225"),
        ("SHOW CHECKPOINTS FOR JOB nobody", "SS230"),
        ("CHECKPOINT JOB nobody", "SS230"),
        ("SAVEPOINT JOB nobody", "SS230"),
        ("DESCRIBE JOB nobody", "SS230"),
        ("STOP JOB nobody", "SS230"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO out SELECT auction FROM bids; END", "SS508"),
        ("EXPLAIN FORMAT JSON PHYSICAL SELECT auction FROM bids", "SS344"),
        ("EXPLAIN FORMAT MERMAID TRACE SELECT auction FROM bids", "SS344"),
        ("EXPLAIN CREATE TABLE x (a INT) WITH ('connector' = 'print')", "SS283"),
        ("CREATE TABLE c (a) WITH ('connector' = 'memory') AS SELECT auction FROM bids", "SS216"),
        ("", "SS281"),
        ("SELECT auction FROM bids; SHOW TABLES", "SS282"),
    ],
)
def test_what_is_wrong_has_its_code_and_text(session: Session, text: str, code: str) -> None:
    failure = error(session, text)
    assert failure.code == code
    assert all(d.source == text for d in failure.diagnostics)


def test_errors_show_the_line_with_the_option(session: Session) -> None:
    text = "CREATE TABLE x (a INT)\nWITH ('connector' = 'print', 'print-identifer' = 'x')"
    assert "LINE 2: WITH ('connector' = 'print', 'print-identifer' = 'x')\n" in str(error(session, text))


def test_a_wrong_statement_leaves_the_ones_before_in_effect(session: Session) -> None:
    error(session, "CREATE TABLE one (a INT) WITH ('connector' = 'print'); DROP TABLE two")
    assert ("one",) in rows(session, "SHOW TABLES")


def test_qualified_names_of_the_default_database_are_local(session: Session) -> None:
    session.sql("CREATE TABLE default_catalog.default_database.q (a INT) WITH ('connector' = 'print')")
    assert ("q",) in rows(session, "SHOW TABLES")


def test_tables_know_whether_they_end(session: Session) -> None:
    session.sql("CREATE TABLE one (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    session.sql("CREATE TABLE two (a INT) WITH ('connector' = 'datagen')")
    catalog = session.workspace.catalog
    assert [t.bounded for t in catalog.tables() if t.name in ("one", "two")] == [True, False]


# --- settings -------------------------------------------------------------------------------------------------


def test_set_and_reset(session: Session) -> None:
    session.sql("SET 'pipeline.name' = 'nightly'")
    assert dict(rows(session, "SET"))["pipeline.name"] == "nightly"
    session.sql("RESET 'pipeline.name'")
    assert dict(rows(session, "SET"))["pipeline.name"] is None


def test_options_of_connect_are_settings() -> None:
    with sqlstream.connect(**{"parallelism.default": "3"}) as session:
        assert session.workspace.settings["parallelism.default"] == 3
    with pytest.raises(SqlStreamError):
        sqlstream.connect(**{"no.such.key": "3"})


# --- explain --------------------------------------------------------------------------------------------------


def test_explain_is_a_statement_and_a_method(session: Session) -> None:
    query = "SELECT auction FROM bids WHERE auction > 1"
    *plan, way = (line for (line,) in rows(session, f"EXPLAIN {query}"))
    assert "\n".join(plan) == session.explain(query)
    assert way.startswith("stream: ")
    assert "Filter(auction > 1)" in session.explain(query, stage="logical")
    assert session.explain(query, format="json").startswith("{")
    assert 'stream of connector "filesystem"' in session.explain(query, stage="physical")


def test_explain_shows_the_plan_of_an_insert(session: Session) -> None:
    assert session.explain("INSERT INTO out SELECT auction FROM bids").startswith("Insert")


def test_only_statements_with_a_plan_are_explained(session: Session) -> None:
    for text in ("SHOW TABLES", "SELECT 1 FROM bids; SELECT 2 FROM bids"):
        with pytest.raises(SqlStreamError) as caught:
            session.explain(text)
        assert caught.value.code == "SS281"


# --- check ----------------------------------------------------------------------------------------------------


def test_check_finds_all_mistakes_in_order_and_changes_nothing(session: Session) -> None:
    text = """
    CREATE TABLE a (x INT) WITH ('connector' = 'print', 'colour' = 'red');
    SET 'no.such.key' = '1';
    SELEC x;
    CREATE TABLE b (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
    INSERT INTO out SELECT y FROM b;
    SELECT * FROM out;
    DROP TABLE bids;
    SELECT auction FROM bids;
    EXPLAIN SELECT z FROM b;
    USE CATALOG c;
    CREATE TABLE d WITH ('connector' = 'memory') AS SELECT x FROM b;
    SELECT nope FROM d
    """
    diagnostics = session.check(text)
    assert [d.code for d in diagnostics if d.span] == [
        "SS502", "SS521", "SS103", "SS201", "SS506", "SS202", "SS201", "SS225", "SS201",
    ]  # fmt: skip
    assert all(d.span for d in diagnostics)
    assert all(d.source == text for d in diagnostics)
    assert rows(session, "SHOW TABLES") == [("bids",), ("dear",), ("out",)]


def test_a_wrong_table_brings_no_mistakes_of_those_who_use_it(session: Session) -> None:
    text = "CREATE TABLE a (x INT) WITH ('connector' = 'nothing'); SELECT x FROM a; SELECT x FROM b"
    assert [d.code for d in session.check(text)] == ["SS501", "SS202"]


def test_check_of_a_good_script_finds_nothing(session: Session) -> None:
    assert session.check("INSERT INTO out SELECT auction FROM dear; SHOW TABLES; SET; RESET") == ()


def test_texts_with_backslashes_survive_show_create(session: Session) -> None:
    session.sql(r"CREATE TABLE t (u STRING COMMENT '\d', n AS u RLIKE '^\d\.') WITH ('connector' = 'filesystem', "
                r"'format' = 'csv', 'path' = 'C:\data\dir')")  # fmt: skip
    ((text,),) = rows(session, "SHOW CREATE TABLE t")
    created = session.workspace.catalog.relation("t")
    session.sql("DROP TABLE t")
    session.sql(text)
    assert session.workspace.catalog.relation("t") == created
    assert r"C:\\data\\dir" in text and r"'^\\d\\.'" in text


def test_warnings_are_told_in_python_and_asked_for(session: Session) -> None:
    text = r"CREATE VIEW w AS SELECT auction FROM dear WHERE CAST(auction AS STRING) RLIKE '\b'"
    with pytest.warns(SqlStreamWarning, match=r"WARNING SS236: the pattern holds a backspace.*\nLINE 1") as told:
        session.sql(text)
    assert told[0].filename == __file__
    assert [w.render() for w in session.warnings(text)] == [str(told[0].message)]
    assert session.check(text.replace(" w ", " w2 ")) == ()
    assert session.warnings("SELEC 1; " + text.replace(r"\b", r"\d")) == ()


# --- functions and the end ------------------------------------------------------------------------------------


def test_registered_functions_are_shown_and_called_by_name(session: Session) -> None:
    def half(price: float) -> float:
        return price / 2

    session.register_function("half", half)
    ((name, kind, origin, arguments, returns, target),) = rows(session, "SHOW USER FUNCTIONS")
    assert origin == "user"
    assert rows(session, "SHOW FUNCTIONS")[0] == (name, kind, origin, arguments, returns, target)
    assert (name, kind, arguments, returns) == ("half", "scalar", "price DOUBLE", "DOUBLE")
    assert target.endswith("half")
    assert "HALF(auction) AS h" in session.explain("SELECT half(auction) AS h FROM bids")


def test_a_closed_session_says_so(session: Session) -> None:
    session.close()
    session.close()
    for use in (lambda: session.sql("SHOW TABLES"), lambda: session.spark, lambda: session.dataframe("SELECT 1")):
        with pytest.raises(ExecutionError) as caught:
            use()
        assert caught.value.code == "SS481"


def test_check_refuses_what_create_table_as_does_not_take(session: Session) -> None:
    text = "CREATE TABLE c (auction, a) WITH ('connector' = 'memory') AS SELECT auction FROM bids"
    assert [d.code for d in session.check(text)] == ["SS216"]
