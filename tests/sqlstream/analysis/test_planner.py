"""``Planner``: what it tells of texts, and texts that it makes of others."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

import sqlstream
from sqlstream.analysis import Parameter, Planner, Role
from sqlstream.errors import Span, SqlStreamError
from sqlstream.planner import from_json
from tests.sqlstream.test_import import modules_after

TABLES: dict[str, Any] = {
    "bids": {
        "columns": {"auction": "BIGINT", "price": "DOUBLE", "item": "STRING", "ts": "TIMESTAMP(3)"},
        "watermark": ["ts", "ts - INTERVAL '5' SECOND"],
    },
    "people": {"columns": {"id": "BIGINT NOT NULL", "name": "STRING"}, "primary_key": ["id"], "comment": "who bids"},
    "shops": {"columns": {"id": "BIGINT", "city": "STRING"}, "options": {"role": "lookup"}},
    "orders": {"id": "BIGINT", "shop": "BIGINT", "pt": "AS PROCTIME()"},
    "tops": {"auction": "BIGINT", "top": "DOUBLE"},
    "dear": {"query": "SELECT * FROM bids WHERE price > 100"},
}
PLANNER = Planner().with_tables(TABLES)
TOPS = "SELECT auction, MAX(price) AS top FROM dear GROUP BY auction"
WINDOWS = """SELECT window_start, auction, COUNT(*) AS bids FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    GROUP BY window_start, window_end, auction"""


def only(text, planner=PLANNER):
    (statement,) = planner.analyze(text)
    return statement


def columns(text):
    return {column.name: column for column in only(text).columns}


# --- the library ----------------------------------------------------------------------------------------------


def test_it_loads_neither_spark_nor_numpy_nor_a_command_line():
    code = """
from sqlstream.planner import Planner
planner = Planner().with_tables({"t": {"a": "BIGINT", "at": "TIMESTAMP(3)"}})
planner.analyze("SELECT a, COUNT(*) FROM t GROUP BY a")
planner.html("SELECT a FROM t")
planner.complete("SELECT ", 7)
"""
    heavy = {"pyspark", "py4j", "pandas", "numpy", "pyarrow", "rich", "click", "prompt_toolkit"}
    assert modules_after(code).isdisjoint(heavy)


def test_a_planner_and_its_answers_are_frozen():
    with pytest.raises(FrozenInstanceError):
        setattr(PLANNER, "_workspace", None)  # noqa: B010
    with pytest.raises(FrozenInstanceError):
        setattr(only(TOPS), "kind", "")  # noqa: B010


def test_with_gives_another_planner():
    more = PLANNER.with_ddl("CREATE VIEW v AS SELECT 1 AS one")
    assert only("SELECT one FROM v", more).ok
    assert not only("SELECT one FROM v").ok


def test_definitions_in_a_text_are_known_behind_them_and_forgotten():
    defined, used = PLANNER.analyze("CREATE VIEW v AS SELECT price FROM bids; SELECT price FROM v")
    assert used.ok
    assert [c.name for c in defined.columns] == ["price"]
    assert not only("SELECT price FROM v").ok


def test_answers_are_json():
    document = json.loads(json.dumps(PLANNER.analyze(f"{TOPS}; SELECT nope FROM bids").to_dict()))
    first, second = document["statements"]
    assert first["columns"][1]["type"] == "DOUBLE"
    assert "plan" not in first
    assert second["problems"][0]["span"] == {"start": 69, "end": 73}


# --- catalogs -------------------------------------------------------------------------------------------------


def test_a_json_file_and_a_file_of_sql_are_catalogs(tmp_path):
    (tmp_path / "tables.json").write_text(json.dumps({"tables": TABLES}), "utf-8")
    (tmp_path / "views.sql").write_text("CREATE VIEW cheap AS SELECT * FROM bids WHERE price < 1;", "utf-8")
    planner = Planner().with_file(tmp_path / "tables.json").with_file(tmp_path / "views.sql")
    assert only("SELECT price FROM cheap", planner).ok


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "it is no dictionary of columns"),
        ({"a": 1}, 'the type of column "a" is no text'),
        ({"columns": {"a": "INT"}, "primary": ["a"]}, 'there is no key "primary"'),
    ],
)
def test_wrong_dictionaries_are_refused_when_they_are_used(described, message):
    planner = Planner().with_tables({"t": described, "u": {"a": "INT"}})
    assert only("SELECT a FROM u", planner).ok
    (problem,) = only("SELECT a FROM t", planner).problems
    assert problem.code == "SS384"
    assert message in problem.message


def test_described_tables_are_dropped_and_created_like_others():
    text = "DROP TABLE tops; CREATE TABLE tops (x INT) WITH ('connector' = 'test'); SELECT x FROM tops; SHOW TABLES"
    assert PLANNER.check(text) == ()
    assert not only("DROP TABLE nothing").ok


def test_a_database_is_a_catalog(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "file.db")) as database:
        database.execute("CREATE TABLE cities (id BIGINT PRIMARY KEY, name VARCHAR)")
    planner = Planner().with_database("there", {"type": "duckdb", "path": str(tmp_path / "file.db")})
    statement = only("SELECT name FROM cities", planner)
    assert [(c.name, c.type) for c in statement.columns] == [("name", "STRING")]


def test_a_session_gives_its_catalog_and_is_left_alone():
    with sqlstream.connect() as session:
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
        planner = Planner().with_session(session)
        assert planner.analyze("SELECT a FROM t; DROP TABLE t").ok
        assert session.check("SELECT a FROM t") == ()


def test_what_defines_nothing_is_no_catalog():
    with pytest.raises(SqlStreamError, match="SS283"):
        Planner().with_ddl("SELECT 1")


# --- statements and problems ----------------------------------------------------------------------------------


def test_each_statement_has_its_span_and_kind():
    text = "SET 'parallelism.default' = '2';\n SELECT price FROM bids; INSERT INTO tops SELECT auction, price FROM bids"
    analysis = PLANNER.analyze(text)
    assert [s.kind for s in analysis] == ["SET", "SELECT", "INSERT INTO"]
    assert [text[s.span.start : s.span.end][:6] for s in analysis] == ["SET 'p", "SELECT", "INSERT"]


def test_all_statements_tell_their_problems_at_once():
    text = "SELECT pricee, autcion FROM bids; SELEC 3; SELECT 1 FROM nowhere; SELECT price FROM bids"
    analysis = PLANNER.analyze(text)
    assert [[p.code for p in s.problems] for s in analysis] == [["SS201", "SS201"], ["SS103"], ["SS202"], []]
    assert [text[p.span.start : p.span.end] for p in analysis.problems if p.span] == [
        "pricee", "autcion", "SELEC", "nowhere",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("SELECT pricee FROM bids", "SELECT price FROM bids"),
        ("SELECT b.pricee + b.price FROM bids AS b", "SELECT b.price + b.price FROM bids AS b"),
        ("SELECT price FROM bidz", "SELECT price FROM bids"),
        ("SELEC price FROM bids", "SELECT price FROM bids"),
        ("SELECT UPPR(item) FROM bids", "SELECT UPPER(item) FROM bids"),
        ("SET 'table.exec.state.tl' = '1 h'", "SET 'table.exec.state.ttl' = '1 h'"),
    ],
)
def test_fixes_mend_the_text(wrong, right):
    (problem,) = PLANNER.check(wrong)
    (fix, *_) = problem.fixes
    (edit,) = fix.edits
    mended = wrong[: edit.span.start] + edit.text + wrong[edit.span.end :]
    assert mended == right
    assert [p for p in PLANNER.check(mended) if not p.warning] == []


def test_what_a_wrong_definition_would_have_made_brings_no_more_problems():
    text = "CREATE VIEW v AS SELECT nope FROM bids; SELECT * FROM v"
    assert [p.code for p in PLANNER.check(text)] == ["SS201"]


def test_a_problem_in_a_view_has_no_place_in_the_text():
    planner = Planner().with_tables({**TABLES, "wrong": {"query": "SELECT nope FROM bids"}})
    (problem,) = only("SELECT * FROM wrong", planner).problems
    assert problem.span is None
    assert problem.detail is not None
    assert 'In view "wrong".' in problem.detail


# --- results --------------------------------------------------------------------------------------------------


def test_columns_have_types_nullability_and_time():
    found = columns("SELECT ts, price, COALESCE(item, '') AS item, 1 AS one FROM bids")
    assert {name: (c.type, c.nullable, c.time) for name, c in found.items()} == {
        "ts": ("TIMESTAMP", False, "event time"),
        "price": ("DOUBLE", True, None),
        "item": ("STRING", False, None),
        "one": ("INT", False, None),
    }


def test_changes_keys_and_bounds():
    statement = only(TOPS)
    assert (statement.changelog, statement.keys, statement.bounded) == ("I,UB,UA", (("auction",),), False)
    assert only(WINDOWS).changelog == "I"


def test_what_an_insert_writes():
    statement = only("INSERT INTO tops SELECT auction, price * 2 FROM bids")
    assert {c.name: c.sources for c in statement.columns} == {"auction": ("bids.auction",), "top": ("bids.price",)}
    roles = {use.name: use.role for use in statement.tables}
    assert roles == {"bids": Role.READ, "tops": Role.WRITTEN}


def test_a_sorted_query_over_finished_data_has_columns_though_it_is_a_batch(tmp_path):
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "json"}
    planner = Planner().with_tables({"t": {"columns": {"a": "INT"}, "options": options}})
    statement = only("SELECT a + 1 AS b FROM t ORDER BY b LIMIT 3", planner)
    assert (statement.runs_as, [(c.name, c.type) for c in statement.columns]) == ("batch", [("b", "INT")])
    assert statement.fingerprint != only("SELECT a + 1 AS b FROM t ORDER BY b LIMIT 4", planner).fingerprint


# --- lineage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT top FROM (SELECT MAX(price) AS top FROM dear) AS x", {"top": ("MAX(bids.price)", ("bids.price",))}),
        (WINDOWS, {
            "window_start": ("window_start(bids.ts)", ("bids.ts",)),
            "auction": ("bids.auction", ("bids.auction",)),
            "bids": ("COUNT(*)", ()),
        }),
        ("SELECT p.name, b.price * 2 AS twice FROM bids AS b JOIN people AS p ON b.auction = p.id",
         {"name": ("people.name", ("people.name",)), "twice": ("bids.price * 2", ("bids.price",))}),
        ("SELECT o.id, s.city FROM orders AS o JOIN shops FOR SYSTEM_TIME AS OF o.pt AS s ON s.id = o.shop",
         {"id": ("orders.id", ("orders.id",)), "city": ("shops.city", ("shops.city",))}),
        ("SELECT auction AS x FROM bids UNION ALL SELECT id FROM people",
         {"x": ("bids.auction or people.id", ("bids.auction", "people.id"))}),
        ("SELECT CONCAT(item, ' bids.price') AS c FROM bids",
         {"c": ("CONCAT(bids.item, ' bids.price')", ("bids.item",))}),
    ],
)  # fmt: skip
def test_lineage_goes_down_to_columns_of_tables(text, expected):
    assert {name: (c.expression, c.sources) for name, c in columns(text).items()} == expected


# --- state ----------------------------------------------------------------------------------------------------


def test_state_without_a_bound_is_a_warning():
    statement = only(TOPS)
    (need,) = statement.state
    assert (need.what, need.until) == ("the accumulators of each group", None)
    (warning,) = statement.problems
    assert (warning.code, warning.warning, statement.ok) == ("SS383", True, True)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        (WINDOWS, {"the watermark passes their end"}),
        ("SELECT COUNT(*) FROM bids", {"there is one group"}),
        ("SELECT * FROM bids LIMIT 3", {"there are 3"}),
        ("SELECT price FROM bids", set()),
    ],
)
def test_state_with_a_bound_is_none(text, until):
    statement = only(text)
    assert {need.until for need in statement.state} == until
    assert statement.problems == ()


def test_a_time_to_live_bounds_state():
    planner = PLANNER.with_settings({"table.exec.state.ttl": "1 h"})
    (need,) = only(TOPS, planner).state
    assert need.until == "1 h after the last row of the group came or went"


# --- what is named --------------------------------------------------------------------------------------------


def test_tables_columns_and_functions_have_their_places():
    text = "SELECT UPPER(item), COUNT(*) FROM dear GROUP BY UPPER(item)"
    statement = only(text)
    assert {(use.name, use.role, use.columns) for use in statement.tables} == {
        ("bids", Role.READ, ("price", "item")),
        ("dear", Role.VIEW, ()),
    }
    functions = {use.name: [text[s.start : s.end] for s in use.spans] for use in statement.functions}
    assert functions == {"upper": ["UPPER", "UPPER"], "count": ["COUNT"]}


# --- fingerprints ---------------------------------------------------------------------------------------------

SAME = [
    TOPS,
    "select auction, -- comment\n max(price) as top from dear as d group by auction",
    "SELECT x.auction, MAX(x.price) AS top FROM (SELECT * FROM bids AS b WHERE b.price > 100) AS x GROUP BY x.auction",
    "WITH d AS (SELECT price, auction FROM bids WHERE price > 100) SELECT auction, MAX(price) AS top FROM d GROUP BY 1",
    "SELECT auction, MAX(price) AS top FROM bids WHERE 100 < price GROUP BY auction",
]
OTHER = [
    "SELECT auction, MAX(price) AS most FROM dear GROUP BY auction",
    "SELECT auction, MIN(price) AS top FROM dear GROUP BY auction",
    "SELECT auction, MAX(price) AS top FROM bids GROUP BY auction",
    "SELECT auction, MAX(price) AS top FROM bids WHERE price > 101 GROUP BY auction",
    "SELECT auction, MAX(price) AS top FROM bids WHERE price > ? GROUP BY auction",
]


def test_fingerprints_are_equal_where_the_meaning_is():
    assert len({PLANNER.fingerprint(text) for text in SAME}) == 1
    assert len({PLANNER.fingerprint(text) for text in [TOPS, *OTHER]}) == 1 + len(OTHER)


def test_names_inside_and_the_order_of_conditions_leave_no_trace():
    first = "SELECT a FROM (SELECT price * 2 AS a, item AS b FROM bids) AS x WHERE a > 1 AND b = 'a'"
    second = "SELECT c AS a FROM (SELECT price * 2 AS c, item AS d FROM bids) AS x WHERE d = 'a' AND c > 1"
    assert PLANNER.fingerprint(first) == PLANNER.fingerprint(second)


def test_a_literal_is_no_name():
    first = "SELECT x FROM (SELECT UPPER(item) AS x FROM bids) AS q WHERE x = 'x'"
    second = "SELECT y AS x FROM (SELECT UPPER(item) AS y FROM bids) AS q WHERE y = 'y'"
    assert PLANNER.fingerprint(first) != PLANNER.fingerprint(second)


def test_another_definition_of_a_table_is_another_meaning():
    other = PLANNER.with_tables({"bids": {**TABLES["bids"], "watermark": "ts"}})
    assert PLANNER.fingerprint(WINDOWS) != other.fingerprint(WINDOWS)


# --- parameters -----------------------------------------------------------------------------------------------


def test_parameters_have_the_types_of_what_they_stand_beside():
    text = """SELECT auction FROM bids AS b JOIN people AS p ON b.auction = p.id
    WHERE b.price > ? AND p.name LIKE :pattern AND b.ts BETWEEN :start AND :end AND b.auction IN (?, 3) LIMIT ?"""
    analysis = PLANNER.analyze(text)
    assert {p.name: p.type for p in analysis.parameters} == {
        "1": "DOUBLE", "pattern": "STRING", "start": "TIMESTAMP", "end": "TIMESTAMP", "2": "BIGINT", "3": "BIGINT",
    }  # fmt: skip
    assert analysis.ok
    assert all(text[s.start : s.end] in ("?", f":{p.name}") for p in analysis.parameters for s in p.spans)


def test_values_of_an_insert_are_parameters_of_its_columns():
    analysis = PLANNER.analyze("INSERT INTO tops VALUES (?, :top)")
    assert analysis.parameters == (
        Parameter("1", "BIGINT", (Span(25, 26),)),
        Parameter("top", "DOUBLE", (Span(28, 32),)),
    )


def test_a_parameter_that_nothing_tells_has_no_type():
    (parameter,) = PLANNER.analyze("SELECT :x AS x, :x AS y FROM bids").parameters
    assert parameter.type is None
    assert len(parameter.spans) == 2


def test_places_behind_parameters_are_those_of_the_text():
    text = "SELECT price FROM bids WHERE price > :least AND pricee < ?"
    (problem,) = PLANNER.check(text)
    assert problem.span is not None
    assert text[problem.span.start : problem.span.end] == "pricee"


# --- plans ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["logical", "optimized", "trace", "changelog_mode", "advice", "physical"])
def test_each_stage_has_a_plan(stage):
    assert PLANNER.plan(WINDOWS, stage)


def test_a_plan_of_json_reads_back():
    assert from_json(json.dumps(PLANNER.plan_json(WINDOWS))) == only(WINDOWS).plan


def test_wrong_texts_have_no_plan():
    with pytest.raises(SqlStreamError, match='SS201: column "nope" does not exist\nLINE 1'):
        PLANNER.plan("SELECT nope FROM bids")
    with pytest.raises(SqlStreamError, match="SS283"):
        PLANNER.plan("SHOW TABLES")


# --- while one types ------------------------------------------------------------------------------------------


def test_completion_knows_what_is_in_scope():
    assert [s.text for s in PLANNER.complete("SELECT pri FROM bids", 10)][:1] == ["price"]


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("SELECT price FROM bids", "price", "`price DOUBLE`"),
        ("SELECT b.ts FROM bids AS b", "ts", "`ts TIMESTAMP` event time"),
        ("SELECT `cost` FROM (SELECT price AS cost FROM bids) AS x", "`cost`", "`cost DOUBLE`\n\ncolumn of `x`"),
        ("SELECT MAX(price) FROM bids", "MAX", "built-in aggregate function"),
        ("SELECT * FROM people", "people", "who bids"),
        ("SELECT * FROM dear", "dear", "view `dear`"),
        ("SELECT * FROM bids AS b WHERE b.", "bids", "watermark: `ts` - INTERVAL '5' SECOND"),
    ],
)
def test_hover_says_what_a_name_is(text, word, expected):
    hover = PLANNER.hover(text, text.index(word) + 1)
    assert hover is not None
    assert expected in hover.text
    assert text[hover.span.start : hover.span.end] == word


def test_hover_knows_queries_of_with():
    text = "WITH c AS (SELECT price AS p FROM bids) SELECT c.p FROM c"
    hover = PLANNER.hover(text, text.index("c.p") + 2)
    assert hover is not None
    assert hover.text == "`p DOUBLE`\n\ncolumn of `c`"


def test_hover_is_silent_about_words():
    assert PLANNER.hover("SELECT price FROM bids", 2) is None
    assert PLANNER.hover("", 0) is None


def test_places_are_those_of_all_statements_about_a_view():
    text = "CREATE MATERIALIZED VIEW m AS SELECT auction FROM bids; SELECT * FROM m; DESCRIBE m; "
    text += "INSERT INTO t SELECT * FROM m; SHOW CREATE MATERIALIZED VIEW m; ALTER MATERIALIZED VIEW m SUSPEND; "
    text += "DROP MATERIALIZED VIEW m; DROP FUNCTION m"
    before = ["VIEW", "FROM", "RIBE", "FROM", "VIEW", "VIEW", "VIEW"]
    spans = PLANNER.places(text, text.index("FROM m") + 5)
    assert [text[span.start - 5 : span.end] for span in sorted(spans, key=lambda span: span.start)] == [
        f"{word} m" for word in before
    ]


def test_places_are_those_of_all_statements_about_a_table():
    text = "CREATE TABLE t (a INT); EXPLAIN INSERT INTO t VALUES (1); TRUNCATE TABLE t; ALTER TABLE t RENAME TO u; "
    text += "EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (1); END; DROP TABLE t; SHOW TABLES"
    assert len(PLANNER.places(text, text.index("t (a"))) == 6


def test_places_of_a_name_begin_with_its_definition():
    text = "CREATE VIEW v AS SELECT 1 AS a; SELECT * FROM v JOIN v AS w ON v.a = w.a; "
    text += "WITH v AS (SELECT 2) SELECT * FROM v"
    spans = PLANNER.places(text, text.index("FROM v JOIN") + 5)
    assert [s.start for s in spans] == [12, 46, 53]
    assert [s.start for s in PLANNER.places(text, len(text))] == [text.index("WITH v") + 5, len(text) - 1]
    assert PLANNER.places("SELECT * FROM bids", 15) == ()


# --- rewrites -------------------------------------------------------------------------------------------------


def test_filters_are_over_the_columns_of_the_result():
    text = PLANNER.add_filter(TOPS, "top > 300", "auction < 3 OR auction IS NULL")
    assert only(text).ok
    assert "MAX(price) AS top" in text
    again = PLANNER.add_filter(text, "auction > 0")
    assert again.count("SELECT") == 2, "one subquery is enough"


@pytest.mark.parametrize("condition", ["1 = 1 GROUP BY auction", "TRUE) AS x --", "TRUE; DROP TABLE bids", ""])
def test_what_is_no_condition_is_refused(condition):
    with pytest.raises(SqlStreamError):
        PLANNER.add_filter(TOPS, condition)


def test_a_filter_over_no_column_is_refused():
    with pytest.raises(SqlStreamError, match="SS201"):
        PLANNER.add_filter(TOPS, "price > 3")


def test_filters_go_to_the_sources_where_they_may():
    pushed = PLANNER.push_filters(TOPS, ["auction < 100", "top > 3"])
    assert pushed.sources == (("bids", "price > 100"), ("bids", "auction < 100"))
    assert pushed.above == ("top > 3",)


@pytest.mark.parametrize(("text", "limit"), [(TOPS, 10), (f"{TOPS} LIMIT 5", 5), (f"{TOPS} LIMIT 50", 10)])
def test_the_smaller_limit_stays(text, limit):
    assert PLANNER.add_limit(text, 10).endswith(f"LIMIT {limit}")


def test_a_limit_is_a_number_of_rows():
    with pytest.raises(SqlStreamError, match="SS382: -1 is no number of rows"):
        PLANNER.add_limit(TOPS, -1)


@pytest.mark.parametrize("alias", ["x", "select", "odd one"])
def test_a_subquery_has_any_alias(alias):
    assert only(PLANNER.as_subquery(TOPS, alias)).ok


def test_a_range_of_times_is_over_the_first_time():
    text = PLANNER.add_time_range("SELECT auction, ts FROM bids", datetime(2024, 1, 1, tzinfo=UTC), "2024-02-01")
    assert only(text).ok
    assert "ts >=" in text
    assert "ts <" in text
    with pytest.raises(SqlStreamError, match="SS382"):
        PLANNER.add_time_range("SELECT auction FROM bids", "2024-01-01")


def test_a_query_becomes_a_subquery():
    assert [c.name for c in only(PLANNER.as_subquery(f"{TOPS};", "inner query")).columns] == ["auction", "top"]
    with pytest.raises(SqlStreamError, match="SS382"):
        PLANNER.as_subquery("SHOW TABLES")


def test_formatting_keeps_comments():
    assert "-- one" in PLANNER.format("select 1 -- one")
