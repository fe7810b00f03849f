"""Tests of a user's repository: which there are, what becomes of each, and what ``sqlstream test`` says."""

from __future__ import annotations

import os
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sqlstream.cli import commands
from sqlstream.cli.test import watched
from sqlstream.testing.report import Verdict
from sqlstream.testing.suite import How, files_with_tests, items_of, run_item
from sqlstream.testing.unit_tests import UnitOutcome, bless_test_of_file
from sqlstream.types import parse_type

TABLES = """\
CREATE TABLE sales (shop STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'sales', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json');
CREATE VIEW large AS SELECT shop, amount FROM sales WHERE amount > 10;
"""
GOLDEN = """\
script
../queries/tables.sql

# misspelt
error
SELECT shopp FROM large
----
SS201: column "shopp" does not exist
LINE 1: SELECT shopp FROM large
               ^^^^^
HINT: Did you mean "shop"?

# what is read
plan
SELECT shop FROM large
----
Wrong
"""
UNIT = """\
-- script ../queries/tables.sql
EXECUTE UNIT TEST keeps_large FOR large
MOCK sales (shop STRING, amount INT) AS (VALUES ('a', 10), ('b', 11))
EXPECTED (shop STRING) AS (VALUES ('b'));

EXECUTE UNIT TEST is_wrong FOR large
MOCK sales (shop STRING, amount INT) AS (SELECT UPPER('c'), 5 + 6)
EXPECTED (shop STRING, amount INT) AS (VALUES ('C', 12));
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "queries").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / "queries" / "tables.sql").write_text(TABLES)
    (tmp_path / "tests" / "large.golden").write_text(GOLDEN)
    (tmp_path / ".venv" / "other.golden").write_text(GOLDEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(commands, ["test", *arguments], standalone_mode=False)
    if isinstance(done.exception, click.UsageError):
        return done.exception.exit_code, done.exception.message
    return done.return_value, done.output


def test_golden_files_and_sql_with_unit_tests_have_tests(repository):
    (repository / "tests" / "unit.sql").write_text(UNIT)
    files = list(files_with_tests([Path()]))
    assert files == [Path("tests/large.golden"), Path("tests/unit.sql")]
    assert [item.name for path in files for item in items_of(path)] == [
        "5-error", "14-plan", "2-keeps_large", "6-is_wrong"
    ]  # fmt: skip
    assert not list(files_with_tests([repository / "queries"]))


def test_what_is_different_is_told(repository):
    code, output = run()
    assert code == 1
    assert "PASS tests/large.golden::5-error misspelt" in output
    assert "FAIL tests/large.golden::14-plan what is read" in output
    assert "  -Wrong\n  +" in output
    assert "tests/large.golden        1        0        1" in output


def test_tests_are_chosen_by_words(repository):
    code, output = run("-k", "misspelt and not plan")
    assert code == 0
    assert "14-plan" not in output
    assert run("-k", "(misspelt")[0] == 2
    assert run("-k", "nothing-of-this-kind")[0] == 2


def test_the_first_failure_may_be_the_last_test(repository):
    text = GOLDEN.replace("SS201", "SS999", 1)
    (repository / "tests" / "large.golden").write_text(text)
    assert "14-plan" in run()[1]
    assert "14-plan" not in run("-x")[1]


def test_bless_writes_what_came_out(repository):
    code, output = run("--bless")
    assert code == 0
    assert "(blessed)" in output
    assert "Wrong" not in (repository / "tests" / "large.golden").read_text()
    assert run()[0] == 0


def test_reports_are_written(repository):
    run("--junit", "report.xml", "--json", "report.json")
    assert "<failure" in (repository / "report.xml").read_text()
    assert '"title": "misspelt"' in (repository / "report.json").read_text()


def test_tests_run_in_several_processes(repository):
    code, output = run("-n", "2")
    assert code == 1
    assert "PASS tests/large.golden::5-error" in output
    assert "FAIL tests/large.golden::14-plan" in output


def test_a_file_that_is_wrong_is_a_failure(repository):
    (repository / "tests" / "large.golden").write_text("query\nSELECT 1\n")
    code, output = run()
    assert code == 1
    assert "FAIL tests/large.golden line 1: 'query' is no kind of block" in output


def test_a_script_that_is_not_there_is_named(repository):
    (repository / "queries" / "tables.sql").unlink()
    assert 'file "tests/../queries/tables.sql" cannot be read' in run()[1]


def test_tests_run_again_when_a_file_behind_them_changes(repository):
    path = repository / "tests" / "large.golden"
    changes = [lambda: None, lambda: touch(repository / "queries" / "tables.sql"), interrupt]
    steps = iter(changes)
    chosen = list(watched(lambda: items_of(path), [path], lambda seconds: next(steps)()))
    assert [[item.name for item in items] for items in chosen] == [["5-error", "14-plan"]]


def touch(path: Path) -> None:
    later = time.time() + 10
    os.utime(path, (later, later))


def interrupt() -> None:
    raise KeyboardInterrupt


# --- unit tests -----------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_unit_tests_run_over_mocked_tables(repository):
    path = repository / "tests" / "unit.sql"
    path.write_text(UNIT)
    passed, failed = (run_item(item, How()) for item in items_of(path))
    assert passed.verdict is Verdict.PASS
    assert failed.verdict is Verdict.FAIL
    assert failed.detail.splitlines()[-3:] == [
        "expected  C     12",
        "actual    C     11",
        "                ^^  first difference",
    ]
    assert "sales  C  11  NULL" in failed.detail
    text = path.read_text()
    assert [run_item(item, How(bless=True)).note for item in items_of(path)] == [None, "blessed"]
    assert path.read_text() == text.replace("VALUES ('C', 12)", "VALUES ('C', 11)")


def test_rows_are_written_as_literals_and_in_their_place(tmp_path):
    path = tmp_path / "unit.sql"
    path.write_text(
        "EXECUTE UNIT TEST t FOR v MOCK m AS (VALUES (1))\nEXPECTED (a INT) AS ( -- AS (\n  VALUES (1)\n);\nSELECT 1;\n"
    )
    types = tuple(map(parse_type, ("INT", "STRING", "DOUBLE", "DECIMAL(4,2)", "BOOLEAN", "TIMESTAMP")))
    row = (-1, "it's", float("inf"), Decimal("1.50"), True, datetime(2026, 3, 1, 9))
    bless_test_of_file(path, 0, UnitOutcome("", (row, (None,) * 6), types))
    nulls = ", ".join(["NULL"] * 6)
    written = f"(-1, 'it''s', CAST('inf' AS DOUBLE), 1.50, TRUE, '2026-03-01 09:00:00'), ({nulls})"
    assert f"EXPECTED (a INT) AS (VALUES {written});\nSELECT 1;" in path.read_text()
    assert path.read_text().startswith("EXECUTE UNIT TEST t FOR v MOCK m AS (VALUES (1))\n")
    bless_test_of_file(path, 0, UnitOutcome("", (), types[:2]))
    assert "AS (SELECT NULL, NULL WHERE FALSE);" in path.read_text()
    with pytest.raises(ValueError, match="no literal"):
        bless_test_of_file(path, 0, UnitOutcome("", (([1],),), (parse_type("ARRAY<INT>"),)))
