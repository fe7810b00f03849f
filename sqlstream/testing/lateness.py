"""Counting late rows: the columnar gear does, on Spark's own operators exactly as far as their numbers go.

Spark counts what it drops behind the partial aggregation: rows of one key and window are one, and a row of several
windows counts in each that has closed. A row that is alone in its micro-batch shows what became of it: it was late
for all its windows exactly if something was dropped and no state was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.testing.buffer import Flush
    from sqlstream.testing.stepped_job import SteppedJob


@dataclass
class LateCount:
    """``counted``: the gear counts each row. ``exact`` is False once, without that, late rows shared a micro-batch."""

    counted: bool
    rows: int = 0
    exact: bool = True
    _together: int = 0
    _late: bool = False

    def expect(self, late: bool) -> None:
        """A row joins the next micro-batch; it may be ``late``."""
        self._together += 1
        self._late = self._late or late

    def process(self, job: SteppedJob, flush: Flush) -> None:
        """Have the job process its next micro-batch, and count."""
        together, late = self._together, self._late
        self._together, self._late = 0, False
        if not late and not self.counted:
            job.process(flush)
            return
        if self.counted:
            job.late_rows()  # those of earlier batches
            job.process(flush)
            self.rows += job.late_rows()
            return
        job.new_reports()
        job.process(flush)
        reports = job.new_reports()
        operators = [operator for report in reports for operator in report["stateOperators"]]
        dropped = sum(operator["numRowsDroppedByWatermark"] for operator in operators)
        updated = sum(operator["numRowsUpdated"] for operator in operators)
        if together == 1:
            self.rows += bool(dropped and not updated)
        else:
            self.rows += dropped
            self.exact = self.exact and not dropped
