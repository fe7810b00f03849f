"""``sqlstream version``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from sqlstream import __version__


@click.command("version")
def command() -> None:
    """Print the versions of sqlstream and of what it stands on."""
    click.echo(f"sqlstream {__version__}")
    click.echo(f"python    {platform.python_version()}")
    for package in ("pyspark", "sqlglot", "lark", "pyarrow"):
        click.echo(f"{package:<9} {_version(package)}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
