"""The shell's loop: statements in, rows out, until Ctrl-D."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession

from sqlstream.cli.execution import is_text
from sqlstream.cli.output import TableWriter, plain_text
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import Statement
from sqlstream.jobs import Job, JobState
from sqlstream.planner.catalog import RowKind
from sqlstream.results import Query, Rows, rows_of
from sqlstream.session import Session
from sqlstream.shell.commands import HELP, Command, parse_command
from sqlstream.shell.statements import is_blank, split
from sqlstream.startup import SparkStart, needs_spark

_SMALLEST_PAGE = 10


class Shell:
    """Runs statements one after the other in one session. ``failures`` counts those that went wrong."""

    def __init__(self, session: Session, out: TextIO | None = None) -> None:
        self._session = session
        self._out = out or sys.stdout
        self._start = SparkStart(session)
        self._interactive = False
        self.failures = 0

    # --- reading ---

    def interact(self, editor: PromptSession[str]) -> None:
        """Read from the terminal until Ctrl-D or quit."""
        self._interactive = True
        self._say('sqlstream: statements end with ";". "help" tells more, Ctrl-D leaves.')
        while True:
            try:
                text = editor.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not self.run(text):
                return

    def read(self, source: TextIO) -> None:
        """Run what is piped in, each statement as soon as it is complete; a rest without ``;`` at the end counts."""
        pending = ""
        for line in source:
            pending += line
            if parse_command(pending):
                if not self.run(pending):
                    return
                pending = ""
            statements, pending = split(pending)
            for statement in statements:
                self.run(statement)
        if not is_blank(pending):
            self.run(pending)

    def run(self, text: str) -> bool:
        """Run a command of the shell or statements; False where the shell is to end."""
        command = parse_command(text)
        try:
            if command is not None:
                return self._command(command)
            self._statements(text)
        except SqlStreamError as error:
            self._fail(str(error.with_source(text)))
        except KeyboardInterrupt:
            self._say("interrupted")
        return True

    # --- commands ---

    def _command(self, command: Command) -> bool:
        match command.name:
            case "help":
                self._say(HELP)
            case "source":
                self._source(Path(command.argument).expanduser())
        return command.name != "quit"

    def _source(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            return self._fail(f'cannot read "{path}": {error.strerror}')
        except UnicodeDecodeError:
            return self._fail(f'cannot read "{path}": it is not UTF-8 text')
        try:
            self._statements(text)
        except SqlStreamError as error:
            self._fail(str(error.with_source(text)))

    # --- statements ---

    def _statements(self, text: str) -> None:
        """Nothing of the text runs where any of it is wrong; that shows without waiting for Spark."""
        if wrong := self._session.check(text):
            raise SqlStreamError.of(wrong)
        for statement in parse_script(text):
            if needs_spark(statement):
                self._wait_for_spark()
            self._show(statement, self._session.execute(statement, text))

    def _wait_for_spark(self) -> None:
        if self._interactive and self._start.running:
            self._say("Spark is starting …")
        self._start.wait()

    def _show(self, statement: Statement, result: Rows | Query | Job) -> None:
        match result:
            case Query():
                self._show_query(result)
            case Job():
                self._show_job(result)
            case Rows() if is_text(statement) or result.columns == ("result",):
                self._say(plain_text(result))
            case Rows():
                writer = TableWriter(result.columns, self._out)
                writer.write(result.fetchall())
                writer.close()

    def _show_query(self, query: Query) -> None:
        """Rows with their kinds as they come, a page of each micro-batch; Ctrl-C stops the query."""
        writer = TableWriter(("op", *query.columns), self._out)
        kind = RowKind.INSERT.value  # plans with other kinds are not executed yet
        try:
            for table in query.batches():
                page = table.slice(0, self._page())
                writer.write([(kind, *row) for row in rows_of(page)])
                writer.skip(table.num_rows - page.num_rows)
        except KeyboardInterrupt:
            query.stop()
            self._say("stopped")
        writer.close()

    def _show_job(self, job: Job) -> None:
        """A bounded INSERT is waited for, so that its result can be read next; others go on in the background."""
        if not job.is_bounded:
            return self._say(f'job "{job.name}" runs in the background; it stops when the shell ends')
        try:
            while not job.wait(0.2):
                pass
        except KeyboardInterrupt:
            job.stop()
            return self._say(f'job "{job.name}" stopped')
        progress = job.progress()
        return self._say(f"{progress.rows_out:,} rows written")

    def _page(self) -> int:
        return max(_SMALLEST_PAGE, shutil.get_terminal_size().lines - 6)

    # --- words ---

    def _say(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _fail(self, text: str) -> None:
        self.failures += 1
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Tell of background jobs that failed, then stop all."""
        for job in self._session.jobs:
            if job.state is JobState.FAILED and job.exception is not None:
                self._fail(str(job.exception))
        self._session.close()
