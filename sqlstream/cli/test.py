"""``sqlstream test``."""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
Prints one line a case, PASS, REFUSED with code and message, or FAIL with the first difference,
then totals per directory. Exit code 1 where a case fails.

\b
Examples:
  sqlstream test --cases cases --json report.json
  sqlstream test --cases cases --select windows/
"""


@click.command("test", epilog=_EPILOG)
@click.option(
    "--cases", "directory", required=True, metavar="DIR",
    type=click.Path(exists=True, path_type=Path), help="Run the case files (*.json) below DIR.",
)  # fmt: skip
@click.option("--json", "report", metavar="FILE", type=click.Path(path_type=Path), help="Write the results to FILE.")
@click.option("--select", metavar="TEXT", help="Only the files whose path contains TEXT.")
def command(directory: Path, report: Path | None, select: str | None) -> int:
    """Run case files: inputs, clock steps and expected outputs of queries."""
    from sqlstream.testing.cases import main

    return main(directory, report, select)
