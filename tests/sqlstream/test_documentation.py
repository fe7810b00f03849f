"""The pages of connectors and settings are those of the source, and their SQL is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sqlstream
from docs.option_tables import connectors_page, settings_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "page"), [("connectors.md", connectors_page), ("settings.md", settings_page)])
def test_generated_pages_are_current(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == page(), f"run make docs: {name} has changed"


@pytest.mark.parametrize("name", ["connectors.md", "settings.md"])
def test_the_sql_of_a_page_is_right(name: str) -> None:
    blocks = re.findall(r"```sql\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    with sqlstream.connect() as session:
        assert session.check("\n;\n".join(blocks)) == ()


@pytest.mark.spark
def test_the_first_example_of_the_python_page_runs(spark, capsys) -> None:
    (example, *_) = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
    assert re.search(r"\d+ +\d+ +[5-9]\d\.\d\d", capsys.readouterr().out)
