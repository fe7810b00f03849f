"""What commands do to the terminal and the process: exit codes, standard streams."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from pathlib import Path
from typing import TextIO

import click.utils

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.version import versions

OK = 0
WRONG_SQL = 1
JOB_FAILED = 3
INTERNAL = 70  # this and the next as in sysexits.h
CANNOT_WRITE = 74
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as of any program whose reader goes away


def exit_code(error: BaseException) -> int:
    """Returns the exit code for an error: 3 for a failed job, 1 for wrong SQL or options, 70 for an unexpected
    error.
    """
    match getattr(error, "error", error):  # of one of several scripts
        case ExecutionError():
            return JOB_FAILED
        case SqlStreamError():
            return WRONG_SQL
    return INTERNAL


def print_versions() -> None:
    """Prints the versions of sqlstream, Python and important packages."""
    for name, version in versions().items():
        click.utils.echo(f"{name:<9} {version}")


# --- Standard streams that are closed, full, or have lost their reader -----------------------------------------


UNWRITTEN_OUTPUT = "SS591"
_PACKAGE = Path(__file__).resolve().parents[1]
_BROKEN = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG})


class ClosedOutput(io.TextIOBase):
    """Replaces standard output where the process has none. Writing raises an error, so that results are not lost
    silently.
    """

    def write(self, text: str) -> int:
        """Raises OSError, as writing to a closed stream does."""
        raise OSError(errno.EBADF, "it is closed")


def open_streams() -> None:
    """Opens standard streams that the process was started without. Otherwise the next opened file would get their
    descriptors, and with them Java's messages.

    A missing standard input remains None, because it is not the same as an empty one.
    """
    before = -1
    while before < 2:
        before = os.open(os.devnull, os.O_RDWR)
    os.close(before)
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def tell(text: str) -> None:
    """Writes a line to standard error. Errors of writing are ignored."""
    with contextlib.suppress(OSError, ValueError):
        click.utils.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Returns the text with bytes that are not UTF-8, such as in file names, shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure_of_output(error: BaseException) -> str | None:
    """Returns the message SS591 if the error says that standard output cannot be written (full or closed), else
    None.
    """
    if isinstance(error, OSError) and error.errno in _BROKEN and (_is_broken(sys.stdout) or _comes_of_writing(error)):
        return _message(error.strerror or str(error))
    return None


def _message(reason: str) -> str:
    return (
        f"{UNWRITTEN_OUTPUT}: standard output cannot be written: {reason}\n"
        "HINT: Results that were not written are lost; send them to another file, and run the command again."
    )


def _comes_of_writing(error: OSError) -> bool:
    """True where the error was raised by code that writes results."""
    writer = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = writer == click.utils.__file__ or Path(writer).resolve().is_relative_to(_PACKAGE)
    return ours and error.filename is None


def _is_broken(stream: TextIO) -> bool:
    try:
        stream.flush()
    except (OSError, ValueError):
        return True
    return False


def give_up(stream: TextIO | None) -> None:
    """Redirects a broken stream to /dev/null, because Python flushes it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
