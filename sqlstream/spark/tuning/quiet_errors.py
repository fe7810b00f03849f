"""PySpark's own word of errors that we report.

PySpark writes an error of Spark to standard error as it raises it: a line of JSON with the stack of the JVM, 14 kB and
more, for the error and each of its causes. Who uses sqlstream reads our diagnostic instead, so these lines are dropped
where the error is raised below a call of ours: in ``Session``, on the thread of a job, in what writes micro-batches.
The same errors in PySpark code of the user's own are logged as ever.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from types import FrameType

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class ReportedByUs(logging.Filter):
    """Drops records that are made below a call of this package; whoever wants them removes the filter."""

    def filter(self, record: logging.LogRecord) -> bool:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("sqlstream.") and name != __name__:
                return False
            frame = frame.f_back
        return True


_FILTER = ReportedByUs()


def quiet_reported_errors() -> None:
    """Silences errors that are reported anyway. A PySpark without these loggers writes nothing, so there is nothing
    to do."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            PySparkLogger.getLogger(name).addFilter(_FILTER)  # a filter that is there already is not added again
