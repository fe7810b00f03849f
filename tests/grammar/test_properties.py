"""Whatever tree of clauses can be built prints as text that parses to the same tree."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.grammar import (
    clauses_of,
    format_script,
    match_recognize_of,
    parse_query,
    parse_script,
    table_clauses_of,
    table_function_of,
    to_sql,
)
from sqlstream.grammar import nodes as n
from sqlstream.grammar.trees import ARG, Carrier
from tests.grammar import strategies as random

many = settings(max_examples=60)


def _select(clauses: n.StreamClauses) -> exp.Select:
    """A SELECT with the clauses."""
    select = exp.select("k").from_("t").group_by("k")
    if clauses != n.StreamClauses():
        select.set(ARG, Carrier(this=clauses))
    return select


@many
@given(random.stream_clauses)
def test_stream_clauses(clauses: n.StreamClauses) -> None:
    assert clauses_of(parse_query(to_sql(_select(clauses)))) == clauses


@many
@given(random.trigger_expression)
def test_triggers(expression: n.TriggerExpr) -> None:
    clauses = n.StreamClauses(trigger=n.Trigger(expression))
    assert clauses_of(parse_query(to_sql(_select(clauses)))).trigger == clauses.trigger


@many
@given(random.table_clauses)
def test_table_clauses(clauses: n.TableClauses) -> None:
    table = exp.to_table("t")
    table.set(ARG, Carrier(this=clauses))
    printed = to_sql(exp.select("a").from_(table).where("b"))
    assert table_clauses_of(parse_query(printed).args["from_"].this) == clauses


@many
@given(random.table_function)
def test_table_functions(function: n.TableFunction) -> None:
    text = f"SELECT a FROM {to_sql(function)} AS x"
    assert table_function_of(parse_query(text).args["from_"].this) == function


@many
@given(random.pattern)
def test_patterns(pattern: n.Pattern) -> None:
    match = n.MatchRecognize(pattern, (n.PatternDefinition("A", exp.column("a")),))
    parsed = match_recognize_of(parse_query(f"SELECT a FROM t {to_sql(match)}"))
    assert parsed is not None
    assert parsed.pattern == pattern


@settings(max_examples=40)
@given(st.lists(random.stream_clauses, min_size=1, max_size=3))
def test_nested_queries_and_their_layout(levels: list[n.StreamClauses]) -> None:
    query = exp.select("k").from_("t")
    for clauses in levels:
        query = _select(clauses).from_(query.subquery("s"))
    text = to_sql(query)
    assert parse_query(text) == query
    assert parse_script(format_script(text)) == parse_script(text)


@many
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.text(alphabet="\\\x00\b'\"01dnu", max_size=8))
def test_strings(text: str) -> None:
    statement = n.Set(text, text[::-1])
    assert parse_script(to_sql(statement)) == (statement,)


@many
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=10))
def test_names(name: str) -> None:
    statement = n.Describe("TABLE", n.Name((name, name)))
    assert parse_script(to_sql(statement)) == (statement,)
    column = n.PhysicalColumn(name, exp.DataType.build("INT"))
    table = n.CreateTable(n.Name(("t",)), (column, replace(column, nullable=False)), None, (name,), ())
    assert parse_script(to_sql(table)) == (table,)
