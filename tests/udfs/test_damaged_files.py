"""Files of columns and blocks in which bytes are others, or the end lacks: rows, or an error with a code.

Arrow trusts what it reads, and ends the process where an offset leads elsewhere.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc, orc

from sqlstream.errors import SqlStreamError
from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.formats.decoder import Field
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.files.avro import AvroFiles, AvroFormat
from sqlstream.udfs.files.columnar import ColumnarFiles
from tests.depth import depth

ROWS = 200
COLUMNS = {
    "i": ("INT", [n if n % 7 else None for n in range(ROWS)]),
    "b": ("BIGINT", [*range(ROWS)]),
    "s": ("STRING", [f"text {n % 20}" if n % 5 else None for n in range(ROWS)]),
    "l": ("ARRAY<INT>", [[n] * (n % 4) if n % 3 else None for n in range(ROWS)]),
    "m": ("MAP<STRING, BIGINT>", [[("k", n)] if n % 3 else None for n in range(ROWS)]),
    "r": ("STRUCT<a: INT, b: STRING>", [{"a": n, "b": "x" * (n % 3)} if n % 4 else None for n in range(ROWS)]),
    "t": ("TIMESTAMP", [n * 10**9 for n in range(ROWS)]),
    "d": ("DECIMAL(10, 2)", [Decimal(n).scaleb(-2) for n in range(ROWS)]),
}
KINDS: tuple[tuple[str, DataType], ...] = tuple((name, parse_type(kind)) for name, (kind, _) in COLUMNS.items())
TABLE = pa.table({name: pa.array(COLUMNS[name][1], kind.to_arrow()) for name, kind in KINDS})


def write(form: str, path: Path, chance: random.Random) -> None:
    match form:
        case "parquet":
            packed = chance.choice(["snappy", "none", "zstd"])
            pq.write_table(TABLE, path, compression=packed, use_dictionary=chance.random() < 0.5)
        case "orc":
            orc.write_table(TABLE, path, compression=chance.choice(["uncompressed", "zlib", "snappy"]))
        case "avro":
            with path.open("wb") as file:
                writer = AvroWriter(file, KINDS, chance.choice(["null", "deflate", "snappy"]))
                for batch in TABLE.to_batches(70):
                    writer.write(batch)
                writer.close()
        case _:
            table = TABLE
            if chance.random() < 0.5:
                table = TABLE.set_column(2, "s", TABLE["s"].combine_chunks().dictionary_encode())
            options = ipc.IpcWriteOptions(compression=chance.choice([None, "lz4", "zstd"]))
            with chance.choice([ipc.new_file, ipc.new_stream])(str(path), table.schema, options=options) as arrow:
                arrow.write_table(table, 70)


def damaged(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.25:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        changed[chance.randrange(len(changed))] = chance.choice([0, 255, chance.randrange(256)])
    return bytes(changed)


@pytest.mark.parametrize("form", ["parquet", "orc", "arrow", "avro"])
def test_a_damaged_file_has_rows_or_an_error(form, tmp_path, capfd):
    chance, path, outcomes = random.Random(form), tmp_path / f"x.{form}", Counter[str]()
    fields = tuple(Field(name, kind) for name, kind in KINDS)
    reader = AvroFiles(AvroFormat(fields)) if form == "avro" else ColumnarFiles(form, KINDS)
    content = b""
    for number in range(depth(80, 5_000)):
        if number % 20 == 0:
            write(form, path, chance)
            content = path.read_bytes()
            assert sum(batch.num_rows for batch in reader.batches(str(path))) == ROWS
        path.write_bytes(damaged(content, chance))
        try:
            for batch in reader.batches(str(path)):
                batch.validate(full=True)
            outcomes["rows"] += 1
        except SqlStreamError as error:
            outcomes[error.diagnostic.code] += 1
    assert {*outcomes} <= {"rows", "SS402", "SS467", "SS524", "SS528"}
    assert outcomes["rows"]
    assert outcomes["SS528"]
