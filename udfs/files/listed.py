"""The files of a micro-batch as listed in Spark's checkpoint, and checks that they can be read and have the declared
columns.

Spark silently skips files that were deleted between listing and reading.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from sqlstream.errors import ConnectorError, Diagnostic, ExecutionError, SqlStreamError
from sqlstream.formats.columnar import Ambiguous, differs_in_spark, fits, position_of
from sqlstream.formats.file_access import LOCAL, FileAccess
from sqlstream.formats.misfits import misfit
from sqlstream.types import DataType, from_arrow
from sqlstream.udfs.bad_records import BAD_ROW
from sqlstream.udfs.files.directories import path_of_url
from sqlstream.udfs.texts import json_of, reason_of

MISSING_METRIC, FILES, SIZES = "missing", "files", "sizes"
"""The name of the metric with the number of deleted files of a table; it is followed by a number and the name of the
table. ``SIZES``: the sizes of all other files as JSON."""

RANGES = "ranges"
"""The folder of a checkpoint with the files that Spark lists where micro-batches read parts of files; each line of one
is the JSON object of a range, whose file is ``FILE_OF_RANGE``."""

FILE_OF_RANGE = "__file"

_OF_RANGES = re.compile(rf"/{RANGES}/[^/]+/(\w+)/\1-\d+\.jsonl")
_MOST_SIZES = 1_000
_LONGEST_ENTRY = 1 << 16
_HEADER = 2
"""Lines of a file of offsets before those of the sources: its version, and the watermark with the settings."""


@dataclass(frozen=True)
class ListedFiles:
    """The files that Spark's file source has listed for the micro-batches of a table; detects files that were deleted
    or truncated since.

    ``logs``: the directory ``sources`` of Spark's checkpoint; ``root``: the common beginning of the paths of the
    table's files. ``skips``: deleted files are counted instead of raising an error. ``columns``: the columns that
    Parquet files must have.
    """

    table: str
    logs: str
    root: str
    format: str
    skips: bool = False
    columns: tuple[tuple[str, DataType], ...] = ()

    def count_missing(self, batch: int) -> int:
        """The number of files that Spark listed for the micro-batch ``batch`` and that do not exist any more.

        Raises ExecutionError SS529 instead if the table does not skip deleted files; SS528 for a file that is not of
        its format, SS524 and SS467 for one with other columns.
        """
        missing = 0
        for path in sorted(set(self._of_batch(batch))):
            if os.path.lexists(path):
                self._look_into(path)
            elif self.skips:
                missing += 1
            else:
                raise vanished(path, self.table)
        return missing

    def sizes(self, batch: int) -> dict[str, int]:
        """A dictionary from the path to the size in bytes for the files of the micro-batch ``batch``; empty if there
        are more than 1,000 files.
        """
        paths = sorted(set(self._of_batch(batch)))
        return {path: size for path in paths if (size := size_of(path))} if len(paths) <= _MOST_SIZES else {}

    def _look_into(self, path: str) -> None:
        require_readable(path, self.format)
        if self.columns:
            require_columns(path, {name: kind.to_arrow() for name, kind in self.columns})

    def _of_batch(self, batch: int) -> Iterator[str]:
        spark = Path(self.logs).parent
        for path in files_of(spark, batch):
            if path.startswith(self.root) and not path.startswith(f"{spark.parent}/"):
                yield path


def size_of(path: str, access: FileAccess = LOCAL) -> int | None:
    """The size of a file in bytes; None where it does not exist."""
    try:
        return access.size(path)
    except OSError:
        return None


def cut_file(sizes: str | None) -> ExecutionError | None:
    """Checks whether files were truncated. ``sizes``: a JSON object with the earlier size in bytes by path. Returns the
    error SS531 for the first file that is shorter now, else None. Files may be deleted once they are read.
    """
    for path, before in json_of(sizes or "{}").items():
        now = size_of(path)
        if now is not None and now < before:
            return cut(path, before, now)
    return None


def files_of(spark: Path, batch: int) -> Iterator[str]:
    """The paths of the files that the micro-batch ``batch`` reads according to Spark's checkpoint (``spark``),
    including files of control rows. ExecutionError SS529 where the ranges that it reads are gone.
    """
    steps = _steps(spark, batch)
    for source in sorted((spark / "sources").glob("[0-9]*")):
        for path in _entries(source, steps):
            yield from _in_ranges(path) if _OF_RANGES.search(path) else [path]


def _in_ranges(path: str) -> Iterator[str]:
    """The files of which a micro-batch reads ranges, which the file ``path`` of the checkpoint names."""
    try:
        lines = lines_of(Path(path))
    except FileNotFoundError:
        raise vanished(path) from None
    yield from dict.fromkeys(path_of_url(json_of(line)[FILE_OF_RANGE]) for line in lines)


def lines_of(file: Path) -> list[str]:
    """The lines of a file of JSON lines. Values may have characters, such as U+2028, that other lines end with."""
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def offsets_of(spark: Path, batch: int) -> list[str]:
    """Returns the offsets of all sources after the micro-batch ``batch``, as texts, read from the Spark checkpoint in
    the directory ``spark``; empty if the checkpoint does not have them.

    A source that several parts of a query share has one offset for each of them.
    """
    path = spark / "offsets" / str(batch)
    return path.read_text(encoding="utf-8").splitlines()[_HEADER:] if path.exists() else []


def end_of_log(offset: str) -> int | None:
    """The number of the last log entry of Spark's file source that is included in its ``offset`` (JSON, such as
    ``{"logOffset":3}``). None for offsets of other sources and for anything else.
    """
    try:
        document = json_of(offset)
    except ValueError:
        return None
    return document["logOffset"] if isinstance(document, dict) and set(document) == {"logOffset"} else None


def newest_logged_file(source: Path) -> str | None:
    """The path of the last file in the log of one of Spark's file sources, the folder ``source``; None without an entry
    of a file. Raises OSError, ValueError or KeyError where the log is damaged, or changes meanwhile.
    """
    numbers = {int(name): path for path in source.iterdir() if (name := path.name.removesuffix(".compact")).isdecimal()}
    if not numbers:
        return None
    with numbers[max(numbers)].open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _LONGEST_ENTRY, 0))
        line = file.read().decode(errors="replace").rstrip().rpartition("\n")[2]
    return path_of_url(json_of(line)["path"]) if line.startswith('{"path":') else None


def _steps(spark: Path, batch: int) -> dict[int, int]:
    """For each last log entry of a micro-batch, the last entry of the micro-batch before.

    Spark does not say to which source a log belongs. Where several sources are at the same entry, the fewest files
    count: a file of an earlier micro-batch may be gone.
    """
    before_of: dict[int, int] = {}
    ends = [end_of_log(line) for line in offsets_of(spark, batch)]
    starts = _ends_before(spark, batch, ends)
    for before, end in zip(starts, ends, strict=True):
        if end is not None and before < end:
            before_of[end] = max(before, before_of.get(end, before))
    return before_of


def _ends_before(spark: Path, batch: int, ends: Sequence[int | None]) -> list[int]:
    lines = offsets_of(spark, batch - 1)
    if batch and len(lines) != len(ends):  # these are gone: at least the last entry belongs to the micro-batch
        return [-1 if end is None else end - 1 for end in ends]
    ends_of_lines = [end_of_log(line) for line in lines] or [None] * len(ends)
    return [-1 if end is None else end for end in ends_of_lines]


def _entries(source: Path, steps: dict[int, int]) -> Iterator[str]:
    """The files that a source has found for a micro-batch: its log ends with them."""
    names = {int(file.name.removesuffix(".compact")): file for file in source.iterdir() if file.name[0].isdigit()}
    newest = max(names, default=-1)
    if newest not in steps:
        return
    numbers = range(steps[newest] + 1, newest + 1)
    for file in {names[newest], *(names[n] for n in numbers if n in names)}:
        lines = file.read_text(encoding="utf-8").splitlines()
        for entry in (json_of(line) for line in lines if any(f'"batchId":{n}' in line for n in numbers)):
            if entry["batchId"] in numbers:
                yield path_of_url(entry["path"])


# --- files that no reader accepts, or that readers skip silently ----------------------------------------------


UNREADABLE = "SS528"
VANISHED = "SS529"
CUT = "SS531"

_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
_COLUMNAR = {
    "parquet": ((b"PAR1",), "a Parquet file"),
    "orc": ((b"ORC",), "an ORC file"),
    "avro": ((b"Obj\x01",), "an Avro file"),
    "arrow": ((b"ARROW1"[:4], b"FEA1", b"\xff\xff\xff\xff"), "an Arrow file or stream"),
}
_TEXTS = frozenset({"canal-json", "csv", "debezium-json", "json", "maxwell-json", "ogg-json", "text"})


def unreadable(path: str, why: str) -> ExecutionError:
    """The error SS528 for a file. ``why`` completes the message ``file "…" cannot be read: …``."""
    hint = "Put a whole file in its place, or take it out of the directory; then start the job again."
    return ExecutionError(UNREADABLE, f'file "{shown_name(path)}" cannot be read: {why}', hint=hint)


def vanished(path: str, table: str | None = None, *, of_version: bool = False) -> ExecutionError:
    """Returns the error SS529 for a file that was deleted after Spark had listed it for a micro-batch. ``table``: the
    name of its table for the message. ``of_version``: it is in a version of a table format.
    """
    of_table = f' of table "{table}"' if table else ""
    hint = (
        "Put it back and start the job again, which then reads it; with 'source.missing-files' = 'skip' in the WITH of "
        "the table the job goes on without such files."
    )
    if of_version:
        hint = (
            "It belongs to a version whose files were removed (VACUUM, expired snapshots): start in a new directory "
            "('execution.checkpointing.dir'), and keep files longer."
        )
    return ExecutionError(VANISHED, f'file "{shown_name(path)}"{of_table} was listed, and is gone', hint=hint)


def cut(path: str, before: int, now: int) -> ExecutionError:
    """The error SS531 for a file that was truncated from ``before`` to ``now`` bytes while a micro-batch read it.
    Readers do not notice that, because they take what remains for the whole file.
    """
    message = f'file "{shown_name(path)}" was cut from {before:,} to {now:,} bytes while it was read'
    hint = (
        "Rows of it may be missing in what the job has written: put the whole file back under another name, or start "
        "anew. Replace files by moving others into their place."
    )
    return ExecutionError(CUT, message, hint=hint)


def shown_name(path: str) -> str:
    r"""A path for messages, with ``\xff`` in place of bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def version_of(status: os.stat_result) -> tuple[int, ...]:
    """Numbers from the status of a file, such as size, modification time and inode. They differ after every change of
    the file. Size and modification time alone are not enough, because ``cp -p`` preserves both.
    """
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def require_readable(path: str, format: str) -> None:  # noqa: A002
    """Checks that a file begins as its format requires. Raises SS528 if its first bytes show another format, or another
    compression than its name; SS529 if it does not exist.
    """
    try:
        begins = _beginning(path)
    except FileNotFoundError:
        raise vanished(path) from None
    except OSError as error:
        raise unreadable(path, reason_of(error)) from None
    why = _fault(path, begins, format)
    if why is not None:
        raise unreadable(path, why)


def _beginning(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(4)


def _fault(path: str, begins: bytes, format: str) -> str | None:  # noqa: A002
    if format in _COLUMNAR:
        magic, kind = _COLUMNAR[format]
        if not begins:
            return f"it is empty, and not {kind}"
        return None if begins.startswith(magic) else f"it does not begin as {kind} does"
    suffix = Path(path).suffix.lower()
    packed = _MAGIC.get(suffix) if format in _TEXTS else None
    if packed is not None and not begins.startswith(packed):
        return f'it does not begin as a file "*{suffix}" does' if begins else f'it is empty, and no file "*{suffix}"'
    return None


# --- columns of Parquet and ORC files, compared with the declared ones ----------------------------------------


MISSING_COLUMN = "SS524"
OTHER_TYPE = "SS467"

_NULLS = "With '{format}.missing-columns' = 'null' in its WITH, a column that a file lacks is NULL."


_NO_SUCH_VALUE = "Declare the column with a type that has the value, or write the file again without it."

_UNSIGNED = {"uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)"}
"""For Arrow's types of numbers without a sign, which SQL does not have, the smallest type that has their values."""


@dataclass(frozen=True)
class Mismatch:
    """A column of a table, or a field within one (``place.city``), that a file has with another type or not at all.

    ``found`` is its type in the file, None if the file has no such column; ``names`` are the columns of the file.
    ``twice``: the file has several such columns, which are the ``names``.
    """

    column: str
    declared: pa.DataType
    found: pa.DataType | None
    names: tuple[str, ...] = ()
    twice: bool = False

    def diagnostic(self, file: str, suggestion: str = "", format: str = "parquet") -> Diagnostic:  # noqa: A002
        """The mismatch as a diagnostic, SS524 for a missing column and SS467 for another type, that shows the file and
        both types. ``suggestion``: a hint for a missing name.
        """
        if self.twice:
            spelled = ", ".join(f'"{name}"' for name in self.names)
            message = f'file "{file}" has more than one column "{self.column}": {spelled}'
            return Diagnostic(MISSING_COLUMN, message, hint="Write the file again with names that differ.")
        if self.found is None:
            columns_hint = suggestion or f"Columns: {', '.join(sorted(self.names))}."
            message = f'file "{file}" has no column "{self.column}"'
            return Diagnostic(MISSING_COLUMN, message, hint=f"{columns_hint} {_NULLS.format(format=format)}")
        is_instant = format == "orc" and kinds.is_timestamp(self.found)  # which Arrow gives no zone
        type_in_file = "TIMESTAMP" if is_instant else type_name(self.found)
        message = f'column "{self.column}" is {type_in_file} in file "{file}", not {type_name(self.declared)}'
        holds = _UNSIGNED.get(type_in_file)
        hint = (
            "Give the column the type that it has in its files."
            if holds is None
            else (f"Its values are numbers without a sign: declare the column {holds}, which has all of them.")
        )
        return Diagnostic(OTHER_TYPE, message, hint=hint)

    def error(self, file: str, format: str = "parquet") -> SqlStreamError:  # noqa: A002
        """The ``diagnostic`` as an exception."""
        diagnostic = self.diagnostic(file, format=format)
        kind = ConnectorError if self.found is None else ExecutionError
        return kind(diagnostic.code, diagnostic.message, hint=diagnostic.hint)


def refused(
    values: pa.Array,
    column: str,
    declared: pa.DataType,
    file: str,
    where: Callable[[int], str],
    format: str = "parquet",  # noqa: A002
) -> SqlStreamError:
    """Returns the error for values of a column of a file that ``converted`` refuses: SS402 with the first one that the
    declared type does not have, and ``where`` that is; SS467 where the column has another type.
    """
    wrong = misfit(values, declared, orc=format == "orc")
    if wrong is None:
        return Mismatch(column, declared, values.type).error(file, format)
    row, value = wrong
    message = f'column "{column}" of type {type_name(declared)} is {value} {where(row)}'
    return ExecutionError(BAD_ROW, message, hint=_NO_SUCH_VALUE)


def require_columns(path: str, wanted: Mapping[str, pa.DataType]) -> None:
    """Checks the columns of a Parquet file against the ``wanted`` ones, by name. Raises SS524 if one is missing, SS467
    if it has another type.
    """
    with suppress(pa.ArrowException, OSError):  # what cannot be read is for the reader to say
        schema = pq.read_schema(path)
        for mismatch in mismatches([*schema], wanted, nulls=False):
            raise mismatch.error(path)
        for name, kind in wanted.items():
            if need_python(schema, {name: kind}):
                number = position_of(schema.names, name)
                raise _unlike_others(path, name, schema.types[number or 0])


def _unlike_others(path: str, name: str, found: pa.DataType) -> ExecutionError:
    spelled = "in nanoseconds" if getattr(found, "unit", None) == "ns" else f"of Arrow's type {found}"
    message = f'column "{name}" is {spelled} in file "{path}", unlike in the files that were there at the start'
    return ExecutionError(OTHER_TYPE, message, hint="Start the job again: it then reads such files in another way.")


def need_python(there: pa.Schema, wanted: Mapping[str, pa.DataType], *, orc: bool = False) -> bool:
    """True if Spark's reader of Parquet, or ``orc``, would misread one of the ``wanted`` columns, because it takes the
    column's type in the file for another one. Such files are read in Python.
    """
    spelled = Counter(name.casefold() for name in there.names)
    by_name = {name.casefold(): kind for name, kind in zip(there.names, there.types, strict=True)}
    if any(spelled[name.casefold()] > 1 for name in wanted):
        return True
    pairs = ((by_name.get(name.casefold()), kind) for name, kind in wanted.items())
    return any(found is not None and differs_in_spark(found, kind, orc=orc) for found, kind in pairs)


def mismatches(
    there: Sequence[pa.Field],
    wanted: Mapping[str, pa.DataType],
    *,
    nulls: bool,
    within: str = "",
    orc: bool = False,
) -> Iterator[Mismatch]:
    """Compares the columns ``there`` in a file with the ``wanted`` ones, and yields each column that is missing or has
    another type. Names are compared without regard to case where none is spelled the same.

    ``nulls``: a missing column reads as NULL and is not reported. ``within``: the path of the enclosing STRUCT column,
    ending with a dot, such as ``place.``. ``orc``: the file is an ORC file.
    """
    names = [field.name for field in there]
    for name, kind in wanted.items():
        try:
            number = position_of(names, name)
        except Ambiguous as error:
            yield Mismatch(f"{within}{name}", kind, None, error.found, twice=True)
            continue
        type_in_file = None if number is None else there[number].type
        if type_in_file is None:
            if not nulls:
                yield Mismatch(f"{within}{name}", kind, None, tuple(names))
        elif kinds.is_struct(type_in_file) and kinds.is_struct(kind):
            path = f"{within}{name}."
            yield from mismatches([*type_in_file], _fields(kind), nulls=nulls, within=path, orc=orc)
        elif not fits(type_in_file, kind, orc=orc):
            clock = orc and kinds.is_timestamp(type_in_file)  # what ORC calls so is an instant
            yield Mismatch(f"{within}{name}", kind, pa.timestamp("us", "UTC") if clock else type_in_file)


def type_name(kind: pa.DataType) -> str:
    """The name of an Arrow type for messages: the SQL type, or Arrow's name for types that SQL does not have, such as
    ``uint32``.
    """
    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    sql_type = from_arrow(plain)
    return str(kind) if any(member.is_unknown for member in sql_type.parts()) else str(sql_type)


def _fields(struct: pa.StructType) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in struct}
