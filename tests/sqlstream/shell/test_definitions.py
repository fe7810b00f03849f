"""What a shell has defined, as the script for another process: materialized views, whose jobs must not start twice."""

from __future__ import annotations

import pytest

from sqlstream.grammar import nodes, parse_script
from sqlstream.shell.submitting import Definitions
from sqlstream.statements.checking import check_script
from sqlstream.statements.registry import define
from sqlstream.workspace import Workspace

SCRIPT = """
CREATE TABLE sales (shop STRING, amount BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
CREATE TABLE copies (shop STRING, n BIGINT) WITH ('connector' = 'blackhole');
CREATE MATERIALIZED VIEW totals AS SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop;
"""


def remembered(script: str, statement: str) -> list[str]:
    workspace, definitions = Workspace(), Definitions()
    for defined in parse_script(script):
        define(defined, workspace, script)
        definitions.add(defined, workspace.catalog)
    (last,) = parse_script(statement)
    text = definitions.script({}, last)
    assert check_script(text, Workspace()) == ()
    return text.splitlines()[2:]


def test_an_insert_reads_the_rows_of_a_view() -> None:
    view, insert = remembered(SCRIPT, "INSERT INTO copies SELECT * FROM totals")
    (table,) = parse_script(view)
    assert isinstance(table, nodes.CreateTable)
    assert {option.key: option.value for option in table.options}["table-name"] == "totals"
    assert insert == "INSERT INTO copies SELECT * FROM totals;"


def test_another_view_reads_its_changes() -> None:
    view, _ = remembered(SCRIPT, "CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS shops FROM totals GROUP BY n")
    assert view == "CREATE VIEW totals AS SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop;"


@pytest.mark.parametrize("words", ["CREATE MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW"])
def test_a_view_is_created_by_its_own_statement_alone(words: str) -> None:
    (view,) = remembered(SCRIPT, f"{words} totals AS SELECT shop FROM sales")
    assert view == f"{words} totals AS SELECT shop FROM sales;"


def test_a_view_that_was_dropped_is_gone() -> None:
    dropped = f"{SCRIPT} DROP MATERIALIZED VIEW totals;"
    assert remembered(dropped, "INSERT INTO copies SELECT shop, amount FROM sales")[1] == "DROP TABLE totals;"
