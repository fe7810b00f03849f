"""The versions of sqlstream and of what it stands on."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from sqlstream.version import __version__

_PACKAGES = ("pyspark", "sqlglot", "lark", "pyarrow")


@cache
def versions() -> Mapping[str, str]:
    """By name."""
    numbers = {"sqlstream": __version__, "python": platform.python_version()}
    return numbers | {package: _version(package) for package in _PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
