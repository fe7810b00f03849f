"""Windows that an operator below has assigned: the rows carry their bounds."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.assigners.assigner import Assigned, micros, per_row
from sqlstream.udfs.kernel import Context, Domain


@dataclass(frozen=True)
class GivenWindows:
    start: str = "window_start"
    end: str = "window_end"
    domain: Domain = Domain.EVENT
    merging: bool = False

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        return per_row(
            micros(rows.column(self.start), self.start), micros(rows.column(self.end), self.end), rows.num_rows
        )
