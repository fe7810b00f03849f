"""Generated rows for the measurements: 10,000 keys, event time ascending with a jitter of two seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 10_000
_PER_SECOND = 20_000


def write_rows(folder: Path, rows: int, files: int = 8) -> None:
    """``rows`` rows (key BIGINT, value BIGINT, at TIMESTAMP) as Parquet files in order of time."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    for number, places in enumerate(np.array_split(np.arange(rows), files)):
        micros = places * (1_000_000 // _PER_SECOND) + random.integers(0, 2_000_000, len(places))
        table = pa.table(
            {
                "key": random.integers(0, KEYS, len(places)),
                "value": random.integers(0, 1000, len(places)),
                "at": pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
            }
        )
        pq.write_table(table, folder / f"{number:03}.parquet")
