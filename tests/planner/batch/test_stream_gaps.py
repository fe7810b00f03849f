"""Parts of queries that a stream does not execute: found in the syntax, and refused by the binder of streams alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.batch import Batch, chosen
from sqlstream.connectors import Source, connector
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script
from sqlstream.planner.batch import refused_by_streams_alone, resolve, stream_gaps
from sqlstream.planner.catalog import Table
from sqlstream.plans import plan_of
from sqlstream.statements.registry import define
from sqlstream.workspace import Workspace

DEFINITIONS = """
CREATE TABLE t (a INT, b INT, arr ARRAY<INT>, at TIMESTAMP, WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/data/t', 'format' = 'parquet');
CREATE TABLE u (a INT, b INT, arr ARRAY<INT>)
    WITH ('connector' = 'filesystem', 'path' = '/data/u', 'format' = 'parquet');
CREATE TABLE v (a INT, b INT, at TIMESTAMP, WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/data/v', 'format' = 'parquet');
CREATE TABLE s (a INT, st STRUCT<x INT, y INT>)
    WITH ('connector' = 'filesystem', 'path' = '/data/s', 'format' = 'parquet');
CREATE TABLE people (id INT, name STRING) WITH ('connector' = 'sqlite', 'path' = '/data/p', 'table-name' = 'p');
CREATE TABLE plain (a INT) WITH ('connector' = 'filesystem', 'path' = '/data/plain', 'format' = 'csv');
CREATE VIEW sorted_view AS SELECT a FROM t ORDER BY a LIMIT 3;
CREATE VIEW counted_view AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
CREATE FUNCTION gross(net INT, rate INT DEFAULT 2) RETURNS INT LANGUAGE SQL RETURN net * rate;
"""
QUERIES = (Path(__file__).parent / "stream_gaps.sql").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    created = Workspace()
    for definition in parse_script(DEFINITIONS):
        define(definition, created, DEFINITIONS)
    return created


def gaps_of(query: nodes.Query, workspace: Workspace) -> frozenset[str]:
    names: dict[str, str] = {}
    resolved = resolve(query.query, workspace.catalog, lambda table: names.setdefault(table.name, f"x_{len(names)}"))
    tables = {names[one.table.name]: one.table for one in resolved.inputs}
    return stream_gaps(resolved.query, workspace.catalog, tables, _is_source)


def _is_source(table: Table) -> bool:
    return isinstance(connector(table.connector), Source)


@pytest.mark.parametrize("text", QUERIES)
def test_a_gap_is_what_the_binder_of_streams_refuses(workspace: Workspace, text: str) -> None:
    (query,) = parse_script(text)
    assert isinstance(query, nodes.Query)
    try:
        plan_of(query, workspace)
        refused: set[str] = set()
    except SqlStreamError as error:
        refused = {diagnostic.code for diagnostic in error.diagnostics if refused_by_streams_alone(diagnostic)}
    gaps = gaps_of(query, workspace)
    assert bool(gaps) == bool(refused), (gaps, refused)


@pytest.mark.parametrize("text", QUERIES)
def test_an_insert_of_what_a_stream_executes_is_a_stream(workspace: Workspace, text: str) -> None:
    (query,) = parse_script(text)
    assert isinstance(query, nodes.Query)
    insert = nodes.Insert(nodes.Name(("plain",)), query.query)
    try:
        is_batch = isinstance(chosen(insert, workspace), Batch)
    except SqlStreamError:  # the columns do not fit
        return
    if not is_batch:
        assert not gaps_of(query, workspace)


WRONG = {
    "SELECT nope FROM t ORDER BY a": "SS201",
    "SELECT a FROM t ORDER BY nope": "SS201",
    "SELECT nope FROM sorted_view ORDER BY a": "SS201",
    "SELECT nope FROM t LIMIT 0": "SS201",
    "SELECT a FROM t ORDER BY 7": "SS643",
    "SELECT nosuch(name) FROM people": "SS203",
    "INSERT INTO plain SELECT name FROM people": "SS206",
}


@pytest.mark.parametrize("text", WRONG)
def test_names_of_sorted_rows_are_checked_without_spark(workspace: Workspace, text: str) -> None:
    (statement,) = parse_script(text)
    assert isinstance(statement, nodes.Query | nodes.Insert)
    with pytest.raises(SqlStreamError) as error:
        chosen(statement, workspace)
    assert [diagnostic.code for diagnostic in error.value.diagnostics] == [WRONG[text]]
