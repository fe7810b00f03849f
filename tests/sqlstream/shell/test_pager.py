"""Long results go through the pager where somebody looks."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.shell.display import Display, paged, pager_command
from sqlstream.shell.loop import Shell
from sqlstream.shell.showing import LongResult
from tests.sqlstream.shell.test_shell import _WithoutSpark as WithoutSpark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What keeps the text that it is given, of a terminal of 20 lines."""
    program = tmp_path / "pager"
    program.write_text(f'#!/bin/sh\necho "$LESS" > {tmp_path}/options; cat >> {tmp_path}/text\n')
    program.chmod(0o700)
    monkeypatch.setenv("PAGER", str(program))
    monkeypatch.delenv("LESS", raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((80, 20)))
    return tmp_path / "text"


def test_long_texts_go_through_the_pager_and_short_ones_do_not(pager):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell.run("SHOW VIEWS;\nSHOW CONNECTORS;\n")
    assert out.getvalue() == " view name\n-----------\n(0 rows)\n"
    assert "upsert-kafka" in pager.read_text() and "rows)" in pager.read_text()
    assert pager.with_name("options").read_text() == "FRSX\n"
    shell.run("\\?\n")
    assert "Statements end with" in pager.read_text()


def test_the_pager_is_switched_off_and_on(pager):
    shell = Shell(WithoutSpark(), out := Terminal())
    shell.run("\\set pager off\nSHOW CONNECTORS;\n\\pset pager\n\\pset pager off\n")
    assert "upsert-kafka" in out.getvalue() and not pager.exists()
    lines = [line for line in out.getvalue().splitlines() if line.startswith("long results")]
    assert [line.split()[-1] for line in lines] == ["terminal", "pager", "terminal"]


def test_nobody_pages_what_goes_elsewhere(pager, tmp_path):
    shell = Shell(WithoutSpark(), Terminal())
    shell.run(f"\\o {tmp_path}/out.txt\nSHOW CONNECTORS;\n\\o\n")
    assert "upsert-kafka" in (tmp_path / "out.txt").read_text()
    Shell(WithoutSpark(), piped := io.StringIO()).run("SHOW CONNECTORS;\n")
    assert "upsert-kafka" in piped.getvalue() and not pager.exists()


def test_a_reader_that_goes_away_ends_the_text(tmp_path):
    with paged(["true"]) as out:
        for _ in range(100_000):
            out.write("a line that nobody reads\n")
        raise AssertionError("somebody has read all that")


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"PAGER": "sh -x", "SQLSTREAM_PAGER": "sh -u"}, ["sh", "-u"]),
        ({"PAGER": "sh -x"}, ["sh", "-x"]),
        ({"PAGER": "cat"}, None),
        ({"PAGER": ""}, None),
        ({"PAGER": "no-such-pager"}, None),
        ({"PAGER": "sh 'x"}, None),
    ],
)
def test_the_pager_is_that_of_the_user(variables, command, monkeypatch):
    for name in ("PAGER", "SQLSTREAM_PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert pager_command() == command


def test_rows_come_at_once_as_long_as_they_fit(monkeypatch):
    long = LongResult(3)
    first, second, third = (long.add(pa.table({"n": numbers})) for numbers in ([1, 2], [3, 4], [5]))
    assert first is not None and second is not None and third is None
    assert (first.num_rows, second.num_rows, long.is_long, long.rows) == (2, 1, True, 5)
    monkeypatch.setattr("sqlstream.shell.showing._MOST_ROWS", 6)
    long.add(pa.table({"n": [6, 7, 8]}))
    assert (long.rows, long.skipped) == (6, 2)


def test_all_rows_are_paged_with_those_that_are_only_counted(pager):
    Display(Terminal()).show_rows(["n"], [[(1,), (2,)], [(3,)]], skipped=4)
    assert pager.read_text() == " n\n---\n 1\n 2\n 3\n  … 4 more\n(7 rows, 3 shown)\n"


@pytest.mark.spark
def test_a_long_result_of_a_query_is_paged_when_it_has_ended(pager, spark):
    import sqlstream

    table = """CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence',
        'fields.n.start' = '1', 'fields.n.end' = '{}');\n"""
    for count in (50, 10):
        shell = Shell(sqlstream.connect(spark), out := Terminal())
        shell.run(table.format(count) + "SELECT n FROM numbers;")
        shell.close()
        assert (f"({count} rows)" in pager.read_text(), f"({count} rows)" in out.getvalue()) == (
            count == 50,
            count == 10,
        )
