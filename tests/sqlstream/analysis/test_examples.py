"""The examples of the documentation, and the page that the command writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlstream.cli import commands

ROOT = Path(__file__).parents[3]
TABLE = "CREATE TABLE bids (auction BIGINT, price DOUBLE) WITH ('connector' = 'datagen');"


@pytest.mark.parametrize("page", ["README.md", "docs/planner.md"])
def test_examples_of_the_planner_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "sqlstream.planner" in block]
    exec(compile(example, page, "exec"), {})
    assert "bids.price" in capsys.readouterr().out


def explained(folder, query):
    (folder / "tables.sql").write_text(TABLE, "utf-8")
    (folder / "query.sql").write_text(query, "utf-8")
    arguments = ["explain", str(folder / "tables.sql"), str(folder / "query.sql"), "--format", "html"]
    return CliRunner().invoke(commands, arguments, standalone_mode=False)


def test_the_command_writes_one_page(tmp_path):
    result = explained(tmp_path, "SELECT auction, MAX(price) AS top FROM bids GROUP BY auction;")
    assert result.exception is None
    assert result.output.startswith("<!DOCTYPE html>")
    assert "MAX(bids.price)" in result.output


def test_a_page_shows_one_plan(tmp_path):
    result = explained(tmp_path, "SELECT price FROM bids; SELECT auction FROM bids;")
    assert "a page shows one plan, and the scripts have 2" in str(result.exception)
