"""How results that are updated are shown: as a table in place where somebody types, elsewhere as changes."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from prompt_toolkit.input.vt100 import Vt100Input

from sqlstream.cli.output import TableWriter
from sqlstream.cli.progress import LiveTable, write_table
from sqlstream.jobs import Progress
from sqlstream.query import Query
from sqlstream.shell.interrupts import Stopped
from sqlstream.shell.loop import Shell
from sqlstream.types import BIGINT, STRING
from tests.sqlstream.shell.test_pager import Terminal
from tests.sqlstream.shell.test_pager import pager as pager
from tests.sqlstream.shell.test_shell import _WithoutSpark as WithoutSpark

Change = tuple[str, str, int]
COUNTED: list[list[Change]] = [[("+I", "a", 1), ("+I", "b", 1)], [("-U", "a", 1), ("+U", "a", 2)]]
TABLE = " k | n\n---+---\n a | 2\n b | 1\n(2 rows)\n"
CHANGES = " op | k | n\n----+---+---\n +I | a | 1\n +I | b | 1\n -U | a | 1\n +U | a | 2\n(4 rows)\n"


class FakeJob:
    """A job that gives these micro-batches, and then ends or is interrupted."""

    name = "query"

    def __init__(self, batches: Sequence[Sequence[Change]], interrupted: bool, is_bounded: bool) -> None:
        self._batches = batches
        self._interrupted = interrupted
        self.is_bounded = is_bounded

    def results(self) -> Iterator[pa.Table]:
        for rows in self._batches:
            op, k, n = ([row[i] for row in rows] for i in range(3))
            yield pa.table({"op": op, "k": k, "n": pa.array(n, pa.int64())})
            time.sleep(0.01)
        if self._interrupted:
            raise KeyboardInterrupt

    def progress(self) -> Progress:
        return Progress()

    def share(self) -> None:
        return None

    def stop(self) -> None:
        return None


def query(
    batches: Sequence[Sequence[Change]] = COUNTED, *, interrupted: bool = False, is_bounded: bool = False
) -> Query:
    columns = (("op", STRING), ("k", STRING), ("n", BIGINT))
    job: Any = FakeJob(batches, interrupted, is_bounded)
    return Query(job, columns, "UTC", updating=True, key=(0,))


@pytest.fixture
def keyboard() -> Iterator[Vt100Input]:
    """The input of a terminal."""
    master, slave = os.openpty()
    with os.fdopen(slave) as typed:
        yield Vt100Input(typed)
    os.close(master)


def shown(shell: Shell, query: Query) -> None:
    shell._showing.show(SimpleNamespace(), query, time.monotonic())  # type: ignore[arg-type]


def what_stays(screen: str) -> str:
    """What is written behind the frames that were drawn over each other."""
    return screen.rpartition("\x1b[2K")[2].replace("\r", "").removeprefix("\x1b[?25h")


def test_where_somebody_types_the_table_changes_in_place_and_stays(keyboard):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    shown(shell, query())
    assert what_stays(out.getvalue()) == TABLE
    assert "query: reading, no rows yet" in out.getvalue() and "+U" not in out.getvalue()


def test_run_writes_the_table_as_it_was_when_it_is_interrupted():
    out = Terminal()
    with pytest.raises(KeyboardInterrupt):
        write_table(query(interrupted=True), TableWriter(["k", "n"], out), out)
    assert what_stays(out.getvalue()) == TABLE
    assert "query: reading, no rows yet" in out.getvalue()


@pytest.mark.parametrize("command", ["\\pset result-mode changelog", "\\mode changelog", "\\mode tableau"])
def test_a_mode_that_is_asked_for_shows_changes(keyboard, command):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    shell.run(f"{command}\n")
    shown(shell, query())
    assert out.getvalue() == f"OK\n{CHANGES}"
    shell.run("RESET 'sql-client.execution.result-mode';\n\\pset result-mode table\n")
    shown(shell, query())
    assert what_stays(out.getvalue()) == TABLE


def test_scripts_pipes_and_files_get_changes_as_before(keyboard, tmp_path):
    on_terminal = Shell(WithoutSpark(), out := Terminal())
    shown(on_terminal, query())  # as with -f or -c: nobody types
    assert out.getvalue() == CHANGES
    piped = Shell(WithoutSpark(), pipe := io.StringIO())
    piped._showing.keys = keyboard
    shown(piped, query())
    assert pipe.getvalue() == CHANGES
    into_file = Shell(WithoutSpark(), Terminal())
    into_file._showing.keys = keyboard
    into_file.run(f"\\o {tmp_path}/out.txt\n")
    shown(into_file, query())
    into_file.run("\\o\n")
    assert (tmp_path / "out.txt").read_text() == CHANGES
    as_csv = Shell(WithoutSpark(), out := Terminal(), "csv")
    as_csv._showing.keys = keyboard
    shown(as_csv, query())
    assert out.getvalue() == "op,k,n\n+I,a,1\n+I,b,1\n-U,a,1\n+U,a,2\n"


def test_a_terminal_that_cannot_move_its_cursor_gets_changes(keyboard, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    shown(shell, query())
    assert out.getvalue() == CHANGES


MANY: list[list[Change]] = [[("+I", f"k{i}", i) for i in range(100)], [("+U", "k0", 7)]]


def test_a_page_of_a_long_table_stays_when_it_is_interrupted(pager, keyboard):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    with pytest.raises(Stopped):
        shown(shell, query(MANY, interrupted=True))
    lines = what_stays(out.getvalue()).splitlines()
    assert lines[0].split() == ["k", "|", "n"] and lines[2].split() == ["k0", "|", "7"]
    assert lines[-3:] == ["  … 88 more", "(100 rows, 12 shown)", "stopped"] and not pager.exists()


def test_the_pager_has_all_of_a_long_table_that_has_ended(pager, keyboard):
    shell = Shell(WithoutSpark(), Terminal())
    shell._showing.keys = keyboard
    shown(shell, query(MANY, is_bounded=True))
    lines = pager.read_text().splitlines()
    assert len(lines) == 103 and lines[2].split() == ["k0", "|", "7"] and lines[-1] == "(100 rows)"


def test_a_line_for_each_column_takes_as_many_rows_as_fit(pager, keyboard, monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((40, 20)))
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    shell.run("\\x\n")
    with pytest.raises(Stopped):
        shown(shell, query(MANY, interrupted=True))
    assert what_stays(out.getvalue()).splitlines()[-3:] == ["  … 96 more", "(100 rows, 4 shown)", "stopped"]


@pytest.mark.parametrize(("lines", "rows"), [(40, 32), (20, 12), (10, 2), (5, 1)])
def test_a_frame_has_as_many_rows_as_fit(lines, rows, monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((200, lines)))
    many = query(MANY)
    live = LiveTable(many, many.tables())
    live.follow()
    frame = str(live.__rich__()).splitlines()
    assert frame[-3:-1] == [f"  … {100 - rows} more", f"(100 rows, {rows} shown)"] and len(frame) == rows + 5


def test_a_result_without_rows_has_its_header(keyboard):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell._showing.keys = keyboard
    shown(shell, query([]))
    assert what_stays(out.getvalue()) == " k | n\n---+---\n(0 rows)\n"
