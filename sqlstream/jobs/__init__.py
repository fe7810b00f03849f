"""Jobs: running plans, with checkpoints, progress, results and an end.

``start_job`` is the way in; it returns a ``Job``. ``recorded_jobs`` finds those of other processes by their records.
Importing this package loads no PySpark; what runs jobs does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.spark.running import loaded

if TYPE_CHECKING:
    from sqlstream.jobs.checkpoints.checkpoint import checkpoint_exists, run_of
    from sqlstream.jobs.lifecycle.job import Job, JobState
    from sqlstream.jobs.lifecycle.runtime import JobRuntime, Sources
    from sqlstream.jobs.lifecycle.session_jobs import SessionJobs
    from sqlstream.jobs.lifecycle.start import start_job
    from sqlstream.jobs.records.requests import RecordedJob, recorded_jobs
    from sqlstream.jobs.reports.progress import Progress

__all__ = [
    "Job",
    "JobRuntime",
    "JobState",
    "Progress",
    "RecordedJob",
    "SessionJobs",
    "Sources",
    "checkpoint_exists",
    "recorded_jobs",
    "run_of",
    "start_job",
]

_HOMES = {
    "Job": "sqlstream.jobs.lifecycle.job",
    "JobRuntime": "sqlstream.jobs.lifecycle.runtime",
    "JobState": "sqlstream.jobs.lifecycle.job",
    "Progress": "sqlstream.jobs.reports.progress",
    "RecordedJob": "sqlstream.jobs.records.requests",
    "SessionJobs": "sqlstream.jobs.lifecycle.session_jobs",
    "Sources": "sqlstream.jobs.lifecycle.runtime",
    "checkpoint_exists": "sqlstream.jobs.checkpoints.checkpoint",
    "recorded_jobs": "sqlstream.jobs.records.requests",
    "run_of": "sqlstream.jobs.checkpoints.checkpoint",
    "start_job": "sqlstream.jobs.lifecycle.start",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(loaded(_HOMES[name]), name)
