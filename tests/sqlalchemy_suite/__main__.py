"""Runs the suite in this process: ``python -m tests.sqlalchemy_suite [arguments of pytest]``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

from tests.sqlalchemy_suite.requirements import EXCLUDED
from tests.sqlalchemy_suite.server import serve

FOLDER = Path(__file__).parent
FILE = FOLDER / "dialect_suite.py"

ARGUMENTS = [
    "-p", "sqlalchemy.testing.plugin.pytestplugin", "-p", "no:sqlstream.testing.plugin", "-p", "no:cacheprovider",
    "-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER), "--dburi", "sqlstream://", "--maxfail", "1000",
    "--requirements", "tests.sqlalchemy_suite.requirements:Requirements", str(FILE),
]  # fmt: skip


def main(arguments: list[str]) -> int:
    """The exit status of pytest. Its plugin of SQLAlchemy changes how tests are collected, so it needs a process."""
    for name in ("sqlstream", "sqlstream.session"):
        registry.register(name, "sqlstream.sqlalchemy.dialect", "SqlStreamDialect")
    serve()
    excluded = [f"--deselect={FILE.name}::{test}" for test in EXCLUDED]
    return pytest.main([*ARGUMENTS, *excluded, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
