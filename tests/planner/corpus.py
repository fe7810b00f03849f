"""The plans of ``tests/golden/planner/plans.golden``, for tests of what must hold for every plan."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlstream.planner.nodes import Node
from sqlstream.testing.golden_format import parse_golden
from tests.planner.plans import plan

_FILE = Path(__file__).parents[1] / "golden" / "planner" / "plans.golden"


@cache
def corpus() -> dict[str, Node]:
    """Bound plans by the comment above their query."""
    blocks = parse_golden(_FILE.read_text(encoding="utf-8"))
    tables = ";\n".join(b.sql for b in blocks if b.kind == "statement") + ";\n"
    return {b.title: plan(b.sql, tables) for b in blocks if b.kind == "plan"}
