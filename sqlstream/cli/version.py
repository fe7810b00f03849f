"""``sqlstream version``."""

from __future__ import annotations

import click

from sqlstream.versions import versions


@click.command("version")
def command() -> None:
    """Print the versions of sqlstream and of what it stands on."""
    for name, version in versions().items():
        click.echo(f"{name:<9} {version}")
