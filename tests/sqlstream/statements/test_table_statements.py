# ruff: noqa: E501  (statements and their messages are one line each)
"""CREATE TABLE … LIKE, PARTITIONED BY, OR REPLACE and AS with columns; ALTER of tables and views; databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.results import Rows
from sqlstream.session import Session

BASE = """
CREATE TABLE base (
    id BIGINT, price INT, twice AS price * 2, origin STRING METADATA FROM 'file.name', ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'all' WITH ('connector' = 'filesystem', 'path' = '/data/base', 'format' = 'json')
"""


@pytest.fixture
def session() -> Iterator[Session]:
    with sqlstream.connect() as own_session:
        own_session.sql(BASE)
        yield own_session


def rows(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


def columns(session: Session, table: str) -> list[str]:
    return [f"{name} {kind}" for name, kind, *_ in rows(session, f"DESCRIBE {table}")]


def error(session: Session, text: str) -> str:
    with pytest.raises(SqlStreamError) as caught:
        session.sql(text)
    assert [d.code for d in session.check(text)] == [caught.value.code]
    return str(caught.value).splitlines()[0]


# --- LIKE -----------------------------------------------------------------------------------------------------


def test_like_takes_all_and_overwrites_options(session: Session) -> None:
    session.sql("CREATE TABLE t (note STRING) WITH ('path' = '/data/t') LIKE base")
    assert rows(session, "SHOW CREATE TABLE t") == [
        (
            "CREATE TABLE t (\n  id BIGINT,\n  price INT,\n  twice AS price * 2,\n"
            "  origin STRING METADATA FROM 'file.name',\n  ts TIMESTAMP(3),\n  note STRING,\n"
            "  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,\n  PRIMARY KEY (id) NOT ENFORCED\n) WITH (\n"
            "  'connector' = 'filesystem',\n  'path' = '/data/t',\n  'format' = 'json'\n);",
        )
    ]


def test_what_like_excludes_stays_away(session: Session) -> None:
    session.sql(
        "CREATE TABLE t WITH ('connector' = 'print') LIKE base (EXCLUDING ALL INCLUDING GENERATED EXCLUDING WATERMARKS)"
    )
    assert columns(session, "t") == ["id BIGINT", "price INT", "twice INT", "ts TIMESTAMP"]
    session.sql(
        "CREATE TABLE late (WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE, twice AS price + price) "
        "LIKE base (OVERWRITING WATERMARKS OVERWRITING GENERATED)"
    )
    described = {row[0]: row[4:] for row in rows(session, "DESCRIBE late")}
    assert described["ts"] == (None, "ts - INTERVAL '1' MINUTE")
    assert described["twice"] == ("AS `price` + `price`", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (id INT) LIKE base", 'SS294: column "id" is in the table of LIKE already'),
        ("CREATE TABLE t (WATERMARK FOR ts AS ts) LIKE base", "SS294: the table of LIKE has a WATERMARK, too"),
        ("CREATE TABLE t (PRIMARY KEY (ts) NOT ENFORCED) LIKE base", "SS294: the table of LIKE has a PRIMARY KEY, too"),
        (
            "CREATE TABLE t WITH ('path' = '/x') LIKE base (INCLUDING ALL)",
            'SS294: option "path" is in the table of LIKE, too',
        ),
        ("CREATE TABLE t LIKE base (OVERWRITING CONSTRAINTS)", "SS294: CONSTRAINTS cannot be overwritten"),
        ("CREATE TABLE t LIKE base (INCLUDING OPTIONS EXCLUDING OPTIONS)", "SS294: LIKE says twice what happens to OPTIONS"),
        ("CREATE TABLE t LIKE nothing", 'SS202: table or view "nothing" does not exist'),
    ],
)  # fmt: skip
def test_what_both_tables_say_is_told(session: Session, text: str, message: str) -> None:
    assert error(session, text) == message


# --- PARTITIONED BY, OR REPLACE, AS ---------------------------------------------------------------------------


def test_partitioned_by_is_the_option_of_the_connector(session: Session) -> None:
    session.sql(
        "CREATE TABLE p (id INT, day STRING) PARTITIONED BY (day) "
        "WITH ('connector' = 'filesystem', 'path' = '/p', 'format' = 'parquet')"
    )
    assert ("option partition-by", "day") in [row[:2] for row in rows(session, "DESCRIBE EXTENDED p")]
    assert "PARTITIONED BY (day)" in rows(session, "SHOW CREATE TABLE p")[0][0]
    assert (
        error(
            session,
            "CREATE TABLE q (id INT) PARTITIONED BY (day) WITH ('connector' = 'filesystem', 'path' = '/p', 'format' = 'csv')",
        )
        == 'SS295: column "day" of PARTITIONED BY is no physical column of table "q"'
    )
    assert error(session, "CREATE TABLE q (id INT) PARTITIONED BY (id) WITH ('connector' = 'print')") == (
        'SS295: connector "print" has no partitions'
    )


def test_tables_are_replaced(session: Session) -> None:
    session.sql("CREATE OR REPLACE TABLE t (a INT) WITH ('connector' = 'print')")
    session.sql("CREATE OR REPLACE TABLE t (b INT) WITH ('connector' = 'print')")
    assert columns(session, "t") == ["b INT"]
    session.sql("REPLACE TABLE t (c INT) WITH ('connector' = 'print')")
    assert columns(session, "t") == ["c INT"]
    assert error(session, "REPLACE TABLE u (c INT) WITH ('connector' = 'print')").startswith("SS202")
    session.sql("CREATE VIEW v AS SELECT 1 AS a")
    assert error(session, "CREATE OR REPLACE TABLE v (c INT) WITH ('connector' = 'print')").startswith("SS224")


# --- ALTER TABLE ----------------------------------------------------------------------------------------------


def test_columns_are_added_modified_renamed_and_dropped(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, b AS a + 1, ts TIMESTAMP(3)) WITH ('connector' = 'datagen')")
    session.sql("ALTER TABLE t ADD (c STRING FIRST, d DOUBLE AFTER a, WATERMARK FOR ts AS ts)")
    assert columns(session, "t") == ["c STRING", "a INT", "d DOUBLE", "b INT", "ts TIMESTAMP *ROWTIME*"]
    session.sql("ALTER TABLE t RENAME a TO x; ALTER TABLE t MODIFY (x BIGINT, d FLOAT FIRST)")
    assert columns(session, "t") == ["d FLOAT", "c STRING", "x BIGINT", "b BIGINT", "ts TIMESTAMP *ROWTIME*"]
    session.sql("ALTER TABLE t ALTER COLUMN c TYPE INT; ALTER TABLE t DROP (d, b); ALTER TABLE t DROP WATERMARK")
    assert columns(session, "t") == ["c INT", "x BIGINT", "ts TIMESTAMP"]


def test_options_are_set_and_reset(session: Session) -> None:
    session.sql("ALTER TABLE base SET ('path' = '/other', 'source.monitor-interval' = '1 s')")
    facts = dict(row[:2] for row in rows(session, "DESCRIBE EXTENDED base"))
    assert (facts["option path"], facts["bounded"]) == ("/other", "no")
    session.sql("ALTER TABLE base RESET ('source.monitor-interval', 'source.max-files-per-trigger')")
    assert dict(row[:2] for row in rows(session, "DESCRIBE EXTENDED base"))["bounded"] == "yes"


def test_tables_and_views_are_renamed(session: Session) -> None:
    session.sql("CREATE DATABASE d; ALTER TABLE base RENAME TO d.moved; CREATE VIEW v AS SELECT id FROM d.moved")
    session.sql("ALTER VIEW v RENAME TO w; ALTER VIEW w AS SELECT price FROM d.moved")
    assert rows(session, "SHOW TABLES") == [("w",)] and rows(session, "SHOW TABLES FROM d") == [("moved",)]
    assert columns(session, "w") == ["price INT"]
    assert rows(session, "SHOW CREATE VIEW w")[0][0].startswith("CREATE VIEW w AS\nSELECT\n  price\n")
    assert rows(session, "SHOW COLUMNS FROM d.moved LIKE 'pr%'")[0][0] == "price"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ADD price INT", 'SS249: the table has a column "price" already'),
        ("ADD WATERMARK FOR ts AS ts", "SS249: the table has a WATERMARK already"),
        ("ADD PRIMARY KEY (price) NOT ENFORCED", "SS249: the table has a PRIMARY KEY already"),
        ("ADD a INT AFTER nope", 'SS249: the table has no column "nope"'),
        ("MODIFY nope INT", 'SS249: the table has no column "nope"'),
        ("DROP nope", 'SS249: the table has no column "nope"'),
        ("DROP price", "SS249: column \"price\" cannot be dropped: column \"twice\" names it"),
        ("DROP id", 'SS249: column "id" cannot be dropped: the PRIMARY KEY names it'),
        ("DROP ts", 'SS249: column "ts" cannot be dropped: the WATERMARK names it'),
        ("RENAME id TO price", 'SS249: the table has a column "price" already'),
        ("RESET ('colour')", 'SS249: the table has no option "colour"'),
        ("SET ('colour' = 'red')", 'SS502: connector "filesystem" has no option "colour"'),
        ("MODIFY ts STRING", "SS214: column \"ts\" of WATERMARK is of type STRING, not TIMESTAMP"),
        ("ADD PARTITION (id = 1)", 'SS295: table "base" has no partitions'),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_table_changes_nothing(session: Session, change: str, message: str) -> None:
    before = rows(session, "SHOW CREATE TABLE base")
    assert error(session, f"ALTER TABLE base {change}") == message
    assert rows(session, "SHOW CREATE TABLE base") == before


def test_what_is_not_there_is_altered_and_dropped_where_the_statement_allows_it(session: Session) -> None:
    session.sql("ALTER TABLE IF EXISTS nope ADD a INT; ALTER VIEW IF EXISTS nope RENAME TO yes")
    session.sql("DROP TABLE IF EXISTS a.b.c; DROP DATABASE IF EXISTS d CASCADE; DROP CATALOG IF EXISTS c")
    session.sql("DROP TEMPORARY TABLE IF EXISTS base")
    assert rows(session, "SHOW TABLES") == [("base",)]
    assert error(session, "ALTER TABLE nope ADD a INT").startswith("SS202")


# --- catalogs and databases -----------------------------------------------------------------------------------


def test_names_are_looked_for_in_the_current_database(session: Session) -> None:
    session.sql(
        "CREATE CATALOG c WITH ('type' = 'memory'); CREATE DATABASE c.d COMMENT 'mine' WITH ('owner' = 'me'); USE c.d; "
        "CREATE TABLE base (other INT) WITH ('connector' = 'datagen'); CREATE VIEW v AS SELECT other FROM base"
    )
    assert rows(session, "SHOW CURRENT CATALOG; ") == [("c",)] and rows(session, "SHOW CURRENT DATABASE") == [("d",)]
    assert columns(session, "base") == ["other INT"]
    assert len(columns(session, "default_catalog.default_database.base")) == 5
    session.sql("USE CATALOG default_catalog")
    assert columns(session, "c.d.v") == ["other INT"]
    assert "c.d.base" in session.explain("SELECT v.other, base.id FROM c.d.v CROSS JOIN base EMIT CHANGES")
    assert rows(session, "SHOW DATABASES FROM c") == [("d",), ("default",)]
    assert rows(session, "DESCRIBE DATABASE EXTENDED c.d") == [
        ("name", "d"), ("catalog", "c"), ("comment", "mine"), ("option:owner", "me"),
    ]  # fmt: skip
    session.sql("ALTER DATABASE c.d SET ('owner' = 'you')")
    assert rows(session, "DESCRIBE DATABASE EXTENDED c.d")[-1] == ("option:owner", "you")
    assert rows(session, "SHOW CATALOGS LIKE 'd%'") == [("default_catalog",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("USE CATALOG nope", 'SS225: catalog "nope" does not exist'),
        ("USE nope", 'SS225: database "nope" does not exist in catalog "default_catalog"'),
        ("CREATE TABLE a.b.c.d (x INT) WITH ('connector' = 'print')", 'SS225: name "a.b.c.d" has more than three parts'),
        ("CREATE DATABASE default_database", 'SS224: database "default_database" exists already in catalog "default_catalog"'),
        ("CREATE CATALOG default_catalog WITH ('type' = 'memory')", 'SS224: catalog "default_catalog" exists already'),
        ("DROP CATALOG default_catalog", 'SS248: catalog "default_catalog" is the current one'),
        ("DROP DATABASE default_database CASCADE", 'SS248: database "default_database" is the current one'),
        ("SHOW CREATE VIEW base", 'SS202: "base" is a table, not a view'),
        ("SHOW PARTITIONS base", 'SS295: table "base" has no partitions'),
        ("DESCRIBE QUERY SELECT nope FROM base", 'SS201: column "nope" does not exist'),
        ("INSERT OVERWRITE base SELECT id, price, ts FROM endless", "SS296: INSERT OVERWRITE needs a query that ends: table \"endless\" has no end"),
        ("TRUNCATE TABLE endless", 'SS296: rows of table "endless" are not removed: connector "datagen" does not do that'),
    ],
)  # fmt: skip
def test_wrong_statements_have_their_text(session: Session, text: str, message: str) -> None:
    session.sql("CREATE TABLE endless (id BIGINT, price INT, ts TIMESTAMP(3)) WITH ('connector' = 'datagen')")
    assert error(session, text) == message


def test_a_query_is_described(session: Session) -> None:
    described = rows(session, "DESCRIBE QUERY SELECT price + 1 AS next, ts FROM base")
    assert [row[:3] for row in described] == [("next", "INT", "TRUE"), ("ts", "TIMESTAMP *ROWTIME*", "FALSE")]
    assert rows(session, "DESC SELECT id FROM base")[0][:2] == ("id", "BIGINT")


def test_created_as_takes_columns_and_names(session: Session) -> None:
    text = "CREATE TABLE t {} WITH ('connector' = 'print') AS SELECT id, price FROM base"
    for columns_given in ("(note STRING, price DOUBLE, twice AS price * 2)", "(price, id)", ""):
        assert session.check(text.format(columns_given)) == ()
    assert error(session, text.format("(price, nope)")) == 'SS216: the query of "t" has no column "nope"'
    assert error(session, text.format("(price)")) == 'SS216: the columns of "t" are 1, and the query gives 2'
