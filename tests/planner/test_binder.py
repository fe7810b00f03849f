"""What the golden files of plans do not show: functions of users, several mistakes at once, views, scripts."""

import pytest

from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import CreateTable, CreateView, Name, StatementSet
from sqlstream.planner.binder import bind_statement, bind_statement_set, bind_table
from sqlstream.planner.catalog import RowKind, TimeDomain, View
from sqlstream.planner.nodes import AssignTime, Correlate, Insert, Output, Project
from tests.planner.plans import bound, error, errors, no_tables, parsed, plan

TUMBLE = "FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
CLOSED = "GROUP BY window_start, window_end"


def table(columns, options="'connector' = 'test'"):
    (statement,) = parsed(f"CREATE TABLE t ({columns}) WITH ({options})", CreateTable)
    return bind_table(statement, no_tables())


def query(text: str) -> Output:
    bound = plan(text)
    assert isinstance(bound, Output)
    return bound


# --- tables ---------------------------------------------------------------------------------------------------


def test_table_has_types_time_and_options():
    actual = table(
        "id BIGINT NOT NULL, at TIMESTAMP(3) METADATA FROM 'timestamp', twice AS id * 2, pt AS PROCTIME(), "
        "it AS INGESTION_TIME(), ts TIMESTAMP(3), WATERMARK FOR TS AS ts - INTERVAL '1.5' MINUTE, "
        "PRIMARY KEY (ID) NOT ENFORCED",
        "'connector' = 'x', 'changelog-mode' = 'i, ua, d', 'path' = '/a'",
    )
    assert [(c.name, str(c.type), c.nullable, c.time) for c in actual.columns] == [
        ("id", "BIGINT", False, None),
        ("at", "TIMESTAMP", True, None),
        ("twice", "BIGINT", False, None),
        ("pt", "TIMESTAMP", False, TimeDomain.PROCESSING),
        ("it", "TIMESTAMP", False, TimeDomain.INGESTION),
        ("ts", "TIMESTAMP", True, TimeDomain.EVENT),
    ]
    assert [c.name for c in actual.physical_columns] == ["id", "ts"]
    assert actual.columns[1].metadata_key == "timestamp"
    assert (actual.watermark.column, actual.watermark.delay_ms) == ("ts", 90_000)
    assert actual.primary_key == ("id",)
    assert actual.changelog == {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}
    assert (actual.connector, actual.options) == ("x", (("changelog-mode", "i, ua, d"), ("path", "/a")))


@pytest.mark.parametrize("definition", ["ts", "(ts)", "ts - INTERVAL '0' SECOND", "`ts`"])
def test_watermark_may_be_the_column_itself(definition):
    assert table(f"ts TIMESTAMP(3), WATERMARK FOR ts AS {definition}").watermark.delay_ms == 0


def test_formats_of_change_feeds_have_all_kinds():
    assert table("id INT", "'connector' = 'x', 'format' = 'debezium-json'").changelog == frozenset(RowKind)


def test_computed_columns_see_stored_columns_only():
    with pytest.raises(BindError) as caught:
        table("a INT, b AS a + 1, c AS b + 1")
    assert caught.value.diagnostic.message == 'column "b" does not exist'


# --- names ----------------------------------------------------------------------------------------------------


def test_field_names_are_unique_and_shown_names_are_not():
    root = query("SELECT item, item, ITEM, n + 1, n + 2 FROM bids")
    assert root.names == ("item", "item", "ITEM", "n + 1", "n + 2")
    assert [f.name for f in root.schema] == ["item", "item_1", "ITEM_2", "expr", "expr_1"]


def test_names_ignore_case():
    assert query(
        "SELECT B.ITEM, Window_Start FROM TUMBLE(TABLE BIDS, DESCRIPTOR(TS), INTERVAL '1' SECOND) b"
    ).names == (
        "ITEM",
        "Window_Start",
    )


def test_window_columns_keep_apart_from_columns_of_that_name():
    text = bound("SELECT window_start AS s FROM TUMBLE(TABLE (SELECT item AS window_end, ts FROM bids), "
                 "DESCRIPTOR(ts), INTERVAL '1' SECOND)")  # fmt: skip
    assert "AssignWindows(TUMBLE size 1 s on ts as window_start, window_end_1, window_time)" in text


def test_time_attribute_survives_renaming_and_nothing_else():
    (project,) = plan("SELECT ts AS t, ts + INTERVAL '1' SECOND AS u, CAST(ts AS TIMESTAMP) AS v FROM bids").inputs
    assert isinstance(project, Project)
    assert [i.time for i in project.items] == [TimeDomain.EVENT, None, None]


def test_struct_fields_and_table_names_are_told_apart():
    tables = "CREATE TABLE s (s STRUCT<a: STRUCT<b: INT>>, t INT) WITH ('connector' = 'test');"
    text = bound("SELECT s.a, s.a.b, s.s.a.b, s.s, s.t FROM s", tables)
    assert "Project(s.a AS a, s.a.b AS b, s.a.b AS b_1, s, t)" in text


def test_all_mistakes_of_a_select_are_reported():
    error = errors(f"SELECT pricee, SUM(itm), foo(n) {TUMBLE} WHERE nn > 1 AND n {CLOSED} HAVING x")
    assert [f.partition(" [")[0] for f in error] == [
        'SS201: column "pricee" does not exist',
        'SS201: column "itm" does not exist',
        'SS203: function "foo" does not exist',
        'SS201: column "nn" does not exist',
        "SS206: AND needs a condition of type BOOLEAN, not INT",
        'SS201: column "x" does not exist',
    ]


def test_all_statements_of_a_script_are_checked():
    error = errors("SELECT a FROM bids; SELECT FROM; SELECT b FROM bids")
    assert [f[:5] for f in error] == ["SS201", "SS101", "SS201"]


def test_a_number_of_other_units_is_no_text_of_a_time():
    with pytest.raises(BindError, match="SS206: TO_TIMESTAMP_LTZ needs a text, not BIGINT") as caught:
        table("n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 6), WATERMARK FOR ts AS ts")
    assert "TO_TIMESTAMP_LTZ(n, 3)" in str(caught.value)


def test_numbers_since_1970_are_times():
    table("n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), at AS TO_TIMESTAMP_LTZ(n, 0), WATERMARK FOR ts AS ts")


# --- functions of users ---------------------------------------------------------------------------------------


def test_user_functions_have_types_and_argument_counts():
    assert str(plan("SELECT twice(auction) FROM bids").schema[0].type) == "BIGINT"
    assert error("SELECT twice(auction, 1) FROM bids") == (
        'SS207: function "twice" takes 1 argument, not 2 [twice(auction, 1)] HINT: It is declared as twice(x BIGINT).'
    )
    assert error("SELECT a.w FROM bids, LATERAL TABLE(words()) AS a(w, l)") == (
        'SS207: function "words" takes 1 to 2 arguments, not 0 [words()]'
    )


def test_user_aggregate_is_an_aggregate():
    assert "WindowAggregate(TUMBLE size 10 s; SPREAD(n) AS spread)" in bound(f"SELECT spread(n) {TUMBLE} {CLOSED}")
    assert "GroupAggregate(SPREAD(price) AS spread)" in bound("SELECT spread(price) FROM bids")


def test_user_table_function_gives_the_fields_of_its_row():
    correlate = next(n for n in plan("SELECT w.* FROM bids LEFT JOIN LATERAL TABLE(words(item)) AS w ON TRUE").walk()
                     if isinstance(n, Correlate))  # fmt: skip
    assert [(f.name, str(f.type)) for f in correlate.outputs] == [("word", "STRING"), ("length", "INT")]
    assert correlate.outer


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT words(item) FROM bids", 'SS209: table function "words" is not allowed in an expression'),
        ("SELECT later(item) FROM bids", "SS339: asynchronous functions outside of LATERAL TABLE are not executed yet"),
        ("SELECT evictor(item) FROM bids", "SS340: functions of this kind in an expression are not executed yet"),
        ("SELECT * FROM words(TABLE bids)", "SS323: functions over tables that are no process functions"),
        ("SELECT * FROM bids, LATERAL TABLE(process(n)) AS t(a)", "SS323: functions over tables"),
        ("SELECT LEFT(str => item, 1) FROM bids", "SS338: named arguments of functions of Spark"),
        ("SELECT twice(y => auction) FROM bids", 'SS207: function "twice" has no argument "y"'),
        ("SELECT * FROM bids, LATERAL TABLE(twice(n)) AS t(a)", 'SS209: "twice" is a function of the kind scalar'),
        ("SELECT * FROM bids LATERAL VIEW later(n) t AS a", "SS339: asynchronous functions"),
        ("SELECT * FROM bids, LATERAL TABLE(wrds(item)) AS t(a)", 'SS203: function "wrds" does not exist'),
        ("SELECT * FROM proces(input => TABLE bids)", 'SS203: table function "proces" does not exist'),
    ],
)  # fmt: skip
def test_functions_in_the_wrong_place_are_refused(query, expected):
    assert error(query).startswith(expected)


# --- statements -----------------------------------------------------------------------------------------------


def test_mistakes_inside_a_view_say_which_view_and_point_into_its_text():
    other = "CREATE TABLE bids (a INT) WITH ('connector' = 'test');"
    text = f"CREATE VIEW v AS SELECT item FROM bids; DROP TABLE bids; {other}"
    assert error(f"{text} SELECT * FROM v") == 'SS201: column "item" does not exist [item] HINT: The columns are "a".'


def test_view_in_a_view_shows_the_innermost():
    catalog = no_tables()
    script = "CREATE VIEW a AS SELECT x FROM gone; CREATE VIEW b AS SELECT * FROM a; SELECT * FROM b"
    a, b, query = parse_script(script)
    assert isinstance(a, CreateView) and isinstance(b, CreateView)
    catalog.create(a.name, View("a", a.query, (), script))
    catalog.create(b.name, View("b", b.query, (), script))
    with pytest.raises(BindError) as caught:
        bind_statement(query, catalog)
    assert caught.value.diagnostic.detail == 'In view "a". In view "b".'
    assert caught.value.diagnostic.source == script


def test_view_that_refers_to_itself_is_refused():
    catalog = no_tables()
    create, query = parse_script("CREATE VIEW v AS SELECT * FROM v; SELECT * FROM v")
    assert isinstance(create, CreateView)
    catalog.create(create.name, View("v", create.query))
    with pytest.raises(BindError, match="SS222"):
        bind_statement(query, catalog)


def test_view_renames_its_columns():
    assert query("CREATE VIEW v (a, b) AS SELECT item, n FROM bids; SELECT B, v.a FROM v").names == ("B", "a")


def test_statement_set_reports_the_mistakes_of_all_inserts():
    catalog = no_tables()
    catalog.create(Name(("t",)), table("a INT"))
    (wrong,) = parsed(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT x FROM t; INSERT INTO u SELECT a FROM t; END",
        StatementSet,
    )
    with pytest.raises(BindError) as caught:
        bind_statement_set(wrong, catalog)
    assert [d.code for d in caught.value.diagnostics] == ["SS201", "SS202"]
    (right,) = parsed("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT a FROM t; END", StatementSet)
    assert [type(p) for p in bind_statement_set(right, catalog).inserts] == [Insert]


@pytest.mark.parametrize(
    ("text", "code"),
    [("USE MODULES m", "SS329"), ("USE MODULE m", "SS329")],
)  # fmt: skip
def test_statements_about_modules_are_refused(text, code):
    (statement,) = parse_script(text)
    with pytest.raises(UnsupportedError) as caught:
        bind_statement(statement, no_tables())
    assert caught.value.code == code


def test_create_table_as_takes_names_and_types_of_its_query():
    text = (
        "CREATE TABLE copy WITH ('connector' = 'test') AS SELECT item AS name, n FROM bids; SELECT name, n, x FROM copy"
    )
    assert error(text) == 'SS201: column "x" does not exist [x] HINT: The columns are "name", "n".'


def test_script_knows_what_it_dropped():
    assert errors("DROP VIEW IF EXISTS nope; DROP TABLE plain; SELECT * FROM plain")[0].startswith(
        'SS202: table or view "plain" does not exist'
    )


def test_insert_takes_columns_in_any_order_and_fills_the_rest():
    tables = "CREATE TABLE t (a INT, b STRING, c BIGINT) WITH ('connector' = 'x');"
    assert bound("INSERT INTO t (c, a) SELECT a, c FROM t", tables).splitlines()[1] == (
        "└─ Project(CAST(c AS INT) AS a, CAST(NULL AS STRING) AS b, CAST(a AS BIGINT) AS c)"
    )


def test_watermark_of_a_subquery_names_its_table():
    source = "(SELECT k, ts FROM plain) WATERMARK ts DELAY OF INTERVAL '1' SECOND"
    bound = plan(f"SELECT k FROM {source} GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)")
    node = next(n for n in bound.walk() if isinstance(n, AssignTime))
    assert (node.table, node.delay_ms) == ("plain", 1000)


# --- keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        "window_start, window_end, (((window_time)))",
        "((window_start)), (window_end, window_time)",
        "((window_start, window_end, window_time))",
    ],
)
def test_parentheses_around_keys_mean_nothing(keys):
    plain = bound(f"SELECT window_time, COUNT(*) {TUMBLE} {CLOSED}, window_time")
    assert bound(f"SELECT window_time, COUNT(*) {TUMBLE} GROUP BY {keys}") == plain
