"""SESSION: windows of activity, each from its first row to ``gap`` after its last, merged as rows arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExecutionError, repeating
from sqlstream.udfs.assigners.assigner import Assigned, Times, micros, per_row, times_of
from sqlstream.udfs.event_times import LONGEST
from sqlstream.udfs.kernel import Context, Domain

WRONG_GAP = repeating("SS404")


@dataclass(frozen=True)
class Session:
    """``gap`` is microseconds, or the name of a BIGINT column with those of each row; zero or less, and
    more than 10,000 years, is SS404."""

    time: str | None
    gap: int | str
    domain: Domain = Domain.EVENT
    merging: bool = True

    def assign(self, rows: pa.Table, context: Context) -> Assigned:
        start = times_of(rows, self.time, context)
        return per_row(start, start + gaps_of(rows, self.gap), rows.num_rows)


def gaps_of(rows: pa.Table, gap: int | str) -> Times | int:
    """The gap of each row, or that of all."""
    if isinstance(gap, int):
        return gap
    if rows.column(gap).null_count:
        raise ExecutionError(WRONG_GAP, "the session gap of a row is NULL", hint=_HINT)
    gaps = micros(rows.column(gap), gap)
    if len(gaps) and gaps.min() <= 0:
        row = int(np.argmax(gaps <= 0))
        raise ExecutionError(
            WRONG_GAP, f"the session gap of a row is not positive: {gaps[row]} microseconds", hint=_HINT
        )
    if len(gaps) and gaps.max() > LONGEST:
        message = f"the session gap of a row is longer than 10,000 years: {gaps.max()} microseconds"
        raise ExecutionError(WRONG_GAP, message, hint="Limit it, for instance with LEAST.")
    return gaps


_HINT = "Give every row a gap of 1 millisecond or more, for instance with an ELSE."
