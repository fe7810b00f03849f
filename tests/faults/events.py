"""The input of all jobs: Parquet files that are read one per micro-batch, the same ones for the same seed.

Jobs that read another format get the same rows in files of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, ipc

from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.types import from_arrow

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


def write_as(form: str, source: Path, target: Path) -> None:
    """Writes the rows of a Parquet file in another format, with its modification time; the file appears whole."""
    hidden = target.with_name(f".{target.name}")
    _WRITERS[form](pq.read_table(source), hidden)
    times = source.stat()
    os.utime(hidden, ns=(times.st_mtime_ns, times.st_mtime_ns))
    hidden.rename(target)


def _spelled(rows: pa.Table) -> pa.Table:
    """The rows with times as texts."""
    place = rows.schema.get_field_index("ts")
    return rows.set_column(place, "ts", pc.strftime(rows["ts"].cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S"))


def _csv(rows: pa.Table, path: Path) -> None:
    csv.write_csv(_spelled(rows), path, csv.WriteOptions(include_header=False))


def _json(rows: pa.Table, path: Path) -> None:
    spelled = _spelled(rows)
    columns = [_json_values(spelled[name]) for name in spelled.column_names]
    keys = [f'"{name}": ' for name in spelled.column_names]
    parts = [part for pair in zip(keys, columns, strict=True) for part in (*pair, ", ")][:-1]
    lines = pc.binary_join_element_wise("{", *parts, "}", "")
    path.write_text("\n".join(lines.to_pylist()) + "\n")


def _json_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(values.type):
        return pc.binary_join_element_wise('"', values, '"', "")
    return pc.fill_null(values.cast(pa.string()), "null")


def _avro(rows: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        writer = AvroWriter(file, [(field.name, from_arrow(field.type)) for field in rows.schema], "deflate")
        for batch in rows.to_batches(1_000):
            writer.write(batch)
        writer.close()


def _arrow(rows: pa.Table, path: Path) -> None:
    with ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows, 1_000)


_WRITERS: Mapping[str, Callable[[pa.Table, Path], None]] = {"csv": _csv, "json": _json, "avro": _avro, "arrow": _arrow}
FORMATS = (*_WRITERS,)
"""Those in which ``write_as`` writes."""
