"""The nodes that clauses become: one fact for each meaning that the text could be mistaken for."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.grammar import (
    clauses_of,
    match_recognize_of,
    parse_query,
    parse_script,
    table_clauses_of,
    table_function_of,
    to_sql,
)
from sqlstream.grammar import nodes as n


def _trigger(text: str) -> n.Trigger:
    trigger = clauses_of(parse_query(f"SELECT a FROM t GROUP BY a TRIGGER {text}")).trigger
    assert trigger is not None
    return trigger


def _five_seconds() -> exp.Expression:
    return exp.Interval(this=exp.Literal.string("5"), unit=exp.var("SECOND"))


def test_trees_differ_where_nodes_of_other_classes_hold_the_same() -> None:
    """sqlglot compares trees by their hashes."""
    both = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS v PATTERN (A (B {} C)) DEFINE A AS v > 1)"
    assert parse_query(both.format("")) != parse_query(both.format("|"))


def test_a_frame_with_a_start_only_ends_at_the_current_row() -> None:
    short = parse_query("SELECT SUM(a) OVER (ORDER BY b ROWS 5 PRECEDING) FROM t")
    assert short == parse_query("SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM t")


def test_and_binds_tighter_than_or_and_then_weakest() -> None:
    rows = [n.EveryRows(i) for i in range(5)]
    expected = n.Combined(
        n.Combinator.THEN,
        n.Combined(n.Combinator.OR, rows[1], n.Combined(n.Combinator.AND, rows[2], rows[3])),
        rows[4],
    )
    assert _trigger("EVERY 1 ROWS OR EVERY 2 ROWS AND EVERY 3 ROWS THEN EVERY 4 ROWS").expression == expected


@pytest.mark.parametrize("word", ["OR", "AND", "THEN"])
def test_equal_combinators_associate_to_the_left(word: str) -> None:
    a, b, c = n.EveryRows(1), n.EveryRows(2), n.EveryRows(3)
    combinator = n.Combinator(word)
    left = n.Combined(combinator, n.Combined(combinator, a, b), c)
    right = n.Combined(combinator, a, n.Combined(combinator, b, c))
    text = f"EVERY 1 ROWS {word} EVERY 2 ROWS {word} EVERY 3 ROWS"
    assert _trigger(text).expression == left
    assert _trigger(to_sql(right)).expression == right


def test_or_after_an_interval_or_threshold_belongs_to_the_trigger() -> None:
    assert _trigger("EVERY INTERVAL '5' SECOND OR NEVER").expression == n.Combined(
        n.Combinator.OR, n.EveryInterval(_five_seconds()), n.Never()
    )
    delta = _trigger("DELTA (a + b) > 5 OR NEVER").expression
    assert isinstance(delta, n.Combined)
    assert isinstance(delta.left, n.DeltaTrigger)


def test_late_of_the_trigger_is_told_from_late_data() -> None:
    clauses = clauses_of(
        parse_query("SELECT a FROM t GROUP BY a TRIGGER AFTER WATERMARK LATE EVERY 1 ROWS LATE DATA DROP")
    )
    assert clauses.trigger == n.Trigger(n.AfterWatermark(late=n.EveryRows(1)))
    assert clauses.late_data == n.LateData(action=n.LateAction.DROP)


def test_a_late_table_is_told_from_a_longer_interval() -> None:
    late = clauses_of(
        parse_query("SELECT a FROM t GROUP BY a LATE DATA ALLOW INTERVAL '5' SECOND TO hour_late")
    ).late_data
    assert late == n.LateData(_five_seconds(), n.LateAction.TO, exp.to_table("hour_late"))


@pytest.mark.parametrize(
    ("text", "emit"),
    [
        ("ON WINDOW CLOSE", n.Emit(n.EmitKind.ON_WINDOW_CLOSE)),
        ("FINAL", n.Emit(n.EmitKind.ON_WINDOW_CLOSE)),
        ("AFTER WATERMARK", n.Emit(n.EmitKind.ON_WINDOW_CLOSE)),
        ("AFTER WATERMARK WITH DELAY INTERVAL '5' SECOND", n.Emit(n.EmitKind.ON_WINDOW_CLOSE, _five_seconds())),
        ("CHANGES", n.Emit(n.EmitKind.CHANGES)),
        ("ON UPDATE", n.Emit(n.EmitKind.CHANGES)),
        ("EVERY INTERVAL '5' SECOND", n.Emit(n.EmitKind.EVERY, _five_seconds())),
    ],
)
def test_spellings_of_emit_that_mean_the_same_are_equal(text: str, emit: n.Emit) -> None:
    assert clauses_of(parse_query(f"SELECT a FROM t EMIT {text}")).emit == emit


def test_a_window_among_the_keys_leaves_the_keys_alone() -> None:
    query = parse_query("SELECT a FROM t GROUP BY a, HOP(ts, 5 ROWS, INTERVAL '5' SECOND), b")
    assert [e.sql() for e in query.args["group"].expressions] == ["a", "b"]
    assert clauses_of(query).window == n.GroupWindow(
        n.WindowKind.HOP, exp.column("ts"), (n.RowCount(5), n.Duration(_five_seconds()))
    )


def test_a_window_without_keys_has_an_empty_group() -> None:
    query = parse_query("SELECT COUNT(*) FROM t GROUP BY COUNT WINDOW (5 ROWS)")
    assert query.args["group"].expressions == []
    assert clauses_of(query).window == n.CountWindow(n.RowCount(5))


def test_emit_behind_a_set_operation_belongs_to_it() -> None:
    union = parse_query("SELECT a FROM t UNION ALL SELECT b FROM u GROUP BY b TRIGGER NEVER EMIT CHANGES")
    assert isinstance(union, exp.Union)
    assert clauses_of(union) == n.StreamClauses(emit=n.Emit(n.EmitKind.CHANGES))
    assert clauses_of(union.expression) == n.StreamClauses(trigger=n.Trigger(n.Never()))


def test_emit_behind_a_parenthesis_belongs_to_the_whole() -> None:
    union = parse_query("(SELECT a FROM t) UNION ALL (SELECT b FROM u) EMIT CHANGES")
    assert clauses_of(union).emit == n.Emit(n.EmitKind.CHANGES)
    subquery = parse_query("(SELECT a FROM t) EMIT CHANGES")
    assert clauses_of(subquery).emit == n.Emit(n.EmitKind.CHANGES)


def test_a_query_without_clauses_has_empty_ones() -> None:
    query = parse_query("SELECT a FROM t")
    assert clauses_of(query) == n.StreamClauses()
    assert table_clauses_of(query.args["from_"].this) == n.TableClauses()
    assert table_function_of(query.args["from_"].this) is None
    assert match_recognize_of(query) is None


def test_partition_keys_end_before_the_next_argument() -> None:
    function = table_function_of(
        parse_query("SELECT * FROM SESSION(TABLE t PARTITION BY k, j, DESCRIPTOR(ts), i)").args["from_"].this
    )
    assert function is not None
    table, descriptor, gap = (a.value for a in function.arguments)
    assert isinstance(table, n.TableArgument)
    assert [k.sql() for k in table.partition_by] == ["k", "j"]
    assert descriptor == n.Descriptor((exp.to_identifier("ts"),))
    assert gap == exp.column("i")


def test_named_arguments_keep_their_names_and_outer_table_is_remembered() -> None:
    function = table_function_of(
        parse_query("SELECT * FROM TABLE(my.f(input => TABLE t, `OFFSET` => 3, n => 5 ROWS))").args["from_"].this
    )
    assert function == n.TableFunction(
        "my.f",
        (
            n.Argument("input", n.TableArgument(exp.to_table("t"))),
            n.Argument("OFFSET", exp.Literal.number(3)),
            n.Argument("n", n.RowCount(5)),
        ),
        wrapped=True,
    )


def test_a_lookup_collects_its_options() -> None:
    text = (
        "OUTPUT KEY ORDERED, CAPACITY 5, ON TIMEOUT DEFER, ON ERROR TO f, CACHE 9 ROWS, BATCH 3, "
        "RETRY ON MISS 2 TIMES (EXPONENTIAL FROM a TO b)"
    )
    join = parse_query(f"SELECT * FROM o JOIN c LOOKUP ASYNC ({text}) ON o.a = c.a").args["joins"][0]
    assert table_clauses_of(join.this).lookup == n.LookupAsync(
        order=n.LookupOrder.KEY_ORDERED,
        capacity=5,
        on_timeout="DEFER",
        on_error="TO",
        error_table=exp.to_table("f"),
        retry=(n.Retry("MISS", 2, exp.column("a"), exponential=True, limit=exp.column("b")),),
        cache=n.Cache(9),
        batch=3,
    )


def test_system_time_before_and_behind_the_alias_is_the_same() -> None:
    before = parse_query("SELECT * FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt AS x ON o.a = x.a")
    behind = parse_query("SELECT * FROM o JOIN c AS x FOR SYSTEM_TIME AS OF o.pt ON o.a = x.a")
    assert before == behind
    assert "FOR SYSTEM_TIME AS OF o.pt AS x" in to_sql(behind)


def test_a_join_without_a_condition_gets_none() -> None:
    assert parse_query("SELECT * FROM a JOIN b").args["joins"][0].args.get("on") is None


def test_hints_are_calls_with_their_options() -> None:
    query = parse_query(
        "SELECT /*+ LOOKUP('table' = 'c', 'async' = 'true'), BROADCAST(b) */ a FROM t /*+ OPTIONS('k' = 'v') */ x"
    )
    lookup, broadcast = query.args["hint"].expressions
    assert (lookup.name, [e.sql() for e in lookup.expressions]) == ("LOOKUP", ["'table' = 'c'", "'async' = 'true'"])
    assert broadcast.name == "BROADCAST"
    table = query.args["from_"].this
    options = table_clauses_of(table).hint
    assert options is not None
    assert options.hint.expressions[0].name == "OPTIONS"
    assert table.alias == "x"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A", n.PatternVariable("A")),
        ("A*", n.PatternRepetition(n.PatternVariable("A"), 0, None)),
        ("A+?", n.PatternRepetition(n.PatternVariable("A"), 1, None, reluctant=True)),
        ("A??", n.PatternRepetition(n.PatternVariable("A"), 0, 1, reluctant=True)),
        ("A{2}", n.PatternRepetition(n.PatternVariable("A"), 2, 2)),
        ("A{2,}", n.PatternRepetition(n.PatternVariable("A"), 2, None)),
        ("A{,3}", n.PatternRepetition(n.PatternVariable("A"), 0, 3)),
        ("A B", n.PatternSequence((n.PatternVariable("A"), n.PatternVariable("B")))),
        (
            "A | B C",
            n.PatternAlternation(
                (n.PatternVariable("A"), n.PatternSequence((n.PatternVariable("B"), n.PatternVariable("C"))))
            ),
        ),
        (
            "(A | B){2,3}",
            n.PatternRepetition(n.PatternAlternation((n.PatternVariable("A"), n.PatternVariable("B"))), 2, 3),
        ),
    ],
)
def test_a_pattern_becomes_a_tree(text: str, pattern: n.Pattern) -> None:
    query = parse_query(f"SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({text}) DEFINE A AS a > 1) AS m")
    matched = match_recognize_of(query)
    assert matched is not None
    assert matched.pattern == pattern
    assert query.args["match"].alias == "m"


@pytest.mark.parametrize("alias", ["ALIGN", "EMIT", "EVICT", "LOOKUP", "TRIGGER", "watermark", "late", "window_start"])
def test_words_of_clauses_are_names_behind_as(alias: str) -> None:
    query = parse_query(f"SELECT {alias}.a FROM t AS {alias} WHERE {alias}.b > 1")
    assert query.args["from_"].this.alias == alias


@pytest.mark.parametrize("alias", ["watermark", "late", "x", "session", "key", "data"])
def test_an_alias_without_as_is_not_taken_for_a_clause(alias: str) -> None:
    assert parse_query(f"SELECT a FROM t {alias} WHERE b > 1").args["from_"].this.alias == alias


def test_columns_may_be_named_like_words_of_the_language() -> None:
    names = ["count", "window", "session", "trigger", "emit", "watermark", "rows", "key", "mode", "id", "time", "data"]
    query = parse_query(f"SELECT {', '.join(names)} FROM t GROUP BY {', '.join(names)}")
    assert [e.name for e in query.expressions] == names
    (table,) = parse_script(f"CREATE TABLE t ({', '.join(f'{name} INT' for name in names)})")
    assert isinstance(table, n.CreateTable)
    assert [c.name for c in table.columns] == names


def test_create_table_keeps_columns_key_watermark_and_options() -> None:
    (table,) = parse_script(
        "CREATE TEMPORARY TABLE IF NOT EXISTS db.t (a BIGINT PRIMARY KEY NOT ENFORCED, b AS a + 1, "
        "WATERMARK FOR c AS c, d STRING METADATA FROM 'x' VIRTUAL) COMMENT 'c' WITH ('k' = 'v', 'k2' = '')"
    )
    assert isinstance(table, n.CreateTable)
    a, b, d = table.columns
    assert a == n.PhysicalColumn("a", exp.DataType.build("BIGINT"), nullable=False)
    assert b == n.ComputedColumn("b", exp.column("a") + 1)
    assert d == n.MetadataColumn("d", exp.DataType.build("TEXT"), "x", virtual=True)
    assert table.primary_key == ("a",)
    assert table.watermark == n.WatermarkDef("c", exp.column("c"))
    assert table.options == (n.Option("k", "v"), n.Option("k2", ""))
    assert (table.name.parts, table.temporary, table.if_not_exists, table.comment) == (("db", "t"), True, True, "c")


def test_trees_survive_sqlglots_copy_transform_and_comparison() -> None:
    query = parse_query("SELECT a FROM TUMBLE(TABLE t, DESCRIPTOR(ts), i) GROUP BY a TRIGGER EVERY 5 ROWS EMIT CHANGES")
    renamed = query.transform(lambda e: exp.column("b") if e == exp.column("a") else e)
    assert query.copy() == query
    assert hash(query.copy()) == hash(query)
    assert clauses_of(renamed) == clauses_of(query)
    assert to_sql(renamed).startswith(
        "SELECT b FROM TUMBLE(TABLE t, DESCRIPTOR(ts), i) GROUP BY b TRIGGER EVERY 5 ROWS"
    )
    other = parse_query("SELECT a FROM TUMBLE(TABLE t, DESCRIPTOR(ts), i) GROUP BY a TRIGGER EVERY 6 ROWS EMIT CHANGES")
    assert other != query


def test_printing_changes_nothing_in_the_tree() -> None:
    table = "SESSION(TABLE t, DESCRIPTOR(ts), CAST(x AS TIMESTAMP(3)))"
    query = parse_query(f"SELECT MAX(a) FROM {table} GROUP BY b TRIGGER WHEN (MAX(a) > 1)")
    before = query.copy()
    assert to_sql(query) == to_sql(query)
    query.sql(dialect="sqlstream", pretty=True)
    assert query == before
