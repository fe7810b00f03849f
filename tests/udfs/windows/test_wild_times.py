"""Rows of any time: those of other keys come out as if the wild ones had not been there, and none of these is lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.udfs.event_times import EARLIEST, END_OF_INPUT, LATEST
from sqlstream.udfs.harness import KernelHarness, key_hashes
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.windows.last_rows import LastRows
from tests.model.kernels import COLUMNS, KEYS, MS, TIME, Stretch, kernel, stream

YEAR_ONE = -62_135_596_800_000_000
WILD = "wild"
TIMES = (
    EARLIEST,
    EARLIEST + 1,
    YEAR_ONE - 9 * 3_600_000_000,
    YEAR_ONE - 1,
    YEAR_ONE,
    -1,
    END_OF_INPUT - MS,
    END_OF_INPUT,
    END_OF_INPUT + MS,
    LATEST - 1,
    LATEST,
)


def with_wild_rows(random: Random, stretch: Stretch) -> pa.Table:
    """A row of the key WILD in some places."""
    rows = stretch.rows.to_pylist()
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(rows))
        row: dict[str, Any] = dict.fromkeys(COLUMNS.names)
        row |= {"k": WILD, TIME: random.choice(TIMES), "v": 5, "n": -1, "text": "w", "gap": 3 * MS, "limit": 2}
        row |= {"opens": True, "closes": False, "high": random.random() < 0.5}
        rows.insert(place, row)
    table = pa.Table.from_pylist(rows, stretch.rows.schema).select(COLUMNS.names)
    return table.append_column(KEY_HASH, key_hashes(table, KEYS))


def played(found, stretches: list[Stretch], tables: list[pa.Table]) -> list[list[str]]:
    harness = KernelHarness(found)
    harness.processing_time(-1000)
    outputs = []
    for stretch, rows in zip(stretches, tables, strict=True):
        harness.rows(rows)
        clocks = {"watermark": stretch.watermark, "processing_time": stretch.processing_time}
        for name, time in clocks.items():
            if time is not None:
                harness.batch(**{name: time * MS})
        outputs.append(harness.output())
    harness.finish()
    outputs.append(harness.output())
    return [sorted(str(row) for row in rows if row["k"] != WILD) for rows in outputs]


@pytest.mark.parametrize("seed", range(400))
def test_rows_of_any_time_change_nothing_for_other_keys(seed):
    random = Random(seed)
    found, stretches = kernel(random), stream(random)
    if isinstance(getattr(found, "measure", None), LastRows):
        pytest.skip("fires at each multiple of its slide since the first row")
    plain = [stretch.rows for stretch in stretches]
    wild = [with_wild_rows(random, stretch) for stretch in stretches]
    assert played(found, stretches, wild) == played(found, stretches, plain), found
