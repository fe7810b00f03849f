"""Files that a command line names, read as text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sqlstream.udfs.texts import is_text

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
        line = data.count(b"\n", 0, error.start) + 1
        raise _unreadable(name, f"line {line} is not UTF-8 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def require_text(text: str, option: str) -> str:
    """The text of an option; a usage error where its bytes are no text."""
    if not is_text(text):
        raise click.UsageError(f"the value of {option} is not UTF-8 text")
    return text


def reason_of(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _unreadable(name: str, reason: str) -> click.UsageError:
    shown = "standard input" if name == "-" else f'"{name}"'
    return click.UsageError(f"cannot read {shown}: {reason}")
