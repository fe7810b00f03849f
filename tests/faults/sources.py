"""Files of sources that are deleted, torn, changed or made unreadable while a job has still to read them.

``python -m tests.faults.sources``, and a part of ``make test-faults``. For each fault and format: a job reads a
directory file by file. Once Spark has listed the files, and the job has failed at the first, the fault strikes the
second. What the job then says is one column of the table; the other is what it writes once the whole file is back: all
rows of the undisturbed job, each once.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc, orc
from pyspark.sql import SparkSession

from sqlstream.errors import SqlStreamError
from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.jobs import Job
from sqlstream.session import Session
from sqlstream.testing.spark import local_spark
from sqlstream.types import BIGINT, STRING

_ROWS = 3_000
_SUFFIXES = {
    "csv": "csv", "csv, cut": "csv", "json": "json", "json, cut": "json", "json, packed": "json.gz",
    "parquet": "parquet", "orc": "orc", "avro": "avro", "avro, cut": "avro", "arrow": "arrow",
}  # fmt: skip
"""By format, and what is done with its files: packed, or cut, so that epochs end within them."""
_CUT_BYTES = 20_000
_UNNAMED = ", the file is not named"
_BEGINNINGS = {"gz": b"\x1f\x8b", "parquet": b"PAR1", "orc": b"ORC", "avro": b"Obj\x01", "arrow": b"ARROW1"}
"""With these, files are not refused before Spark lists them."""


def _write(path: Path, kind: str, first: int) -> None:
    table = pa.table({"id": pa.array(range(first, first + _ROWS), pa.int64()), "name": ["some name"] * _ROWS})
    match kind.partition(",")[0]:
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            orc.write_table(table, path)
        case "arrow":
            with ipc.new_file(str(path), table.schema) as arrow:
                arrow.write_table(table, _ROWS // 10)
        case "avro":
            with path.open("wb") as file:
                avro = AvroWriter(file, [("id", BIGINT), ("name", STRING)], "null")
                for batch in table.to_batches(_ROWS // 10):
                    avro.write(batch)
                avro.close()
        case "csv":
            path.write_text("".join(f"{row['id']},{row['name']}\n" for row in table.to_pylist()))
        case _:
            text = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
            path.write_bytes(gzip.compress(text) if kind.endswith("packed") else text)


def _deleted(path: Path, kind: str) -> None:
    path.unlink()


def _torn(path: Path, kind: str) -> None:
    """Within a line: texts that end with one are whole to any reader."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 3])


def _changed(path: Path, kind: str) -> None:
    _write(path, kind, 1_000_000)


def _unreadable(path: Path, kind: str) -> None:
    """For root, whom no permission stops, a link to itself."""
    if os.geteuid():
        path.chmod(0)
        return
    path.unlink()
    path.symlink_to(path.name)


FAULTS: dict[str, Callable[[Path, str], None]] = {
    "deleted": _deleted,
    "torn": _torn,
    "changed": _changed,
    "unreadable": _unreadable,
}


def strike_sources(folder: Path, spark: SparkSession, say: Callable[[str], None]) -> bool:
    """Says a line for each fault and format. Whether no row was lost, or written twice, without a word."""
    holds = True
    for fault, strike in FAULTS.items():
        for kind in _SUFFIXES:
            place = folder / f"{fault}-{kind.replace(', ', '-')}"
            first, after = _struck(place, kind, strike, spark)
            good = after == "all rows, each once" or (fault == "changed" and after == "the rows as changed")
            good &= "rows are missing" not in first and _UNNAMED not in first
            holds &= good
            say(f"sources: {fault:<10}  {kind:<12}  {first:<38}  {after}{'' if good else '  WRONG'}")
    return holds


def _struck(folder: Path, kind: str, strike: Callable[[Path, str], None], spark: SparkSession) -> tuple[str, str]:
    """What the job said of the fault, and what it wrote in the end."""
    (folder / "in").mkdir(parents=True)
    paths = [folder / "in" / f"{number}.{_SUFFIXES[kind]}" for number in range(3)]
    for number, path in enumerate(paths):
        _write(path, kind, number * _ROWS)
        os.utime(path, (number + 1, number + 1))
    whole = [path.read_bytes() for path in paths]
    paths[1].write_bytes(_BEGINNINGS.get(_SUFFIXES[kind].rpartition(".")[2], b"") + b"no such format\n")
    os.utime(paths[1], (2, 2))
    before = _run(folder, kind, spark)
    assert before is not None, "the job must not come to its end"
    paths[1].write_bytes(whole[1])
    os.utime(paths[1], (2, 2))
    strike(paths[1], kind)
    said = _run(folder, kind, spark)
    first = f"fails: {said}" if said else f"goes on, {_told(folder)}"
    if said:
        paths[1].unlink(missing_ok=True)
        paths[1].write_bytes(whole[1])
        failure = _run(folder, kind, spark)
        if failure:
            return first, f"fails again: {failure}"
    return first, _told(folder)


def _told(folder: Path) -> str:
    actual = sorted(row["id"] for path in (folder / "out").glob("part-*") for row in _records(path))
    own, changed = [*range(3 * _ROWS)], [*range(_ROWS), *range(2 * _ROWS, 3 * _ROWS), *range(10**6, 10**6 + _ROWS)]
    if actual == own:
        return "all rows, each once"
    if actual == changed:
        return "the rows as changed"
    return f"{len({*own} - {*actual})} rows are missing, {len(actual) - len({*actual})} come twice"


def _records(path: Path) -> Iterator[dict[str, int]]:
    return map(json.loads, path.read_text().splitlines())


def _run(folder: Path, kind: str, spark: SparkSession) -> str | None:
    """The code of the error with which the job fails, and whether it names the file; None where the job ends well."""
    cut = f", 'source.max-bytes-per-trigger' = '{_CUT_BYTES}'" if kind.endswith("cut") else ""
    with Session(spark) as session:
        session.sql(f"""
            SET 'execution.checkpointing.dir' = '{folder}/checkpoint';
            CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{folder}/in',
                'format' = '{kind.partition(",")[0]}', 'source.max-files-per-trigger' = '1'{cut});
            CREATE TABLE o (id BIGINT, name STRING)
                WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder}/out')""")
        try:
            job = session.sql("INSERT INTO o SELECT id, name FROM t")
            assert isinstance(job, Job)
            job.wait(300)
        except SqlStreamError as error:
            return error.diagnostic.code + ("" if f"{folder}/in/1." in str(error) else _UNNAMED)
    return None


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sqlstream-sources-") as folder:
        return 0 if strike_sources(Path(folder), local_spark(), partial(print, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
