"""Records of jobs that no test has started."""

from __future__ import annotations

import time
from dataclasses import replace

from sqlstream.jobs.records.record import Description, JobRecord, Life, Process, this_process
from sqlstream.jobs.reports.progress import Progress

GONE = replace(this_process(), started=1)
"""A process of this machine with the number of another one."""
ELSEWHERE = Process("another.example", 1)


def life(status: str = "RUNNING", process: Process | None = None, **changed: object) -> Life:
    now = time.time()
    actual = Life(status, process or this_process(), "instance-1", now, now, progress=Progress(rows_in=7, rows_out=5))
    return replace(actual, **changed)  # type: ignore[arg-type]


def record(name: str = "totals", **changed: object) -> JobRecord:
    description = Description("INSERT INTO t SELECT 1", {"version": 1}, {"pipeline.name": name}, {"sqlstream": "0.1.0"})
    stored_record = JobRecord(f"id-of-{name}", "run", name, f"/checkpoints/{name}", False, 1.0, 1, description, life())
    return replace(stored_record, **changed)  # type: ignore[arg-type]
