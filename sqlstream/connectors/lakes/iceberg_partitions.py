"""By what an Iceberg table is partitioned and sorted: columns, and transforms of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform

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
