"""The example DAG of docs/airflow.md: its commands do what the page says. Airflow itself is not needed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlstream.cli import run
from sqlstream.cli.commands import COMMANDS
from sqlstream.jobs.checkpoints.storage import LocalStorage
from sqlstream.jobs.records.record import write_record
from tests.sqlstream.jobs.records.written import GONE, life, record

PAGE = (Path(__file__).parents[3] / "docs/airflow.md").read_text(encoding="utf-8")
DAILY = """
CREATE TABLE n (v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE out (v BIGINT, d DATE) WITH ('connector' = 'filesystem', 'path' = '${out}', 'format' = 'json');
INSERT INTO out SELECT v, CAST(:day AS DATE) FROM n;
"""


def tasks() -> dict[str, dict[str, Any]]:
    """The arguments of each task of the DAG, of those that are constants, with Jinja's {{ ds }} filled in."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    collected: dict[str, dict[str, Any]] = {}
    for call in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)):
        values = {word.arg: word.value for word in call.keywords}
        if "bash_command" in values:
            names = {"SQL": "/opt/shop/sql", "JOBS": "/var/lib/shop/jobs"}
            command = eval(compile(ast.Expression(values["bash_command"]), "dag", "eval"), names)
            assert "{{ ds }}" in command or "jobs" in command
            given = {k: v.value for k, v in values.items() if k is not None and isinstance(v, ast.Constant)}
            collected[str(given["task_id"])] = {**given, "bash_command": command.replace("{{ ds }}", "2026-01-01")}
    return collected


def words_of(task: str) -> list[str]:
    command: str = tasks()[task]["bash_command"]
    return command.removeprefix("exec ").split()[1:]


def test_the_dag_has_the_tasks_that_the_page_explains():
    assert list(tasks()) == ["check", "daily", "totals_run", "savepoint"]
    assert all(f"**`{task}`**" in PAGE for task in tasks())
    assert all(words_of(task)[0] in COMMANDS for task in tasks())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "daily.sql").write_text(DAILY.replace("${out}", str(tmp_path / "out")), encoding="utf-8")
    return tmp_path


def in_folder(words: list[str], folder: Path) -> list[str]:
    return [word.replace("/opt/shop/sql", str(folder)).replace("/var/lib/shop/jobs", str(folder)) for word in words]


def test_check_finds_mistakes(folder, capsys):
    words = in_folder(words_of("check"), folder)
    assert run(words) == 0
    (folder / "daily.sql").write_text("SELECT a FROM b WHERE d = :day")
    assert run(words) == 1
    assert run([*words[:2], "--no-such"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("status", "code"),
    [("RUNNING", 0), ("STOPPED", 1), ("RESTARTING", 1), ("FINISHED", 1), ("FAILED", 3), ("LOST", 3), (None, 2)],
)
def test_the_sensor_waits_for_what_may_come_and_fails_where_nothing_will(folder, capsys, status, code):
    if status is not None:
        now = life(process=GONE) if status == "LOST" else life(status)
        write_record(LocalStorage(folder / "totals"), record(life=now))
    assert run(in_folder(words_of("totals_run"), folder)) == code
    assert (f'job "totals" is {status}, not RUNNING' in capsys.readouterr().err) is (code in (1, 3))
    assert tasks()["totals_run"]["retry_exit_code"] == 1


def test_one_of_several_states_is_enough(folder, capsys):
    write_record(LocalStorage(folder / "totals"), record(life=life("FINISHED")))
    words = in_folder(words_of("totals_run"), folder)
    assert run([*words, "--expect", "finished"]) == 0
    assert run(words[:-2]) == 0, "without --expect it only shows"
    capsys.readouterr()


@pytest.mark.parametrize(("status", "code"), [("STOPPED", 1), ("LOST", 3), (None, 2)])
def test_a_savepoint_of_what_does_not_run_fails(folder, capsys, status, code):
    if status is not None:
        now = life(process=GONE) if status == "LOST" else life(status)
        write_record(LocalStorage(folder / "totals"), record(life=now))
    assert run(in_folder(words_of("savepoint"), folder)) == code
    capsys.readouterr()


@pytest.mark.long
@pytest.mark.spark
def test_the_daily_task_runs(folder):
    command = [sys.executable, "-m", "sqlstream", *in_folder(words_of("daily"), folder)]
    assert subprocess.run(command, env=os.environ, check=False).returncode == 0
    rows = "".join(path.read_text() for path in (folder / "out").glob("*.json"))
    assert rows.count('"d":"2026-01-01"') == 3
