"""The pytest plugin: golden files are tests, differences are shown, ``--bless`` rewrites what is expected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def run_pytest(path: Path, *options: str) -> subprocess.CompletedProcess:
    plugins = ("-p", "no:cacheprovider", "-p", "sqlstream.testing.plugin", "--rootdir", str(path.parent))
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(path), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_difference_fails_and_is_shown(golden):
    done = run_pytest(golden)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "misspelt" in done.stdout
    assert '+SS201: column "aa" does not exist' in done.stdout
    assert golden.read_text() == GOLDEN


def test_bless_rewrites_the_expected_lines_and_nothing_else(golden):
    assert run_pytest(golden, "--bless").returncode == 0
    assert golden.read_text() == BLESSED
    assert "2 passed" in run_pytest(golden).stdout


def test_a_stream_block_is_two_tests(golden):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n> t  2\n+I 2\n")
    listed = run_pytest(golden, "--collect-only").stdout
    assert "some.golden::16-stream\n" in listed
    assert "some.golden::16-stream-restart\n" in listed


def test_restarts_may_be_left_to_every_third_block(golden):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n> t  2\n+I 2\n" * 4)
    listed = run_pytest(golden, "--collect-only", "--restarts", "third").stdout.splitlines()
    streams = [line.partition("-")[2] for line in listed if "-stream" in line]
    assert streams == ["stream", "stream-restart", "stream", "stream", "stream", "stream-restart"]


def test_a_stream_block_of_one_step_has_nothing_to_restart_between(golden):
    golden.write_text(GOLDEN + "\nstream\nSELECT a FROM t\n----\n> t  1\n+I 1\n")
    listed = run_pytest(golden, "--collect-only").stdout
    assert "some.golden::16-stream\n" in listed
    assert "restart" not in listed


def test_a_malformed_file_is_an_error_that_says_where(golden):
    golden.write_text("streams\nSELECT 1\n----\n")
    done = run_pytest(golden)
    assert done.returncode == 2
    assert "line 1: 'streams' is no kind of block" in done.stdout


def test_unit_tests_of_sql_files_are_collected(tmp_path):
    path = tmp_path / "unit.sql"
    path.write_text("EXECUTE UNIT TEST t FOR v EXPECTED AS (VALUES (1));\n")
    (tmp_path / "other.sql").write_text("SELECT 1;\n")
    listed = run_pytest(tmp_path, "--collect-only").stdout
    assert "unit.sql::1-t\n" in listed
    assert "other.sql" not in listed
