"""Files of records: the decoders alone, the plain libraries, Spark's readers, and whole jobs into ``blackhole``.

``python -m examples.throughput.formats``; ``make bench-formats``. Bids of seven columns as in Nexmark, about 200 bytes
of CSV, 240 of JSON and 150 of Avro a row, one file a micro-batch. Figures of jobs leave the first half of the
micro-batches out; Spark's reader gets a quarter of the files. Avro is beside ``fastavro`` where that is installed;
Spark reads it only with a package of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from rich.console import Console
from rich.table import Table

import sqlstream
from examples.throughput.measure import Batches
from examples.throughput.queries import ours
from examples.throughput.windows import steady
from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.formats.blocks import TextFile
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.files.avro import AvroFormat

fastavro = import_module("fastavro") if find_spec("fastavro") is not None else None

COLUMNS = {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING", "url": "STRING",
           "at": "TIMESTAMP", "extra": "STRING"}  # fmt: skip
DDL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
QUERIES = {
    "q0": (DDL, "SELECT auction, bidder, price, channel, url, at, extra FROM bids"),
    "q2": ("auction BIGINT, price BIGINT", "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0"),
    "TUMBLE": (
        "bidder BIGINT, n BIGINT, total BIGINT",
        "SELECT bidder, COUNT(*), SUM(price) FROM bids GROUP BY bidder, TUMBLE(at, INTERVAL '10' SECOND)",
    ),
    "GROUP BY": ("bidder BIGINT, n BIGINT", "SELECT bidder, COUNT(*) FROM bids GROUP BY bidder"),
}
KINDS = ("plain", "gz", "zst", "faults")
FORMATS = {"csv": KINDS, "json": KINDS, "avro": ("plain",)}
"""The kinds of files of each format: those of Avro have no text, and are compressed within."""
_BIDDERS = 1_000
_FAULT = 1_000
_MOST_BY_FASTAVRO = 100_000  # rows, each of which it makes a dictionary
_ITEM = "STRUCT<id: BIGINT, name: STRING, price: BIGINT>"
NESTED: dict[str, tuple[str, Callable[[random.Random], Any]]] = {
    "an object": (_ITEM, lambda chance: _item(chance)),
    "1 to 4 objects": (f"ARRAY<{_ITEM}>", lambda chance: [_item(chance) for _ in range(chance.randint(1, 4))]),
    "up to 5 INTs": ("ARRAY<INT>", lambda chance: [chance.randrange(10**5) for _ in range(chance.randint(0, 5))]),
    "1 to 4 texts": ("ARRAY<STRING>", lambda chance: [f"text {n}" for n in range(chance.randint(1, 4))]),
    "a MAP of 1 to 4": ("MAP<STRING, STRING>", lambda chance: {f"k{n}": "v" for n in range(chance.randint(1, 4))}),
}
"""The column ``v`` of nested records of JSON: its type, and a value."""
_MOST_NESTED = 100_000  # rows, of which Python makes the texts
_URL = "https://www.nexmark.com/item.htm?query=1&channel_id="
_EXTRA = "some more text that says little of a bid and only fills the row "
_PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda text: gzip.compress(text, 1),
    "zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}
_TABLE = """CREATE TABLE bids ({ddl}, WATERMARK FOR at AS at - INTERVAL '4' SECOND) WITH ('connector' = 'filesystem',
    'path' = '{path}', 'format' = '{format}', 'source.max-files-per-trigger' = '1'{more})"""


def texts(form: str, number: int, rows: int, *, faults: bool = False) -> bytes:
    """The text of file ``number``; with ``faults`` one price in a thousand is no number."""
    chance = np.random.default_rng(number)
    millis = 1_700_000_000_000 + np.arange(number * rows, (number + 1) * rows) // 10

    def numbers(least: int, end: int) -> pa.Array:
        return pa.array(chance.integers(least, end, rows)).cast(pa.string())

    prices = numbers(1, 10**7)
    if faults:
        prices = pc.replace_with_mask(prices, pa.array(np.arange(rows) % _FAULT == 0), pa.scalar("x"))
    columns = {
        "auction": numbers(1_000, 20_000),
        "bidder": numbers(1_000, 1_000 + _BIDDERS),
        "price": prices,
        "channel": pc.binary_join_element_wise("channel-", numbers(0, 10_000), ""),
        "url": pc.binary_join_element_wise(_URL, numbers(0, 10**9), ""),
        "at": pa.array(millis).cast(pa.timestamp("ms")).cast(pa.string()),
        "extra": pc.binary_join_element_wise(_EXTRA, numbers(0, 10**8), ""),
    }
    if form == "csv":
        lines = pc.binary_join_element_wise(*columns.values(), ",")
    else:
        spelled = []
        for (name, kind), values in zip(COLUMNS.items(), columns.values(), strict=True):
            quote = "" if kind == "BIGINT" else '"'
            if name == "price" and faults:
                values = pc.if_else(pc.equal(values, "x"), '"x"', values)
            spelled.append(pc.binary_join_element_wise(f'"{name}": {quote}', values, quote, ""))
        lines = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*spelled, ", "), "}", "")
    whole: bytes = pc.binary_join(pa.ListArray.from_arrays([0, rows], lines), "\n")[0].as_buffer().to_pybytes()
    return whole + b"\n"


def _item(chance: random.Random) -> dict[str, Any]:
    number = chance.randrange(10**6)
    return {"id": number, "name": f"item {number % 1000}", "price": chance.randrange(10**5)}


def bids(text: Path | pa.BufferReader, names: Sequence[str]) -> pa.Table:
    """Columns of a file of CSV, as Arrow reads them on one core."""
    kinds = {name: pa.timestamp("us") if name == "at" else DataType(kind).to_arrow() for name, kind in COLUMNS.items()}
    options = pyarrow.csv.ReadOptions(use_threads=False, column_names=[*COLUMNS], block_size=1 << 22)
    convert = pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=[*names])
    return pyarrow.csv.read_csv(text, options, convert_options=convert)


def write_avro(path: Path, number: int, rows: int) -> None:
    """File ``number`` as Avro, in blocks that Snappy compresses."""
    columns = [(name, DataType(kind)) for name, kind in COLUMNS.items()]
    schema = pa.schema([(name, kind.to_arrow()) for name, kind in columns])
    table = bids(pa.BufferReader(texts("csv", number, rows)), [*COLUMNS])
    at = pc.assume_timezone(table.column("at"), "UTC")
    table = table.set_column(table.column_names.index("at"), "at", at).cast(schema)
    with path.open("wb") as file:
        writer = AvroWriter(file, columns, "snappy")
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()


def write(folder: Path, form: str, kind: str, files: int, rows: int) -> None:
    """The files of one kind, one after another by their times."""
    folder.mkdir(parents=True)
    for number in range(files):
        suffix = "" if kind in ("plain", "faults") else f".{kind}"
        path = folder / f"{number:03}.{form}{suffix}"
        if form == "avro":
            write_avro(path, number, rows)
        else:
            data = texts(form, number, rows, faults=kind == "faults")
            path.write_bytes(_PACKED[kind](data) if kind in _PACKED else data)
        os.utime(path, (number + 1, number + 1))


def decoder(form: str, names: Sequence[str]) -> Decoder:
    """The decoder of the table with these columns wanted."""
    fields = [Field(name, DataType(kind), name in names) for name, kind in COLUMNS.items()]
    if form == "csv":
        return CsvDecoder(tuple(f if f.wanted else replace(f, type=DataType("VOID")) for f in fields))
    return JsonDecoder(tuple(f for f in fields if f.wanted))


def alone(form: str, path: Path, names: Sequence[str]) -> None:
    """The decoder of all blocks, on one core."""
    if form == "avro":
        read = AvroFormat(tuple(Field(name, DataType(COLUMNS[name]), True) for name in names), False, False, False)
        for _ in read.decoded(str(path)):
            pass
        return
    of_blocks = decoder(form, names)
    for block in TextFile(str(path)).blocks():
        of_blocks.block(block.data)


def library(form: str, path: Path, names: Sequence[str]) -> None:
    """Arrow's own reader, on one core."""
    if form == "csv":
        bids(path, names)
        return
    schema = pa.schema([(n, pa.timestamp("us") if n == "at" else DataType(COLUMNS[n]).to_arrow()) for n in names])
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    pyarrow.json.read_json(path, pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 22), parse)


def by_fastavro(path: Path) -> None:
    """The first rows of a file of Avro, with all of their columns."""
    assert fastavro is not None
    with path.open("rb") as file:
        for _ in islice(fastavro.reader(file), _MOST_BY_FASTAVRO):
            pass


def spark_reader(form: str, folder: Path, names: Sequence[str], rows: int) -> float:
    """Rows per second of Spark's reader into ``noop``; the second of two runs."""
    with sqlstream.connect() as session:
        read = session.spark.read.schema(DDL).option("mode", "FAILFAST").format(form).load(str(folder)).select(*names)
        for _ in range(2):
            begin = time.perf_counter()
            read.write.format("noop").mode("overwrite").save()
            seconds = time.perf_counter() - begin
    return rows / seconds


def job(form: str, kind: str, query: str, folder: Path, reader: str) -> Batches:
    """What a job reports that runs the query into ``blackhole``."""
    more = ", 'on-error' = 'skip'" if kind == "faults" else ""
    table = _TABLE.format(ddl=DDL, path=folder, format=form, more=more)
    columns, text = QUERIES[query]
    return ours([f"SET 'sqlstream.file-reader' = '{reader}'", table], columns, text)


def _apart(*words: str) -> str:
    """What a process of its own prints last."""
    print(" ".join(words), "…", file=sys.stderr, flush=True)
    ran = subprocess.run([sys.executable, "-m", __spec__.name, "--measure", *words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ran.stderr}")
    return ran.stdout.splitlines()[-1]


def _measured(words: Sequence[str]) -> None:
    if words[0] == "job":
        print(json.dumps(asdict(job(words[1], words[2], words[3], Path(words[4]), words[5]))))
    else:
        print(spark_reader(words[1], Path(words[2]), words[3].split(","), int(words[4])))


def _rate(read: Callable[[], None], rows: int) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        read()
        times.append(time.perf_counter() - begin)
    return rows / min(times)


def of_library(form: str, path: Path, names: Sequence[str], rows: int) -> float | None:
    """Rows per second of the plain library of a format on one core; None where it is not installed."""
    if form != "avro":
        return _rate(partial(library, form, path, names), rows)
    return None if fastavro is None else _rate(partial(by_fastavro, path), min(rows, _MOST_BY_FASTAVRO))


def libraries(folder: Path, rows: int, beside_spark: bool) -> Table:
    """Rows per second of the decoder and of the plain library on one core, and of Spark's reader on all."""
    table = Table(title=f"{rows:,} rows a file: rows per second")
    named = ("decoder, one core", "Arrow or fastavro, one core", "ratio", "Spark's reader, all cores")
    for name in ("format", "columns", *named):
        table.add_column(name, justify="left" if name in ("format", "columns") else "right")
    for form in FORMATS:
        for names in ([*COLUMNS], ["bidder", "price", "at"], ["auction", "price"]):
            path = next((folder / form / "plain").iterdir())
            own, theirs = _rate(partial(alone, form, path, names), rows), of_library(form, path, names, rows)
            no_spark = form == "avro" or not beside_spark
            spark = None if no_spark else float(_apart("spark", form, str(path), ",".join(names), str(rows)))
            beside = ["-", "-"] if theirs is None else [f"{theirs:,.0f}", f"{own / theirs:.2f}"]
            table.add_row(form, str(len(names)), f"{own:,.0f}", *beside, "-" if spark is None else f"{spark:,.0f}")
    return table


def nested(rows: int) -> Table:
    """Rows, values and bytes per second of the decoder on one core, for records of JSON with one nested column."""
    rows = min(rows, _MOST_NESTED)
    table = Table(title=f"{rows:,} records of JSON with a number, a text and one nested column: per second, one core")
    for name in ("column", "bytes a row", "rows", "values", "MB"):
        table.add_column(name, justify="left" if name == "column" else "right")
    for name, (kind, value) in NESTED.items():
        chance = random.Random(name)
        records = [{"id": number, "name": f"row {number}", "v": value(chance)} for number in range(rows)]
        data = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
        fields = [Field(column, parse_type(of)) for column, of in (("id", "BIGINT"), ("name", "STRING"), ("v", kind))]
        reader = JsonDecoder(tuple(fields))
        rate = _rate(partial(_block, reader, data), rows)
        values = sum(2 + _values(record["v"]) for record in records) / rows
        size = len(data) / rows
        table.add_row(name, f"{size:.0f}", f"{rate:,.0f}", f"{rate * values:,.0f}", f"{rate * size / 1e6:,.0f}")
    return table


def _block(reader: Decoder, data: bytes) -> None:
    if reader.block(pa.py_buffer(data)).faults:
        raise ValueError("the records have no faults")


def _values(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if inner is None else sum(map(_values, inner))


def _first_files(folder: Path) -> Path:
    """A folder with the first of the files, for a reader that takes several times as long."""
    first = folder.with_name(f"first of {folder.name}")
    if not first.exists():  # it serves each query
        first.mkdir()
        files = sorted(folder.iterdir())
        for file in files[: max(4, len(files) // 4)]:
            (first / file.name).hardlink_to(file)
    return first


def jobs(folder: Path, rows: int, queries: Sequence[str], kinds: Sequence[str], beside_spark: bool) -> Table:
    """Steady rows per second of whole jobs, and of the same jobs with Spark's reader."""
    table = Table(title=f"{rows:,} rows a micro-batch into blackhole: rows per second, steady")
    for name in ("format", "files", "query", "rows/s", "of plain", "with Spark's reader", "ratio", "peak"):
        table.add_column(name, justify="left" if name in ("format", "files", "query") else "right")
    for form in FORMATS:
        plain: dict[str, float] = {}
        for kind in (kind for kind in kinds if kind in FORMATS[form]):
            for query in queries if kind == "plain" else queries[:1]:
                path = str(folder / form / kind)
                ours_ = steady(Batches(**json.loads(_apart("job", form, kind, query, path, "auto"))))
                rate = plain.setdefault(query, ours_.rows_per_second)
                cells = [f"{ours_.rows_per_second:,.0f}", f"{ours_.rows_per_second / rate:.2f}"]
                if form == "avro" or not beside_spark:
                    cells += ["-", "-"]
                else:
                    few = str(_first_files(Path(path)))
                    by_spark = steady(Batches(**json.loads(_apart("job", form, kind, query, few, "spark"))))
                    cells += [f"{by_spark.rows_per_second:,.0f}"]
                    cells += [f"{ours_.rows_per_second / by_spark.rows_per_second:.2f}"]
                table.add_row(form, kind, query, *cells, f"{ours_.peak_mb:,} MB")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[500_000, 2_000_000], help="of a micro-batch")
    parser.add_argument("--files", type=int, help="micro-batches (default: 32 of 500,000 rows, 8 of more)")
    parser.add_argument("--query", action="append", choices=[*QUERIES])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--without-spark", action="store_true", help="leave Spark's own readers out: half of the time")
    parser.add_argument("--measure", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        _measured(chosen.measure)
        return
    queries, kinds = chosen.query or [*QUERIES], chosen.kind or [*KINDS]
    console = Console(width=140)
    console.print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}\n")
    for rows in chosen.rows:
        # What Java compiles takes half of its processor time in the first ten or fifteen micro-batches.
        files = chosen.files or max(8, 16_000_000 // rows)
        with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as name:
            for form in FORMATS:
                for kind in {"plain", *kinds} & {*FORMATS[form]}:
                    write(Path(name) / form / kind, form, kind, files, rows)
            console.print(libraries(Path(name), rows, not chosen.without_spark))
            console.print(nested(rows))
            console.print(jobs(Path(name), rows, queries, kinds, not chosen.without_spark), "")
    console.print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
