"""Jobs: running plans, with checkpoints, progress, results and an end.

``start_job`` is the way in; it returns a ``Job``.
"""

from __future__ import annotations

from sqlstream.jobs.checkpoint import checkpoint_exists, run_of
from sqlstream.jobs.job import Job, JobState, start_job
from sqlstream.jobs.progress import Progress
from sqlstream.jobs.runtime import JobRuntime, Sources

__all__ = ["Job", "JobRuntime", "JobState", "Progress", "Sources", "checkpoint_exists", "run_of", "start_job"]
