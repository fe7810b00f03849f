"""The interactive shell: ``sqlstream shell``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from sqlstream.errors import ConnectorError
from sqlstream.session import Session


def run_shell(
    session: Session,
    files: Sequence[str] = (),
    commands: Sequence[str] = (),
    *,
    style: str = "table",
    stays: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> int:
    """Run files, then commands, then the shell on the process's terminal or on what is piped in; 1 where one failed.

    Files and commands are all that runs, unless it ``stays``. ``style``: how rows are written.
    ``parameters``: what stands for ``${NAME}`` in all of them.
    """
    from sqlstream.shell.line_editor import history_file, line_editor, startup_file, wants_vi_keys
    from sqlstream.shell.loop import UNREADABLE_FILE, Shell, lines_of

    shell = Shell(session, style=style, parameters=parameters)
    try:
        for name in files:
            shell.run_file(name)
        goes_on = all(map(shell.run, commands))
        if not goes_on or ((files or commands) and not stays):
            return 1 if shell.failures else 0
        if sys.stdin is None:
            raise ConnectorError(UNREADABLE_FILE, "cannot read standard input: it is closed", hint="Pipe SQL into it.")
        if sys.stdin.isatty():
            from sqlstream.shell.completer import SqlCompleter
            from sqlstream.vocabulary import SessionVocabulary

            if (startup := startup_file()) is not None:
                shell.run_file(str(startup))
            completer = SqlCompleter(SessionVocabulary(session.workspace))
            shell.interact(line_editor(history_file(), completer=completer, vi_keys=wants_vi_keys()))
            return 0
        shell.read(lines_of(sys.stdin.buffer))
        return 1 if shell.failures else 0
    finally:
        shell.close()
