"""The pytest plugin: collects golden files (``*.golden``) and rewrites their expected blocks with ``--bless``; collects
EXECUTE UNIT TEST of SQL files.

A ``stream`` block is two tests: one run straight through, and one that restarts before one or two of its inputs.
"""

from __future__ import annotations

from typing import Any

import pytest

SUFFIX, SQL = ".golden", ".sql"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--bless``, ``--restarts`` and the like."""
    group = parser.getgroup("sqlstream", "golden files of sqlstream")
    group.addoption("--bless", action="store_true", help="rewrite the expected blocks of golden files")
    group.addoption(
        "--streaming", action="store_true", help="run tests as streaming queries of Spark, as in production: slower"
    )
    group.addoption(
        "--restarts",
        choices=("all", "third", "fifth", "tenth"),
        default="all",
        help="stream blocks that also run with restarts: all, or of each file the first and every third, fifth, tenth",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker ``spark``."""
    config.addinivalue_line("markers", "spark: needs a Spark session, and so Java")


def pytest_collect_file(file_path: Any, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect golden files, and SQL files with unit tests."""
    tests = file_path.suffix == SQL and "UNIT TEST" in file_path.read_text(encoding="utf-8", errors="replace").upper()
    if not tests and file_path.suffix != SUFFIX:
        return None
    from sqlstream.testing.collected import GoldenFile, UnitTestFile  # the plugin loads in every project

    kind: type[GoldenFile | UnitTestFile] = UnitTestFile if tests else GoldenFile
    return kind.from_parent(parent, path=file_path)
