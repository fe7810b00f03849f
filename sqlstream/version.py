"""The versions of sqlstream and of the packages that it is built on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

__version__ = "0.1.0"

_PACKAGES = ("pyspark", "sqlglot", "lark", "pyarrow")


@cache
def versions() -> Mapping[str, str]:
    """Returns the versions of sqlstream, Python and important packages, by name; "not installed" for a missing
    package.
    """
    from importlib import metadata  # loading it takes longer than the rest of ``import sqlstream``

    numbers = {"sqlstream": __version__, "python": sys.version.partition(" ")[0]}
    for package in _PACKAGES:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers
