"""Runs the scripts of a command line in one session: rows to stdout, everything else to stderr."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from sqlstream.cli.check import check_scripts, warnings_of_scripts
from sqlstream.cli.output import StatusLine, plain_text, working, writer_for
from sqlstream.cli.progress import JobStatus, is_shown_as_table, line_of, total, write_table, written
from sqlstream.cli.scripts import Script, open_session, read_scripts
from sqlstream.cli.terminal import INTERRUPTED, OK, WRONG_SQL
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.grammar.nodes import Explain, Set, Show, Statement
from sqlstream.jobs import Job, JobState
from sqlstream.query import Query, shown_rows_of
from sqlstream.results import Rows
from sqlstream.secrets import shown_script
from sqlstream.session import Session
from sqlstream.spark.startup import SparkStart
from sqlstream.statements.registry import needs_spark, starts_job
from sqlstream.statements.statement import OK as DEFINED

if TYPE_CHECKING:
    from sqlstream.batch.run import BatchRun


# --- Messages while Spark or a job starts ----------------------------------------------------------------------


def wait_for_spark(start: SparkStart, shown: bool = True) -> None:
    """Waits until Spark has started. ``shown``: the wait is shown on a terminal, followed once by advice how to make
    it shorter.
    """
    with working("starting Spark", shown):
        start.wait()
    if shown and sys.stderr.isatty() and (advice := start.advice()):
        sys.stderr.write(advice + "\n")
        sys.stderr.flush()


def label(statement: Statement) -> str:
    """Returns what the status line says while a statement is being started."""
    if isinstance(statement, nodes.Query):
        return "starting the query"
    return "starting the job" if starts_job(statement) else shown_script(to_sql(statement)).partition("\n")[0]


# --- Progress of running jobs: in place on a terminal, elsewhere in new lines ----------------------------------


_LINE_SECONDS = 2.0


class View:
    """Shows the progress of jobs until ``close``: as a status line on a terminal, otherwise as new lines every two
    seconds.
    """

    def __init__(self, jobs: Sequence[Job | BatchRun]) -> None:
        self._jobs = jobs
        self._begin = time.monotonic()
        self._closed = Event()
        self._shown = [JobStatus(job, self._begin) for job in jobs]
        self._status = StatusLine(lambda: "\n".join(status.text() for status in self._shown), since=0)
        self._status.start()
        if not sys.stderr.isatty():
            Thread(target=self._lines, daemon=True).start()

    def hidden(self) -> AbstractContextManager[None]:
        """A context manager that hides the status line while rows are written to the same terminal."""
        return self._status.hidden()

    def close(self) -> None:
        """Stops showing progress and prints the totals of each job."""
        self._closed.set()
        self._status.close()
        seconds = time.monotonic() - self._begin
        totals = "\n".join(total(job, seconds) for job in self._jobs)
        sys.stderr.write(totals + "\n")
        sys.stderr.flush()

    def _lines(self) -> None:
        while not self._closed.wait(_LINE_SECONDS):
            seconds = time.monotonic() - self._begin
            sys.stderr.write("\n".join(line_of(job, seconds) for job in self._jobs) + "\n")
            sys.stderr.flush()


_WAIT_SECONDS = 0.2


def is_text(statement: Statement) -> bool:
    """True where the result of a statement is a text, such as a plan, and not rows of a table."""
    return isinstance(statement, Explain) or (isinstance(statement, Show) and statement.what.startswith("CREATE "))


class Terminated(KeyboardInterrupt):
    """Raised in the main thread where somebody asks the process to end with SIGTERM."""


@contextmanager
def terminated() -> Iterator[None]:
    """A context manager in which SIGTERM raises ``Terminated`` once; what follows it is left to finish."""

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Execution:
    """Runs scripts and prints their results. ``output``: one of ``output.FORMATS``. ``progress``: also show the
    progress of jobs. ``quiet``: print no messages, not even how many rows an INSERT wrote.
    """

    def __init__(self, session: Session, output: str, progress: bool, quiet: bool = False) -> None:
        self._session = session
        self._output = output
        self._progress = progress
        self._quiet = quiet
        self._start: SparkStart | None = None
        self._background: list[Job] = []

    def run(self, scripts: Sequence[Script]) -> int:
        """Checks all scripts, then runs them, and returns the exit code. If one script has errors, none is run."""
        wrong = check_scripts(scripts, self._session)
        for name, diagnostic in wrong:
            click.echo(diagnostic.render() if len(scripts) == 1 else f"{name}: {diagnostic.render()}", err=True)
        if wrong:
            return WRONG_SQL
        for name, diagnostic in warnings_of_scripts(scripts):
            click.echo(diagnostic.render() if len(scripts) == 1 else f"{name}: {diagnostic.render()}", err=True)
        try:
            for script in scripts:
                for statement in parse_script(script.text):
                    self._statement(statement, script.text)
            self._wait(self._background)
        except Terminated:
            return self._terminated()
        except KeyboardInterrupt:
            return self._interrupted()
        return OK

    def _statement(self, statement: Statement, text: str) -> None:
        if needs_spark(statement):
            self._start_spark()
        try:
            with working(label(statement), self._progress):
                result = self._session.execute(statement, text)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__
        match result:
            case Query():
                self._print_query(result)
            case Job() if result.is_bounded:
                self._wait([result])
                if not (self._progress or self._quiet):  # progress ends with the totals
                    click.echo(written(result), err=True)
            case Job():
                self._background.append(result)
            case Rows():
                self._print_rows(statement, result)

    def _start_spark(self) -> None:
        """Start Spark, if it has not been, and wait for it."""
        if self._start is None:
            self._start = SparkStart(self._session)
        wait_for_spark(self._start, self._progress)

    def _print_query(self, query: Query) -> None:
        if is_shown_as_table(query, self._session.workspace.settings):
            writer = writer_for(self._output, query.columns[1:], sys.stdout)
            write_table(query, writer, sys.stdout)
        else:
            self._print_rows_of(query)
        if query.job.waiting is not None and not (self._progress or self._quiet):
            click.echo(query.job.waiting, err=True)

    def _print_rows_of(self, query: Query) -> None:
        writer = writer_for(self._output, query.columns, sys.stdout)
        view = View([query.job]) if self._progress else None
        try:
            for table in query.batches():
                if view is None or not sys.stdout.isatty():
                    writer.write(shown_rows_of(table))
                else:
                    with view.hidden():
                        writer.write(shown_rows_of(table))
        finally:
            if view is not None:
                view.close()
        writer.close()

    def _print_rows(self, statement: Statement, rows: Rows) -> None:
        """Print the rows of SHOW and the like; a definition that succeeds prints nothing."""
        if rows is DEFINED:
            return
        if isinstance(statement, Set) and statement.key is not None:  # a setting that changes nothing, and why
            if not self._quiet:
                click.echo(f"{statement.key}: {str(next(iter(rows))[0]).removeprefix('OK. ')}", err=True)
            return
        if self._output == "table" and is_text(statement):
            click.echo(plain_text(rows))
        else:
            writer = writer_for(self._output, rows.columns, sys.stdout)
            writer.write(rows.shown())
            writer.close()

    def _wait(self, jobs: Sequence[Job]) -> None:
        """Wait until all jobs have ended; raises the first failure."""
        if not jobs:
            return
        view = View(jobs) if self._progress else None
        try:
            while any(not job.wait(_WAIT_SECONDS) for job in jobs):
                pass
        finally:
            if view is not None:
                view.close()

    def _terminated(self) -> int:
        """Stop the running jobs with a savepoint each, and print where it is; without one where none is possible."""
        for job in self._running():
            try:
                click.echo(f'job "{job.name}" stopped, savepoint: {job.stop(savepoint=True)}', err=True)
            except SqlStreamError as error:
                click.echo(f'job "{job.name}" stopped without a savepoint: {error.diagnostic.message}', err=True)
                job.stop()
        return OK

    def _running(self) -> list[Job]:
        return [job for job in self._session.jobs if job.state in (JobState.RUNNING, JobState.RESTARTING)]

    def _interrupted(self) -> int:
        """Stop the running jobs after their last complete micro-batch, and print how to continue them."""
        running = self._running()
        kept = self._session.workspace.settings["execution.checkpointing.dir"] is not None
        for job in running:
            job.stop()
            click.echo(f'job "{job.name}" stopped after its last complete micro-batch', err=True)
            if kept and job.record.life.kept:
                click.echo(f"  checkpoint: {job.checkpoint_path}; run it again to go on from there", err=True)
        if running and not kept:
            click.echo("  no checkpoint is kept; --set execution.checkpointing.dir=DIR keeps one", err=True)
        return INTERRUPTED


def tell_metrics(session: Session) -> None:
    """Opens the metrics server of the settings before Spark starts, and prints its address to stderr."""
    url = session.open_metrics()
    if url is not None:
        click.echo(f"metrics: {url}/metrics", err=True)


# --- sqlstream run ---------------------------------------------------------------------------------------------


def run_command(
    files: tuple[str, ...],
    statements: tuple[str, ...],
    parameters: tuple[str, ...],
    settings: tuple[str, ...],
    master: str | None,
    output: str,
    progress: bool | None,
    savepoint_on_term: bool,
) -> int:
    """``sqlstream run``: runs scripts, files before those of -e; the file "-" is standard input.

    ``savepoint_on_term``: SIGTERM stops the jobs with a savepoint each.
    """
    scripts = read_scripts(files, statements, parameters)
    shown = sys.stderr.isatty() if progress is None else progress
    with terminated() if savepoint_on_term else nullcontext(), open_session(master, settings) as session:
        tell_metrics(session)
        return Execution(session, output, shown, quiet=progress is False).run(scripts)
