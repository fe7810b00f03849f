"""The interactive shell: ``sqlstream shell``. The prompt stands before most of the product is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream.errors import ConnectorError

if TYPE_CHECKING:
    from sqlstream.session import Session

UNREADABLE_FILE = "SS544"
GREETING = 'sqlstream: statements end with ";". "help" tells more, Ctrl-D leaves.'


def run_shell(
    session: Session | Callable[[], Session],
    files: Sequence[str] = (),
    commands: Sequence[str] = (),
    *,
    style: str = "table",
    stays: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> int:
    """Run files, then commands, then the shell on the process's terminal or on what is piped in; 1 where one failed.

    Files and commands are all that runs, unless it ``stays``. ``style``: how rows are written.
    ``parameters``: what stands for ``${NAME}`` in all of them. ``session``: or what opens it, behind the prompt.
    """
    from prompt_toolkit.utils import is_dumb_terminal

    # the prompt comes first
    from sqlstream.shell.line_editor import history_file, line_editor, startup_file, wants_vi_keys

    typed = sys.stdin is not None and sys.stdin.isatty() and not files and not commands
    if typed and callable(session) and startup_file() is None and not is_dumb_terminal():
        from sqlstream.shell.early_prompt import interact_at_once

        return interact_at_once(session, style, parameters)
    opened = session() if callable(session) else session
    from sqlstream.spark.startup import SparkStart

    start = SparkStart(opened)  # while the rest is imported
    from sqlstream.shell.loop import Shell, lines_of

    shell = Shell(opened, style=style, parameters=parameters, start=start)
    try:
        for name in files:
            shell.run_file(name)
        goes_on = all(map(shell.run, commands))
        if not goes_on or ((files or commands) and not stays):
            return 1 if shell.failures else 0
        if sys.stdin is None:
            raise ConnectorError(UNREADABLE_FILE, "cannot read standard input: it is closed", hint="Pipe SQL into it.")
        if sys.stdin.isatty():
            from sqlstream.shell.completer import completer_of

            if (startup := startup_file()) is not None:
                shell.run_file(str(startup))
            completer = completer_of(opened)
            shell.warm_up.begin()
            shell.interact(line_editor(history_file(), completer=completer, vi_keys=wants_vi_keys()))
            return 0
        shell.read(lines_of(sys.stdin.buffer))
        return 1 if shell.failures else 0
    finally:
        shell.close()
