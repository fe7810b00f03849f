"""Cells of notebooks, in a shell of IPython without a screen."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import sqlstream
from sqlstream.notebook import LiveTable

pytestmark = pytest.mark.spark

DEFINITIONS = """
CREATE TABLE numbers (n INT) WITH (
    'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '5');
CREATE TABLE endless (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')
"""


@pytest.fixture(scope="module")
def shell(spark, tmp_path_factory):
    made = InteractiveShell.instance(ipython_dir=str(tmp_path_factory.mktemp("ipython")))
    history: Any = made.history_manager
    history.enabled = False
    made.run_line_magic("load_ext", "sqlstream.notebook")
    with sqlstream.connect(spark) as session:
        made.user_ns["session"] = session
        session.sql(DEFINITIONS)
        yield made
    history.end_session()
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell):
    """Runs a cell, and gives what it displays: the text of each output, and whether it took another one's place."""

    def run_cell(line: str, cell: str):
        with capture_output() as captured:
            shell.run_cell_magic("sqlstream", f"--session session {line}", cell).__repr__()
        return [(output.data["text/plain"], output.update) for output in captured.outputs]

    return run_cell


def test_the_table_of_a_query_changes_in_place_and_is_kept(shell, run):
    shell.user_ns["least"] = 2
    shown = run("--to big --rows 2", "SELECT n, n * n AS square FROM numbers WHERE n > :least")
    assert shown[0] == ("n | square\n--+-------\nwaiting for rows", False)
    assert all(update for _, update in shown[1:])
    assert shown[-1][0] == "n | square\n--+-------\n4 | 16\n5 | 25\n3 rows, finished"
    assert shell.user_ns["big"]["square"].tolist() == [9, 16, 25]


def test_updating_queries_show_the_table_that_they_amount_to(shell, run):
    shown = run("--to counts", "SELECT n % 2 AS odd, COUNT(*) AS c FROM numbers GROUP BY n % 2 EMIT CHANGES")
    assert shown[-1][0].endswith("2 rows, finished")
    assert sorted(shell.user_ns["counts"].itertuples(index=False, name=None)) == [(0, 2), (1, 3)]


def test_queries_without_an_end_stop_after_a_while(run):
    shown = run("--for 2 --rows 3", "SELECT n FROM endless")
    assert len(shown) > 1 and shown[-1][0].endswith("rows, stopped")


def test_an_interrupt_ends_the_cell_and_the_query(shell, run, monkeypatch):
    def interrupted(self):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr("sqlstream.query.Query.batches", interrupted)
    assert run("", "SELECT n FROM endless")[-1][0].endswith("0 rows, stopped")
    assert shell.user_ns["session"].jobs[-1].state.value == "STOPPED"


def test_a_chart_is_drawn_in_place_of_the_table(shell, run):
    shown = run("--plot square --to squares", "SELECT n, n * n AS square FROM numbers")
    assert shown[-1][0] == "chart of square: 5 rows, finished"
    assert shell.user_ns["squares"]["square"].tolist() == [1, 4, 9, 16, 25]
    grouped = "SELECT n % 2 AS odd, COUNT(*) AS c FROM numbers GROUP BY n % 2 EMIT CHANGES"
    assert run("--plot c --by odd", grouped)[-1][0] == "chart of c by odd: 2 rows, finished"
    result = shell.run_cell(f"%%sqlstream --session session --plot nothing\n{grouped}")
    assert "needs a column of the query" in str(result.error_in_exec)


def test_rows_of_show_can_be_kept(shell, run):
    run("--to tables", "SHOW TABLES")
    assert shell.user_ns["tables"]["table name"].tolist() == ["endless", "numbers"]


def test_mistakes_are_shown_without_lines_of_python(shell):
    result = shell.run_cell("%%sqlstream --session session\nSELECT nothing FROM numbers")
    lines = result.error_in_exec._render_traceback_()
    assert lines[0].startswith('SS201: column "nothing" does not exist') and lines[2].strip() == "^^^^^^^"
    for wrong in ("%%sqlstream --session nobody\nSELECT 1", "%%sqlstream --session session\nSELECT :nobody"):
        assert type(shell.run_cell(wrong).error_in_exec).__name__ == "UsageError"


def test_tables_are_shown_in_a_browser():
    text = LiveTable(("a",), [("<b>",)], "1 row, running")._repr_html_()
    assert "<td>&lt;b&gt;</td>" in text and text.endswith("</table><p>1 row, running</p>")
