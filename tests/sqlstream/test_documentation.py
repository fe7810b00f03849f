"""The pages of connectors and settings are those of the source, and their SQL is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sqlstream
from docs.option_tables import connectors_page, settings_page
from tests.schema_registry import serving

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "page"), [("connectors.md", connectors_page), ("settings.md", settings_page)])
def test_generated_pages_are_current(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == page(), f"run make docs: {name} has changed"


STREAMS = {
    "orders": "id BIGINT, price DECIMAL(10, 2), customer BIGINT",
    "flights": "flight STRING, tailnum STRING, carrier STRING",
    "changes": "id BIGINT, name STRING, level INT, carrier STRING, fleet INT",
}
"""Tables that examples read without creating them."""


REGISTRY = "http://localhost:8081"
"""Where pages say that a schema registry is. The tests put their own in its place."""

REGISTERED = {
    "shipments-value": {"type": "record", "name": "Shipment", "fields": [{"name": "id", "type": "long"}]},
}
"""Schemas of tables whose columns an example leaves out, by subject."""


def sections() -> list[tuple[str, str]]:
    """The pages and the SQL of each of their sections that has some."""
    collected = []
    for page in ("connectors.md", "settings.md"):
        for section in re.split(r"^## ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE):
            blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
            if blocks:
                collected.append((f"{page}: {section.splitlines()[0]}", "\n;\n".join(blocks)))
    return collected


@pytest.mark.parametrize(("name", "text"), sections(), ids=[name for name, _ in sections()])
def test_the_sql_of_a_section_is_right(name: str, text: str) -> None:
    missing = {table: columns for table, columns in STREAMS.items() if f"CREATE TABLE {table} " not in text}
    with sqlstream.connect() as session, serving() as registry:
        for subject, schema in REGISTERED.items():
            registry.register(subject, schema)
        for table, columns in missing.items():
            session.sql(f"CREATE TABLE {table} ({columns}, pt AS PROCTIME()) WITH ('connector' = 'datagen')")
        assert session.check(text.replace(REGISTRY, registry.url)) == ()


@pytest.mark.spark
def test_the_first_example_of_the_python_page_runs(spark, capsys) -> None:
    (example, *_) = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
    assert re.search(r"\d+ +\d+ +[5-9]\d\.\d\d", capsys.readouterr().out)
