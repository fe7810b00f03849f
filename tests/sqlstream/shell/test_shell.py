"""The shell: pieces with prompt_toolkit's pipe input, the whole in a terminal of its own."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pexpect
import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import sqlstream
from sqlstream.shell.line_editor import is_finished, line_editor
from sqlstream.shell.loop import Shell

ROOT = Path(__file__).parents[3]
NUMBERS = """CREATE TABLE numbers (n BIGINT)
WITH ('connector' = 'datagen', 'number-of-rows' = '3', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
      'fields.n.end' = '3');
"""


# --- line editor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "help", "SELECT 1;", "SELECT 1; -- done", "a; b;", "\\d", "\\d bids", "a; help"])
def test_enter_hands_over_what_is_complete(text):
    assert is_finished(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", "a; b", "SELECT 1 -- ;"])
def test_enter_begins_a_new_line_in_what_is_not(text):
    assert not is_finished(text)


def test_statement_spans_lines_and_is_remembered(tmp_path):
    history = tmp_path / "history"
    with create_pipe_input() as keys:
        keys.send_text("SELECT 1\r, 2;\r")
        editor = line_editor(history, keys, DummyOutput())
        assert editor.prompt() == "SELECT 1\n, 2;"
    with create_pipe_input() as keys:
        keys.send_text("\x1b[A\r")  # up, Enter
        assert line_editor(history, keys, DummyOutput()).prompt() == "SELECT 1\n, 2;"


# --- piped input ----------------------------------------------------------------------------------------------


@pytest.fixture
def shell(spark):
    out = io.StringIO()
    shell = Shell(sqlstream.connect(spark), out)
    yield shell, out
    shell.close()


@pytest.mark.spark
def test_piped_statements_run_in_order_and_go_on_after_a_mistake(shell, capsys):
    running, out = shell
    running.read(io.StringIO("SELECT m FROM numbers;\n" + NUMBERS + "SELECT m FROM numbers;\nSELECT n\nFROM numbers"))
    assert out.getvalue() == "OK\n n\n---\n 1\n 2\n 3\n(3 rows)\n"
    mistakes = capsys.readouterr().err
    assert mistakes.startswith('SS202: table or view "numbers" does not exist')
    assert 'SS201: column "m" does not exist\nLINE 5: SELECT m FROM numbers;\n               ^' in mistakes
    assert running.failures == 2


@pytest.mark.spark
def test_source_runs_a_file_and_quit_ends(shell, tmp_path, capsys):
    running, out = shell
    path = tmp_path / "a b.sql"
    path.write_text(NUMBERS + "SHOW TABLES;")
    running.read(io.StringIO(f"source {path}\nsource {path}.none\nquit\nSHOW VIEWS;\n"))
    assert out.getvalue() == "OK\n table name\n------------\n numbers\n(1 row)\n"
    assert "No such file" in capsys.readouterr().err


@pytest.mark.spark
def test_long_results_show_a_page_of_each_batch(shell, monkeypatch):
    running, out = shell
    monkeypatch.setattr(running, "_page", lambda: 2)
    running.read(io.StringIO(NUMBERS + "SELECT n FROM numbers;"))
    assert out.getvalue().endswith(" 1\n 2\n  … 1 more\n(3 rows, 2 shown)\n")


@pytest.mark.spark
def test_insert_tells_how_many_rows_it_wrote(shell):
    running, out = shell
    sink = "CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');"
    running.read(io.StringIO(NUMBERS + sink + "INSERT INTO nowhere SELECT n FROM numbers WHERE n > 1;"))
    assert out.getvalue() == 'OK\nOK\n2 rows written to "nowhere"\n'


# --- a terminal -----------------------------------------------------------------------------------------------


def _leave(terminal: pexpect.spawn) -> None:
    """Ctrl-D until the shell ends: one pressed between the prompt's text and its reading of keys is lost."""
    for _ in range(20):
        terminal.send("\x04")
        if terminal.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=3) == 0:
            return
    raise AssertionError("Ctrl-D does not end the shell")


@pytest.mark.spark
def test_ctrl_c_cancels_the_query_and_ctrl_d_leaves(tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb", "PROMPT_TOOLKIT_NO_CPR": "1"}
    terminal = pexpect.spawn(
        sys.executable, ["-m", "sqlstream", "shell", "--master", "local[1]"], cwd=ROOT, env=environment, timeout=120,
        encoding="utf-8", dimensions=(40, 120),
    )  # fmt: skip
    try:
        terminal.expect("sqlstream> ")
        terminal.send("CREATE TABLE ticks (n BIGINT)\rWITH ('connector' = 'datagen', 'rows-per-second' = '10');\r")
        terminal.expect("OK")
        terminal.send("SELECT m FROM ticks;\r")
        terminal.expect('SS201: column "m" does not exist')
        terminal.send("SELECT n FROM ticks;\r")
        terminal.expect(r"\d{5,}\r\n")
        terminal.sendintr()
        terminal.expect("stopped")
        terminal.send("SHOW TABLES;\r")
        terminal.expect(r"\(1 row\)")
        terminal.expect("sqlstream> ")
        _leave(terminal)
    finally:
        terminal.close(force=True)
    assert terminal.exitstatus == 0
    assert "SHOW TABLES;" in (tmp_path / "sqlstream" / "history").read_text()
