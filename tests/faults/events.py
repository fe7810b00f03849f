"""The input of all jobs: Parquet files that are read one per micro-batch, the same ones for the same seed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = "id BIGINT, k BIGINT, v BIGINT, channel INT, barrier BIGINT, late BOOLEAN, ts TIMESTAMP(3)"
CHANNELS = 3
SLOW_KEY = 3
"""Of keys modulo 500: lookups answer it late."""

_START_MS = 1_704_067_200_000
_SPAN_MS = 7_200_000
_DISORDER_MS = 4_000
_LATE_MS = 900_000
_BARRIERS = 60


def write_events(folder: Path, rows: int, files: int, seed: int) -> None:
    """Two hours of events, up to 4 s out of order; one in a thousand a quarter of an hour late; 60 barriers, whose
    markers come on each of three channels at places of their own."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    ids = np.arange(rows)
    late = random.random(rows) < 0.001
    at = _START_MS + ids * _SPAN_MS // rows - random.integers(0, _DISORDER_MS, rows) - late * _LATE_MS
    channel = random.integers(0, CHANNELS, rows)
    barrier = np.full(rows, -1)
    for number, place in enumerate(np.linspace(rows // _BARRIERS, rows, _BARRIERS, endpoint=False).astype(int)):
        places = random.choice(rows // _BARRIERS, CHANNELS, replace=False)
        for of_channel, before in enumerate(places):
            barrier[place - before - 1], channel[place - before - 1] = number, of_channel
    table = pa.table(
        {
            "id": ids,
            "k": random.integers(0, max(20, rows // 2_000), rows),
            "v": random.integers(0, 1_000, rows),
            "channel": pa.array(channel, pa.int32()),
            "barrier": pa.array(barrier, pa.int64(), mask=barrier < 0),
            "late": late,
            "ts": pa.array(at * 1000).cast(pa.timestamp("us", "UTC")),
        }
    )
    for number, first in enumerate(range(0, rows, -(-rows // files))):
        path = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(first, -(-rows // files)), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
