"""What users read when a script does not parse. The texts are pinned: a change of wording is a decision."""

from __future__ import annotations

import pickle

import pytest

from sqlstream.errors import Diagnostic, ParseError, Span
from sqlstream.grammar import parse_query, parse_script, parse_script_recovering


def _error(text: str) -> str:
    with pytest.raises(ParseError) as raised:
        parse_script(text)
    return str(raised.value)


def test_an_unclosed_parenthesis_points_at_the_opening_one() -> None:
    assert _error("SELECT a,\n  SUM(b + (c * 2) FROM t") == (
        'SS102: "(" is never closed\nLINE 2:   SUM(b + (c * 2) FROM t\n             ^\nHINT: Add ")".'
    )


def test_an_unclosed_parenthesis_that_sqlglot_forgives_is_an_error() -> None:
    assert _error("SELECT CAST(a AS INT FROM t").splitlines()[:3] == [
        'SS102: "(" is never closed',
        "LINE 1: SELECT CAST(a AS INT FROM t",
        "                   ^",
    ]


def test_a_parenthesis_too_many_is_pointed_at() -> None:
    assert _error("SELECT a) FROM t") == (
        'SS102: ")" closes nothing\nLINE 1: SELECT a) FROM t\n                ^\nHINT: There is no "(" that it closes.'
    )


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("SELECT 'abc FROM t", "this string is never closed", 7),
        ("SELECT 'it''s' || 'abc", "this string is never closed", 18),
        ("SELECT `abc FROM t", "this quoted name is never closed", 7),
        ("SELECT a /* abc FROM t", "this comment is never closed", 9),
    ],
)
def test_an_unclosed_quote_is_pointed_at(text: str, message: str, column: int) -> None:
    lines = _error(text).splitlines()
    assert lines[0] == f"SS102: {message}"
    assert lines[2].index("^") == len("LINE 1: ") + column


@pytest.mark.parametrize(
    ("text", "head", "hint"),
    [
        ("SELEC a FROM t", 'SS103: unknown statement "SELEC"', "Did you mean SELECT?"),
        ("CREAT TABLE t (a INT)", 'SS103: unknown statement "CREAT"', "Did you mean CREATE?"),
        (
            "42",
            'SS103: unknown statement "42"',
            "A statement begins with ALTER, BEGIN, CHECKPOINT, COMPILE, CREATE, DESC, DESCRIBE, DROP, EXECUTE, "
            "EXPLAIN, INSERT, REPLACE, RESET, SAVEPOINT, SELECT, SET, SHOW, STATEMENT, STOP, TRUNCATE, USE, VALUES "
            "or WITH.",
        ),
        (
            "UPDATE t SET a = 1",
            "SS106: UPDATE is not a statement of the dialect",
            "Write INSERT INTO a table with a PRIMARY KEY, which updates rows with equal keys.",
        ),
        (
            "DELETE FROM t",
            "SS106: DELETE is not a statement of the dialect",
            "Streams are changed by their sources; write INSERT INTO with the rows that remain.",
        ),
        (
            "MERGE INTO t USING u ON a = b WHEN MATCHED THEN DELETE",
            "SS106: MERGE is not a statement of the dialect",
            "Write INSERT INTO a table with a PRIMARY KEY, which updates rows with equal keys.",
        ),
        (
            "BEGIN STATEMENT SET",
            "SS106: BEGIN is not a statement of the dialect",
            "Write EXECUTE STATEMENT SET BEGIN … END to run several INSERT statements as one job.",
        ),
        (
            "CREATE INDEX i ON t (a)",
            'SS101: unexpected "INDEX"',
            'Expected "CATALOG", "DATABASE", "FUNCTION", "MATERIALIZED", "OR", "SCHEMA", "STREAMING", "TABLE" or one '
            "of 2 more.",
        ),
        (
            "ADD JAR '/lib/connector.jar'",
            "SS106: ADD JAR is not a statement of the dialect",
            "Connectors and functions are Python here: functions may lie in a module beside the script (CREATE "
            "FUNCTION). What Spark itself needs, SET 'spark.jars' adds before it starts.",
        ),
        (
            "ANALYZE TABLE t COMPUTE STATISTICS",
            "SS106: ANALYZE is not a statement of the dialect",
            "There are no statistics to gather: plans of streams do not depend on them.",
        ),
        (
            "LOAD MODULE hive WITH ('hive-version' = '3.1.3')",
            "SS106: LOAD is not a statement of the dialect",
            "All functions of Spark and of the dialect are there always; SHOW FUNCTIONS lists them.",
        ),
        (
            "CALL sys.compact('t')",
            "SS106: CALL is not a statement of the dialect",
            "There are no procedures; SAVEPOINT JOB, CHECKPOINT JOB and the like are statements.",
        ),
        (
            "CREATE TABLE t (a INT) LIKE u AS SELECT 1",
            "SS101: LIKE and AS do not go together",
            "Leave out one of the two.",
        ),
        (
            "SHOW THINGS",
            'SS101: unexpected "THINGS"',
            'Expected "CATALOGS", "CHECKPOINTS", "COLUMNS", "CONNECTORS", "CREATE", "CURRENT", "DATABASES", '
            '"FULL" or one of 13 more.',
        ),
        ("EXPLAIN FORMAT XML SELECT 1", 'SS101: unexpected "XML"', 'Expected "JSON", "MERMAID" or "TEXT".'),
        ("SET a b = c", 'SS101: unexpected "a"', "Expected a string."),
        (
            "CREATE TABLE t (a)",
            'SS101: column "a" has no type',
            "Write its type behind it; names alone stand for columns of the query of CREATE TABLE … AS.",
        ),
        ("CREATE TABLE t (a INT) WITH ('k' 'v')", """SS101: unexpected "v\"""", 'Expected "=".'),
    ],
)
def test_a_wrong_statement_says_what_may_stand_there(text: str, head: str, hint: str) -> None:
    lines = _error(text).splitlines()
    assert (lines[0], lines[-1]) == (head, f"HINT: {hint}")


@pytest.mark.parametrize(
    ("text", "head", "hint"),
    [
        ("SELECT a FROM t JOIN u ON", "SS101: unexpected end of the statement", "Expected an expression."),
        ("SELECT a FROM t JOIN u ON WHERE a", 'SS101: unexpected "WHERE"', "Expected an expression."),
        ("SELECT a FROM t JOIN u USING ()", 'SS101: unexpected ")"', "Expected a name."),
        (
            "SELECT a FROM t JOIN u, v ON a = b",
            "SS101: ON and USING belong to a JOIN, and a comma stands before it",
            "Write JOIN for the comma, or the condition right behind the table of the JOIN.",
        ),
        ("SELECT a FORM t", 'SS101: unexpected "t"', "Did you mean FROM instead of FORM?"),
        ("SELECT * FORM t", 'SS101: unexpected "FORM"', "Did you mean FROM instead of FORM?"),
        ("SELECT a, * form t", 'SS101: unexpected "form"', "Did you mean FROM instead of FORM?"),
        ("SELECT * AS b FROM t", "SS101: a star has no alias", "Name the columns to give them other names."),
        ("SELECT a FROM t GROUPP BY a", 'SS101: unexpected "BY"', "Did you mean GROUP instead of GROUPP?"),
        ("SELECT a, FROM t", 'SS101: unexpected "FROM"', "Expected an expression."),
        ("SELECT FROM t", 'SS101: unexpected "FROM"', "Expected an expression."),
        ("SELECT a FROM t WHERE", "SS101: unexpected end of the statement", "Expected an expression."),
        ("SELECT a FROM t WHERE a >", "SS101: unexpected end of the statement", "Expected an expression."),
        ("SELECT a FROM", "SS101: unexpected end of the statement", "Expected a table name."),
        ("SELECT a FROM t,", "SS101: unexpected end of the statement", "Expected a table name."),
        ("SELECT a FROM t JOIN WHERE a > 1", 'SS101: unexpected "WHERE"', "Expected a table name."),
        ("SELECT a FROM t@v1", 'SS101: unexpected "@"', "Parameters are written ? or :name."),
        ("SELECT $1", 'SS101: unexpected "$"', "Parameters are written ? or :name."),
        ("SELECT * FROM SELECT a FROM t", 'SS101: unexpected "SELECT"', "A query in FROM stands in parentheses."),
        ("SELECT INTERVAL '5' FROM t", "SS105: an interval needs a unit", "Write for example INTERVAL '5' SECOND."),
        ("SELECT INTERVAL '5' SECS", "SS105: an interval needs a unit", "Write for example INTERVAL '5' SECOND."),
        (
            "SELECT * FROM TUMBLE(t, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
            "SS101: TUMBLE needs a TABLE argument",
            "Write TUMBLE(TABLE t, DESCRIPTOR(ts), …).",
        ),
        (
            "SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR ts, INTERVAL '5' SECOND)",
            'SS101: unexpected "ts"',
            'Expected "(".',
        ),
        (
            "SELECT a FROM t GROUP BY a TRIGGER EVERYY 5 ROWS",
            'SS101: unexpected "EVERYY"',
            'Expected "ABSOLUTE", "AFTER", "DELTA", "EVERY", "NEVER", "ON", "PURGING", "USING" or one of 2 more.',
        ),
        (
            "SELECT a FROM t GROUP BY a TRIGGER AFTER WATERMARK EARLY LATE",
            'SS101: unexpected "LATE"',
            'Expected "EVERY" or "WHEN".',
        ),
        (
            "SELECT a FROM t EMIT",
            "SS101: unexpected end of the statement",
            'Expected "AFTER", "CHANGES", "EVERY", "FINAL" or "ON".',
        ),
        (
            "SELECT a FROM t JOIN d LOOKUP ASINC (CAPACITY 5) ON a = b",
            'SS101: unexpected "ASINC"',
            'Expected "ASYNC".',
        ),
        (
            "SELECT a FROM t GROUP BY a COUNT WINDOW (5)",
            'SS105: "5" has no unit',
            "Write 5 ROWS or INTERVAL '5' SECOND.",
        ),
        (
            "SELECT a FROM t GROUP BY a TRIGGER EVERY 5 EMIT CHANGES",
            'SS105: "5" has no unit',
            "Write 5 ROWS or INTERVAL '5' SECOND.",
        ),
        (
            "SELECT a FROM t GROUP BY TUMBLE(ts, '5 minutes')",
            'SS105: "5 minutes" is a text, not an interval',
            "Write INTERVAL '5' MINUTE.",
        ),
        (
            "SELECT a FROM t GROUP BY TUMBLE(ts, 'soon')",
            'SS105: "soon" is a text, not an interval',
            "Write INTERVAL '5' SECOND.",
        ),
        (
            "SELECT a FROM t GROUP BY TUMBLE(ts, 5 minutes)",
            'SS105: "5 minutes" is not an interval',
            "Write INTERVAL '5' MINUTE.",
        ),
        (
            "SELECT a FROM TUMBLE(TABLE t, DESCRIPTOR(ts), 1.5 hours) GROUP BY window_start",
            'SS105: "1.5 hours" is not an interval',
            "Write INTERVAL '1.5' HOUR.",
        ),
        ("SELECT a FROM t WHERE ts > b - 10 min", 'SS105: "10 min" is not an interval', "Write INTERVAL '10' MINUTE."),
        (
            "SELECT a FROM t GROUP BY a TRIGGER EVERY 5 secs",
            'SS105: "5 secs" is not an interval',
            "Write INTERVAL '5' SECOND.",
        ),
        (
            "SELECT a FROM t FETCH FIRST 5 PERCENT ROWS ONLY",
            "SS101: FETCH with PERCENT or TIES is not part of the dialect",
            "Write LIMIT n.",
        ),
    ],
)
def test_a_wrong_query_says_what_may_stand_there(text: str, head: str, hint: str) -> None:
    lines = _error(text).splitlines()
    assert (lines[0], lines[-1]) == (head, f"HINT: {hint}")


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("SELECT a FROM t GROUP BY a WHERE a > 1", '"WHERE" must stand before "GROUP BY"'),
        ("SELECT a FROM t LIMIT 5 ORDER BY a", '"ORDER BY" must stand before "LIMIT"'),
        ("SELECT a FROM t ORDER BY a HAVING a > 1", '"HAVING" must stand before "ORDER BY"'),
        ("SELECT a FROM t GROUP BY a LATE DATA DROP TRIGGER NEVER", '"TRIGGER" must stand before "LATE"'),
        ("SELECT a FROM t GROUP BY a LATE DATA DROP EVICT KEEP LAST 5 ROWS", '"EVICT" must stand before "LATE"'),
        (
            "SELECT a FROM t GROUP BY a TRIGGER NEVER COUNT WINDOW (5 ROWS)",
            '"COUNT WINDOW" must stand before "TRIGGER"',
        ),
        ("SELECT a FROM t EMIT CHANGES WHERE a > 1", '"WHERE" must stand before "EMIT"'),
        ("SELECT a FROM t EMIT CHANGES LIMIT 5", '"LIMIT" must stand before "EMIT"'),
        ("SELECT a FROM t COUNT WINDOW (5 ROWS)", '"COUNT WINDOW" must stand behind "GROUP BY"'),
        ("SELECT a FROM t GROUP BY a TRIGGER NEVER TRIGGER NEVER", '"TRIGGER" is given twice'),
        ("SELECT a FROM t WHERE a WHERE b", '"WHERE" is given twice'),
        ("SELECT a FROM t GROUP BY a, TUMBLE(ts, i), TUMBLE(ts, j)", "a SELECT has one window"),
        ("SELECT a FROM t GROUP BY a, TUMBLE(ts, i) COUNT WINDOW (5 ROWS)", '"COUNT WINDOW" is given twice'),
        ("SELECT a FROM t LOOKUP ASYNC LOOKUP ASYNC", '"LOOKUP" is given twice'),
        (
            "(SELECT a FROM t) UNION ALL (SELECT b FROM u) TRIGGER NEVER",
            '"TRIGGER" must stand in the SELECT whose windows it fires',
        ),
    ],
)
def test_clauses_in_the_wrong_place_are_refused(text: str, head: str) -> None:
    assert _error(text).splitlines()[0] == f"SS104: {head}"


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("SELECT a FROM t ALIGN BARRIERS (CHANNEL c OF 3, ID x)", "SS101: ALIGN BARRIERS needs MARKER"),
        ("SELECT a FROM t ALIGN BARRIERS (CHANNEL c OF 0, ID x, MARKER y)", 'SS105: "0" is not at least 1'),
        ("SELECT a FROM t LOOKUP ASYNC (CAPACITY 1, CAPACITY 2)", "SS101: CAPACITY is given twice in LOOKUP ASYNC"),
        (
            "SELECT a FROM t LOOKUP ASYNC (RETRY 1 TIMES (FIXED DELAY i), RETRY ON MISS 1 TIMES (FIXED DELAY i))",
            "SS101: RETRY is given twice in LOOKUP ASYNC",
        ),
        ("SELECT a FROM t GROUP BY a TRIGGER EVERY 1.5 ROWS", 'SS105: "1.5" is not a whole number'),
        ("SELECT a FROM t GROUP BY a TRIGGER EVERY 0 ROWS", 'SS105: "0" is not at least 1'),
        (
            "CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED, b INT PRIMARY KEY NOT ENFORCED)",
            "SS101: PRIMARY KEY is given twice",
        ),
        ("CREATE TABLE t (a INT, WATERMARK FOR a AS a, WATERMARK FOR b AS b)", "SS101: WATERMARK is given twice"),
        ("SELECT CEIL(ts TO PARSEC)", "SS101: CEIL(… TO unit) needs a unit of time"),
    ],
)
def test_contradictory_parts_are_refused(text: str, head: str) -> None:
    assert _error(text).splitlines()[0] == head


def test_each_wrong_statement_of_a_script_is_told_with_its_line() -> None:
    script = "SELECT a FROM t;\nSELECT b FORM t;\nSET 'k' = 'v';\n\nSELEC 1;\nSELECT c FROM u"
    statements, errors = parse_script_recovering(script)
    assert len(statements) == 3
    assert [str(e).splitlines()[1] for e in errors] == ["LINE 2: SELECT b FORM t;", "LINE 5: SELEC 1;"]
    with pytest.raises(ParseError) as raised:
        parse_script(script)
    assert [d.code for d in raised.value.diagnostics] == ["SS101", "SS103"]
    assert all(d.source == script for d in raised.value.diagnostics)


def test_semicolons_inside_strings_and_comments_do_not_split() -> None:
    statements, errors = parse_script_recovering("SELECT ';' /* ; */ AS a -- ;\n; SELECT 1")
    assert (len(statements), errors) == (2, ())


def test_an_open_string_leaves_no_statement() -> None:
    statements, errors = parse_script_recovering("SELECT 1; SELECT 'a; SELECT 2")
    assert statements == ()
    assert [e.code for e in errors] == ["SS102"]


@pytest.mark.parametrize(
    "text", ["SELECT 1; SELECT 2", "SET 'a' = 'b'", "", "SELECT 1 SELECT 2", "INSERT INTO t SELECT 1"]
)
def test_a_query_is_exactly_one_query(text: str) -> None:
    with pytest.raises(ParseError):
        parse_query(text)


def test_an_empty_script_has_no_statements() -> None:
    assert parse_script("  ; -- nothing\n ;") == ()


def test_errors_cross_process_boundaries() -> None:
    with pytest.raises(ParseError) as raised:
        parse_script("SELECT a FORM t")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t GROUP BY k GLOBAL WINDOW TRIGGER EVERY {} ROWS",
        "SELECT k FROM t GROUP BY k GLOBAL WINDOW TRIGGER EVERY 1 ROWS EVICT BEFORE KEEP LAST {} ROWS",
        "SELECT k FROM t GROUP BY k COUNT WINDOW ({} ROWS)",
        "SELECT k FROM COUNT_WINDOW(TABLE t PARTITION BY k, {} ROWS) GROUP BY k, window_start, window_end",
    ],
)
@pytest.mark.parametrize("count", ["10000000000000000000000", "9" * 5000])
def test_numbers_of_rows_that_kernels_cannot_count_with_are_refused(text: str, count: str) -> None:
    lines = _error(text.format(count)).splitlines()
    assert lines[0].startswith('SS105: "') and lines[0].endswith('" has more than 15 digits')
    assert "^" in lines[2]
    assert lines[-1] == "HINT: Write a number below 10^15."
    parse_script(text.format("999999999999999"))


def test_control_characters_neither_steer_the_terminal_nor_move_the_carets():
    text = "SELECT '\x1b[31m', \x07nope\tFROM t"
    shown = Diagnostic("SS201", 'column "\x07nope\u202e" does not exist', Span(16, 21), source=text).render()
    assert shown == (
        'SS201: column "\\x07nope\\u202e" does not exist\n'
        "LINE 1: SELECT '\ufffd[31m', \ufffdnope FROM t\n"
        "                        ^^^^^"
    )


def test_of_a_long_line_the_part_around_the_mistake_is_shown():
    text = "SELECT " + "a, " * 1000 + "nope" + ", b" * 1000
    place = text.index("nope")
    _, line, carets = Diagnostic("SS201", "m", Span(place, place + 4), source=text).render().splitlines()
    assert len(line) < 520 and line.startswith("LINE 1: …") and line.endswith("…")
    assert line[carets.index("^") : len(carets)] == "nope"
    _, line, carets = Diagnostic("SS201", "m", Span(0, len(text)), source=text).render().splitlines()
    assert line.startswith("LINE 1: SELECT a") and len(carets) == len("LINE 1: ") + 500
    _, line, carets = Diagnostic("SS101", "m", Span(len(text), len(text)), source=text).render().splitlines()
    assert len(carets) == len(line) + 1 and carets.endswith(" ^")
