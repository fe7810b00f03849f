"""``sqlstream jobs``: the jobs with checkpoints in a directory, controlled from another process."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlstream.cli.options import require_text
from sqlstream.cli.output import FORMATS, writer_for
from sqlstream.cli.terminal import working
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from sqlstream.jobs import RecordedJob
    from sqlstream.jobs.records.submissions import SubmittedJob
    from sqlstream.jobs.reports.plan_figures import PlanFigures
    from sqlstream.results import Rows


_EPILOG = """\b
DIR is what jobs have as execution.checkpointing.dir; each keeps a record there, which is read without Spark.
Without --dir it is about the jobs that the shell has submitted as processes of their own.
What is asked of a job, its own process does. A JOB is a name or an id. LOST is a job whose process is gone.
Exit codes: 0 success, 1 the job cannot do what is asked, 2 there is no such job, 3 it has not answered or has failed.

\b
Examples:
  sqlstream jobs list
  sqlstream jobs list --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint
  sqlstream jobs checkpoints insert_into_totals --dir /var/lib/checkpoints --output jsonl
"""

_SHOW = """\b
Examples:
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints --record | jq .description.plan
"""

_STOP = """\b
A job that does not run any more is left as it is. With --savepoint or --drain it must run.

\b
Examples:
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint --drain
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint-path /var/lib/savepoints/monday
"""

_PLAN = """\b
The page shows the plan as sqlstream explain --format html does, and beside each operator what the job has counted:
rows read of each table, rows that exchanges brought to operators with state, their results, late rows and state, rows
written. Filters and projections have no counts of their own, Spark runs them together with what is around them.
Counts are of the time since the job was started and change with each micro-batch; rates are those of the
last ten seconds. The page is on 127.0.0.1 alone and refreshes itself until Ctrl-C; the job goes on.

\b
Examples:
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints --to plan.html
"""

_WAIT = 600.0
_LOOK_SECONDS, _RATE_SECONDS = 1.0, 15.0
"""How often a record is read for a page, and how long for one that is written once."""


class _Seconds(click.FloatRange):
    """A number of seconds; NaN is refused, because no time is later than it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


@click.group("jobs", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def jobs_command() -> None:
    """List, describe, stop and checkpoint jobs that other processes run."""


def _directory(function: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option("--dir", "-d", "directory", metavar="DIR", help="Where jobs keep their checkpoints.")
    return option(function)


def _output(function: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--output", "-o", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows are printed."
    )
    return option(function)


def _timeout(function: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--timeout", type=_Seconds(0), default=_WAIT, show_default=True, help="Seconds to wait for the answer."
    )
    return option(function)


@jobs_command.command("list")
@_directory
@_output
def list_jobs(directory: str | None, output: str) -> None:
    """List jobs, oldest first."""
    from sqlstream.statements.jobs import job_rows  # loaded when the command runs: help and errors stay fast

    _print(job_rows(job.record for job in _jobs(directory)), output)


@jobs_command.command("show", epilog=_SHOW)
@click.argument("job")
@_directory
@_output
@click.option("--record", is_flag=True, help="The whole record as JSON, with the plan.")
def show_job(job: str, directory: str | None, output: str, record: bool) -> None:
    """Show what a job is and has done."""
    from sqlstream.jobs.records.record import to_text  # loaded when the command runs: help and errors stay fast
    from sqlstream.statements.jobs import properties

    shown = _job(job, directory)
    if record:
        click.echo(to_text(shown.record))
    else:
        _print(properties(shown.record, shown.notes), output)


@jobs_command.command("plan", epilog=_PLAN)
@click.argument("job")
@_directory
@click.option("--port", type=click.IntRange(0, 65535), default=8322, show_default=True, help="Of the page; 0: any.")
@click.option("--to", "path", metavar="FILE", help="Write the page as it is now into FILE, and end.")
def show_plan(job: str, directory: str | None, port: int, path: str | None) -> None:
    """Show the plan of a job with live rates, as a page. Prints its address."""
    # loaded when the command runs: help and errors stay fast
    from sqlstream.jobs.reports.plan_figures import FIGURES, PlanFigures, figures_of, page_of
    from sqlstream.local_page import LocalPage

    shown = _job(job, directory)
    figures = PlanFigures(shown.record)
    if path is not None:
        _write_plan(figures, shown, path)
        return
    answers = {"/": page_of, f"/{FIGURES}": figures_of}
    page = LocalPage(port, lambda asked: answers[asked](figures) if asked in answers else None, f"/ and /{FIGURES}")
    try:
        click.echo(page.url)
        sys.stdout.flush()
        while True:
            time.sleep(_LOOK_SECONDS)
            figures.take(shown.record_now())
    finally:
        page.close()


def _write_plan(figures: PlanFigures, job: RecordedJob | SubmittedJob, path: str) -> None:
    """Write the page to a file; of a running job after two micro-batches, which give rates."""
    end = time.monotonic() + _RATE_SECONDS
    with working("waiting for two micro-batches"):
        while job.record_now().is_running and not figures.has_rates and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS / 2)
            figures.take(job.record_now())
    try:
        Path(path).write_text(figures.page(), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise click.UsageError(f'"{path}" cannot be written: {reason_of(error)}') from error


@jobs_command.command("stop", epilog=_STOP)
@click.argument("job")
@_directory
@click.option("--savepoint", is_flag=True, help="Take a savepoint, in the default place.")
@click.option("--savepoint-path", metavar="PATH", help="Take a savepoint at PATH.")
@click.option("--drain", is_flag=True, help="Take the input as ended: all windows and timers fire.")
@_timeout
def stop_job(
    job: str, directory: str | None, savepoint: bool, savepoint_path: str | None, drain: bool, timeout: float
) -> None:
    """Stop a job. Prints where its savepoint is, if there is one.

    It stops after its last complete micro-batch.
    """
    recorded = _job(job, directory)
    with working(f'waiting for the answer of "{recorded.name}"'):
        path = recorded.stop(savepoint=savepoint_path or savepoint, drain=drain, timeout_s=timeout)
    if path is not None:
        click.echo(path)


@jobs_command.command("remove")
@click.argument("job")
def remove_job(job: str) -> None:
    """Remove what a submitted job has left that has ended.

    That is its script and its log, and its checkpoint where the job was given no directory for it.
    """
    # loaded when the command runs: help and errors stay fast
    from sqlstream.jobs.records.submissions import STARTING, SubmittedJob, remove_submission

    ended = _job(job, None)
    assert isinstance(ended, SubmittedJob)
    if ended.record.is_running or ended.record.status == STARTING:
        raise click.UsageError(f'job "{ended.name}" is {ended.record.status}; stop it first')
    try:
        remove_submission(ended.submission)
    except OSError as error:
        raise click.UsageError(f'job "{ended.name}" cannot be removed: {reason_of(error)}') from error


@jobs_command.command("checkpoint")
@click.argument("job")
@_directory
@_timeout
def checkpoint_job(job: str, directory: str | None, timeout: float) -> None:
    """Complete an epoch now. Prints its number, or nothing where no row has come yet."""
    recorded = _job(job, directory)
    with working(f'waiting for the answer of "{recorded.name}"'):
        epoch = recorded.checkpoint(timeout)
    if epoch is not None:
        click.echo(epoch)


@jobs_command.command("savepoint")
@click.argument("job")
@click.argument("path", required=False)
@_directory
@_timeout
def savepoint_job(job: str, path: str | None, directory: str | None, timeout: float) -> None:
    """Take a savepoint. Prints where it is; the job goes on."""
    recorded = _job(job, directory)
    with working(f'waiting for the answer of "{recorded.name}"'):
        savepoint_path = recorded.savepoint(path, timeout)
    click.echo(savepoint_path)


@jobs_command.command("checkpoints")
@click.argument("job", required=False)
@_directory
@_output
def list_checkpoints(job: str | None, directory: str | None, output: str) -> None:
    """List the epochs of jobs, newest first."""
    from sqlstream.results import Rows  # loaded when the command runs: help and errors stay fast
    from sqlstream.statements.jobs import CHECKPOINT_COLUMNS, checkpoint_rows

    jobs = _jobs(directory) if job is None else (_job(job, directory),)
    rows = [row for each in jobs for row in checkpoint_rows(each.name, each.checkpoints())]
    _print(Rows.of_text(CHECKPOINT_COLUMNS, rows), output)


def _jobs(directory: str | None) -> tuple[RecordedJob | SubmittedJob, ...]:
    """The jobs with checkpoints in a directory; by default those that the user has submitted."""
    from sqlstream.jobs import recorded_jobs  # loaded when the command runs: help and errors stay fast
    from sqlstream.jobs.checkpoints.storage import local_storage_at
    from sqlstream.jobs.records.submissions import submitted_jobs

    if directory is None:
        return submitted_jobs()
    require_text(directory, "--dir")
    try:
        here = local_storage_at(directory)
        if not directory.strip() or (here is not None and not here.root.is_dir()):
            there = here is not None and here.root.exists()
            raise click.UsageError(
                f'"{directory}" is no directory' if there else f'directory "{directory}" does not exist'
            )
    except (OSError, ValueError) as error:  # a path that is none
        raise click.UsageError(f'"{directory}" is no directory: {reason_of(error)}') from error
    return recorded_jobs(directory)


def _job(name: str, directory: str | None) -> RecordedJob | SubmittedJob:
    """The job of a name, in any case, or an id; a usage error where there is none."""
    from sqlstream.planner.suggestions import did_you_mean  # loaded when the command runs: help and errors stay fast

    jobs = _jobs(directory)
    for job in jobs:
        if name.casefold() in (job.name.casefold(), job.id.casefold()):
            return job
    none = "No job was submitted." if directory is None else f'There are no jobs in "{directory}".'
    hint = did_you_mean(name, [job.name for job in jobs], "jobs") or none
    raise click.UsageError(f'job "{name}" does not exist. {hint}')


def _print(rows: Rows, output: str) -> None:
    writer = writer_for(output, rows.columns, sys.stdout)
    writer.write(rows.fetchall())
    writer.close()
