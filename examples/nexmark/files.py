"""Writes the events of Nexmark to files: ``python -m examples.nexmark.files FOLDER [--events N] [--format csv]``.

``FOLDER/bid/00000.parquet`` and so on: the files of a number hold the same range of events of all three tables, so a
job that reads one file of each table per micro-batch sees them in order of event time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from examples.nexmark.generator import TABLES, Generator

_CHUNK = 500_000
"""Events that are in memory at once."""


def write(folder: Path, events: int, files: int, file_format: str, generator: Generator | None = None) -> None:
    """``events`` of ``generator`` in ``files`` files per table, and the side input of q13 as CSV."""
    generator = generator or Generator()
    write_table, ending = FORMATS[file_format]
    for name, rows_of in TABLES.items():
        (folder / name).mkdir(parents=True)
        for number in range(files):
            first, end = events * number // files, events * (number + 1) // files
            starts = range(first, end, _CHUNK) or [first]
            chunks = [rows_of(generator, start, min(start + _CHUNK, end)) for start in starts]
            write_table(pa.concat_tables(chunks), folder / name / f"{number:05}.{ending}")
    (folder / "side_input").mkdir()
    _write_csv(generator.side_input(), folder / "side_input" / "00000.csv")


def files_for(events: int, rows_per_trigger: int) -> int:
    """How many files hold about ``rows_per_trigger`` events each: rows of a micro-batch that reads a file of each."""
    return max(1, -(-events // rows_per_trigger))


def _write_parquet(table: pa.Table, path: Path) -> None:
    # Row groups are what the tasks of Spark and Flink share a file by.
    pq.write_table(table, path, row_group_size=1 << 17)


def _write_csv(table: pa.Table, path: Path) -> None:
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(_with_time_text(table), path, options)


def _write_json(table: pa.Table, path: Path) -> None:
    """The generator's texts have no character that JSON escapes."""
    table = _with_time_text(table)
    parts: list[pa.ChunkedArray | str] = []
    for i, field in enumerate(table.schema):
        quote = '"' if pa.types.is_string(field.type) else ""
        parts += [f'{"," if i else "{"}"{field.name}":{quote}', table[field.name].cast(pa.string()), quote]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    with path.open("wb") as file:
        for chunk in lines.chunks:
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)
            begin, end = offsets[chunk.offset], offsets[chunk.offset + len(chunk)]
            file.write(memoryview(chunk.buffers()[2])[begin:end])


def _with_time_text(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            text = pc.strftime(table[field.name].cast(pa.timestamp("ms")), "%Y-%m-%d %H:%M:%S")
            table = table.set_column(i, field.name, text)
    return table


FORMATS: dict[str, tuple[Callable[[pa.Table, Path], None], str]] = {
    "parquet": (_write_parquet, "parquet"),
    "csv": (_write_csv, "csv"),
    "json": (_write_json, "json"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--format", choices=FORMATS, default="parquet")
    parser.add_argument("--rows-per-trigger", type=int, default=500_000, help="events of a file (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time")
    chosen = parser.parse_args()
    files = files_for(chosen.events, chosen.rows_per_trigger)
    write(chosen.folder, chosen.events, files, chosen.format, Generator(chosen.seed, chosen.rate))


if __name__ == "__main__":
    main()
