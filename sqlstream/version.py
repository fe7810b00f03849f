"""The versions of sqlstream and of the packages that it is built on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

__version__ = "0.1.0"

_PACKAGES = ("pyspark", "sqlglot", "lark", "pyarrow")


@cache
def versions() -> Mapping[str, str]:
    """The versions by name: sqlstream, Python, and the packages; "not installed" for a package that is missing."""
    import platform  # loading these takes longer than the rest of ``import sqlstream``, which reads the version
    from importlib.metadata import PackageNotFoundError, version

    numbers = {"sqlstream": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers
