"""The documentation is true: generated pages are current, links lead somewhere, SQL parses, commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sqlstream
from docs.error_codes import codes_in_source, collect
from docs.generate import PAGES
from docs.site import anchor
from sqlstream.grammar import parse_script, to_sql
from sqlstream.query import Query
from tests.server_places import free_port

ROOT = Path(__file__).parents[1]
WRITTEN = sorted(
    str(page.relative_to(ROOT)) for pages in ("*.md", "docs/*.md", "examples/**/*.md") for page in ROOT.glob(pages)
)
"""Without docs/parts, whose links are those of the pages that they are parts of."""


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _text(page), re.DOTALL | re.MULTILINE)


# --- generated pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_generated_page_is_current(page):
    assert _text(f"docs/{page}") == PAGES[page](), "run make docs"


def test_every_code_has_a_message():
    assert [code for code, entry in collect().items() if not entry] == []


def test_every_code_of_the_source_is_on_the_page():
    assert codes_in_source() == set(re.findall(r"^\| (SS\d{3}) \|", _text("docs/errors.md"), re.MULTILINE))


# --- pages written by hand ------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)}


@pytest.mark.parametrize("page", WRITTEN)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", _text(page)):
        path, _, anchor = target.partition("#")
        collected = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert collected.exists(), target
        assert not anchor or anchor in _anchors(collected), target


@pytest.mark.parametrize("page", [p for p in WRITTEN if _blocks(p, "sql")])
def test_sql_parses(page):
    whole = [block for block in _blocks(page, "sql") if "…" not in block and " | " not in block]
    for block in whole:
        assert parse_script(block)


def test_index_names_every_page():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\((\w+\.md)\)", _text("docs/index.md")))


# --- commands -------------------------------------------------------------------------------------------------


def test_ci_runs_the_commands_of_the_readme():
    commands = [line.split("#")[0].split() for block in _blocks("README.md", "sh") for line in block.splitlines()]
    goals = [words[1] for words in commands if words[:1] == ["make"]]
    assert goals == ["demo", "test"]
    ci = re.findall(r"^make .*$", _text(".ci/run"), re.MULTILINE)
    assert set(goals) <= {line.split()[-1] for line in ci}


def test_every_make_target_explains_itself():
    (targets,) = re.findall(r"^\.PHONY: (.+)$", _text("Makefile"), re.MULTILINE)
    explained = set(re.findall(r"^([a-z-]+):.*## ", _text("Makefile"), re.MULTILINE))
    assert set(targets.split()) - explained == {"java", "python"}


def _shell(script: str, folder: Path) -> str:
    """What a script prints, with ``sqlstream`` from this checkout."""
    return _run(script, folder).stdout


def _run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = f'set -eu\nsqlstream() {{ {sys.executable} -m sqlstream "$@"; }}\n{script}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_MASTER": "local[1]"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.spark
def test_quickstart_prints_what_it_says(tmp_path):
    """Up to its first job, of which the long test runs three more."""
    steps = _steps_of_the_quickstart()
    first_job = next(i for i, (_, block) in enumerate(steps) if "INSERT INTO" in block)
    _take(steps[:first_job], tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_the_whole_quickstart_prints_what_it_says(tmp_path):
    _take(_steps_of_the_quickstart(), tmp_path)
    assert list((tmp_path / "highest").glob("*.parquet"))
    assert (tmp_path / "checkpoints" / "insert_into_highest").is_dir()


@pytest.mark.long
@pytest.mark.spark
def test_the_job_of_the_quickstart_goes_on_and_is_upgraded(tmp_path, monkeypatch):
    """Its commands as they stand, but for the port, and for the page, which tests/sqlstream/console asks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    port = free_port()
    steps = _steps_of_the_quickstart()
    first_run = next(i for i, (_, block) in enumerate(steps) if "INSERT INTO" in block)
    for _, block in steps[: first_run + 1]:
        if "cat > " in block:
            _run(re.sub(r"^sqlstream .*\n", "", block, flags=re.MULTILINE), tmp_path)
    _, _, section = _text("docs/quickstart.md").partition("## Keep it running")
    blocks = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    start, look, upgrade, deploy = (block.replace("9464", str(port)) for block in blocks)
    edit, command = start.splitlines()
    _run(edit, tmp_path)
    job = subprocess.Popen(
        [sys.executable, "-m", *command.split()], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        _run(f"until curl -sf http://127.0.0.1:{port}/ready; do sleep 1; done", tmp_path)
        seen = _shell(re.sub(r"^sqlstream jobs serve.*\n", "", look, flags=re.MULTILINE), tmp_path)
        assert "sqlstream_job_status" in seen and "RUNNING" in seen and (tmp_path / "sqlstream.json").exists()
        done = _run(upgrade, tmp_path)
        assert "carries over  window aggregate" in done.stdout and "is RUNNING with" in done.stderr
        assert "checkpoints/savepoints/insert_into_highest-" in done.stdout
        assert job.wait(60) == 0
        assert "ExecStart=" in _shell(deploy, tmp_path)
    finally:
        job.kill()
        _run("sqlstream jobs stop --all --dir checkpoints", tmp_path)


def _steps_of_the_quickstart() -> list[tuple[str, str]]:
    return re.findall(r"^```(sh|text)\n(.*?)^```", _text("docs/quickstart.md"), re.DOTALL | re.MULTILINE)


def _take(steps: list[tuple[str, str]], folder: Path) -> None:
    for language, block in steps:
        if language == "sh":
            done = _run(block, folder)
        elif done.stdout:
            assert done.stdout == block
        else:
            assert block in done.stderr


@pytest.mark.spark
@pytest.mark.long
def test_first_minute_of_the_readme_counts_every_row(tmp_path):
    (command,) = (block for block in _blocks("README.md", "sh") if "sqlstream run" in block)
    assert "'600'" in command  # a minute of ten rows a second, of which six seconds show as much
    out = _shell(command.replace("pip install .\n", "").replace("'600'", "'60'"), tmp_path)
    counts = [int(line.split("|")[1]) for line in out.splitlines() if re.match(r" \d{4}-", line)]
    assert sum(counts) == 60
    assert set(counts[1:-1]) == {10}


@pytest.mark.spark
def test_python_of_the_readme_runs(spark, capsys):
    (example,) = (block for block in _blocks("README.md", "python") if "import sqlstream\n" in block)
    exec(example, {})
    assert capsys.readouterr().out.split() == [
        "n", "square", "0", "998", "996004", "1", "999", "998001", "2", "1000", "1000000",
    ]  # fmt: skip


@pytest.mark.spark
def test_windows_of_the_readme_give_what_they_say(spark):
    (script,) = (block for block in _blocks("README.md", "sql") if "COUNT WINDOW" in block)
    table, last, alert = map(to_sql, parse_script(script))
    with sqlstream.connect(spark) as session:
        session.sql(table)
        assert list(_query(session, last)) == [(250, 1, 250), (500, 1, 500), (500, 251, 750), (500, 501, 1000)]
        led = [[300, 301, 302], [601, 602, 603], [902, 903, 904]]
        assert list(_query(session, alert)) == [(values,) for values in led]


def _query(session: sqlstream.Session, sql: str) -> Query:
    result = session.sql(sql)
    assert isinstance(result, Query)
    return result
