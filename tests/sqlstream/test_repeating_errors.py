"""Errors that the same rows, checkpoint or query bring about again: which they are, and that every job knows them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from docs.error_codes import CODE, sources

ROOT = Path(__file__).parents[2]

OF_ROWS = {
    "SS401", "SS402", "SS403", "SS404", "SS406", "SS412", "SS430", "SS431", "SS441", "SS442", "SS445", "SS446", "SS447",
    "SS448", "SS449",
    "SS468", "SS469",
}  # fmt: skip
OF_CHECKPOINTS = {"SS420", "SS421", "SS422", "SS423", "SS424", "SS425", "SS459"}
OF_THE_QUERY = {"SS435", "SS443", "SS444"}

REPEATING = OF_ROWS | OF_CHECKPOINTS | OF_THE_QUERY

_KNOWN_TO_A_JOB = """
import sqlstream.jobs.lifecycle.start
import sqlstream.connectors.files.filesystem  # a job that writes files has loaded it
from sqlstream.errors import ExecutionError
print(*(code for code in (f"SS{number}" for number in range(400, 500)) if ExecutionError(code, "x").repeats))
"""


def test_a_job_knows_all_of_them_when_it_starts():
    """Whichever kernels it has: what fails in a worker comes back as text with a code."""
    run = subprocess.run([sys.executable, "-c", _KNOWN_TO_A_JOB], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == REPEATING


def test_a_code_is_declared_alike_wherever_it_has_a_name():
    plain = {
        node.value.value
        for _, tree in sources()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and CODE.fullmatch(str(node.value.value))
    }
    assert not plain & REPEATING
