"""The versions that are claimed are those that are tested: in pyproject.toml, the matrix and the workflow."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.versions import MATRIX, SMALL

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def line_of(version: str) -> tuple[int, ...]:
    """The first two numbers, as numbers."""
    return tuple(int(number) for number in version.split(".")[:2])


def test_matrix_begins_with_the_oldest_versions_that_are_claimed():
    (oldest,) = (re.search(r">=([\d.]+)", d) for d in PROJECT["dependencies"] if d.startswith("pyspark"))
    assert oldest is not None and line_of(MATRIX[0].pyspark) == line_of(oldest.group(1))
    assert f">={MATRIX[0].python}" == PROJECT["requires-python"]


def test_matrix_ends_with_the_versions_that_are_installed_for_development():
    assert f"\npyspark=={MATRIX[-1].pyspark}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_every_line_of_pyspark_python_and_java_is_in_the_matrix():
    assert {line_of(version.pyspark) for version in MATRIX} == {(4, 1), (4, 2), (4, 3)}
    assert {version.python for version in MATRIX} == {"3.11", "3.12", "3.13"}
    assert {version.java for version in MATRIX} == {17, 21}


def test_workflow_runs_the_matrix():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    rows = re.findall(r'pyspark: "([\d.]+)", python: "([\d.]+)", java: "(\d+)"', workflow)
    assert rows == [(version.pyspark, version.python, str(version.java)) for version in MATRIX]


def test_gate_runs_the_oldest_in_a_small_part():
    assert f"tests.versions --only {MATRIX[0].pyspark} --small" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert all((ROOT / name).is_file() for name in SMALL)
