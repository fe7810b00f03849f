"""How many bytes a row of some files has, as far as the largest of them tells at little cost."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.files.checks import walk
from sqlstream.connectors.files.tables import TEXTS, local_path, matching_paths

_GROUPS_LOOKED_AT = 16
_BYTES_LOOKED_AT = 1 << 20


@dataclass(frozen=True)
class RowBytes:
    """Means: the bytes in the file of the columns that a query reads, and of all of them."""

    read: float
    whole: float


def bytes_of_rows(path: str, form: str, columns: Collection[str]) -> RowBytes | None:
    """The bytes of rows in the files of the format ``form`` at ``path``: of Parquet by the footer of the largest file,
    of lines of text by its beginning. None for other formats, for remote and compressed files, and where there is none.
    """
    local = local_path(path) if form in ("parquet", *TEXTS) else None
    with suppress(OSError, ValueError, pa.ArrowException):  # whoever reads the file says what is wrong with it
        files = walk(matching_paths(local)).files if local is not None else ()
        largest = max(files, key=lambda file: file.stat().st_size)
        if form == "parquet":
            return _of_parquet(largest, columns)
        if form in TEXTS and largest.suffix.lstrip(".") in ("", form, "jsonl", "txt"):
            return _of_lines(largest)
    return None


def _of_parquet(file: Path, columns: Collection[str]) -> RowBytes | None:
    footer = pq.read_metadata(file)
    wanted, read, whole, rows = {name.lower() for name in columns}, 0, 0, 0
    for group in map(footer.row_group, range(min(footer.num_row_groups, _GROUPS_LOOKED_AT))):
        rows += group.num_rows
        for chunk in map(group.column, range(group.num_columns)):
            whole += chunk.total_compressed_size
            if chunk.path_in_schema.partition(".")[0].lower() in wanted:
                read += chunk.total_compressed_size
    return RowBytes(read / rows, whole / rows) if rows else None


def _of_lines(file: Path) -> RowBytes | None:
    with file.open("rb") as opened:
        beginning = opened.read(_BYTES_LOOKED_AT)
    lines = beginning.count(b"\n")
    return RowBytes(len(beginning) / lines, len(beginning) / lines) if lines else None
