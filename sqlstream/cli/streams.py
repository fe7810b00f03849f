"""Standard input, output and error of a command: closed, full, or without a reader."""

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

CANNOT_WRITE = "SS591"
_PACKAGE = Path(__file__).resolve().parents[1]
_BROKEN = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG})


class ClosedOutput(io.TextIOBase):
    """Standard output of a process that has none: results may not vanish without a word."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def open_streams() -> None:
    """A descriptor that nobody has opened would be that of the next file, in which messages of Java would land then.

    Standard input is left missing where it is: no text is no empty one.
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
    """Write a line to standard error; nobody can be told where that cannot be written either."""
    with contextlib.suppress(OSError, ValueError):
        click.utils.echo(printable(text), err=True)


def printable(text: str) -> str:
    """Bytes of arguments that are no text, such as those of the names of files, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure_of_output(error: BaseException) -> str | None:
    """What to say of an error of standard output: its disk is full, or it is closed. None for any other error."""
    if isinstance(error, OSError) and error.errno in _BROKEN and (_is_broken(sys.stdout) or _comes_of_writing(error)):
        return _message(error.strerror or str(error))
    return None


def _message(reason: str) -> str:
    return (
        f"{CANNOT_WRITE}: standard output cannot be written: {reason}\n"
        "HINT: Results that were not written are lost; send them to another file, and run the command again."
    )


def _comes_of_writing(error: OSError) -> bool:
    """True where those failed that write results, though nothing waits to be flushed; files are written elsewhere."""
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
    """Python flushes a stream once more on its way out; that must not fail again."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
