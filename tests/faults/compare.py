"""What a job has committed, and whether it is what another one has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import ipc

_LOG = "_spark_metadata"
_COMPACT = ".compact"
_BATCH = re.compile(r"sqlstream_batch=\d+")


def committed(folder: Path) -> pa.Table:
    """The rows of a table that complete micro-batches have written, sorted; a row that is there twice is twice."""
    tables = [_READERS[path.suffix](path) for path in committed_files(folder)]
    rows = pa.concat_tables(tables) if tables else pa.table({})
    return rows.sort_by([(name, "ascending") for name in rows.column_names]) if rows.num_rows else rows


def _of_parquet(path: Path) -> pa.Table:
    return pq.read_table(path, partitioning=None)


def _of_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()


def _of_avro(path: Path) -> pa.Table:
    with path.open("rb") as file:
        return pa.Table.from_pylist([*fastavro.reader(file)])


_READERS = {".parquet": _of_parquet, ".arrow": _of_arrow, ".avro": _of_avro}


def committed_files(folder: Path) -> list[Path]:
    """Those of Spark's log, or of the directories of micro-batches; others are left over."""
    if (folder / _LOG).is_dir():
        return sorted({Path(unquote(urlparse(path).path)) for path in _logged(folder / _LOG)})
    batches = [path for path in folder.iterdir() if _BATCH.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(path for batch in batches for path in batch.glob("part-*.parquet"))


def _logged(log: Path) -> Iterator[str]:
    numbers = {int(p.name.removesuffix(_COMPACT)): p for p in sorted(log.iterdir()) if p.name[0].isdigit()}
    start = max((n for n, path in numbers.items() if path.name.endswith(_COMPACT)), default=0)
    for number, path in sorted(numbers.items()):
        if number >= start:
            yield from (json.loads(line)["path"] for line in path.read_text().splitlines()[1:])


def difference(expected: pa.Table, table: pa.Table) -> str | None:
    """How two sorted tables differ, with a row that only one of them has; None where they are equal."""
    if expected.equals(table):
        return None
    if expected.column_names != table.column_names:
        return f"{table.num_rows} rows instead of {expected.num_rows}"
    lost, added = _only_in(expected, table), _only_in(table, expected)
    parts = [f"{table.num_rows} rows instead of {expected.num_rows}"]
    parts += [f"{len(rows)} {what}, as {rows[0]}" for what, rows in (("lost", lost), ("added", added)) if rows]
    return "; ".join(parts)


def _only_in(one: pa.Table, other: pa.Table) -> list[dict[str, object]]:
    """The rows that ``one`` has more often; NULLs are equal to each other."""
    signed = [table.append_column("n__", pa.repeat(n, table.num_rows)) for table, n in ((one, 1), (other, -1))]
    counted = pa.concat_tables(signed).group_by(one.column_names, use_threads=False).aggregate([("n__", "sum")])
    more = counted.filter(pc.greater(counted["n___sum"], 0)).select(one.column_names)
    rows: list[dict[str, object]] = more.to_pylist()
    return rows
