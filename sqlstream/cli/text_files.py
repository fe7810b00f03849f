"""Files that a command line names, read as text."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import click

from sqlstream.udfs.texts import is_text, reason_of

_ENCODING = "utf-8-sig"


def read_text(name: str) -> str:
    """The text of a file, or of standard input (``-``), without a byte order mark; a usage error where it has none."""
    if name == "-" and sys.stdin is None:
        raise _unreadable(name, "it is closed")
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(name, reason_of(error)) from error
    try:
        text = data.decode(_ENCODING)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1  # a byte order mark is no part of it
        raise _unreadable(name, f"line {line} is not UTF-8 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def rewrite(name: str, text: str) -> None:
    """Put a text in place of a file's; it stays as it is where that cannot be. A usage error tells why."""
    file = Path(name).resolve()
    beside = file.with_name(f".{file.name[:200]}.{os.getpid()}")
    try:
        if not file.is_file():
            raise _unwritable(name, "it is no file")
        if not os.access(file, os.W_OK):  # a file takes the place of one that is for reading only, too
            raise _unwritable(name, os.strerror(errno.EACCES))
        try:
            beside.write_text(text, encoding="utf-8")
            shutil.copymode(file, beside)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _unwritable(name, reason_of(error)) from error


def require_writable(file: Path) -> None:
    """A usage error where a file cannot be written, before what is to be written takes its time."""
    try:
        with file.open("a", encoding="utf-8"):
            return
    except (OSError, ValueError) as error:
        raise _unwritable(str(file), reason_of(error)) from error


def _unwritable(name: str, reason: str) -> click.UsageError:
    return click.UsageError(f'cannot write "{name}": {reason}')


def require_text(text: str, option: str) -> str:
    """The text of an option; a usage error where its bytes are no text."""
    if not is_text(text):
        raise click.UsageError(f"the value of {option} is not UTF-8 text")
    return text


def _unreadable(name: str, reason: str) -> click.UsageError:
    shown = "standard input" if name == "-" else f'"{name}"'
    return click.UsageError(f"cannot read {shown}: {reason}")
