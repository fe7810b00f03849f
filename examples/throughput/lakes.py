"""Delta and Iceberg tables: as sources beside plain Parquet, as sinks and in upserts beside the bare libraries.

``python -m examples.throughput.lakes``; ``make bench-lake``. All three sources have the same bids in the same row
groups, a file for each micro-batch. Figures of jobs leave the first half of the micro-batches out. An upsert changes
one row in a hundred, anywhere in the table. Each measurement is in a process of its own, on local files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.bids import SCHEMA, write_bids
from examples.throughput.measure import Batches, Watch
from examples.throughput.queries import ours
from examples.throughput.windows import steady
from sqlstream.jobs import Job

LAKES = ("delta", "iceberg")
KINDS = ("parquet", *LAKES)
_ROW_GROUP = 1 << 17
_COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP(3)"
_TUMBLE = "SELECT auction, COUNT(*), SUM(price) FROM bids GROUP BY auction, TUMBLE(at, INTERVAL '10' SECOND)"


def catalog(folder: Path) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def options(folder: Path, kind: str, name: str) -> str:
    """The options of a table in one of the formats."""
    if kind == "iceberg":
        own = {"table-name": f"db.{name}", "catalog.uri": f"sqlite:///{folder}/catalog.db",
               "catalog.warehouse": f"file://{folder}"}  # fmt: skip
    else:
        own = {"path": str(folder / kind / name)} | ({"format": "parquet"} if kind == "parquet" else {})
    given = {"connector": "filesystem" if kind == "parquet" else kind} | own
    return ", ".join(f"'{key}' = '{value}'" for key, value in given.items())


def append(folder: Path, kind: str, name: str, rows: pa.Table) -> None:
    """Appends rows by the library alone, in one commit."""
    if kind == "delta":
        properties = WriterProperties(compression="SNAPPY", max_row_group_size=_ROW_GROUP)
        write_deltalake(folder / kind / name, rows, mode="append", writer_properties=properties)
        return
    properties_ = {"write.parquet.row-group-limit": str(_ROW_GROUP), "write.parquet.compression-codec": "snappy"}
    stored = catalog(folder)
    stored.create_namespace_if_not_exists("db")
    stored.create_table_if_not_exists(f"db.{name}", rows.schema, properties=properties_)
    stored.load_table(f"db.{name}").append(rows)


def merge(folder: Path, kind: str, name: str, rows: pa.Table) -> None:
    """Replaces rows by ``auction`` with the library's own merge."""
    if kind == "iceberg":
        catalog(folder).load_table(f"db.{name}").upsert(rows, join_cols=["auction"])
        return
    merging = DeltaTable(folder / kind / name).merge(rows, "t.auction = s.auction", "s", "t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


# --- what is measured -----------------------------------------------------------------------------------------


def source(folder: Path, kind: str) -> Batches:
    """What a job reports that reads the bids of a table and counts them by auction and window."""
    table = f"""CREATE TABLE bids ({_COLUMNS}, WATERMARK FOR at AS at - INTERVAL '4' SECOND)
        WITH ({options(folder, kind, "bids")}, 'source.max-files-per-trigger' = '1')"""
    return ours([table], "auction BIGINT, n BIGINT, total BIGINT", _TUMBLE)


def sink(folder: Path, kind: str, name: str, read: str, key: str) -> Batches:
    """What a job reports that copies Parquet files to a table."""
    with sqlstream.connect() as session:
        session.sql(f"""CREATE TABLE bids ({_COLUMNS}) WITH ({options(folder, "parquet", read)},
            'source.max-files-per-trigger' = '1')""")
        session.sql(f"CREATE TABLE copies ({_COLUMNS}{key}) WITH ({options(folder, kind, name)})")
        watch = Watch(session.spark, None)
        with watch.watching():
            job = session.sql("INSERT INTO copies SELECT * FROM bids")
            assert isinstance(job, Job)
            job.wait()
        return watch.batches()


def bare(write: Callable[[Path, str, str, pa.Table], None], folder: Path, kind: str, name: str, read: str) -> Batches:
    """The same by the library alone, a file of Parquet after the other."""
    batches = Batches()
    for path in sorted((folder / "parquet" / read).glob("*.parquet")):
        begin = time.perf_counter()
        rows = pq.read_table(path)
        write(folder, kind, name, rows)
        batches.rows.append(rows.num_rows)
        batches.milliseconds.append(int((time.perf_counter() - begin) * 1000))
        batches.processor.append(0.0)
    return batches


MEASUREMENTS: dict[str, Callable[[Path, str], Batches]] = {
    "source": source,
    "sink": lambda folder, kind: sink(folder, kind, "copies", "bids", ""),
    "append": lambda folder, kind: bare(append, folder, kind, "library", "bids"),
    "upsert": lambda folder, kind: sink(folder, kind, "keyed", "changes", ", PRIMARY KEY (auction) NOT ENFORCED"),
    "merge": lambda folder, kind: bare(merge, folder, kind, "merged", "changes"),
}


def _apart(what: str, folder: Path, kind: str) -> Batches:
    print(what, kind, "…", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", __spec__.name, "--measure", what, str(folder), kind]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{what} {kind} failed:\n{ran.stderr}")
    return Batches(**json.loads(ran.stdout.splitlines()[-1]))


# --- tables of figures ----------------------------------------------------------------------------------------


def sources(folder: Path) -> Table:
    table = Table("source", "rows/s", "of Parquet", title="TUMBLE over bids, rows per second", title_justify="left")
    rates = {kind: steady(_apart("source", folder, kind)).rows_per_second for kind in KINDS}
    for kind, rate in rates.items():
        table.add_row(kind, f"{rate:,.0f}", f"{rate / rates['parquet']:.2f}")
    return table


def sinks(folder: Path) -> Table:
    table = Table("sink", "rows/s", "library alone, rows/s", "ratio", title="bids appended", title_justify="left")
    for kind in LAKES:
        own, theirs = (steady(_apart(what, folder, kind)).rows_per_second for what in ("sink", "append"))
        table.add_row(kind, f"{own:,.0f}", f"{theirs:,.0f}", f"{own / theirs:.2f}")
    return table


def upserts(folder: Path, keys: int, changed: int) -> Table:
    title = f"{changed:,} of {keys:,} keys upserted: seconds of a micro-batch, and of the library's merge"
    table = Table("sink", "s", "library alone, s", "ratio", title=title, title_justify="left")
    for kind in LAKES:
        own, theirs = (_seconds(_apart(what, folder, kind)) for what in ("upsert", "merge"))
        table.add_row(kind, f"{own:,.2f}", f"{theirs:,.2f}", f"{own / theirs:.2f}")
    return table


def _seconds(batches: Batches) -> float:
    """Of the second half of the micro-batches with rows, the median."""
    filled = [time / 1000 for rows, time in zip(batches.rows, batches.milliseconds, strict=True) if rows]
    return median(filled[len(filled) // 2 :])


def write_lakes(folder: Path, files: int, rows: int) -> None:
    """The bids of Parquet files as tables of lakes, too."""
    write_bids(folder / "parquet" / "bids", files, rows, 10_000)
    for path in sorted((folder / "parquet" / "bids").glob("*.parquet")):
        for kind in LAKES:
            append(folder, kind, "bids", pq.read_table(path))


def write_keyed(folder: Path, keys: int, changed: int, files: int) -> None:
    """Tables with a row for each key, for us and for the library, and files of changes of them."""
    chance = np.random.default_rng(7)
    every = chance.permutation(keys)
    for part in np.array_split(every, 8):
        for kind in LAKES:
            for name in ("keyed", "merged"):
                append(folder, kind, name, _bids_of(part))
    changes = folder / "parquet" / "changes"
    changes.mkdir(parents=True)
    for number in range(files):
        pq.write_table(_bids_of(chance.choice(keys, changed, replace=False)), changes / f"{number:03}.parquet")


def _bids_of(auctions: np.ndarray) -> pa.Table:
    at = np.arange(len(auctions), dtype=np.int64) * 1000
    arrays = [pa.array(values.astype(np.int64)) for values in (auctions, auctions % 1000, auctions % 77, at)]
    return pa.Table.from_arrays([a.cast(f.type) for a, f in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--files", type=int, default=10, help="micro-batches (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of upserts (default: %(default)s)")
    parser.add_argument("--upserts", type=int, default=4, help="micro-batches of upserts (default: %(default)s)")
    parser.add_argument("--part", action="append", choices=("sources", "sinks", "upserts"))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        what, name, kind = chosen.measure
        print(json.dumps(asdict(MEASUREMENTS[what](Path(name), kind))))
        return 0
    console = Console(width=120)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    changed = max(1, chosen.keys // 100)
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as name:
        folder = Path(name)
        write_lakes(folder, chosen.files, chosen.rows)
        write_keyed(folder, chosen.keys, changed, chosen.upserts)
        parts: dict[str, Callable[[], Table]] = {
            "sources": partial(sources, folder), "sinks": partial(sinks, folder),
            "upserts": partial(upserts, folder, chosen.keys, changed),
        }  # fmt: skip
        for part in chosen.part or parts:
            console.print(parts[part](), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
