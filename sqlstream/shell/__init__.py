"""The interactive shell: ``sqlstream shell``."""

from __future__ import annotations

import sys

from sqlstream.session import Session


def run_shell(session: Session) -> int:
    """Run the shell on the process's terminal, or on what is piped in; 1 where a piped statement went wrong."""
    from sqlstream.shell.line_editor import history_file, line_editor
    from sqlstream.shell.loop import Shell

    shell = Shell(session)
    try:
        if sys.stdin.isatty():
            shell.interact(line_editor(history_file()))
            return 0
        shell.read(sys.stdin)
        return 1 if shell.failures else 0
    finally:
        shell.close()
