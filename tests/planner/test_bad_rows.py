"""``'on-error'`` in plans: what tables say, which tables take dead letters, and what is refused."""

from __future__ import annotations

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.bad_rows import BadAction, action_of, columns_to_read, parse_on_error, tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.planner.explain.to_json import from_json, to_json
from sqlstream.planner.nodes import Insert, Scan
from sqlstream.plans import plan_of, side_tables
from sqlstream.session import Session

SOURCE = "CREATE TABLE t (a INT NOT NULL, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test'"
COLUMNS = "source STRING, record BINARY, error STRING, place STRING, failed_at TIMESTAMP"
TEST = "WITH ('connector' = 'test')"
DEAD = f"CREATE TABLE dead ({COLUMNS}) {TEST}"


def table(*options: tuple[str, str]) -> Table:
    return Table("t", (), "filesystem", options)


def session_with(*statements: str) -> Session:
    session = Session()
    for statement in statements:
        session.sql(statement)
    return session


def planned(session: Session, text: str) -> Insert:
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Insert)
    plan = plan_of(statement, session.workspace)
    assert isinstance(plan, Insert)
    return plan


def test_an_action_may_name_a_table():
    assert parse_on_error("fail") == (BadAction.FAIL, None)
    assert parse_on_error(" Skip ") == (BadAction.SKIP, None)
    assert parse_on_error("dead-letter: my.dead ") == (BadAction.DEAD_LETTER, "my.dead")


@pytest.mark.parametrize("text", ["", "ignore", "dead-letter", "dead-letter:", "skip:t", "skip:", "fail:t"])
def test_other_texts_are_no_action(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_on_error(text)


def test_ignoring_parse_errors_is_skipping():
    assert action_of(table()) == (BadAction.FAIL, None)
    assert action_of(table(("format", "json"), ("json.ignore-parse-errors", "TRUE"))) == (BadAction.SKIP, None)
    assert not tolerates_bad_rows(table(("format", "json"), ("json.ignore-parse-errors", "false")))
    assert not tolerates_bad_rows(table(("format", "json"), ("csv.ignore-parse-errors", "true")))
    assert tolerates_bad_rows(table(("on-error", "skip")))


def test_a_plan_knows_where_bad_rows_go():
    session = session_with(DEAD, f"{SOURCE}, 'on-error' = 'dead-letter:dead')", f"CREATE TABLE o (b STRING) {TEST}")
    plan = planned(session, "INSERT INTO o SELECT b FROM t WHERE a > 1")
    assert [item.name for item in side_tables(plan)] == ["dead"]
    assert from_json(to_json(plan)) == plan
    assert session.explain("INSERT INTO o SELECT b FROM t").endswith("Scan(t: b; bad rows to dead)")
    assert session.explain("SELECT a FROM t") == "Output(a)\n└─ Scan(t: a; bad rows skipped)"
    (scan,) = (node for node in plan.walk() if isinstance(node, Scan))
    assert columns_to_read(scan.table, ("b",), scan.on_error) == ("b", "a", "ts")


def test_what_tells_bad_rows_is_read_beside_what_is_wanted():
    session = session_with(f"{SOURCE}, 'on-error' = 'skip')", f"CREATE TABLE o (b STRING) {TEST}")
    (scan,) = (node for node in planned(session, "INSERT INTO o SELECT b FROM t").walk() if isinstance(node, Scan))
    assert columns_to_read(scan.table, ("b",), scan.on_error) == ("b", "a", "ts")
    assert session.explain("SELECT b FROM t").endswith("Scan(t: b; bad rows skipped)")


UNFIT = {
    "": (
        'SS240: table "dead" for the bad rows of table "t" does not exist',
        "CREATE TABLE dead may have the columns sou",
    ),
    "VIEW dead AS SELECT a FROM o": ('SS240: table "dead" for the bad rows of table "t" is a view', ""),
    f"TABLE dead (reason STRING) {TEST}": (
        'SS241: table "dead" cannot take dead letters: they have no column "reason"',
        f"All columns may be NULL; they may be {COLUMNS.replace('BINARY', 'STRING')}.",
    ),
    f"TABLE dead (error INT) {TEST}": (
        'SS241: table "dead" cannot take dead letters: column "error" is INT, not STRING',
        "",
    ),
    f"TABLE dead (record INT) {TEST}": ("is INT, not STRING or BINARY", ""),
    f"TABLE dead (error STRING NOT NULL) {TEST}": (
        'SS241: table "dead" cannot take dead letters: column "error" is NOT NULL',
        "",
    ),
    "TABLE dead (error STRING) WITH ('connector' = 'socket', 'hostname' = 'h', 'port' = '1', 'format' = 'raw')": (
        'SS507: table "dead" cannot be written',
        "",
    ),
}


@pytest.mark.parametrize("dead", UNFIT)
def test_tables_that_cannot_take_dead_letters_are_refused(dead: str):
    message, hint = UNFIT[dead]
    session = session_with(f"CREATE TABLE o (a INT) {TEST}", f"{SOURCE}, 'on-error' = 'dead-letter:dead')")
    if dead:
        session.sql(f"CREATE {dead}")
    with pytest.raises(SqlStreamError) as error:
        planned(session, "INSERT INTO o SELECT a FROM t")
    assert message in str(error.value)
    assert hint in str(error.value)


def test_the_result_and_the_dead_letters_need_tables_of_their_own():
    session = session_with(DEAD, f"{SOURCE}, 'on-error' = 'dead-letter:dead')")
    with pytest.raises(SqlStreamError, match="SS511"):
        planned(session, "INSERT INTO dead (source) SELECT b FROM t")
    own = session_with("CREATE TABLE t (error STRING) WITH ('connector' = 'test', 'on-error' = 'dead-letter:t')")
    with pytest.raises(SqlStreamError, match='SS242: table "t" cannot get its own bad rows'):
        own.explain("SELECT error FROM t")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'connector' = 'test', 'on-error' = 'ignore'", """SS504: value "ignore" of option "on-error" is not a way
LINE 1: CREATE TABLE t (a INT) WITH ('connector' = 'test', 'on-error' = 'ignore')
                                                           ^^^^^^^^^^^^^^^^^^^^^
HINT: Accepted: 'fail', 'skip', or 'dead-letter:' and the name of a table."""),
        ("'connector' = 'print', 'on-error' = 'skip'", 'SS502: connector "print" has no option "on-error"'),
        (
            "'connector' = 'filesystem', 'path' = 'x', 'format' = 'csv', "
            "'on-error' = 'skip', 'csv.ignore-parse-errors' = 'true'",
            'SS504: options "on-error" and "csv.ignore-parse-errors" both say what happens to bad rows',
        ),
    ],
)  # fmt: skip
def test_options_without_a_meaning_are_refused(options: str, message: str):
    with pytest.raises(SqlStreamError) as error:
        session_with(f"CREATE TABLE t (a INT) WITH ({options})")
    assert message in str(error.value)


def test_a_lookup_has_no_bad_rows():
    session = session_with(
        "CREATE TABLE o (id INT, pt AS PROCTIME()) WITH ('connector' = 'test')",
        "CREATE TABLE c (id INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'csv', "
        "'on-error' = 'skip')",
    )
    with pytest.raises(SqlStreamError) as error:
        session.explain("SELECT o.id FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt ON c.id = o.id")
    assert error.value.diagnostic.message == 'option "on-error" of table "c" has no effect in a lookup'
