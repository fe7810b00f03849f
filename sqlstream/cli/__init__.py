"""The command line."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence

import click

from sqlstream.cli.commands import COMMANDS
from sqlstream.cli.terminal import (
    BROKEN_PIPE,
    CANNOT_WRITE,
    INTERRUPTED,
    OK,
    exit_code,
    failure_of_output,
    give_up,
    open_streams,
    print_versions,
    tell,
)
from sqlstream.errors import SqlStreamError
from sqlstream.spark.not_installed import lack_of

_EPILOG = """\b
What takes over a second is told on standard error in a line that goes away, if that is a terminal.
Elsewhere it is not, so that logs and mails of cron stay short.

\b
Exit codes: 0 success, 1 the SQL is wrong, 2 the command is wrong, 3 a job failed,
70 a mistake in sqlstream, 74 the output cannot be written, 130 interrupted, 141 the reader of the output went away.

\b
Examples:
  sqlstream run tables.sql query.sql
  sqlstream run tables.sql -e "SELECT * FROM t" --output jsonl
  sqlstream check query.sql
"""


class _InOrder(click.Group):
    """Lists its commands in their order, not by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _print_version(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Print the versions, as the command ``version`` does."""
    if given:
        print_versions()
        context.exit()


@click.group(cls=_InOrder, commands=COMMANDS, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, expose_value=False, help="Show Python tracebacks.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the versions."
)
def commands() -> None:
    """Streaming SQL on Spark."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line, by default that of the process, and exits with its exit code."""
    open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(given)
    except BrokenPipeError:
        code = BROKEN_PIPE
    if code in (BROKEN_PIPE, CANNOT_WRITE):
        give_up(sys.stdout)
    _flush_messages()
    sys.exit(code)


def _flush_messages() -> None:
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        give_up(sys.stderr)


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code. Errors are printed to stderr, except BrokenPipeError, which is
    raised.
    """
    debug = "--debug" in arguments
    if not debug:
        _silence_logs()
    try:
        # Not commands.main, which would turn a broken pipe into exit code 1.
        with commands.make_context("sqlstream", arguments) as context:
            result = commands.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        with contextlib.suppress(OSError, ValueError):
            error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        tell("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except BaseException as error:  # functions of users may raise anything, SystemExit too
        if debug and not isinstance(error, SystemExit):
            raise
        error = lack_of(error) or error
        failure = failure_of_output(error)
        tell(_message(error) if failure is None else failure)
        return exit_code(error) if failure is None else CANNOT_WRITE
    return result if isinstance(result, int) else OK


def _silence_logs() -> None:
    """Add a log handler that drops everything: py4j logs a traceback for each call that Ctrl-C interrupts."""
    if not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())


def _message(error: BaseException) -> str:
    """The diagnostics of our errors; for all others a message that sqlstream has a bug."""
    if isinstance(getattr(error, "error", error), SqlStreamError):  # of one of several scripts
        return str(error)
    return f"internal error: {type(error).__name__}: {error}\nThis is a mistake in sqlstream; --debug shows where."
