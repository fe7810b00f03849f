"""Where the stream blocks of golden files are restarted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from sqlstream.testing.golden_format import Block, parse_golden, restart_points

GOLDEN = Path(__file__).parents[2] / "golden"


def block(steps: int, sql: str = "SELECT 1") -> Block:
    return Block("stream", 1, sql, expected=tuple(line for n in range(steps) for line in (f"> t  {n}", f"+I {n}")))


@pytest.mark.parametrize(("steps", "restarts"), [(0, 0), (1, 0), (2, 1), (5, 1), (6, 2), (40, 2)])
def test_a_block_restarts_once_or_twice_between_its_steps(steps, restarts):
    points = restart_points(block(steps))
    assert len(points) == restarts
    assert all(0 < point < steps for point in points)
    assert all(one < other for one, other in pairwise(points))


def test_the_text_decides_where_and_always_the_same():
    collected = [restart_points(block(9, f"SELECT {n}")) for n in range(40)]
    assert collected == [restart_points(block(9, f"SELECT {n}")) for n in range(40)]
    assert {point for points in collected for point in points} == set(range(1, 9))


def test_the_golden_files_restart_before_all_kinds_of_steps():
    blocks = [b for path in GOLDEN.glob("*.golden") for b in parse_golden(path.read_text(encoding="utf-8"))]
    steps = [(b, [line for line in b.expected or () if line.startswith(">")]) for b in blocks if b.kind == "stream"]
    before = {actual[point].split()[1] for b, actual in steps for point in restart_points(b)}
    assert before >= {"finish", "watermark", "processing_time"}
