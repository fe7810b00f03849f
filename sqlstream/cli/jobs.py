"""``sqlstream jobs``: the jobs with checkpoints in a directory, controlled from another process."""

from __future__ import annotations

import sys
import time
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli.options import require_text
from sqlstream.cli.output import working, writer_for
from sqlstream.cli.terminal import JOB_FAILED, OK
from sqlstream.jobs import RecordedJob, recorded_jobs
from sqlstream.jobs.checkpoints.storage import local_storage_at
from sqlstream.jobs.records.record import DAMAGED, LOST, to_text
from sqlstream.jobs.records.submissions import STARTING, SubmittedJob, remove_submission, submitted_jobs
from sqlstream.jobs.reports.plan_figures import FIGURES, Answer, LocalPage, PlanFigures, figures_of, page_of
from sqlstream.local_server import Access
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.statements.jobs import CHECKPOINT_COLUMNS, checkpoint_rows, job_rows, properties
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from sqlstream.console.editor import Editor
    from sqlstream.session import Session

NOT_YET = 1
"""The exit code for a job that is not in a state that is expected, and may come to it."""

_FAILED = ("FAILED", LOST, DAMAGED)
_LOOK_SECONDS, _RATE_SECONDS = 1.0, 15.0
"""How often a record is read for a page, and how long for one that is written once."""


def list_jobs(directory: str | None, output: str) -> None:
    """``sqlstream jobs``: lists jobs, oldest first."""
    _print(job_rows(job.record for job in _jobs(directory)), output)


def show_job(job: str, directory: str | None, output: str, record: bool, expected: tuple[str, ...]) -> int:
    """Prints the properties and the counts of a job. ``expected``: the states in which the exit code is 0."""
    shown = _job(job, directory)
    if record:
        click.echo(to_text(shown.record))
    else:
        _print(properties(shown.record, shown.notes), output)
    status = shown.record.status
    if not expected or status in expected:
        return OK
    click.echo(f'job "{shown.name}" is {status}, not {" or ".join(expected)}', err=True)
    return JOB_FAILED if status in _FAILED else NOT_YET


def show_plan(job: str, directory: str | None, port: int, path: str | None, token: str | None) -> None:
    """Serves a page that shows the plan of a job with live rates, and prints the page's address.

    ``path``: writes the page to this file instead.
    """
    # loaded when the command runs: help and errors stay fast
    shown = _job(job, directory)
    figures = PlanFigures(shown.record)
    if path is not None:
        _write_plan(figures, shown, path)
        return
    answer = partial(_answer_of, figures)
    page = LocalPage(port, answer, f"/ and /{FIGURES}", token)
    try:
        click.echo(page.address)
        sys.stdout.flush()
        while True:
            time.sleep(_LOOK_SECONDS)
            figures.take(shown.record_now())
    finally:
        page.close()


def _answer_of(figures: PlanFigures, path: str) -> Answer | None:
    match path.removeprefix("/"):
        case "":
            return page_of(figures)
        case name if name == FIGURES:
            return figures_of(figures)
    return None


def serve_jobs(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    directory: str | None,
    port: int,
    host: str,
    token: str | None,
    start_with: str | None,
    editor: bool,
) -> None:
    """Serves pages that show all jobs of a directory and take requests to them, and prints their address. Without a
    ``token`` one is made, and the address has it. ``editor``: there is an SQL editor, too, which knows what the
    scripts define.
    """
    # loaded when the command runs: help and errors stay fast
    from sqlstream.console.requests import Requests
    from sqlstream.console.server import Console, ConsoleServer
    from sqlstream.console.watching import Watcher

    if not editor and (files or statements):
        raise click.UsageError("files and -e are for the SQL editor: give --editor")
    _jobs(directory)  # a directory that does not exist
    access = Access(port, host) if token is None else Access(port, host, token)
    watcher = Watcher(submitted_jobs if directory is None else partial(recorded_jobs, directory))
    opened = _editor(files, statements, parameters, settings, master) if editor else None
    console = Console(watcher, Requests(start_with), directory or "submitted by the shell", opened)
    server = ConsoleServer(access, console)
    try:
        watcher.start()
        click.echo(server.url if token is not None else f"{server.url}/?token={access.token}")
        sys.stdout.flush()
        while True:
            time.sleep(_LOOK_SECONDS)
    finally:
        server.close()
        watcher.close()
        if opened is not None:
            opened.close()


def _editor(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
) -> Editor:
    """The editor, whose runs have what the scripts define. Raises the errors of these."""
    # sessions, which other commands of jobs do not need
    from sqlstream.analysis import Planner
    from sqlstream.cli.scripts import named, open_session, read_scripts
    from sqlstream.console.editor import Editor

    scripts = read_scripts(files, statements, parameters) if files or statements else []
    context = copy_context()  # of the command line, which threads of runs do not have: the profile

    def open_one() -> Session:
        session = context.copy().run(open_session, master, settings)
        for script in scripts:
            for _ in session.results(script.text):
                pass
        return session

    planner = Planner().with_session(open_session(master, settings))
    for script in scripts:
        with named(script, scripts):
            planner = planner.with_ddl(script.text)
    return Editor(open_one, planner)


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


def stop_job(
    job: str | None,
    directory: str | None,
    every: bool,
    savepoint: bool,
    savepoint_path: str | None,
    drain: bool,
    timeout: float,
) -> None:
    """Stops a job after its last complete micro-batch, and prints the path of the savepoint, if one was requested.

    ``every``: stops all jobs that run instead. ``timeout``: how long to wait for a job's answer, in seconds.
    """
    if every == (job is not None):
        raise click.UsageError("name a job, or give --all")
    if every and savepoint_path is not None:
        raise click.UsageError("--all takes each savepoint in its default place: give --savepoint")
    running = [each for each in _jobs(directory) if each.record.is_running] if job is None else [_job(job, directory)]
    for each in running:
        _stop(each, savepoint_path or savepoint, drain, timeout)


def _stop(recorded: RecordedJob | SubmittedJob, savepoint: str | bool, drain: bool, timeout: float) -> None:
    with working(f'waiting for the answer of "{recorded.name}"'):
        path = recorded.stop(savepoint=savepoint, drain=drain, timeout_s=timeout)
    if path is not None:
        click.echo(path)


def remove_job(job: str) -> None:
    """Removes the files of a submitted job that has ended: its script, its log, and its checkpoint unless that is in a
    directory given by the user.
    """
    # loaded when the command runs: help and errors stay fast
    ended = _job(job, None)
    assert isinstance(ended, SubmittedJob)
    if ended.record.is_running or ended.record.status == STARTING:
        raise click.UsageError(f'job "{ended.name}" is {ended.record.status}; stop it first')
    try:
        remove_submission(ended.submission)
    except OSError as error:
        raise click.UsageError(f'job "{ended.name}" cannot be removed: {reason_of(error)}') from error


def checkpoint_job(job: str, directory: str | None, timeout: float) -> None:
    """Makes a job complete an epoch now and prints its number; prints nothing if there were no new rows."""
    recorded = _job(job, directory)
    with working(f'waiting for the answer of "{recorded.name}"'):
        epoch = recorded.checkpoint(timeout)
    if epoch is not None:
        click.echo(epoch)


def savepoint_job(job: str, path: str | None, directory: str | None, timeout: float) -> None:
    """Takes a savepoint of a job, which continues, and prints its path."""
    recorded = _job(job, directory)
    with working(f'waiting for the answer of "{recorded.name}"'):
        savepoint_path = recorded.savepoint(path, timeout)
    click.echo(savepoint_path)


def list_checkpoints(job: str | None, directory: str | None, output: str) -> None:
    """Lists the epochs (checkpoints) of jobs, newest first."""
    jobs = _jobs(directory) if job is None else (_job(job, directory),)
    rows = [row for each in jobs for row in checkpoint_rows(each.name, each.checkpoints())]
    _print(Rows.of_text(CHECKPOINT_COLUMNS, rows), output)


def _jobs(directory: str | None) -> tuple[RecordedJob | SubmittedJob, ...]:
    """The jobs with checkpoints in a directory; by default those that the user has submitted."""
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
