"""Directories ``column=value`` of ``partition-by``, as Spark wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlstream.errors import ConnectorError, Diagnostic
from sqlstream.planner.catalog import Table
from sqlstream.udfs.listed_files import shown_name

WRONG_DIRECTORY = "SS532"

_CONDITIONS = frozenset({
    "INVALID_PARTITION_VALUE", "EMPTY_PARTITION_COLUMN_VALUE", "CONFLICTING_PARTITION_COLUMN_NAMES",
    "CONFLICTING_DIRECTORY_STRUCTURES",
})  # fmt: skip


def wrong_directories(
    table: Table, partitions: Sequence[str], roots: Iterable[Path], files: Iterable[Path]
) -> Iterator[Diagnostic]:
    """SS532 for files that are not in a directory for each of the partition columns."""
    folders = [root for root in roots if root.is_dir()]
    if not partitions or len(folders) != 1:
        return
    for file in files:
        if file.is_relative_to(folders[0]):
            names = [name.partition("=")[0] for name in file.relative_to(folders[0]).parts[:-1]]
            if sorted(names) != sorted(partitions):
                yield _wrong(table, f'file "{shown_name(str(file))}" is not in "{_directories(partitions)}"')


@contextmanager
def directories_told(table: Table) -> Iterator[None]:
    """ConnectorError SS532 in place of what Spark says of directories when it lists them."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() not in _CONDITIONS:
            raise
        why = " ".join((error.getMessage() or "").partition("] ")[2].split())
        raise _error(table, f"a directory of its path does not fit: {why}") from None


def _directories(partitions: Sequence[str]) -> str:
    return "/".join(f"{name}=…" for name in partitions)


def _error(table: Table, what: str) -> ConnectorError:
    wrong = _wrong(table, what)
    return ConnectorError(wrong.code, wrong.message, hint=wrong.hint)


def _wrong(table: Table, what: str) -> Diagnostic:
    hint = (
        "Each file stands in directories column=value, one for each column of 'partition-by', with values of its type."
    )
    return Diagnostic(WRONG_DIRECTORY, f'table "{table.name}" has the option "partition-by": {what}', hint=hint)
