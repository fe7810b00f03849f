"""Runs them in this process: ``python -m tests.ibis_suite [arguments of pytest]``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import ibis
import pytest

INI = Path(__file__).with_name("pytest.ini")
TESTS = Path(ibis.__file__).parent / "backends/flink/tests"


def main(arguments: list[str]) -> int:
    """The exit status of pytest. What the tests write is in a folder of their own."""
    with tempfile.TemporaryDirectory() as working:
        os.chdir(working)
        return pytest.main([f"-c{INI}", "--rootdir", str(TESTS.parents[3]), str(TESTS), *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
