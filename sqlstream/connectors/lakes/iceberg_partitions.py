"""By what an Iceberg table is partitioned: columns, and transforms of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
