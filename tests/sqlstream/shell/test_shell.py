"""The shell: pieces with prompt_toolkit's pipe input, the whole in a terminal of its own."""

from __future__ import annotations

import io
import re
import stat
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import sqlstream
from sqlstream.cli import commands
from sqlstream.errors import ExecutionError
from sqlstream.shell import showing
from sqlstream.shell.early_prompt import run_shell
from sqlstream.shell.line_editor import (
    HistoryWithoutSecrets,
    history_file,
    is_finished,
    line_editor,
    opened,
    wants_vi_keys,
)
from sqlstream.shell.loop import Shell, lines_of

ROOT = Path(__file__).parents[3]
NUMBERS = """CREATE TABLE numbers (n BIGINT)
WITH ('connector' = 'datagen', 'number-of-rows' = '3', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
      'fields.n.end' = '3');
"""
ENDLESS = """CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
"""


# --- line editor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "help", "SELECT 1;", "SELECT 1; -- done", "a; b;", "\\d", "\\d bids", "a; help"])
def test_enter_hands_over_what_is_complete(text):
    assert is_finished(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", "a; b", "SELECT 1 -- ;"])
def test_enter_begins_a_new_line_in_what_is_not(text):
    assert not is_finished(text)


@pytest.mark.parametrize(
    ("text", "sign"),
    [("SELECT 'a", "'"), ("SELECT (1, [2", "["), ("SELECT (1, [2]", "("), ("SELECT (1) -- (", ""), ("SELECT `a", "`")],
)
def test_the_prompt_of_further_lines_says_what_is_open(text, sign):
    assert opened(text) == sign


def test_statement_spans_lines_and_is_remembered(tmp_path):
    history = tmp_path / "history"
    with create_pipe_input() as keys:
        keys.send_text("SELECT 1\r, 2;\r")
        editor = line_editor(history, keys, DummyOutput())
        assert editor.prompt() == "SELECT 1\n, 2;"
    with create_pipe_input() as keys:
        keys.send_text("\x1b[A\r")  # up, Enter
        assert line_editor(history, keys, DummyOutput()).prompt() == "SELECT 1\n, 2;"


def test_nobody_else_reads_what_was_typed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = history_file()
    assert file is not None
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    file.chmod(0o644)
    file.parent.chmod(0o755)
    assert history_file() == file
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("broken", ["state", "state/sqlstream", "state/sqlstream/history"])
def test_a_history_that_cannot_be_written_ends_no_shell(broken, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / broken
    place.parent.mkdir(parents=True, exist_ok=True)
    if broken.endswith("history"):
        place.mkdir()
    else:
        place.touch()
    assert history_file() is None
    with create_pipe_input() as keys:
        keys.send_text("SELECT 1;\r")
        assert line_editor(None, keys, DummyOutput()).prompt() == "SELECT 1;"


@pytest.mark.parametrize("typed", ["SET password = 'hunter2';", "SET 'spark.hadoop.fs.s3a.secret.key' = 'hunter2"])
def test_mistyped_secrets_are_not_kept_either(typed, tmp_path):
    history = HistoryWithoutSecrets(str(tmp_path / "history"))
    history.store_string(typed)
    history.store_string("SHOW TABLES;")
    assert "hunter2" not in (tmp_path / "history").read_text()


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
def test_warnings_are_shown_and_are_no_failures(shell, capsys):
    running, out = shell
    running.read(io.StringIO(NUMBERS + "CREATE VIEW v AS SELECT n FROM numbers\nWHERE n RLIKE '\\b';\n"))
    assert out.getvalue() == "OK\nOK\n"
    assert capsys.readouterr().err.startswith("WARNING SS236: the pattern holds a backspace")
    assert running.failures == 0


@pytest.mark.spark
def test_source_runs_a_file_and_quit_ends(shell, tmp_path, capsys):
    running, out = shell
    path = tmp_path / "a b.sql"
    path.write_text(NUMBERS + "SHOW TABLES;")
    running.read(io.StringIO(f"source {path}\nsource {path}.none\nquit\nSHOW VIEWS;\n"))
    assert out.getvalue() == "OK\n table name\n------------\n numbers\n(1 row)\n"
    assert "No such file" in capsys.readouterr().err


def _reading(text: str) -> tuple[Shell, str]:
    """A shell that has read piped text without Spark, and what it has printed."""
    out = io.StringIO()
    running = Shell(_WithoutSpark(), out)
    running.read(io.StringIO(text))
    running.close()
    return running, out.getvalue()


class _WithoutSpark(sqlstream.Session):
    """A session whose Spark nobody needs."""

    @property
    def spark(self) -> Any:
        return None


def test_short_commands_swallow_nothing_of_what_follows():
    table = "CREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole');"
    running, out = _reading(f"{table} \\d\n\\d t; SHOW VIEWS;\n-- and help\n\\?\nSHOW TABLES;")
    assert running.failures == 0
    described = " name | type   | null | key  | extras | watermark\n"
    tables = " table name\n------------\n t\n(1 row)\n"
    assert out.startswith(f"OK\n{tables}{described}")
    assert " view name\n-----------\n(0 rows)\nStatements end with" in out
    assert out.endswith(f"to the background.\n{tables}")


def test_a_command_that_does_not_exist_is_told_at_its_line(capsys):
    running, out = _reading("SHOW\nVIEWS;\n\\copy t\n\\? x\n\\d none\nSHOW VIEWS;")
    views = " view name\n-----------\n(0 rows)\n"
    assert (running.failures, out) == (3, views + views)
    told = capsys.readouterr().err
    assert 'SS108: "\\copy" is not a command of the shell\nLINE 3: \\copy t\n        ^^^^^^^\n' in told
    assert 'SS108: "\\?" takes no argument\nLINE 4: \\? x\n' in told
    assert 'SS202: table or view "none" does not exist\nLINE 1: DESCRIBE none\n' in told


def test_mistakes_of_piped_scripts_have_the_lines_of_the_script(capsys):
    running, _ = _reading("-- a comment\nSHOW TABLES; SHOW THINGS;\n\nSELECT\n  m FROM none;\nSET 'x' =\n")
    assert running.failures == 3
    told = capsys.readouterr().err
    assert 'unexpected "THINGS"\nLINE 2: SHOW TABLES; SHOW THINGS;\n                          ^^^^^^\n' in told
    assert "LINE 5:   m FROM none;\n                 ^^^^\n" in told
    assert "unexpected end of the statement\nLINE 6: SET 'x' =\n" in told


def test_a_sourced_file_may_hold_commands_and_must_not_source_itself(tmp_path, capsys):
    (tmp_path / "a.sql").write_text("\\dv\nquit\nSHOW TABLES;")
    (tmp_path / "b.sql").write_text(f"\\i {tmp_path}/b.sql\n")
    running, out = _reading(f"\\i {tmp_path}/a.sql\nsource {tmp_path}/b.sql\n\\i {tmp_path}/none.sql\n")
    assert (running.failures, out) == (2, " view name\n-----------\n(0 rows)\n")
    told = capsys.readouterr().err
    assert f'SS544: cannot read "{tmp_path}/b.sql": it is being read already' in told
    assert f'SS544: cannot read "{tmp_path}/none.sql": No such file' in told


@pytest.mark.spark
def test_only_updating_results_show_the_kinds_of_their_rows(shell, tmp_path):
    running, out = shell
    (tmp_path / "a.json").write_text('{"k": 1, "at": "2024-01-01 00:00:00"}\n')
    (tmp_path / "b.json").write_text('{"k": 1, "at": "2024-01-01 00:00:01"}\n')
    table = f"""CREATE TABLE t (k BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'filesystem',
        'format' = 'json', 'path' = '{tmp_path}');
        SELECT COUNT(*) AS n FROM t GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)
        TRIGGER AFTER WATERMARK EARLY EVERY 1 ROWS RETRACTING;"""
    running.read(io.StringIO(table))
    lines = out.getvalue().splitlines()
    assert lines[:4] == ["OK", " op | n", "----+---", " +I | 1"]
    assert lines[4:] in (["(1 row)"], [" -U | 1", " +U | 2", "(3 rows)"], [" +I | 2", "(2 rows)"])


@pytest.mark.spark
def test_a_failed_background_job_is_told_of_once(shell, capsys):
    running, _ = shell
    running.read(io.StringIO(ENDLESS + "INSERT INTO nowhere SELECT n * 9223372036854775807 FROM ticks;"))
    (job,) = running._session.jobs
    with pytest.raises(ExecutionError):
        job.wait(60)
    running.read(io.StringIO("SHOW VIEWS; SHOW VIEWS;"))
    told = capsys.readouterr().err
    assert told.startswith('job "insert_into_nowhere" failed\nSS4')
    assert told.count("ARITHMETIC_OVERFLOW") == 1
    assert told.endswith('"DESCRIBE JOB insert_into_nowhere;" shows more\n')
    assert running.failures == 1


@pytest.mark.spark
def test_long_results_show_a_page_of_each_batch_on_a_terminal(shell, monkeypatch):
    running, out = shell
    monkeypatch.setattr(showing, "page_of_terminal", lambda *_, **__: 2)
    running.read(io.StringIO(NUMBERS + "SELECT n FROM numbers;"))
    assert out.getvalue().endswith(" 1\n 2\n 3\n(3 rows)\n")
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    running.read(io.StringIO("\\pset pager off\nSELECT n FROM numbers;\n\\x\nSELECT n FROM numbers;"))
    assert " 1\n 2\n  … 1 more\n(3 rows, 2 shown)\n" in out.getvalue()
    assert out.getvalue().endswith("-[ 2 ]\nn | 2\n  … 1 more\n(3 rows, 2 shown)\n")


@pytest.mark.spark
def test_a_column_of_the_last_query_is_drawn(shell, capsys):
    running, out = shell
    running.read(io.StringIO(NUMBERS + "\\plot n\nSELECT n FROM numbers;\n\\plot n\n\\plot m\n"))
    assert "┤" in out.getvalue() and "1.00" in out.getvalue()
    told = capsys.readouterr().err
    assert 'SS108: "\\plot" needs a query before it' in told
    assert 'SS108: "\\plot" needs a column of the query, and "m" is none: it has n' in told


def test_what_cannot_be_drawn_is_told_before_the_query_runs(monkeypatch, capsys):
    running = Shell(_WithoutSpark(), io.StringIO())
    running.run("CREATE TABLE t (n BIGINT, name STRING) WITH ('connector' = 'datagen');")
    monkeypatch.setattr(Shell, "_executed", lambda *_: pytest.fail("it ran"))
    running._last_query = "SELECT name, COUNT(*) AS many FROM t GROUP BY name"
    running.run("\\plot most BY name\n\\plot name\n\\plot many BY n\n")
    told = capsys.readouterr().err
    assert '"most" is none: it has name, many' in told and '"n" is none: it has name, many' in told
    assert 'draws numbers, and column "name" is of type STRING' in told


@pytest.mark.spark
def test_insert_tells_how_many_rows_it_wrote(shell):
    running, out = shell
    sink = "CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');"
    running.read(io.StringIO(NUMBERS + sink + "INSERT INTO nowhere SELECT n FROM numbers WHERE n > 1;"))
    assert out.getvalue() == 'OK\nOK\n2 rows written to "nowhere"\n'


def test_input_that_is_no_text_ends_the_shell_behind_what_is(capsys):
    out = io.StringIO()
    running = Shell(_WithoutSpark(), out)
    running.read(lines_of(io.BytesIO(b"\xef\xbb\xbfSHOW TABLES;\nSHOW \xff;\nSHOW VIEWS;\n")))
    running.close()
    assert "table name" in out.getvalue() and "view name" not in out.getvalue()
    assert "SS544: cannot read standard input: line 2 is not UTF-8 text" in capsys.readouterr().err
    assert running.failures == 1


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "~no-such-user/a.sql", "/", "none.sql"])
def test_a_source_that_cannot_be_read_is_a_failure(path, capsys):
    running, out = _reading(f"source {path}\nSHOW TABLES;\n")
    assert running.failures == 1
    assert "SS544: cannot read" in capsys.readouterr().err
    assert "table name" in out


# --- how results are shown ------------------------------------------------------------------------------------

VIEWS = " view name\n-----------\n(0 rows)\n"


def test_rows_are_shown_a_line_for_each_column():
    running, out = _reading("\\x\nCREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole');\n\\d\n\\x\n\\dv\n")
    assert running.failures == 0
    assert out == (
        "rows are shown as a line for each column\nOK\n-[ 1 ]--------\ntable name | t\n(1 row)\n"
        f"rows are shown side by side\n{VIEWS}"
    )


def test_results_go_into_a_file_and_back_to_the_terminal(tmp_path, capsys):
    running, out = _reading(f"\\o {tmp_path}/out.txt\n\\dv\n\\o\n\\dv\n\\o {tmp_path}/none/out.txt\n")
    assert (running.failures, out) == (1, VIEWS)
    assert (tmp_path / "out.txt").read_text() == VIEWS
    assert f'SS544: cannot write "{tmp_path}/none/out.txt": No such file' in capsys.readouterr().err


def test_timing_stands_beside_the_results(capsys):
    _, out = _reading("\\timing\n\\dv\n\\timing\n\\dv\n")
    assert out == f"timing is on\n{VIEWS}timing is off\n{VIEWS}"
    assert re.fullmatch(r"Time: \d+ ms\n", capsys.readouterr().err)


def test_the_last_statements_run_again(capsys):
    running, out = _reading("\\g\nSHOW VIEWS;\n\\g\n")
    assert (running.failures, out) == (1, VIEWS + VIEWS)
    assert 'SS108: "\\g" needs statements before it' in capsys.readouterr().err


def test_the_last_query_is_explained(capsys):
    table = "CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen');"
    running = Shell(_WithoutSpark(), out := io.StringIO())
    running.run(table)
    running._last_query = "SELECT n FROM t"
    running.run("SHOW VIEWS;\n\\explain\n")
    assert out.getvalue().startswith(f"OK\n{VIEWS}Output(n)\n")
    assert _reading("\\explain")[0].failures == 1
    assert 'SS108: "\\explain" needs a query before it' in capsys.readouterr().err


def test_settings_are_given_as_psql_does(capsys):
    running, out = _reading("\\set pipeline.name 'it is'\n\\mode table\n\\set\n\\mode it's\n\\set pipeline.name\n")
    assert running.failures == 2
    told = capsys.readouterr().err
    assert 'SS504: value "it\'s" of option "sql-client.execution.result-mode" is not accepted' in told
    assert 'SS108: "\\set" takes KEY VALUE' in told
    assert re.search(r"pipeline\.name +\| it is\n", out)
    assert re.search(r"sql-client\.execution\.result-mode +\| table\n", out)


def test_statements_are_watched_until_somebody_interrupts(monkeypatch, capsys):
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    running, out = _reading("SHOW VIEWS;\n\\watch 3\n\\watch soon\n\\watch nan\n\\watch -1\n")
    assert (pauses, running.failures) == ([3.0, 3.0], 3)
    assert out.count(VIEWS) == 3
    assert out.endswith("interrupted\n")
    assert 'takes a number of seconds, not "soon"' in capsys.readouterr().err


def test_what_is_edited_runs(monkeypatch):
    texts: list[str] = []

    def edited(text: str, **_: object) -> str:
        texts.append(text)
        return "SHOW VIEWS;\n"

    monkeypatch.setattr(click, "edit", edited)
    _, out = _reading("SHOW TABLES;\n\\e\n")
    assert texts == ["SHOW TABLES;"]
    assert out == f" table name\n------------\n(0 rows)\nSHOW VIEWS;\n{VIEWS}"


@pytest.mark.parametrize(("style", "rows"), [("csv", "view name\n"), ("markdown", "| view name |\n| --- |\n")])
def test_texts_run_in_the_style_that_is_asked_for(style, rows, capsys):
    assert run_shell(_WithoutSpark(), commands=["SHOW VIEWS;"], style=style) == 0
    assert capsys.readouterr().out == rows
    assert run_shell(_WithoutSpark(), commands=["SHOW NOTHING;"], style=style) == 1


def test_nothing_but_rows_stands_among_those_that_programs_read(capsys):
    table = "CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen');"
    commands = [table, "\\timing", "EXPLAIN SELECT n FROM t;", "SHOW TABLES;", "\\pset format csv", "\\dt"]
    assert run_shell(_WithoutSpark(), commands=commands, style="json") == 0
    told = capsys.readouterr()
    assert told.out.startswith("Output(n)\n")
    assert told.out.endswith('[\n{"table name": "t"}\n]\ntable name\nt\n')
    assert all(text in told.err for text in ("OK\n", "timing is on\n", "rows are written as csv\n"))


def test_files_run_before_commands_and_quit_ends(tmp_path, capsys):
    (tmp_path / "a;b.sql").write_text("SHOW VIEWS;\nquit\nSHOW TABLES;\n")
    assert run_shell(_WithoutSpark(), [str(tmp_path / "a;b.sql")], ["\\x", "quit", "SHOW VIEWS;"]) == 0
    assert capsys.readouterr().out == f"{VIEWS}rows are shown as a line for each column\n"
    assert run_shell(_WithoutSpark(), [str(tmp_path / "none.sql")]) == 1


def test_the_options_of_the_command_reach_the_shell(tmp_path, monkeypatch):
    (tmp_path / "v.sql").write_text("SHOW VIEWS;\n")
    monkeypatch.setattr("sqlstream.cli.scripts.open_session", lambda *_: _WithoutSpark())
    arguments = ["shell", "-f", str(tmp_path / "v.sql"), "-c", "\\dv", "--format", "csv"]
    alone = CliRunner().invoke(commands, arguments, input="\\dt\n", standalone_mode=False)
    assert (alone.return_value, alone.stdout) == (0, "view name\nview name\n")
    stays = CliRunner().invoke(commands, [*arguments, "-i"], input="\\dt\n", standalone_mode=False)
    assert (stays.return_value, stays.stdout) == (0, "view name\nview name\ntable name\n")


def test_the_file_of_the_user_runs_before_the_first_prompt(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(Shell, "interact", lambda self, editor: self.run("SHOW VIEWS;"))
    monkeypatch.setattr("sqlstream.shell.line_editor.line_editor", lambda *_, **__: None)
    assert run_shell(_WithoutSpark()) == 0
    assert capsys.readouterr().out == VIEWS
    (tmp_path / "sqlstream").mkdir()
    (tmp_path / "sqlstream" / "shellrc").write_text("\\x\n")
    assert run_shell(_WithoutSpark()) == 0
    assert capsys.readouterr().out == "rows are shown as a line for each column\n(0 rows)\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_columns_of_a_query_are_traced_to_tables(capsys):
    tables = """CREATE TABLE bids (auction BIGINT, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'datagen');
        CREATE TABLE sold (id BIGINT, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
        WITH ('connector' = 'datagen');
        CREATE VIEW dear AS SELECT b.auction, b.price - sold.price AS more FROM bids b JOIN sold
        ON b.auction = sold.id AND b.at BETWEEN sold.at AND sold.at + INTERVAL '1' MINUTE;\n"""
    running, out = _reading(tables + "\\pset format csv\n\\lineage dear\n\\lineage\n\\lineage none\n\\pset format x\n")
    assert running.failures == 3
    assert out.splitlines()[-3:] == [
        "column,columns of tables,made of",
        "auction,bids.auction,bids.auction",
        'more,"bids.price, sold.price",bids.price - sold.price',
    ]
    told = capsys.readouterr().err
    assert 'SS108: "\\lineage" needs a query before it, or the name of a view' in told
    assert 'SS202: table or view "none" does not exist' in told
    assert 'SS108: "\\pset" takes pager, pager on, pager off, result-mode table or changelog, or format table, ' in told


def test_modes_are_names_of_how_results_are_shown(capsys):
    running, out = _reading("\\mode tail\n\\mode vertical\n\\mode vertical\n\\dv\n\\mode sideways\n")
    assert running.failures == 1
    assert out == "OK\n" + "rows are shown as a line for each column\n" * 2 + "(0 rows)\n"
    assert 'value "sideways" of option "sql-client.execution.result-mode" is not accepted' in capsys.readouterr().err


def test_another_mode_ends_the_vertical_one_and_leaves_what_x_has_set():
    vertical = "rows are shown as a line for each column\n"
    assert _reading("\\mode vertical\n\\mode table\n\\dv\n")[1] == f"{vertical}OK\n{VIEWS}"
    assert _reading("\\x\n\\mode table\n\\dv\n")[1] == f"{vertical}OK\n(0 rows)\n"
    assert _reading("\\mode vertical\n\\mode none\n\\dv\n")[1] == f"{vertical}(0 rows)\n"


def test_catalogs_are_listed():
    assert "\n default_catalog\n(1 row)\n" in _reading("\\l")[1]


def test_parameters_stand_in_all_texts(tmp_path, monkeypatch):
    (tmp_path / "v.sql").write_text("SHOW VIEWS LIKE '${what}';\n")
    monkeypatch.setattr("sqlstream.cli.scripts.open_session", lambda *_: _WithoutSpark())
    define = "CREATE TABLE ${what} (n BIGINT) WITH ('connector' = 'blackhole', 'x' = '${none}');"
    arguments = ["-f", str(tmp_path / "v.sql"), "-c", define, "-v", "what=things", "-i", "--format", "csv"]
    result = CliRunner().invoke(
        commands, ["shell", *arguments], input="SHOW TABLES LIKE '${what}';\n", standalone_mode=False
    )
    assert (result.return_value, result.stdout) == (1, "view name\ntable name\n")
    assert "CREATE TABLE things" in result.stderr and "${none}" in result.stderr


def test_clear_writes_nothing_into_a_pipe():
    assert _reading("clear\nSHOW VIEWS;")[1] == VIEWS


def test_an_insert_is_not_run_again_to_be_drawn(capsys):
    running = Shell(_WithoutSpark(), io.StringIO())
    running._last_query = "INSERT INTO none SELECT 1"
    running.run("\\plot n\n")
    assert (
        'SS108: "\\plot" needs a query whose rows are shown, and the last one was an INSERT' in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "wants"), [("set editing-mode vi\n", True), ("set bell-style none\n", False), (None, False)]
)
def test_keys_are_those_of_readline(text, wants, tmp_path, monkeypatch):
    monkeypatch.setenv("INPUTRC", str(tmp_path / "inputrc"))
    if text is not None:
        (tmp_path / "inputrc").write_text(text)
    assert wants_vi_keys() is wants
    with create_pipe_input() as keys:
        editor = line_editor(None, keys, DummyOutput(), vi_keys=wants)
        assert editor.editing_mode is (EditingMode.VI if wants else EditingMode.EMACS)
