"""The interactive shell: ``sqlstream shell``."""

from __future__ import annotations

import sys

from sqlstream.errors import ConnectorError
from sqlstream.session import Session


def run_shell(session: Session) -> int:
    """Run the shell on the process's terminal, or on what is piped in; 1 where a piped statement went wrong."""
    from sqlstream.shell.line_editor import history_file, line_editor
    from sqlstream.shell.loop import UNREADABLE_FILE, Shell, lines_of

    shell = Shell(session)
    try:
        if sys.stdin is None:
            raise ConnectorError(UNREADABLE_FILE, "cannot read standard input: it is closed", hint="Pipe SQL into it.")
        if sys.stdin.isatty():
            shell.interact(line_editor(history_file()))
            return 0
        shell.read(lines_of(sys.stdin.buffer))
        return 1 if shell.failures else 0
    finally:
        shell.close()
