"""The page "add an operator": its list of files is what an operator costs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from sqlstream.planner.operators.current_watermark import CurrentWatermark
from tests.import_graph import module_name, product_files
from tests.planner.corpus import kinds_of_nodes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "add_an_operator.md"
FILES = re.findall(r"^\| (new|changed) \| `([^`]+)`", PAGE.read_text("utf-8"), re.MULTILINE)
OPERATORS = "sqlstream.planner.operators."
WHERE_OPERATORS_ARE_NAMED = ("sqlstream.planner.binder.", "sqlstream.planner.lowering.", OPERATORS)

ASKED_FOR_BY_CLASS = {
    "GroupAggregate": {"sqlstream.analysis.statements"},
    "IntervalJoin": {"sqlstream.batch.choosing"},
    "Lookup": {
        "sqlstream.analysis.rewrites",
        "sqlstream.jobs.lifecycle.runtime",
        "sqlstream.jobs.reports.counts",
        "sqlstream.jobs.reports.plan_figures",
        "sqlstream.jobs.lifecycle.session_jobs",
        "sqlstream.telemetry.figures",
    },
    "Limit": {"sqlstream.jobs.lifecycle.launch"},
    "Over": {"sqlstream.batch.choosing"},
    "TopN": {"sqlstream.plans.former", "sqlstream.plans.plan"},
    "WindowAggregate": {"sqlstream.analysis.statements"},
}
"""Modules that ask for one operator by its class, not all nodes by a question. A new operator needs no entry."""


@cache
def importers() -> dict[str, set[str]]:
    """The product's modules that import each name of the modules of operators."""
    modules: dict[str, set[str]] = {}
    for path in product_files():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "planner.operators." in text else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OPERATORS):
                for alias in node.names:
                    modules.setdefault(alias.name, set()).add(module_name(path))
    return modules


def test_an_operator_costs_seven_files_of_which_three_are_changed():
    assert len(FILES) <= 7
    assert [state for state, _ in FILES].count("changed") <= 3


@pytest.mark.parametrize("file", [file for state, file in FILES if state == "new"])
def test_the_new_files_are_those_of_the_smallest_operator(file):
    assert (ROOT / file.replace("<operator>", "current_watermark")).is_file()


def test_the_smallest_operator_is_named_nowhere_else():
    binder, columnar = sorted(importers()[CurrentWatermark.__name__])
    changed = [file for state, file in FILES if state == "changed"]
    assert changed == ["planner/binder/<clause>.py", "planner/lowering/columnar/<kind>.py", "docs/dialect.md"]
    assert binder.startswith("sqlstream.planner.binder.")
    assert columnar.startswith("sqlstream.planner.lowering.columnar.")
    assert "CURRENT_WATERMARK" in (ROOT / "docs" / "dialect.md").read_text("utf-8")


@pytest.mark.parametrize("kind", kinds_of_nodes(), ids=lambda kind: kind.__name__)
def test_operators_are_named_by_the_binder_and_the_lowering_alone(kind):
    if not kind.__module__.startswith(OPERATORS):
        return
    elsewhere = {module for module in importers()[kind.__name__] if not module.startswith(WHERE_OPERATORS_ARE_NAMED)}
    assert elsewhere == ASKED_FOR_BY_CLASS.get(kind.__name__, set())
