"""The shell's loop: statements in, rows out, until Ctrl-D."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TextIO

import click
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import clear

from sqlstream.batch import Batch, chosen
from sqlstream.cli.execution import label, wait_for_spark
from sqlstream.cli.options import FORMATS
from sqlstream.cli.output import working
from sqlstream.cli.scripts import with_parameters
from sqlstream.errors import ConnectorError, Span, SqlStreamError
from sqlstream.grammar import nodes, parse_script, to_sql
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.quoting import quote_string
from sqlstream.jobs import Job
from sqlstream.jobs.records.submissions import submitted_jobs
from sqlstream.planner.lineage import lineage
from sqlstream.planner.nodes import StatementSet
from sqlstream.query import Query
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.settings import JOBS_OF_SHELL, RESULT_MODE
from sqlstream.shell import GREETING, UNREADABLE_FILE
from sqlstream.shell.chart import Chart, Plot, positions
from sqlstream.shell.commands import (
    Command,
    ShellEntry,
    help_text,
    is_blank,
    joined,
    meaning,
    rest_of,
    split,
    unquoted,
    wrong_command,
)
from sqlstream.shell.completer import SqlCompleter
from sqlstream.shell.display import Display
from sqlstream.shell.failures import TAKE_IT, BackgroundJobs, mended
from sqlstream.shell.interrupts import Stopped, unbroken
from sqlstream.shell.line_editor import LineEditor
from sqlstream.shell.showing import Showing
from sqlstream.shell.submitting import Submitted, Submitter, running, submitted_text
from sqlstream.shell.warm_up import WarmUp
from sqlstream.spark.startup import SparkStart
from sqlstream.statements.checking import checked_script
from sqlstream.statements.registry import define, needs_spark
from sqlstream.udfs.texts import reason_of
from sqlstream.vocabulary import SessionVocabulary
from sqlstream.workspace import Workspace

# --- The command lineage ---------------------------------------------------------------------------------------


COLUMNS = ("column", "columns of tables", "made of")


def lineage_rows(text: str, workspace: Workspace) -> list[tuple[str, ...]]:
    """The lineage of one query or INSERT: a tuple for each result column, with its name, the source columns separated
    by commas, and its expression. ValueError with a message for other statements, and for queries that run as a batch.
    """
    (statement,) = parse_script(text)
    if not isinstance(statement, nodes.Query | nodes.Insert):
        raise ValueError("needs a query or an INSERT")
    plan = chosen(statement, workspace)
    if isinstance(plan, Batch | StatementSet):
        raise ValueError("needs a stream, and this query runs over finished data")
    return [(line.column, ", ".join(line.sources), line.expression) for line in lineage(plan)]


_WATCH_SECONDS = "2"
_SECONDS = re.compile(r"\d{1,6}(\.\d+)?")


def lines_of(source: BinaryIO) -> Iterator[str]:
    """The lines of piped input. ConnectorError SS544 for a line that is not UTF-8 text."""
    for number, line in enumerate(source, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            hint = "Save the script as UTF-8; what stands before that line has run."
            message = f"cannot read standard input: line {number} is not UTF-8 text"
            raise ConnectorError(UNREADABLE_FILE, message, hint=hint) from error


def _unreadable(name: str, reason: str) -> ConnectorError:
    return ConnectorError(UNREADABLE_FILE, f'cannot read "{name}": {reason}')


class Shell:
    """Runs statements and commands in one session. ``failures`` counts those that failed.

    ``style`` is one of ``cli.output.FORMATS``. ``parameters`` are the values of ``${NAME}``. ``start`` is the start of
    Spark in the background, None if it has not begun.
    """

    def __init__(
        self,
        session: Session,
        out: TextIO | None = None,
        style: str = "table",
        parameters: Mapping[str, str] | None = None,
        start: SparkStart | None = None,
    ) -> None:
        self._parameters = parameters or {}
        self._session = session
        self._session.also_known = submitted_jobs
        self._display = Display(out or sys.stdout, style)
        self._start = start or SparkStart(session)
        self._submitter = Submitter(session, self._start.environment)
        self.warm_up = WarmUp(session, self._start)
        self._background = BackgroundJobs(self._fail)
        self._showing = Showing(session, self._display, self._background)
        self._prompting = self._vertical = False
        self._sources: list[Path] = []
        self._began = 0.0
        self._last = self._last_query = self._last_insert = ""
        self.failures = 0
        self.mended: str | None = None
        """What was typed last, with the one thing that its error suggests."""

    @cached_property
    def completer(self) -> SqlCompleter:
        """The completer of statements with the names of the session."""
        return SqlCompleter(SessionVocabulary(self._session.workspace))

    # --- reading ---

    def read_bytes(self, source: BinaryIO) -> None:
        """Run the statements of piped input."""
        self.read(lines_of(source))

    def interact(self, editor: LineEditor, typed: str | None = None) -> None:
        """Reads from the terminal until Ctrl-D or quit. Failures of background jobs are printed above the prompt.

        ``typed`` is what the user has typed at an earlier prompt, before the shell was ready.
        """
        if typed is None:
            self._say(GREETING)
        self._background.watch(lambda: self._prompting)
        self._showing.keys = editor.app.input
        goes_on = True
        while goes_on:
            try:
                self._background.tell()
                text, typed = self._prompted(editor) if typed is None else typed, None
                goes_on = text is not None and self.run(text)
            except KeyboardInterrupt:  # wherever it comes: it ends no shell
                continue

    def _prompted(self, editor: LineEditor) -> str | None:
        """The text that was typed; None for Ctrl-D."""
        if self.mended is not None:
            self._tell(TAKE_IT)
        editor.offered = self.mended
        with patch_stdout(raw=True):
            self._prompting = True
            try:
                return editor.prompt()
            except EOFError:
                return None
            finally:
                self._prompting = False

    def read(self, source: Iterable[str]) -> None:
        """Run piped input, each statement as soon as it is complete; a rest without ``;`` at the end runs, too.

        A line that cannot be read ends the shell, because later statements may need it.
        """
        text, done = "", 0
        try:
            for line in source:
                text += line
                parts, done = split(text, done)
                if not self._run(parts):
                    return None
        except ConnectorError as error:  # of the source: those of statements have been told
            return self._fail(str(error))
        self._run(rest_of(text, done))
        return None

    def run(self, text: str) -> bool:
        """Runs the commands and statements of a text. Returns False if one of them ends the shell."""
        parts, rest = split(text)
        return self._run(joined([*parts, *rest_of(text, rest)]))

    def run_file(self, name: str) -> None:
        """Run the statements and commands of a file."""
        try:
            self._source(name)
        except SqlStreamError as error:
            self._fail(str(error))

    def _run(self, parts: Iterable[ShellEntry]) -> bool:
        for entry in parts:
            self.mended = None
            try:
                if entry.command is None:
                    self._statements(entry.piece)
                elif not self._command(entry):
                    return False
            except SqlStreamError as error:
                located = entry.located(error)
                self._fail(str(located))
                self.mended = mended(located)
            except Stopped:
                return True  # what stands behind it was typed with it
            except KeyboardInterrupt:
                self._say("interrupted")
            self._background.tell()
        return True

    # --- commands ---

    def _command(self, entry: ShellEntry) -> bool:
        assert entry.command is not None
        match meaning(entry.command, Span(0, len(entry.piece.rstrip()))):
            case str(statement):
                self._statements(statement)
            case Command(name="quit"):
                return False
            case Command() as command:
                self._own(command)
        return True

    def _own(self, command: Command) -> None:
        """Carry out a command that stands for no statement."""
        actions: dict[str, Callable[[Command], None]] = {
            "help": lambda _: self._display.show_text(help_text() + "\n"),
            "clear": lambda _: self._clear(),
            "source": lambda command: self._source(command.argument),
            "edit": lambda _: self._edit(),
            "again": lambda command: self._statements(self._last_of(command)),
            "watch": self._watch,
            "explain": self._explain,
            "submit": self._submit,
            "plot": self._plot,
            "set": self._set,
            "mode": self._mode,
            "pset": self._pset,
            "lineage": self._lineage,
            "expanded": lambda _: self._say(self._display.toggle_expanded()),
            "timing": lambda _: self._say(self._display.toggle_timing()),
            "output": lambda command: self._write_into(command.argument),
        }
        actions[command.name](command)

    def _clear(self) -> None:
        """Clear the screen, if there is one."""
        if self._display.is_live:
            clear()

    def _set(self, command: Command) -> None:
        key, _, value = command.argument.partition(" ")
        if key == "pager":
            self._pset(command)
        elif value.strip():
            self._set_to(unquoted(key), unquoted(value.strip()))
        else:
            raise wrong_command(command, "takes KEY VALUE")

    def _mode(self, command: Command) -> None:
        if command.argument == "vertical":
            self._display.expanded = False
            self._say(self._display.toggle_expanded())
            self._vertical = True
            return
        self._set_mode(command.argument)

    def _set_mode(self, mode: str) -> None:
        self._set_to(RESULT_MODE, mode)
        if self._vertical:  # by the command mode, which names one mode; \x holds until the next \x
            self._vertical = self._display.expanded = False

    def _pset(self, command: Command) -> None:
        """Change how results are shown, as in psql."""
        name, _, value = command.argument.partition(" ")
        match name, value.strip():
            case "pager", "" | "on" | "off" as word:
                self._say(self._display.toggle_pager(None if not word else word == "on"))
            case "format", style if style in FORMATS:
                self._say(self._display.use_style(style))
            case "result-mode", mode if mode:
                self._set_mode(mode)
            case _:
                formats = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
                what = f"pager, pager on, pager off, result-mode table or changelog, or format {formats}"
                raise wrong_command(command, f"takes {what}")

    def _show_rows(self, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        self._display.show_text(self._display.as_text(names, rows))

    def _lineage(self, command: Command) -> None:
        """Show the lineage of the last query or INSERT, or of a view."""
        text = f"SELECT * FROM {command.argument}" if command.argument else self._last_query
        if not text:
            raise wrong_command(command, "needs a query before it, or the name of a view")
        if wrong := self._session.check(text):
            raise SqlStreamError.of(wrong)
        try:
            self._show_rows(COLUMNS, lineage_rows(text, self._session.workspace))
        except ValueError as error:
            raise wrong_command(command, str(error)) from None

    def _set_to(self, key: str, value: str) -> None:
        self._statements(f"SET {quote_string(key)} = {quote_string(value)}")

    def _write_into(self, path: str) -> None:
        try:
            self._display.write_into(path)
        except OSError as error:
            raise ConnectorError(UNREADABLE_FILE, f'cannot write "{path}": {reason_of(error)}') from error

    def _explain(self, command: Command) -> None:
        if not self._last_query:
            raise wrong_command(command, "needs a query before it")
        self._statements(f"EXPLAIN {self._last_query}")

    def _submit(self, command: Command) -> None:
        """Run the INSERT of the command, or the last one, in its own process."""
        text = command.argument or self._last_insert
        if not text:
            raise wrong_command(command, "needs an INSERT behind it, or one that ran before")
        if wrong := self._session.check(text):
            raise SqlStreamError.of(wrong)
        (statement,) = parse_script(text)
        if not isinstance(statement, Submitted):
            raise wrong_command(command, "takes an INSERT, a statement set or a materialized view")
        if not command.argument and (job := running(self._session.jobs, statement)) is not None:
            raise wrong_command(command, f'would run the INSERT twice: job "{job.name}" runs here. Stop it first')
        self._last_insert = to_sql(statement)
        try:
            self._start_alone(statement)
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__
        self._define_alone(statement, text)

    def _start_alone(self, statement: Submitted) -> None:
        submission = self._submitter.submit(statement)
        try:
            with working(f'starting job "{submission.job}" as a process of its own'):
                job = self._submitter.wait(submission)
        except KeyboardInterrupt:
            self._background.add_submitted(submission)
            return self._say(f'job "{submission.job}" goes on starting; its log is "{submission.log}"')
        if job.record.is_running:
            self._background.add_submitted(submission)
        return self._say(submitted_text(job))

    def _define_alone(self, statement: Submitted, text: str) -> None:
        """Define a view for the statements that follow; its job runs in another process."""
        if isinstance(statement, nodes.CreateMaterializedView):
            define(statement, self._session.workspace, text)
            self._submitter.remember(statement)

    def _plot(self, command: Command) -> None:
        """Run the last query again and show its result as a chart."""
        plot = Plot.of(command.argument)
        if plot is None or not self._last_query:
            raise wrong_command(command, "takes COLUMN [BY COLUMN]" if plot is None else "needs a query before it")
        (statement,) = parse_script(self._last_query)
        if not isinstance(statement, nodes.Query):
            raise wrong_command(command, "needs a query whose rows are shown, and the last one was an INSERT")
        wait_for_spark(self._start)  # which alone knows the columns of some queries
        with self.warm_up.held():
            try:
                positions(plot, self._session.columns_of(self._last_query))
            except ValueError as error:
                raise wrong_command(command, str(error)) from None
            query = self._executed(statement, self._last_query)
            assert isinstance(query, Query)
            self._showing.draw(query, Chart.of(query, plot))

    def _last_of(self, command: Command) -> str:
        if not self._last:
            raise wrong_command(command, "needs statements before it")
        return self._last

    def _edit(self) -> None:
        """Edit the last statements in the user's editor and run the saved text."""
        try:
            edited = click.edit(self._last, extension=".sql", require_save=True)
        except click.ClickException as error:
            raise ConnectorError(UNREADABLE_FILE, f"the editor failed: {error.message}") from error
        if edited is not None and not is_blank(edited):
            self._say(edited.rstrip())
            self.run(edited)

    def _watch(self, command: Command) -> None:
        """Run the last statements repeatedly, until Ctrl-C."""
        text = self._last_of(command)
        if (match := _SECONDS.fullmatch(command.argument or _WATCH_SECONDS)) is None:
            raise wrong_command(command, f'takes a number of seconds, not "{command.argument}"')
        pause = float(match[0])
        while True:
            self._say(f"{datetime.now():%Y-%m-%d %H:%M:%S}, every {pause:g} s:")
            self._statements(text)
            time.sleep(max(pause, 0.1))

    def _source(self, name: str) -> None:
        """Run a file, whose commands may name further files; quit in it ends the file."""
        try:
            path = Path(name).expanduser().resolve()
            if path in self._sources:
                raise _unreadable(name, "it is being read already")
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise _unreadable(name, "it is not UTF-8 text") from None
        except (OSError, ValueError, RuntimeError) as error:  # a path that is none, a user that there is not
            raise _unreadable(name, reason_of(error)) from error
        self._sources.append(path)
        self.run(text)
        self._sources.pop()

    # --- statements ---

    def _statements(self, text: str) -> None:
        """Run the statements of a text. If one is wrong none of them runs, which does not need Spark."""
        text = with_parameters(text, self._parameters)
        script = checked_script(text, self._session.workspace)
        if script.mistakes:
            raise SqlStreamError.of(script.mistakes)
        for warning in script.warnings:
            sys.stderr.write(warning.render() + "\n")
        self._last = text
        try:
            for statement in script.statements:
                began = time.monotonic()
                self._statement(statement, text)
                if self._display.timing:
                    self._tell(self._display.took(began))
        except SqlStreamError as error:
            raise error.with_source(text) from error.__cause__

    def _statement(self, statement: Statement, text: str) -> None:
        if isinstance(statement, nodes.Query | nodes.Insert):
            self._last_query = to_sql(statement)
        if isinstance(statement, Submitted):
            self._last_insert = to_sql(statement)
        if isinstance(statement, Submitted) and self._session.workspace.settings[JOBS_OF_SHELL] == "detached":
            self._start_alone(statement)
            self._define_alone(statement, text)
            return
        with self.warm_up.held() if needs_spark(statement) else nullcontext():
            self._showing.show(statement, self._executed(statement, text), self._began)
        self._submitter.remember(statement)

    def _executed(self, statement: Statement, text: str) -> Rows | Query | Job:
        self._began = time.monotonic()
        if needs_spark(statement):
            wait_for_spark(self._start)
        before = self._session.jobs
        try:
            with working(label(statement), since=self._began):
                return self._session.execute(statement, text)
        except KeyboardInterrupt:
            with unbroken():  # nobody would see a job that has started nevertheless
                for job in self._session.jobs[len(before) :]:
                    job.stop()
            raise

    # --- words ---

    def _say(self, text: str) -> None:
        self._display.say(text)

    def _tell(self, text: str) -> None:
        """Print a message that is no result."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def _fail(self, text: str) -> None:
        self.failures += 1
        self._tell(text)

    def close(self) -> None:
        """Report failures of background jobs, then stop everything."""
        self.warm_up.close()
        self._background.end()
        self._background.tell()
        self._submitter.close()
        self._display.close()
        with working("stopping"):
            self._session.close()
