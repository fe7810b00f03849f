"""Streams of files that are cut into ranges, so that a micro-batch reads a bounded number of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors.environment import Environment, Watch
from sqlstream.connectors.files.ranges import (
    DEFAULT_BYTES,
    DIRECTORIES,
    MOST_JOINED,
    MOST_ROWS,
    RANGES_DDL,
    FileRanges,
    Limits,
    folder_of_ranges,
    table_of_ranges,
)
from sqlstream.connectors.files.row_bytes import bytes_of_rows
from sqlstream.connectors.files.tables import (
    BYTES_PER_TRIGGER,
    ENCODING,
    MOST_PER_TRIGGER,
    TEXTS,
    local_path,
    partition_columns,
)
from sqlstream.connectors.stores.stores import store_of
from sqlstream.errors import ExecutionError, repeating
from sqlstream.formats.blocks import TextFile
from sqlstream.formats.csv_records import Dialect
from sqlstream.planner.catalog import Column, Table
from sqlstream.settings import RETAINED_BY_SPARK
from sqlstream.spark.internals import paths_of_sources
from sqlstream.spark.java import memory_limit, share_of_micro_batches
from sqlstream.udfs.files.listed import RANGES, newest_logged_file
from sqlstream.udfs.files.splits import BEGIN, END, FILE, LENGTH, MODIFIED

OTHER_READER = repeating("SS421")
_GO_ON = (
    "Go on with the former query, options and 'sqlstream.file-reader', or start in a new directory "
    "('execution.checkpointing.dir')."
)
ANY_AGE = "36500d"
"""Spark's option ``maxFileAge``: it would skip files that come late and are a week older than the newest one."""


def cut_files(environment: Environment, ranges: FileRanges, directories: Sequence[Column]) -> DataFrame:
    """Returns a streaming DataFrame of ranges of files, for ``file_source.file_splits``. A micro-batch reads those that
    one file of the checkpoint names.
    """
    # A checkpoint that was copied, as by a savepoint, has files of the same names in another folder: Spark must neither
    # read them again, nor, as it does without a pattern, refuse those that it has logged.
    reader = environment.spark.readStream.schema(RANGES_DDL).option("fileNameOnly", "true")
    rows = (
        reader.option("maxFilesPerTrigger", "1").option("maxFileAge", ANY_AGE).json(f"file://{ranges.folder}/*.jsonl")
    )
    values = F.col(DIRECTORIES)
    of_directories = (values[c.name].cast(c.type.ddl()).alias(c.name) for c in directories)
    return rows.select(FILE, LENGTH, MODIFIED, BEGIN, END, *of_directories)


def ranges_of_table(
    environment: Environment,
    table: Table,
    values: Mapping[str, Any],
    total: Callable[[], int],
    columns: Collection[str] | None = None,
) -> FileRanges | None:
    """Returns the ranges in which micro-batches read the files of a table, which have ``total`` bytes; None where they
    read files whole: without a bound, and for jobs that have begun so, because what Spark has logged must be read again
    in the same way. ``columns``: those that the query reads, None for all. ConnectorError SS508 where the checkpoint
    cannot be written.
    """
    store, watches = store_of(values["path"], values), environment.watches
    path = local_path(values["path"]) if store is None else values["path"]
    if path is None or environment.logs is None or watches is None or environment.finished:
        return None
    logs = Path(environment.logs)
    folder = folder_of_ranges(logs.parent.parent, table.name, path)
    joined = environment.joined.get(table.name, ())
    most = most_bytes(values, total, begun=folder.is_dir(), columns=columns, joined=joined)
    if store is None and not folder.parent.is_dir() and (most is None or any(logs.glob("*/[0-9]*"))):
        return None
    there = next((w for w in watches if isinstance(w, FileRanges) and w.folder == folder), None)
    if there is not None:  # another part of the query reads them, too
        return there
    limits = limits_of(values, most)
    interval_ms, partitions = values["source.monitor-interval"], tuple(partition_columns(table))
    retained = int(str(environment.spark.conf.get(RETAINED_BY_SPARK)))
    ranges = FileRanges(folder, path, limits, interval_ms, retained, partitions, logs.parent.parent, store)
    ranges.look()
    watches.append(ranges)
    return ranges


def limits_of(values: Mapping[str, Any], most: int | None) -> Limits:
    """How much a micro-batch reads of a table: ``most`` bytes. ``values``: the parsed options of the table."""
    return Limits(most, values[MOST_PER_TRIGGER], partial(_divides, values))


@dataclass(frozen=True)
class WholeFiles(Watch):
    """Files of a table that Spark lists, and gives whole to one micro-batch. If the checkpoint has positions within
    them, Spark would read them again: its log knows the files of ranges alone. ``folder``: where ranges would be.
    ``at_once``: Spark gives all of them to one micro-batch.
    """

    table: str
    folder: Path
    at_once: bool = False
    interval_ms: int | None = None

    @property
    def micro_batches(self) -> int | None:
        """One, where Spark has no bound."""
        return 1 if self.at_once else None

    def look(self) -> None:
        """Does nothing: Spark looks for new files."""

    def require_start(self, watches: Sequence[Watch]) -> None:
        """ExecutionError SS421 where the checkpoint has positions that no part of the query goes on from."""
        if not self.folder.is_dir() or any(isinstance(w, FileRanges) and w.folder == self.folder for w in watches):
            return
        checkpoint = self.folder.parents[2]
        message = f'checkpoint "{checkpoint}" has positions within files of table "{self.table}", which Spark reads now'
        raise ExecutionError(OTHER_READER, message, detail="It would read all of these files again.", hint=_GO_ON)


def watch_whole_files(environment: Environment, table: Table, *, at_once: bool) -> None:
    """Adds ``WholeFiles`` to the environment for a table that Spark reads. An exchange may read it in its place."""
    path = local_path(table.option("path") or "")
    if path is None or environment.logs is None or environment.watches is None or environment.finished:
        return
    folder = folder_of_ranges(Path(environment.logs).parent.parent, table.name, path)
    watch = WholeFiles(table.name, folder, at_once)
    if watch not in environment.watches:
        environment.watches.append(watch)


def micro_batches(watches: Sequence[Watch], tables: Iterable[Table], checkpoint: Path) -> int | None:
    """In how many micro-batches a new job reads all files that there are of ``tables``; None where that is not known,
    as for other connectors. ``watches``: of all sources of the job. ``checkpoint``: its directory.
    """
    most = 1
    for table in tables:
        path = local_path(table.option("path") or "") if table.connector == "filesystem" else None
        if path is None:
            return None
        folder = folder_of_ranges(checkpoint, table.name, path)
        numbers = [w.micro_batches for w in watches if isinstance(w, (FileRanges, WholeFiles)) and w.folder == folder]
        if not numbers or None in numbers:
            return None
        most = max(most, *(number for number in numbers if number is not None))
    return most


def require_same_readers(rows: DataFrame, checkpoint: Path) -> None:
    """Checks that each source of a job goes on with what it has read before: whole files, or the same ranges of files.
    Spark knows sources by their number alone, and would take the log of one for that of another.

    ExecutionError SS421 for the first source that reads otherwise than in the ``checkpoint``.
    """
    sources = checkpoint / "spark" / "sources"
    if not (checkpoint / RANGES).is_dir() or not sources.is_dir():
        return
    paths = paths_of_sources(rows)
    if paths is None:
        return
    for source in sorted(sources.glob("[0-9]*"), key=lambda folder: int(folder.name)):
        number, newest = int(source.name), None
        with suppress(OSError, ValueError, KeyError):  # a damaged log is for Spark to name
            newest = newest_logged_file(source)
        if newest is not None:
            path = paths[number] if number < len(paths) else None
            before, now = table_of_ranges(newest), None if path is None else table_of_ranges(path)
            if before != now:
                raise _read_otherwise(checkpoint, before, now)


def _read_otherwise(checkpoint: Path, before: tuple[str, str] | None, now: tuple[str, str] | None) -> ExecutionError:
    if before is not None:
        other = "Spark reads whole files" if now is None else f'the query reads table "{now[0]}"'
        message = f'checkpoint "{checkpoint}" has positions within files of table "{before[0]}", where {other} now'
    else:
        assert now is not None
        message = f'checkpoint "{checkpoint}" has whole files, where the query reads parts of those of "{now[0]}" now'
    return ExecutionError(OTHER_READER, message, detail="It would mix their positions.", hint=_GO_ON)


def most_bytes(
    values: Mapping[str, Any],
    total: Callable[[], int],
    *,
    begun: bool = False,
    columns: Collection[str] | None = None,
    joined: Sequence[tuple[Table, tuple[str, ...]]] = (),
) -> int | None:
    """The most bytes that a micro-batch reads of a table whose files have ``total`` bytes: the bound of the table, or
    for many bytes the default of the format; None for no bound. With ``begun`` the job had a bound at its start, since
    when files may have been removed. ``columns``: those that the query reads, None for all. ``joined``: the tables
    whose rows are joined to those of this one.
    """
    given: int | None = values[BYTES_PER_TRIGGER]
    if given is not None or values[MOST_PER_TRIGGER] is not None:
        return given
    usual = DEFAULT_BYTES.get(values["format"])
    if usual is None:
        return None
    there, share = total(), share_of_micro_batches(memory_limit())
    usual = int(usual * share)
    if there > usual and columns is not None:
        usual = _bytes_of_files(values, columns, usual, share, joined)
    return usual if begun or there > usual else None


def _bytes_of_files(
    values: Mapping[str, Any],
    columns: Collection[str],
    most: int,
    share: float,
    joined: Sequence[tuple[Table, tuple[str, ...]]],
) -> int:
    """So many bytes of the files of a table hold about ``most`` bytes of the columns that are read, of Parquet no more
    than ``MOST_ROWS`` rows, and no more rows than have ``MOST_JOINED`` bytes together with what is ``joined`` to each.
    ``most`` itself where that is not known. ``share``: of these bounds.
    """
    others = [
        bytes_of_rows(path, table.option("format") or "", read)
        for table, read in joined
        if table.connector == "filesystem" and (path := table.option("path"))
    ]
    carried = sum(other.read for other in others if other is not None)
    is_parquet = values["format"] == "parquet"
    own = bytes_of_rows(values["path"], values["format"], columns) if is_parquet or carried else None
    if own is None:
        return most
    rows = min(most / max(own.read, 1), MOST_JOINED * share / (own.read + carried) if carried else math.inf)
    rows = min(rows, MOST_ROWS * share) if is_parquet else rows
    return max(int(own.whole * rows), 1)


def _divides(values: Mapping[str, Any], path: str) -> bool:
    """Whether tasks can read parts of the file. Of Parquet these are rows, as many of all as bytes."""
    if values["format"] in ("arrow", "orc"):
        return False
    dialect = Dialect.of(values) if values["format"] == "csv" and values["csv.multi-line"] else None
    return values["format"] not in TEXTS or TextFile(path, values[ENCODING.key], dialect).divides
