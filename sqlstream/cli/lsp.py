"""``sqlstream lsp``."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from sqlstream.cli.project_option import project_option
from sqlstream.cli.scripts import read_scripts

_EPILOG = """\b
The files are definitions that all documents know; the folder's sqlstream.toml holds, too.

\b
Examples:
  sqlstream lsp
  sqlstream lsp tables.sql
"""


@click.command("lsp", epilog=_EPILOG)
@project_option
@click.argument("files", nargs=-1, metavar="[FILE]...")
def command(files: tuple[str, ...]) -> None:
    """Serve editors: the language server protocol on standard input and output.

    Diagnostics, hover, completion, definitions, references, renaming, formatting and fixes. Spark is not started.
    """
    if find_spec("pygls") is None:
        raise click.UsageError("the language server needs pygls: pip install 'sqlstream[lsp]'")
    from sqlstream.analysis import Planner
    from sqlstream.cli.sessions import open_session
    from sqlstream.lsp.server import server_of

    with open_session(None, ()) as session:
        planner = Planner().with_session(session)
        for script in read_scripts(files, (), ()) if files else ():
            planner = planner.with_ddl(script.text)
        # It closes what it speaks to, which commands flush when they end.
        server_of(planner).start_io(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
