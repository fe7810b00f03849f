"""Runs the suite in this process: ``python -m tests.sqlalchemy_suite [arguments of pytest]``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

FOLDER = Path(__file__).parent

ARGUMENTS = [
    "-p", "sqlalchemy.testing.plugin.pytestplugin", "-p", "no:sqlstream.testing.plugin", "-p", "no:cacheprovider",
    "-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER), "--dburi", "sqlstream://", "--maxfail", "1000",
    "--requirements", "tests.sqlalchemy_suite.requirements:Requirements", str(FOLDER / "dialect_suite.py"),
]  # fmt: skip


def main(arguments: list[str]) -> int:
    """The exit status of pytest. Its plugin of SQLAlchemy changes how tests are collected, so it needs a process."""
    for name in ("sqlstream", "sqlstream.session"):
        registry.register(name, "sqlstream.sqlalchemy.dialect", "SqlStreamDialect")
    return pytest.main([*ARGUMENTS, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
