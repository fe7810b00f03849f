"""From plans to running jobs: what a session gives to each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sqlstream import jobs
from sqlstream.folders import Folders
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Output
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.plans import Root
from sqlstream.spark.handle import SparkHandle
from sqlstream.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.jobs import Job, JobRuntime, SessionJobs
    from sqlstream.jobs.lifecycle.runtime import Sources
    from sqlstream.jobs.records.history import CheckpointLine
    from sqlstream.jobs.records.record import JobRecord
    from sqlstream.settings import Settings


class ControlledJob(Protocol):
    """A controllable job: of this session (``Job``), or of another process (``RecordedJob``, ``SubmittedJob``)."""

    @property
    def name(self) -> str:
        """The name of the job."""
        ...

    @property
    def record(self) -> JobRecord:
        """The record of the job, as it was last read."""
        ...

    def record_now(self) -> JobRecord:
        """The record, read anew."""
        ...

    @property
    def id(self) -> str:
        """The unique id of the job."""
        ...

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Remarks of DESCRIBE JOB that are not in the job's record."""
        ...

    def stop(self, *, savepoint: str | bool = False, drain: bool = False) -> str | None:
        """Stop the job; returns the path of the savepoint, if one was requested."""
        ...

    def checkpoint(self) -> int | None:
        """Make a checkpoint now; returns its epoch, None where there is nothing new."""
        ...

    def savepoint(self, path: str | None = None) -> str:
        """Make a savepoint, by default in the directory of the settings; returns its path."""
        ...

    def checkpoints(self) -> tuple[CheckpointLine, ...]:
        """The known checkpoints, the newest first."""
        ...


class Runner:
    """Starts the jobs of a session and stops them when it closes."""

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
        former: Callable[[], Root] | None = None,
    ) -> Job:
        """Start the plan as a job, which writes to the tables of an Insert or StatementSet, or to the reader of
        ``Job.results``.

        ``sql`` is its statement, for the record of the job. ``name``: the job's, which is the same each time.
        ``former``: the plan of the same statement by the defaults of earlier builds, with which their checkpoints
        are continued.
        """
        job = self._session_jobs.start(plan, workspace, sql, name, former)
        self.jobs = [other for other in self.jobs if other.name != job.name or isinstance(plan, Output)] + [job]
        return job

    def known_jobs(self, settings: Settings) -> list[ControlledJob]:
        """The jobs of this session, then those of others with a record in the checkpoint directory."""
        if settings["execution.checkpointing.dir"] is None:
            return list(self.jobs)
        own = {job.id for job in self.jobs}
        return [*self.jobs, *(job for job in self._session_jobs.recorded(settings) if job.id not in own)]

    def dataframe(self, plan: Output, workspace: Workspace) -> DataFrame:
        """The streaming DataFrame of the plan, with the names that users see."""
        return self._session_jobs.dataframe(plan, workspace)

    def runtime(self, workspace: Workspace, *, finished: bool = False) -> JobRuntime:
        """The runtime for lowering a plan without starting a job; ``finished``: sources give the rows they have now."""
        return self._session_jobs.runtime(workspace, finished=finished)

    def physical(self, plan: Node, workspace: Workspace, sources: Sources) -> PhysicalPlan:
        """The physical plan of a plan without a checkpoint."""
        return self._session_jobs.physical(plan, workspace, sources)

    def explained_by_spark(self, plan: Node, workspace: Workspace) -> str:
        """Spark's own EXPLAIN of the plan, which is lowered but not started."""
        return self._session_jobs.explained_by_spark(plan, workspace)

    def close(self) -> None:
        """Stop the jobs and remove the folders of the session."""
        for job in self.jobs:
            job.stop()
        self.spark.release()
        self.folders.remove()
