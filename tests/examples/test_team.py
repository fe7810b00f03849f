"""``examples/team``: its queries are right and formatted, its tests pass, and what its README says comes out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlstream.cli import commands
from sqlstream.testing.report import Verdict
from sqlstream.testing.suite import How, files_with_tests, items_of, run_item

TEAM = Path(__file__).parents[2] / "examples" / "team"
README = (TEAM / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def team(tmp_path, monkeypatch):
    copy = shutil.copytree(TEAM, tmp_path / "team")
    monkeypatch.chdir(copy)
    return copy


def sqlstream(*arguments: str) -> str:
    done = CliRunner().invoke(commands, arguments, standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value in (0, None), done.output
    return done.output


def test_the_queries_are_right_and_formatted(team):
    jobs = [path.as_posix() for path in sorted(Path("queries").glob("*_job.sql"))]
    for tables in ("queries/tables.sql", "local/tables.sql"):
        sqlstream("check", tables, "queries/views.sql", *jobs)
    sqlstream("format", "--check", *(path.as_posix() for path in Path().rglob("*.sql")))


def test_continuous_integration_does_what_the_readme_says(team):
    steps = (team / ".github" / "workflows" / "queries.yml").read_text(encoding="utf-8")
    commands_shown = [line for line in README.splitlines() if line.startswith(("sqlstream check", "sqlstream format"))]
    for line in (*commands_shown, "sqlstream test tests"):
        assert f"run: {line}" in steps


@pytest.mark.spark
def test_its_tests_pass(team):
    results = [run_item(item, How()) for path in files_with_tests([Path("tests")]) for item in items_of(path)]
    assert len(results) == 9
    assert [result for result in results if result.verdict is not Verdict.PASS] == []


@pytest.mark.spark
def test_a_change_of_a_view_fails_as_the_readme_shows_it(team):
    views = Path("queries/views.sql")
    views.write_text(views.read_text().replace("INTERVAL '30' MINUTES", "INTERVAL '60' MINUTES", 1))
    (item,) = (item for item in items_of(Path("tests/views.sql")) if "paid_in_time" in item.name)
    result = run_item(item, How())
    shown = "\n".join(line.rstrip() for line in [result.line(), "", *(f"  {x}" for x in result.detail.splitlines())])
    assert shown in README


@pytest.mark.spark
def test_a_test_of_the_readme_is_blessed(team):
    block = next(block for block in README.split("```text\n") if block.startswith("# nothing is reminded"))
    golden = Path("tests/revenue.golden")
    golden.write_text(f"{golden.read_text()}\n{block.partition('```')[0]}")
    result = run_item(items_of(golden)[-1], How(bless=True))
    assert (result.verdict, result.note) == (Verdict.PASS, "blessed")
    assert golden.read_text().endswith("> finish\n+I 2  bob  10.0\n")


@pytest.mark.spark
@pytest.mark.long
def test_the_jobs_run_over_files(team):
    output = sqlstream("run", "local/tables.sql", "queries/views.sql", "queries/revenue_job.sql")
    (shown,) = (block.partition("```")[0] for block in README.split("```text\n") if block.startswith("+I["))
    assert sorted(line for line in output.splitlines() if line.startswith("+I[")) == sorted(shown.splitlines())
