"""A query that Ctrl-Z has sent to the background: its rows go into a file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TextIO

from sqlstream.cli.output import JsonLinesWriter
from sqlstream.results import shown_rows_of

if TYPE_CHECKING:
    import pyarrow as pa


def new_file(job: str, folder: Path) -> Path:
    """An empty file for the rows of a query, with a name that no other has. OSError where it cannot be made."""
    number = 1
    while True:
        file = folder / (f"{job}.jsonl" if number == 1 else f"{job}-{number}.jsonl")
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return file


def write_on(tables: Iterable[pa.Table], file: Path, *, whole: bool) -> None:
    """Write the tables into the file on a thread of its own until they end; ``whole``: each takes the place of the one
    before. The job of the query tells why they end."""
    Thread(target=_write, args=(tables, file, whole), name="sqlstream-sent-back", daemon=True).start()


def _write(tables: Iterable[pa.Table], file: Path, whole: bool) -> None:
    with suppress(Exception):
        if whole:
            for table in tables:
                beside = file.with_name(f".{file.name}")
                with beside.open("w", encoding="utf-8") as out:
                    _append(table, out)
                beside.replace(file)
        else:
            with file.open("a", encoding="utf-8") as out:
                for table in tables:
                    _append(table, out)


def _append(table: pa.Table, out: TextIO) -> None:
    writer = JsonLinesWriter(table.column_names, out)
    writer.write(shown_rows_of(table))
    writer.close()
