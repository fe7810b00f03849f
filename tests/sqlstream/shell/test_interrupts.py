"""Ctrl-C ends what runs and never the shell; Ctrl-Z sends it to the background."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pexpect
import pyarrow as pa
import pytest
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input

from sqlstream.jobs import JobState
from sqlstream.shell.chart import Chart, Plot
from sqlstream.shell.display import Display
from sqlstream.shell.failures import BackgroundJobs
from sqlstream.shell.interrupts import Pressed, SentBack, listening, remembering, unbroken
from sqlstream.shell.loop import Shell
from sqlstream.shell.showing import Feed, Showing, new_file, write_on
from sqlstream.types import parse_type
from tests.sqlstream.shell.test_shell import ROOT, VIEWS
from tests.sqlstream.shell.test_shell import _WithoutSpark as WithoutSpark


def wait_for(condition) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def tables(*values: int) -> list[pa.Table]:
    return [pa.table({"n": [value]}) for value in values]


def test_ctrl_c_waits_until_the_block_has_ended():
    with unbroken():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


def test_ctrl_c_is_heeded_where_its_exception_is_lost(monkeypatch):
    class Garbage:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    pressed, before = Pressed(), signal.getsignal(signal.SIGINT)
    feed = iter(Feed(iter(tables(1, 2)), pressed))
    with remembering(pressed):
        assert next(feed).num_rows == 1
        Garbage()
        with pytest.raises(KeyboardInterrupt):
            next(feed)
    assert signal.getsignal(signal.SIGINT) is before


def test_rows_go_on_where_they_were_left():
    pressed = Pressed()
    feed = Feed(iter(tables(1, 2, 3)), pressed)
    first = next(iter(feed))
    pressed.ctrl_z.set()
    with pytest.raises(SentBack):
        next(iter(feed))
    assert [table["n"][0].as_py() for table in [first, *feed.going_on()]] == [1, 2, 3]


def test_the_error_of_a_query_comes_behind_its_rows():
    def failing() -> Iterator[pa.Table]:
        yield from tables(1)
        raise ValueError("no luck")

    feed = iter(Feed(failing(), Pressed()))
    assert next(feed).num_rows == 1
    with pytest.raises(ValueError, match="no luck"):
        next(feed)


def test_rows_that_follow_go_into_a_new_file(tmp_path):
    (tmp_path / "query.jsonl").touch()
    file = new_file("query", tmp_path)
    assert file == tmp_path / "query-2.jsonl"
    write_on(tables(1, 2), file, whole=False)
    wait_for(lambda: file.read_text() == '{"n": 1}\n{"n": 2}\n')


def test_a_table_that_changes_takes_the_place_of_the_one_before(tmp_path):
    file = new_file("query", tmp_path)
    write_on(tables(1, 2), file, whole=True)
    wait_for(lambda: file.read_text() == '{"n": 2}\n')


@pytest.fixture
def terminal() -> Iterator[tuple[int, Vt100Input]]:
    ours, theirs = pty.openpty()
    with open(theirs) as stdin:  # noqa: PTH123
        yield ours, Vt100Input(stdin)
    os.close(ours)


def test_ctrl_z_is_noticed_and_what_else_is_typed_is_kept(terminal):
    keyboard, source = terminal
    with listening(source) as pressed:
        os.write(keyboard, b"SHOW")
        time.sleep(0.3)
        assert not pressed.ctrl_z.is_set()
        os.write(keyboard, b"\x1a;")
        assert pressed.ctrl_z.wait(10)
    assert "".join(key.data for key in get_typeahead(source)) == "SHOW;"


def test_ctrl_c_is_a_signal_whatever_the_terminal_did_before(terminal):
    _, source = terminal
    as_keys = termios.tcgetattr(source.fileno())
    as_keys[3] &= ~termios.ISIG
    termios.tcsetattr(source.fileno(), termios.TCSANOW, as_keys)
    with listening(source):
        assert termios.tcgetattr(source.fileno())[3] & termios.ISIG
    assert not termios.tcgetattr(source.fileno())[3] & termios.ISIG


def test_ctrl_c_between_statements_ends_no_shell(monkeypatch):
    typed = iter([KeyboardInterrupt(), "SHOW VIEWS;", "SHOW TABLES;", None])

    def prompted(self: Shell, editor: object) -> str | None:
        text = next(typed)
        if isinstance(text, KeyboardInterrupt):
            raise text
        return text

    interrupted = iter([True, False])

    def told(self: object) -> None:
        if next(interrupted, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(Shell, "_prompted", prompted)
    monkeypatch.setattr("sqlstream.shell.failures.BackgroundJobs.tell", told)
    shell = Shell(WithoutSpark(), out := io.StringIO())
    shell.interact(type("Editor", (), {"app": type("App", (), {"input": None})}))  # type: ignore[arg-type]
    assert VIEWS in out.getvalue() and "table name" in out.getvalue()


def test_a_chart_is_sent_to_the_background(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pressed = Pressed()

    @contextmanager
    def listening(self: Showing) -> Iterator[Pressed]:
        yield pressed

    def batches() -> Iterator[pa.Table]:
        yield from tables(1)
        pressed.ctrl_z.set()
        yield from tables(2, 3, 4)  # the chart may have taken the first before it looks

    monkeypatch.setattr(Showing, "_listening", listening)
    job = SimpleNamespace(name="query", state=JobState.RUNNING, stop=lambda: pytest.fail("it goes on"))
    query = SimpleNamespace(job=job, is_updating=False, columns=("n",), types=(parse_type("BIGINT"),), key=(),
                            batches=batches)  # fmt: skip
    session, out = WithoutSpark(), io.StringIO()
    background = BackgroundJobs(lambda text: None)
    showing = Showing(session, Display(out, "table"), background)
    chart = Chart.of(query, Plot("n"))  # type: ignore[arg-type]
    monkeypatch.setattr("sqlstream.shell.chart.JobStatus", lambda job: None)
    showing.draw(query, chart)  # type: ignore[arg-type]
    assert '"query" goes on in the background' in capsys.readouterr().err + out.getvalue()
    wait_for(lambda: '"n": 4' in (tmp_path / "query.jsonl").read_text())


@pytest.mark.long
@pytest.mark.spark
def test_a_terminal_cancels_queries_or_sends_them_to_the_background_and_tells_of_jobs_that_fail(tmp_path):
    environment = {
        **os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb", "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    (tmp_path / "t.sql").write_text(
        "CREATE TABLE some (n BIGINT)"
        " WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'number-of-rows' = '99999');\n"
        "CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');\n"
        "CREATE TABLE lost (n BIGINT) WITH ('connector' = 'blackhole');\n"
    )
    shell = pexpect.spawn(
        sys.executable, ["-m", "sqlstream", "shell", "--master", "local[1]", "-f", "t.sql", "-i"], cwd=tmp_path,
        env=environment, timeout=120, encoding="utf-8", dimensions=(40, 120),
    )  # fmt: skip
    try:
        shell.expect("sqlstream> ")
        shell.send("CREATE TABLE ticks (n BIGINT)\rWITH ('connector' = 'datagen', 'rows-per-second' = '10');\r")
        shell.expect("OK")
        shell.send("SELECT m FROM ticks;\r")
        shell.expect('SS201: column "m" does not exist')
        shell.send("SELECT n FROM ticks;\r")
        shell.expect("starting Spark|starting the query")
        shell.expect(r"\d{5,}\r\n")
        shell.send("SHOW VIE\x1aWS;\r")
        shell.expect('"query" goes on in the background')
        shell.expect("view name")  # what was typed while the query ran
        shell.send("SELECT n + 2 AS k FROM ticks;\r")
        shell.expect(r"\d{5,}\r\n")
        shell.sendintr()
        shell.expect("stopped")
        shell.send("\\watch 1\r")
        shell.expect("every 1 s")
        shell.expect(r"\d{5,}\r\n")
        shell.sendintr()
        shell.expect("stopped")
        shell.expect("sqlstream> ")
        shell.send("INSERT INTO nowhere SELECT n FROM some;\r")
        shell.expect("insert_into_nowhere")
        time.sleep(2)
        shell.send("\x1a")
        shell.expect('"insert_into_nowhere" runs in the background')
        shell.send("STOP JOB query;\r")
        shell.expect("STOPPED")
        shell.expect("sqlstream> ")
        shell.send("INSERT INTO lost SELECT n * 9223372036854775807 FROM ticks;\r")
        shell.expect("runs in the background")
        shell.expect('job "insert_into_lost" failed')  # above the prompt, while nobody types
        shell.expect("ARITHMETIC_OVERFLOW")
        shell.expect("shows more")
        shell.send("SHOW TABLES;\r")
        shell.expect(r"\(4 rows\)")
        shell.expect("sqlstream> ")
        _leave(shell)
    finally:
        shell.close(force=True)
    assert shell.exitstatus == 0
    assert "SHOW TABLES;" in (tmp_path / "state" / "sqlstream" / "history").read_text()
    lines = (tmp_path / "query.jsonl").read_text().splitlines()
    assert len(lines) > 10 and all(list(json.loads(line)) == ["n"] for line in lines)


def _leave(terminal: pexpect.spawn) -> None:
    """Ctrl-D until the shell ends: one pressed between the prompt's text and its reading of keys is lost."""
    for _ in range(20):
        terminal.send("\x04")
        if terminal.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=3) == 0:
            return
    raise AssertionError("Ctrl-D does not end the shell")
