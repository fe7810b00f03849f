"""Logs of jobs: what each epoch did, what was dropped, failures and ends; as lines of text or of JSON.

All loggers of sqlstream are below ``sqlstream``. A line has the job that it is about, and the epoch and the operator
where it is about one.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from sqlstream.jobs.lifecycle.observers import CURRENT_JOB, ObservedJob, Report
from sqlstream.jobs.reports.counts import rows_read
from sqlstream.jobs.reports.progress import bad_rows, late_by_operator, rows_out
from sqlstream.telemetry.figures import PlanNames, names_of

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError

ROOT = "sqlstream"
_LOG = logging.getLogger("sqlstream.jobs")

CONTEXT = ("job", "epoch", "operator", "table")
"""What a line is about, beside its message."""

_COUNTS = ("rows_in", "rows_out", "rows", "duration_ms", "code", "state")


class JobContext(logging.Filter):
    """Adds the job whose thread writes a line, where the line does not say which job it is about."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True: every record is written."""
        job = CURRENT_JOB.get()
        if job is not None and not hasattr(record, "job"):
            record.job = job.name
            record.epoch = job.progress().last_batch + 1
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, what it is about, and counts."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in (*CONTEXT, *_COUNTS) if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Formats a record as a line of text, with what it is about as ``key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(sep=" ", timespec="milliseconds")
        about = [f"{name}={getattr(record, name)}" for name in CONTEXT if hasattr(record, name)]
        head = " ".join([time.removesuffix("+00:00"), f"{record.levelname:7}", record.name, *about])
        text = f"{head}: {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


FORMATS = {"json": JsonLines, "text": TextLines}


class LogExport:
    """Writes the lines of all loggers of sqlstream in this process to a stream until it is closed; they go to no other
    handler meanwhile. ``level``: the least level that is written.
    """

    def __init__(self, style: str, level: str, stream: IO[str] | None = None) -> None:
        self._handler = logging.StreamHandler(sys.stderr if stream is None else stream)
        self._handler.setFormatter(FORMATS[style]())
        self._handler.addFilter(JobContext())
        logger = logging.getLogger(ROOT)
        self._before = (logger.level, logger.propagate)
        logger.addHandler(self._handler)
        logger.setLevel(level.upper())
        logger.propagate = False

    def close(self) -> None:
        """Leave the loggers as they were."""
        logger = logging.getLogger(ROOT)
        logger.removeHandler(self._handler)
        level, logger.propagate = self._before
        logger.setLevel(level)


class LoggedJob:
    """Logs what becomes of a job."""

    def __init__(self) -> None:
        self._names = PlanNames()

    def on_start(self, job: ObservedJob) -> None:
        """Log the start."""
        self._names = names_of(job.plan)
        _LOG.info("started, with the checkpoint %s", job.checkpoint_path, extra={"job": job.name})

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Log each epoch, and the rows that it dropped."""
        for report in reports:
            about = {"job": job.name, "epoch": int(report["batchId"])}
            rows_in, out, ms = rows_read(report), rows_out(report), int(report["batchDuration"])
            counts = {"rows_in": rows_in, "rows_out": out, "duration_ms": ms}
            _LOG.info("%s rows in, %s rows out, %s ms", rows_in, out, ms, extra={**about, **counts})
            for number, rows in late_by_operator(report).items():
                if rows:
                    where = {"operator": self._names.operator(number), "rows": rows}
                    _LOG.warning("%s late rows dropped", rows, extra={**about, **where})
            for table, rows in bad_rows(report).items():
                if rows:
                    _LOG.warning("%s bad rows", rows, extra={**about, "table": table, "rows": rows})

    def on_failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """Log the failure."""
        about = {"job": job.name, "epoch": job.progress().last_batch + 1, "code": error.code}
        _LOG.error("failed: %s", error.diagnostic.message, extra=about)

    def on_end(self, job: ObservedJob) -> None:
        """Log how the job ended."""
        last = job.progress().last_batch
        about: dict[str, Any] = {"job": job.name, "state": job.state.value}
        about |= {"epoch": last} if last >= 0 else {}
        level = logging.ERROR if job.exception is not None else logging.INFO
        when = f"after epoch {last}" if last >= 0 else "before an epoch was complete"
        _LOG.log(level, "%s %s", job.state.value, when, extra=about)
