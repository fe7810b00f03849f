"""A result that may be longer than the terminal, kept for the pager."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1_000_000


@dataclass
class LongResult:
    """``tables`` are all rows but those that are too many, which are ``skipped``; ``page``: what fits on a terminal."""

    page: int
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    skipped: int = 0

    @property
    def is_long(self) -> bool:
        return self.rows > self.page

    def add(self, table: pa.Table) -> pa.Table | None:
        """Take rows; returns those of them that still fit on the page."""
        room = max(0, self.page - self.rows)
        kept = table.slice(0, max(0, _MOST_ROWS - self.rows))
        self.tables.append(kept)
        self.rows += kept.num_rows
        self.skipped += table.num_rows - kept.num_rows
        return table.slice(0, room) if room else None
