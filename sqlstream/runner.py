"""From plans to running jobs: what a session gives to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sqlstream import jobs
from sqlstream.folders import Folders
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Output
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.plans import FormerPlan, Root
from sqlstream.spark.handle import SparkHandle
from sqlstream.telemetry.exports import EXPORTS
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.jobs import Job, JobRuntime, SessionJobs
    from sqlstream.jobs.lifecycle.runtime import Sources
    from sqlstream.jobs.records.history import CheckpointLine
    from sqlstream.jobs.records.record import JobRecord
    from sqlstream.settings import Settings


class ControlledJob(Protocol):
    """A job that can be controlled: of this session (``Job``) or of another process (``RecordedJob``,
    ``SubmittedJob``).
    """

    @property
    def name(self) -> str:
        """The name of the job."""
        ...

    @property
    def record(self) -> JobRecord:
        """The job's record (state, counts, SQL text), as it was last read."""
        ...

    def record_now(self) -> JobRecord:
        """Reads the job's record again and returns it."""
        ...

    @property
    def id(self) -> str:
        """The unique id of the job."""
        ...

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Additional lines for DESCRIBE JOB, which the record does not contain: pairs of label and text."""
        ...

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None:
        """Stops the job. Returns the path of the savepoint if one was requested, else None.

        ``savepoint``: True, or the directory for it. ``drain``: fire all open windows and timers first, as at the end
        of the input.
        """
        ...

    def checkpoint(self) -> int | None:
        """Makes a checkpoint now and returns its epoch number; None if there were no new rows."""
        ...

    def savepoint(self, path: str | None = None) -> str:
        """Makes a savepoint and returns its path. ``path``: the directory for it, by default that of the settings."""
        ...

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """Returns the job's known checkpoints, newest first."""
        ...


class Runner:
    """Starts the jobs of one session, and stops them when the session closes."""

    def __init__(self, spark: SparkSession | str | None) -> None:
        self.spark = SparkHandle(spark)
        self.folders = Folders()
        self.jobs: list[Job] = []

    @property
    def _session_jobs(self) -> SessionJobs:
        """What runs jobs, which is loaded for the first one."""
        return jobs.SessionJobs(self.spark, self.folders, self.jobs)

    def start(
        self,
        plan: Root,
        workspace: Workspace,
        sql: str,
        name: str | None = None,
        former: Sequence[FormerPlan] = (),
    ) -> Job:
        """Starts a plan as a job and returns the job. The rows of a query are read by ``Job.results``; other plans
        write into tables.

        ``sql``: the statement, for the job's record. ``name``: the job's name, under which it finds its checkpoint
        again. ``former``: other plans of the same statement, to continue the checkpoints of jobs that began with
        them.
        """
        job = self._session_jobs.start(plan, workspace, sql, name, former)
        self.jobs = [other for other in self.jobs if other.name != job.name or isinstance(plan, Output)] + [job]
        return job

    def known_jobs(self, settings: Settings) -> list[ControlledJob]:
        """Returns the jobs of this session, followed by other jobs recorded in the checkpoint directory."""
        if settings["execution.checkpointing.dir"] is None:
            return list(self.jobs)
        own = {job.id for job in self.jobs}
        return [*self.jobs, *(job for job in self._session_jobs.recorded(settings) if job.id not in own)]

    def dataframe(self, plan: Output, workspace: Workspace) -> DataFrame:
        """Returns the plan of a query as a streaming DataFrame, which is not started, with the column names that users
        see.
        """
        return self._session_jobs.dataframe(plan, workspace)

    def runtime(self, workspace: Workspace, *, finished: bool = False) -> JobRuntime:
        """Returns the object from which lowering gets Spark, the sources and the clocks, for turning a plan into
        DataFrames without starting a job. ``finished``: sources are read as batches, with the rows they have now.
        """
        return self._session_jobs.runtime(workspace, finished=finished)

    def physical(self, plan: Node, workspace: Workspace, sources: Sources) -> PhysicalPlan:
        """Returns the physical plan that a new job would run. (A job that continues a checkpoint keeps some decisions
        of that checkpoint.) ``sources`` says how each table can be read.
        """
        return self._session_jobs.physical(plan, workspace, sources)

    def explained_by_spark(self, plan: Node, workspace: Workspace) -> str:
        """Returns Spark's own EXPLAIN of the plan. The query is not started."""
        return self._session_jobs.explained_by_spark(plan, workspace)

    def close(self) -> None:
        """Stops the session's jobs and removes its folders."""
        for job in self.jobs:
            job.stop()
        EXPORTS.release(self.spark)
        self.spark.release()
        self.folders.remove()
