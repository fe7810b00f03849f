"""The pytest plugin: golden files are tests, differences are shown, ``--bless`` rewrites what is expected."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = """\
# About the file.

statement
CREATE TABLE t (a INT) WITH ('connector' = 'test')

parse
SELECT a FROM t
----
SELECT a FROM t

# misspelt
error
SELECT aa FROM t
----
"""
BLESSED = (
    GOLDEN
    + """\
SS201: column "aa" does not exist
LINE 1: SELECT aa FROM t
               ^^
HINT: Did you mean "a"?
"""
)


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "some.golden"
    path.write_text(GOLDEN)
    return path


_RUNS = """
import contextlib, io, json, sys
import pytest
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = pytest.main(json.loads(line))
    print(json.dumps([int(code), out.getvalue()]), flush=True)
"""
"""One process for all runs: to import what they need takes it longer than all of them."""


class Done(NamedTuple):
    returncode: int
    stdout: str


class RunPytest(Protocol):
    def __call__(self, path: Path, *options: str) -> Done: ...


@pytest.fixture(scope="module")
def run_pytest() -> Iterator[RunPytest]:
    command = [sys.executable, "-c", _RUNS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        sent, answers = process.stdin, process.stdout
        assert sent is not None and answers is not None

        def run(path: Path, *options: str) -> Done:
            plugins = ("-p", "no:cacheprovider", "-p", "sqlstream.testing.plugin", "--rootdir", str(path.parent))
            sent.write(json.dumps(["-q", *plugins, str(path), *options]) + "\n")
            sent.flush()
            return Done(*json.loads(answers.readline()))

        yield run


def test_a_difference_fails_and_is_shown(golden, run_pytest):
    done = run_pytest(golden)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "misspelt" in done.stdout
    assert '+SS201: column "aa" does not exist' in done.stdout
    assert golden.read_text() == GOLDEN


def test_bless_rewrites_the_expected_lines_and_nothing_else(golden, run_pytest):
    assert run_pytest(golden, "--bless").returncode == 0
    assert golden.read_text() == BLESSED
    assert "2 passed" in run_pytest(golden).stdout


def test_a_stream_block_is_two_tests(golden, run_pytest):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n> t  2\n+I 2\n")
    listed = run_pytest(golden, "--collect-only").stdout
    assert "some.golden::16-stream\n" in listed
    assert "some.golden::16-stream-restart\n" in listed


def test_restarts_may_be_left_to_every_third_block(golden, run_pytest):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n> t  2\n+I 2\n" * 4)
    listed = run_pytest(golden, "--collect-only", "--restarts", "third").stdout.splitlines()
    streams = [line.partition("-")[2] for line in listed if "-stream" in line]
    assert streams == ["stream", "stream-restart", "stream", "stream", "stream", "stream-restart"]


def test_a_stream_block_of_one_step_has_nothing_to_restart_between(golden, run_pytest):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n")
    listed = run_pytest(golden, "--collect-only").stdout
    assert "some.golden::16-stream\n" in listed
    assert "restart" not in listed


def test_a_malformed_file_is_an_error_that_says_where(golden, run_pytest):
    golden.write_text("streams\nSELECT 1\n----\n")
    done = run_pytest(golden)
    assert done.returncode == 2
    assert "line 1: 'streams' is no kind of block" in done.stdout


def test_unit_tests_of_sql_files_are_collected(tmp_path, run_pytest):
    path = tmp_path / "unit.sql"
    path.write_text("EXECUTE UNIT TEST t FOR v EXPECTED AS (VALUES (1));\n")
    (tmp_path / "other.sql").write_text("SELECT 1;\n")
    listed = run_pytest(tmp_path, "--collect-only").stdout
    assert "unit.sql::1-t\n" in listed
    assert "other.sql" not in listed
