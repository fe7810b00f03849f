"""The two orders of the search find the same matches, and each does what it is chosen for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.grammar import nodes as n
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.match.automaton import Skip
from sqlstream.udfs.match.mapper import RowMapper
from sqlstream.udfs.match.partial_matches import PartialMatches
from tests.depth import depth
from tests.udfs.match.test_kernel import (
    CONDITIONS,
    MS,
    NEXT,
    PAST,
    SCHEMA,
    SEARCHES,
    SKIPS,
    by_key,
    expected,
    kept,
    kernel,
    model,
    pattern_of,
    possible,
    results,
    row,
    searching,
)

BY_ROW = {"FEW_ROWS": 10**6}
BY_START = {"FEW_ROWS": 0, "MOST_MAPPED": 10**6}

LONG = [
    "A B* C",
    "A B*? C",
    "A+ B",
    "(A B)+ C",
    "A B+ C",
    "A (B | C) A",
    "A B C*",
    "A{3,} B",
    "(A | B C*) C",
    "A? B+? C",
]
"""Patterns without repetitions of alternatives, of which there can be exponentially many mappings."""


def rows_of(seed: int, lengths: dict[str, int]) -> list[dict[str, Any]]:
    """Rows of keys of these lengths, among each other, some of them at the same time."""
    random = np.random.default_rng(seed)
    keys = random.permutation([key for key, length in lengths.items() for _ in range(length)])
    times = np.cumsum(random.integers(0, 2, len(keys)))
    return [row(*r) for r in zip(keys.tolist(), times.tolist(), random.integers(0, 6, len(keys)).tolist(), strict=True)]


def found(
    pattern: n.Pattern,
    chosen: dict[str, str],
    skip: Skip,
    within: int | None,
    batches: list[list[dict[str, Any]]],
    limits: list[dict[str, int]],
) -> list[tuple[Any, ...]] | str:
    """The matches in batches that are searched with these limits, or the message of an error."""
    harness = KernelHarness(kernel(pattern, chosen, skip, within), SCHEMA, ["k"], restarts=True)
    lines: list[tuple[Any, ...]] = []
    try:
        for batch, of_batch in zip([*batches, None], limits, strict=True):
            with searching(of_batch):
                if batch is None:
                    harness.finish()
                else:
                    harness.batch(batch)
                    harness.watermark(batch[-1]["ts"] - MS)
            lines += results(harness)
    except ExecutionError as error:
        return str(error)
    return lines


@settings(max_examples=depth(40, 600))
@given(st.sampled_from(LONG), CONDITIONS, st.sampled_from([PAST, NEXT]), st.integers(0, 10**6), st.data())
def test_matches_of_long_and_short_keys_are_those_of_the_model(text, chosen, skip, seed, data):
    pattern = pattern_of(text)
    chosen = possible(pattern, chosen)
    within = data.draw(st.sampled_from([None, 8 * MS]))
    rows = rows_of(seed, {"x": data.draw(st.integers(20, 40)), "y": 3, "z": 1})
    cut = data.draw(st.integers(1, len(rows) - 1))
    limits = [data.draw(SEARCHES) for _ in range(3)]
    lines = found(pattern, chosen, skip, within, [rows[:cut], rows[cut:]], limits)
    assert not isinstance(lines, str)
    assert by_key(lines) == expected(model(pattern, chosen, skip, within), rows)


@settings(max_examples=depth(15, 600))
@given(st.sampled_from(LONG), CONDITIONS, SKIPS, st.integers(0, 10**6), st.data())
def test_both_orders_find_the_same_matches(text, chosen, skip, seed, data):
    pattern = pattern_of(text)
    chosen = possible(pattern, chosen)
    if skip.variable is not None and skip.variable not in kernel(pattern, chosen).automaton.names:
        return
    within = data.draw(st.sampled_from([None, 20 * MS]))
    rows = rows_of(seed, {"x": 150, "y": 30, **{f"z{i}": 2 for i in range(20)}})
    batches = [rows[:80], rows[80:90], rows[90:]]
    mixed = [data.draw(SEARCHES) for _ in range(4)]
    by_row = found(pattern, chosen, skip, within, batches, [BY_ROW] * 4)
    assert found(pattern, chosen, skip, within, batches, [BY_START] * 4) == by_row
    assert found(pattern, chosen, skip, within, batches, mixed) == by_row


# --- what each order is chosen for ----------------------------------------------------------------------------


@contextmanager
def counted() -> Iterator[list[int]]:
    """The number of partial matches in each step of the search."""
    steps: list[int] = []
    of_mapper = RowMapper.continued

    def continued(mapper: RowMapper, partial_matches: PartialMatches) -> Any:
        steps.append(len(partial_matches))
        return of_mapper(mapper, partial_matches)

    with patch.object(RowMapper, "continued", continued):
        yield steps


def steps_of(text: str, chosen: dict[str, str], skip: Skip, values: list[int], within: int | None = None) -> list[int]:
    harness = KernelHarness(kernel(text, chosen, skip, within), SCHEMA, ["k"])
    harness.rows([row("x", ms, v) for ms, v in enumerate(values)])
    with counted() as steps:
        harness.watermark((len(values) - 1) * MS)
    return steps


@pytest.mark.parametrize("skip", [PAST, NEXT], ids=str)
def test_a_long_key_takes_as_many_steps_as_its_longest_match(skip):
    values = np.random.default_rng(1).integers(0, 6, 2_000).tolist()
    assert len(steps_of("A B C", {"B": "above the other", "C": "small"}, skip, values)) == 3
    assert len(steps_of("A B+ C", {"B": "above the other", "C": "will rise"}, skip, values)) < 60


def test_rows_that_repeat_a_variable_are_mapped_together():
    steps = steps_of("A B* C", {"B": "above the other", "C": "small"}, NEXT, [0, *[5] * 3_000], 4_000 * MS)
    assert len(steps) < 60


def test_the_search_goes_on_by_row_where_that_saves_work():
    with searching({"STEP_WORTH": 0}):
        steps = steps_of("A B* C", {"A": "small", "C": "large"}, PAST, [0] * 3_000)
    assert 3_000 < len(steps) < 3_100 and sum(steps) < 300_000


@pytest.mark.parametrize("limits", [BY_ROW, BY_START], ids=["by row", "by start"])
def test_partial_matches_of_a_key_that_continue_alike_are_stored_once(limits):
    harness = KernelHarness(kernel("A B* C", {"C": "large"}), SCHEMA, ["k"])
    harness.batch([row("x", ms, 0) for ms in range(20)])
    with searching(limits):
        harness.watermark(20 * MS)
    assert kept(harness) == (20, 2)


@pytest.mark.parametrize("limits", [BY_ROW, BY_START], ids=["by row", "by start"])
def test_rows_within_a_match_that_may_become_longer_are_no_starts(limits):
    harness = KernelHarness(kernel("A B+", {"B": "large"}), SCHEMA, ["k"])
    harness.batch([row("x", ms, 5) for ms in range(20)])
    with searching(limits):
        harness.watermark(20 * MS)
    assert kept(harness) == (20, 2)
