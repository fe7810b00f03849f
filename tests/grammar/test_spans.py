"""Every part of a script knows where it stands, also in the last of several statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest
from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar import clauses_of, name_span_of, parse_script, span_of, table_clauses_of, table_function_of
from sqlstream.grammar.nodes import CreateTable, GroupWindow, Node, Query, TableArgument
from tests.grammar.dialect_examples import CHAPTERS

_BEFORE = "SET 'a' = 'b';\n-- a comment\nDROP TABLE x; SHOW TABLES;\n"


def _query(text: str) -> tuple[str, exp.Expression]:
    """The script and its last statement's query."""
    script = f"{_BEFORE}{text};"
    statement = parse_script(script)[-1]
    assert isinstance(statement, Query)
    return script, statement.query


def _at(script: str, span: Span | None) -> str:
    assert span is not None
    return script[span.start : span.end]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a", exp.Column),
        ("t.a", exp.Column),
        ("`a b`.`c`", exp.Column),
        ("5", exp.Literal),
        ("'it''s'", exp.Literal),
        ("TRUE", exp.Boolean),
        ("NULL", exp.Null),
        ("INTERVAL '5' SECOND", exp.Interval),
        ("INTERVAL '33:20' MINUTE TO SECOND", exp.Interval),
        ("UPPER(a)", exp.Anonymous),
        ("COUNT(*)", exp.Count),
        ("COUNT(DISTINCT a, b)", exp.Count),
        ("f(g(h), 1)", exp.Anonymous),
        ("LISTAGG(a, ',')", exp.GroupConcat),
        ("CAST(a AS DECIMAL(10, 2))", exp.Cast),
        ("a::INT", exp.Cast),
        ("CASE WHEN a THEN 1 END", exp.Case),
        ("IF(a, 1, 2)", exp.If),
        ("(a + b)", exp.Paren),
        ("a + b * 2", exp.Add),
        ("-a", exp.Neg),
        ("NOT a", exp.Not),
        ("a AND b OR c", exp.Or),
        ("a = b", exp.EQ),
        ("a IN (1, 2)", exp.In),
        ("a BETWEEN 1 AND 2", exp.Between),
        ("a IS NULL", exp.Is),
        ("a LIKE 'x'", exp.Like),
        ("m['k']", exp.Bracket),
        ("ARRAY[1, 2]", exp.Array),
        ("EXTRACT(HOUR FROM ts)", exp.Extract),
        ("SUM(a) OVER (ORDER BY b)", exp.Window),
        ("SUM(a) FILTER (WHERE b > 1)", exp.Filter),
        ("(SELECT MAX(a) FROM u)", exp.Subquery),
        ("CURRENT_TIMESTAMP", exp.CurrentTimestamp),
        ("t.*", exp.Column),
        ("a AS b", exp.Alias),
    ],
)
def test_an_expression_spans_its_text(expression: str, kind: type[exp.Expression]) -> None:
    script, query = _query(f"SELECT x, {expression} FROM t")
    actual = query.expressions[1]
    assert isinstance(actual, kind)
    assert _at(script, span_of(actual)) == expression


def test_a_star_spans_its_text() -> None:
    script, query = _query("SELECT * FROM t")
    assert _at(script, span_of(query.expressions[0])) == "*"


@pytest.mark.parametrize("call", ["UPPER(a)", "COUNT(a)", "my_function ( a )"])
def test_the_name_of_a_call_has_a_span_of_its_own(call: str) -> None:
    script, query = _query(f"SELECT {call} FROM t")
    assert _at(script, name_span_of(query.expressions[0])) == call.partition("(")[0].strip()


def test_arguments_and_operands_have_spans() -> None:
    script, query = _query("SELECT f(a, 'x', b + 1) FROM t WHERE c > 5 AND d")
    spans = {_at(script, span_of(e)) for e in query.find_all(exp.Column, exp.Literal, exp.Binary)}
    assert spans >= {"a", "'x'", "b + 1", "c > 5", "5", "d", "c > 5 AND d"}


@pytest.mark.parametrize(
    "table",
    [
        "db.t AS x",
        "t",
        "(SELECT 1) AS s",
        "UNNEST(a) AS u(x)",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND) AS w",
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '9' SECOND))",
    ],
)
def test_a_table_spans_its_text(table: str) -> None:
    script, query = _query(f"SELECT a FROM {table} WHERE a > 1")
    assert _at(script, span_of(query.args["from_"].this)) == table


def test_a_hint_spans_its_text_and_so_does_its_inside() -> None:
    script, query = _query("SELECT /* plain */\n /*+ LOOKUP('table' = 'c') */ a FROM t")
    hint = query.args["hint"]
    assert _at(script, span_of(hint)) == "/*+ LOOKUP('table' = 'c') */"
    assert _at(script, span_of(hint.expressions[0])) == "LOOKUP('table' = 'c')"


@pytest.mark.parametrize(
    ("field", "clause"),
    [
        ("window", "COUNT WINDOW (5 ROWS)"),
        ("trigger", "TRIGGER AFTER WATERMARK EARLY EVERY 5 ROWS DISCARDING"),
        ("evict", "EVICT AFTER KEEP LAST 5 ROWS"),
        ("late_data", "LATE DATA ALLOW INTERVAL '5' SECOND TO late"),
        ("emit", "EMIT CHANGES"),
    ],
)
def test_a_streaming_clause_spans_its_text(field: str, clause: str) -> None:
    script, query = _query(f"SELECT a FROM t GROUP BY a {clause}")
    assert _at(script, getattr(clauses_of(query), field).span) == clause
    assert _at(script, clauses_of(query).span) == clause


def test_a_group_window_and_its_measures_span_their_text() -> None:
    script, query = _query("SELECT a FROM t GROUP BY a, HOP(ts, INTERVAL '5' SECOND, 9 ROWS)")
    window = clauses_of(query).window
    assert isinstance(window, GroupWindow)
    assert _at(script, window.span) == "HOP(ts, INTERVAL '5' SECOND, 9 ROWS)"
    assert [_at(script, m.span) for m in window.measures] == ["INTERVAL '5' SECOND", "9 ROWS"]


def test_arguments_of_a_table_function_span_their_text() -> None:
    script, query = _query("SELECT * FROM HOP(TABLE db.t PARTITION BY k, DESCRIPTOR(ts), SLIDE => 5 ROWS, SIZE => i)")
    function = table_function_of(query.args["from_"].this)
    assert function is not None
    assert [_at(script, a.span) for a in function.arguments] == [
        "TABLE db.t PARTITION BY k",
        "DESCRIPTOR(ts)",
        "SLIDE => 5 ROWS",
        "SIZE => i",
    ]
    table = function.arguments[0].value
    assert isinstance(table, TableArgument)
    assert _at(script, span_of(table.source)) == "db.t"


def test_a_lookup_spans_its_text() -> None:
    script, query = _query("SELECT * FROM a JOIN d AS x LOOKUP ASYNC (CAPACITY 5) ON a.k = x.k")
    lookup = table_clauses_of(query.args["joins"][0].this).lookup
    assert lookup is not None
    assert _at(script, lookup.span) == "LOOKUP ASYNC (CAPACITY 5)"


def test_columns_and_options_of_create_table_span_their_text() -> None:
    script = f"{_BEFORE}CREATE TABLE t (a BIGINT NOT NULL, b AS a + 1, WATERMARK FOR c AS c) WITH ('k' = 'v')"
    table = parse_script(script)[-1]
    assert isinstance(table, CreateTable)
    assert table.watermark is not None
    parts = [*table.columns, table.watermark, *table.options, table.name]
    assert [_at(script, p.span) for p in parts] == [
        "a BIGINT NOT NULL",
        "b AS a + 1",
        "WATERMARK FOR c AS c",
        "'k' = 'v'",
        "t",
    ]


@pytest.mark.parametrize("text", [text for texts in CHAPTERS.values() for text in texts])
def test_a_statement_spans_its_text_and_holds_its_parts(text: str) -> None:
    script = f"{_BEFORE}{text.rstrip(';')}"
    for statement in parse_script(script)[3:]:
        assert statement.span.start >= len(_BEFORE)
        for node in _nodes(statement):
            assert statement.span.start <= node.span.start < node.span.end <= statement.span.end, node
    assert parse_script(script)[-1].span.end == len(script)


def _nodes(value: object) -> Iterator[Node]:
    """All nodes with a place in a tree of nodes and expressions."""
    if isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, exp.Expression):
        for expression in value.walk():
            yield from _nodes(tuple(a for a in expression.args.values() if isinstance(a, Node)))
    elif isinstance(value, Node):
        yield value
        yield from _nodes(tuple(getattr(value, f.name) for f in fields(value)))
