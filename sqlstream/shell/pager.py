"""Long results through the user's pager, as psql and git do."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from sqlstream.shell.interrupts import unbroken

_LESS = "FRSX"
"""It ends where all fits, shows colours, cuts long lines, which the arrows move, and leaves the text on the screen."""


def pager_command() -> list[str] | None:
    """``$SQLSTREAM_PAGER``, ``$PAGER`` or less; None where there is none, or where the variable is ``cat`` or empty."""
    text = os.environ.get("SQLSTREAM_PAGER", os.environ.get("PAGER", "less"))
    try:
        command = shlex.split(text)
    except ValueError:
        return None
    return command if command and command[0] != "cat" and shutil.which(command[0]) else None


@contextmanager
def paged(command: list[str]) -> Iterator[TextIO]:
    """What the block writes is shown by the pager, which Ctrl-C is left to. The block ends where nobody reads on."""
    with unbroken():
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, encoding="utf-8", env={"LESS": _LESS, **os.environ}
        )
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):
                yield cast(TextIO, process.stdin)
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
