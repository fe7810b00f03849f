"""The versions of sqlstream and of the packages that it is built on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

__version__ = "0.1.0"

_PACKAGES = ("pyspark", "sqlglot", "lark", "pyarrow")


@cache
def versions() -> Mapping[str, str]:
    """The versions by name: sqlstream, Python, and the packages; "not installed" for a package that is missing."""
    from importlib import metadata  # loading it takes longer than the rest of ``import sqlstream``

    numbers = {"sqlstream": __version__, "python": sys.version.partition(" ")[0]}
    for package in _PACKAGES:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers
