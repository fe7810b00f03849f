"""All SQL of the repository: golden files, documentation, examples, and the language by example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes as n
from sqlstream.grammar import parse_script_recovering
from sqlstream.statements.registry import define, is_definition
from sqlstream.testing.golden_format import parse_golden
from sqlstream.workspace import Workspace
from tests.grammar import dialect_examples
from tests.planner.plans import TABLES, no_tables

_ROOT = Path(__file__).parents[2]
_SQL_BLOCK = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)

# What the examples of the language and of the documentation read without creating it.
_READ_BY_EXAMPLES = """
CREATE TABLE t (a INT, b INT, c STRING, d STRING, k STRING, v INT, w BOOLEAN, kind STRING, bid BIGINT, price DOUBLE,
    distance DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE u (a INT, b INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE orders (id BIGINT, price DECIMAL(10, 2), customer BIGINT, customer_id BIGINT, ip STRING,
    ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'test');
CREATE TABLE customers (id BIGINT, name STRING, level INT) WITH ('connector' = 'test', 'role' = 'lookup');
CREATE TABLE errors (id BIGINT, error STRING) WITH ('connector' = 'test');
"""


@dataclass(frozen=True)
class Seed:
    """A text, and the tables that it may read."""

    text: str
    workspace: Workspace


@cache
def seeds() -> tuple[Seed, ...]:
    """Each text once, in an order that does not depend on the machine."""
    collected: dict[str, Seed] = {}
    for texts in (*_golden(), *_pages(), *_scripts(), _examples()):
        workspace = _workspace(texts)
        for text in texts:
            collected.setdefault(text, Seed(text, workspace))
    return tuple(collected.values())


def _workspace(texts: Iterable[str]) -> Workspace:
    """The tables, views and functions that texts of one file create, over those of all tests."""
    workspace = Workspace(no_tables()).copy()  # whose catalogs write no files
    for text in (TABLES, _READ_BY_EXAMPLES, *texts):
        statements, _ = parse_script_recovering(text)
        for statement in statements:
            if is_definition(statement) and not isinstance(statement, n.Drop | n.Set | n.Reset):
                _define(statement, workspace, text)
    return workspace


def _define(statement: n.Statement, workspace: Workspace, text: str) -> None:
    if isinstance(statement, n.CreateTable) and statement.query is not None:
        return
    with suppress(SqlStreamError):  # many examples are wrong on purpose, or create a table again
        define(statement, workspace, text)


def _golden() -> Iterator[list[str]]:
    for path in sorted((_ROOT / "tests" / "golden").rglob("*.golden")):
        blocks = parse_golden(path.read_text(encoding="utf-8"))
        yield [block.sql for block in blocks if block.sql]


def _pages() -> Iterator[list[str]]:
    for path in sorted([*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md"), *(_ROOT / "examples").rglob("*.md")]):
        yield _SQL_BLOCK.findall(path.read_text(encoding="utf-8"))


def _scripts() -> Iterator[list[str]]:
    for folder in sorted((_ROOT / "examples").iterdir()):
        yield [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))]


def _examples() -> list[str]:
    lists = [value for value in vars(dialect_examples).values() if isinstance(value, list)]
    return [text for item in lists for text in item if isinstance(text, str)]
