"""Changes by key with what was there before, against a dict that takes them one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.testing.values import merge
from sqlstream.udfs.changes.kernels import NormalizeKernel
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, ROW_KIND

NESTED = pa.struct([("xs", pa.list_(pa.float64()))])
SCHEMA = pa.schema([
    (KEY_HASH, pa.int64()), ("k", pa.string()), ("j", pa.int32()), ("k_out", pa.string()), ("v", pa.float64()),
    ("n", NESTED), (ROW_KIND, pa.string()),
])  # fmt: skip

Change = tuple[str, str | None, float | None]
"""Kind, key, value."""


def harness(ttl: int = 0, **options: Any) -> KernelHarness:
    kernel = NormalizeKernel(SCHEMA, ("k", "j"), ("k_out", "v", "n"), ttl)
    return KernelHarness(kernel, SCHEMA, ["k", "j"], **options)


def rows(*changes: Change) -> list[dict[str, Any]]:
    return [
        {KEY_HASH: None, "k": k, "j": None, "k_out": k, "v": v, "n": {"xs": [v, None]}, ROW_KIND: kind}
        for kind, k, v in changes
    ]


def came(kernel: KernelHarness) -> list[Change]:
    return [(row[ROW_KIND], row["k_out"], row["v"]) for row in kernel.output()]


def test_the_kinds_say_what_was_there():
    kernel = harness()
    kernel.rows(rows(("+U", "a", 1.0), ("+I", "b", 2.0)))
    assert came(kernel) == [("+I", "a", 1.0), ("+I", "b", 2.0)]
    kernel.rows(rows(("+I", "a", 3.0), ("-D", "b", None), ("-D", "c", None)))
    assert came(kernel) == [("-U", "a", 1.0), ("+U", "a", 3.0), ("-D", "b", 2.0)]


def test_of_several_changes_of_a_key_the_last_one_comes_out_where_it_came():
    kernel = harness()
    kernel.rows(rows(("+U", "a", 1.0), ("+U", "b", 1.0), ("-D", "a", None), ("+U", "a", 2.0)))
    assert came(kernel) == [("+I", "b", 1.0), ("+I", "a", 2.0)]
    kernel.rows(rows(("-D", "a", None), ("+U", "a", 2.0), ("+U", "b", 5.0), ("-D", "b", None)))
    assert came(kernel) == [("-D", "b", 1.0)]


def test_minus_zero_and_nan_are_the_same_row_again():
    kernel = harness()
    kernel.rows(rows(("+U", "a", 0.0), ("+U", "b", float("nan"))))
    came(kernel)
    kernel.rows(rows(("+U", "a", -0.0), ("+U", "b", float("nan"))))
    assert came(kernel) == []


def test_a_row_that_went_leaves_nothing_behind():
    kernel = harness()
    kernel.rows(rows(("+U", "a", 1.0)))
    kernel.rows(rows(("-D", "a", None)))
    assert all(not store.entries for store in kernel.stores)


def test_a_key_is_forgotten_after_its_last_change():
    kernel = harness(ttl=4_000)
    kernel.processing_time(1_000)
    kernel.rows(rows(("+U", "a", 1.0), ("+U", "b", 1.0)))
    kernel.processing_time(3_000)
    kernel.rows(rows(("+U", "b", 1.0)))
    came(kernel)
    kernel.processing_time(5_000)
    assert came(kernel) == []
    kernel.rows(rows(("+U", "a", 2.0), ("+U", "b", 2.0)))
    assert came(kernel) == [("+I", "a", 2.0), ("-U", "b", 1.0), ("+U", "b", 2.0)]


def test_with_a_time_to_live_the_same_row_is_a_change():
    kernel = harness(ttl=4_000)
    for _ in range(2):
        kernel.rows(rows(("+U", "a", 1.0)))
    assert came(kernel) == [("+I", "a", 1.0), ("-U", "a", 1.0), ("+U", "a", 1.0)]


def test_rows_after_the_end_of_the_clock_are_kept():
    kernel = harness(ttl=4_000)
    kernel.processing_time(END_OF_TIME)
    kernel.rows(rows(("+U", "a", 1.0)))
    assert came(kernel) == [("+I", "a", 1.0)]


def test_a_batch_costs_what_its_keys_cost():
    kernel = harness()
    kernel.rows(rows(*(("+U", str(i), 1.0) for i in range(20_000))))
    came(kernel)
    kernel.restart()
    kernel.rows(rows(("+U", "7", 2.0)))
    assert came(kernel) == [("-U", "7", 1.0), ("+U", "7", 2.0)]
    assert kernel.traffic.bytes_read < 400_000


KEYS = st.one_of(st.none(), st.sampled_from("abcdef"))
VALUES = st.one_of(st.none(), st.sampled_from([0.0, 1.5, 2.0]))
CHANGES = st.lists(st.tuples(st.sampled_from(["+I", "+U", "-U", "-D"]), KEYS, VALUES), max_size=12)
STEPS = st.lists(st.tuples(st.integers(0, 4_000), CHANGES), max_size=8)


def model(steps: list[tuple[int, list[Change]]], ttl: int) -> Iterator[list[Change]]:
    """What each step makes of the table that is known, key by key; ``ttl`` 0: never forgotten."""
    known: dict[str | None, tuple[float | None, int]] = {}
    now = 0
    for passed, changes in steps:
        now += passed
        known = {k: (v, at) for k, (v, at) in known.items() if not ttl or at + ttl > now}
        last = {k: (kind, v) for kind, k, v in changes}
        collected: list[Change] = []
        for key, (kind, value) in last.items():
            before = known.pop(key, None)
            gone = kind in ("-U", "-D")
            if not gone:
                known[key] = (value, now)
            if before is None:
                collected += [] if gone else [("+I", key, value)]
            elif gone:
                collected += [("-D", key, before[0])]
            elif ttl or before[0] != value:
                collected += [("-U", key, before[0]), ("+U", key, value)]
        yield collected


@pytest.mark.parametrize("ttl", [0, 5_000])
@given(steps=STEPS, groups=st.integers(1, 3), cut=st.integers(1, 5), restarts=st.booleans())
def test_any_changes_in_any_pieces(ttl: int, steps, groups, cut, restarts) -> None:
    kernel = harness(ttl, groups=groups, arrow_rows=cut, restarts=restarts)
    now, everything = 0, []
    for (passed, changes), expected in zip(steps, model(steps, ttl), strict=True):
        now += passed
        kernel.batch(rows(*changes), processing_time=now)
        actual = came(kernel)
        assert sorted(map(repr, actual)) == sorted(map(repr, expected))
        everything += actual
        assert ttl or merge(everything) is not None  # raises where a row goes that was not there
