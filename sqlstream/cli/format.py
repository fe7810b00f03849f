"""``sqlstream format``."""

from __future__ import annotations

import click

from sqlstream.cli.exits import OK, WRONG_SQL
from sqlstream.cli.scripts import Script, named, written_scripts
from sqlstream.cli.text_files import rewrite

_EPILOG = """\b
Examples:
  sqlstream format query.sql
  sqlstream format --write *.sql
  sqlstream format --check *.sql     exit code 1 where a file would change
"""


@click.command("format", epilog=_EPILOG)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 where a file is not formatted.")
@click.option("--write", is_flag=True, help="Rewrite the files in place.")
@click.option("--execute", "-e", "statements", multiple=True, metavar="SQL", help="SQL instead of a file.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
def command(files: tuple[str, ...], statements: tuple[str, ...], check: bool, write: bool) -> int:
    """Print SQL in the standard layout.

    Comments stay beside their words, and ${name} as it is.
    """
    from sqlstream.grammar import format_script

    if check and write:
        raise click.UsageError("--check and --write exclude each other")
    scripts = written_scripts(files, statements)
    formatted = []
    for script in scripts:
        with named(script, scripts):
            formatted.append((script, format_script(script.text)))
    if check:
        return _report(formatted)
    for script, text in formatted:
        if write and script.name in files and script.name != "-":
            _rewrite(script, text)
        else:
            click.echo(text, nl=not text.endswith("\n"))
    return OK


def _report(formatted: list[tuple[Script, str]]) -> int:
    unlike = [script.name for script, text in formatted if script.text != text]
    for name in unlike:
        click.echo(f"would change {name}", err=True)
    return WRONG_SQL if unlike else OK


def _rewrite(script: Script, text: str) -> None:
    if script.text != text:
        rewrite(script.name, text)
        click.echo(f"changed {script.name}", err=True)
