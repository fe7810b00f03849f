"""By what an Iceberg table is partitioned and sorted: columns, and transforms of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.keys import dense_ids

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform
    from pyiceberg.typedef import Record

_TERM = re.compile(r"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([^()]+?)\s*\)|([^(),]+?))\s*(?:,|$)")


@dataclass(frozen=True)
class PartitionField:
    """A column by which a table is partitioned, with its transform: ``day(ts)``, ``bucket(16, id)``, ``id``."""

    column: str
    transform: str = "identity"
    number: int | None = None

    def to_iceberg(self) -> Transform[Any, Any]:
        from pyiceberg import transforms

        match self.transform:
            case "bucket":
                return transforms.BucketTransform(self.number or 1)
            case "truncate":
                return transforms.TruncateTransform(self.number or 1)
        plain: Mapping[str, Any] = {
            "identity": transforms.IdentityTransform, "year": transforms.YearTransform,
            "month": transforms.MonthTransform, "day": transforms.DayTransform, "hour": transforms.HourTransform,
        }  # fmt: skip
        made: Transform[Any, Any] = plain[self.transform]()
        return made

    @property
    def name(self) -> str:
        """The name of the partition field, as Spark gives it."""
        endings = {"identity": "", "bucket": "_bucket", "truncate": "_trunc"}
        return f"{self.column}{endings.get(self.transform, f'_{self.transform}')}"


@dataclass(frozen=True)
class SortKey:
    """A column by which the rows of each file are sorted."""

    column: str
    descending: bool = False
    nulls_first: bool = False


_SORT_KEY = re.compile(r"(.+?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


def sort_keys(text: str) -> tuple[SortKey, ...]:
    """Parses ``ts DESC, name ASC NULLS FIRST``. Without NULLS they are lower than all values, as in Spark: first with
    ASC, last with DESC. ValueError for another text.
    """
    keys = []
    for part in text.split(","):
        match = _SORT_KEY.fullmatch(part.strip())
        if match is None:
            raise ValueError(text)
        descending = (match[2] or "").upper() == "DESC"
        nulls_first = match[3].upper() == "FIRST" if match[3] else not descending
        keys.append(SortKey(match[1], descending, nulls_first))
    return tuple(keys)


def sorted_rows(rows: pa.Table, metadata: TableMetadata) -> pa.Table:
    """The rows in the order in which the table wants them in its files."""
    names = {field.field_id: field for field in metadata.schema().fields}
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    keys: list[tuple[str, str]] = []
    compared: dict[str, Any] = {}
    for number, field in enumerate(order.fields if order is not None else ()):
        column = names.get(field.source_id)
        if column is None:  # a field of a STRUCT
            break
        values = rows[column.name]
        if str(field.transform) not in ("identity", "void"):
            values = field.transform.pyarrow_transform(column.field_type)(values)
        compared |= {f"null {number}": pc.is_null(values), f"value {number}": values}
        # FALSE is less than TRUE.
        nulls = "descending" if field.null_order.value == "nulls-first" else "ascending"
        keys += [(f"null {number}", nulls), (f"value {number}", f"{field.direction.value}ending")]
    return rows.take(pc.sort_indices(pa.table(compared), keys)) if keys else rows


# --- rows by partition ----------------------------------------------------------------------------------------

_LONGEST_FOLDER, _LONGEST_PATH = 200, 600
"""Bytes of names that file systems and object stores take, with room for those of tables and files."""


@dataclass(frozen=True)
class FilePartition:
    """The partition of a data file, as the library's writer of files asks for it: its values, and its folder."""

    partition: Record
    folder: str

    def to_path(self) -> str:
        """The folder. Readers do not look at it, thus it need not have values that are too long for it."""
        too_long = len(self.folder) > _LONGEST_PATH or any(
            len(name) > _LONGEST_FOLDER for name in self.folder.split("/")
        )
        return sha256(self.folder.encode()).hexdigest()[:16] if too_long else self.folder


def partitions_of(rows: pa.Table, metadata: TableMetadata) -> Iterator[tuple[Any, pa.Table]]:
    """Yields the rows of each partition, in their order, with its ``FilePartition``; None where the table has none.

    The library compares rows with each partition in turn, and finds none for NaN.
    """
    from pyiceberg.io.pyarrow import _get_field_from_arrow_table
    from pyiceberg.partitioning import partition_record_value
    from pyiceberg.typedef import Record

    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield None, rows
        return
    values: dict[str, Any] = {}
    for number, field in enumerate(spec.fields):
        if str(field.transform) == "void":
            values[str(number)] = pa.nulls(rows.num_rows, pa.int32())
            continue
        transform = field.transform.pyarrow_transform(schema.find_type(field.source_id))
        source = schema.find_column_name(field.source_id) or ""
        values[str(number)] = transform(_get_field_from_arrow_table(rows, source))
    ids = dense_ids(pa.table({name: _by_bits(own) for name, own in values.items()}), [*values])
    together = rows.take(pa.array(np.argsort(ids.ids, kind="stable"))) if ids.count > 1 else rows
    counts = np.bincount(ids.ids)
    for first, end, count in zip(ids.first.tolist(), np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        found = ((f, values[str(n)][first].as_py()) for n, f in enumerate(spec.fields))
        own = (None if v is None else partition_record_value(f, v, schema) for f, v in found)
        partition = Record(*own)
        yield FilePartition(partition, spec.partition_to_path(partition, schema)), together.slice(end - count, count)


def _by_bits(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Floating-point numbers as integers: readers take a partition's value for that of its rows, and -0.0 is not 0.0 to
    the eye.
    """
    if not pa.types.is_floating(values.type):
        return values
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole.view(pa.int32() if whole.type.bit_width == 32 else pa.int64())


def partition_texts(table: IcebergTable) -> list[str]:
    """By what a table is partitioned, as ``partition_fields`` reads it."""
    names = {field.field_id: field.name for field in table.schema().fields}
    texts = []
    for field in table.spec().fields:
        transform, number = str(field.transform), re.match(r"(\w+)\[(\d+)\]", str(field.transform))
        name = names.get(field.source_id)
        if name is None or transform == "void":
            continue
        inside = f"{number[1]}({number[2]}, {name})" if number is not None else f"{transform}({name})"
        texts.append(name if transform == "identity" else inside)
    return texts


def partition_fields(text: str) -> tuple[PartitionField, ...]:
    """Parses ``day(ts), bucket(16, id), name``. ValueError for another text."""
    fields, position = [], 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(text)
        position = match.end()
        if match[4] is not None:
            fields.append(PartitionField(match[4]))
            continue
        transform = match[1].lower()
        numbered = transform in ("bucket", "truncate")
        if numbered != (match[2] is not None) or not (numbered or transform in ("year", "month", "day", "hour")):
            raise ValueError(text)
        fields.append(PartitionField(match[3], transform, int(match[2]) if numbered else None))
    if not fields:
        raise ValueError(text)
    return tuple(fields)
