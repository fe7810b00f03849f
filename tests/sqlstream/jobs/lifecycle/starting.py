"""Jobs of tests, each specified by what is not as usual."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlstream.jobs import Job, start_job
from sqlstream.jobs.lifecycle.specification import Execution, JobLocation, JobSpecification, Work


def started(spark, plan, sources, *, name=None, **given: Any) -> Job:
    """A job of the plan. ``given`` are fields of the parts of a specification."""

    def part(kind: type) -> dict[str, Any]:
        return {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}

    work = Work(plan, sources, **part(Work))
    place, execution = JobLocation(**part(JobLocation)), Execution(**part(Execution))
    assert not given, f"no field of a specification: {sorted(given)}"
    return start_job(spark, JobSpecification(work, place, execution, name))
