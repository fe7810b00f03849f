"""Files that a command line names, read as text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_ENCODING = "utf-8-sig"


def read_text(name: str) -> str:
    """The text of a file, or of standard input (``-``), without a byte order mark; a usage error where it has none."""
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


def reason_of(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _unreadable(name: str, reason: str) -> click.UsageError:
    shown = "standard input" if name == "-" else f'"{name}"'
    return click.UsageError(f"cannot read {shown}: {reason}")
