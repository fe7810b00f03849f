"""``sqlstream test``."""

from __future__ import annotations

from pathlib import Path

import click

from sqlstream.cli.project_option import current_project, project_option
from sqlstream.cli.scripts import pairs
from sqlstream.cli.status import working
from sqlstream.cli.text_files import require_writable
from sqlstream.errors import SqlStreamError

_EPILOG = """\b
Prints one line a case, PASS, REFUSED with code and message, or FAIL with the first difference,
then totals per directory. Exit code 1 where a case fails.

\b
Examples:
  sqlstream test --cases cases --json report.json
  sqlstream test --cases cases --select windows/
  sqlstream test --cases cases --set sqlstream.gear=native
"""


@click.command("test", epilog=_EPILOG)
@click.option(
    "--cases", "directory", required=True, metavar="DIR",
    type=click.Path(exists=True, path_type=Path), help="Run the case files (*.json) below DIR.",
)  # fmt: skip
@click.option("--json", "report", metavar="FILE", type=click.Path(path_type=Path), help="Write the results to FILE.")
@click.option("--select", metavar="TEXT", help="Only the files whose path contains TEXT.")
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as with SET.")
@project_option
def command(directory: Path, report: Path | None, select: str | None, settings: tuple[str, ...]) -> int:
    """Run case files: inputs, clock steps and expected outputs of queries."""
    from sqlstream.testing.case_format import case_files
    from sqlstream.testing.cases import main, selected
    from sqlstream.testing.spark import LocalSession

    given = pairs(settings, "--set")
    if not selected(case_files(directory), select):
        beside = f' whose path contains "{select}"' if select else ""
        raise click.UsageError(f'there is no case file (*.json){beside} at "{directory}"')
    if report is not None:
        require_writable(report)
    project = current_project()
    try:
        LocalSession(given, project).close()
    except SqlStreamError as error:
        raise click.UsageError(str(error)) from error
    with working("running cases") as status:
        return main(directory, report, select, given, status.hidden, project=project)
