"""The check for Java, which runs before anything is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", [("-m", "sqlstream.spark.java"), ("-m", "tests.versions", "--help")])
def test_what_runs_before_the_installation_needs_no_package(command):
    """``-S`` leaves out all packages but those of Python itself."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-S", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
