"""URLs: ``sqlstream://`` in the process, ``sqlstream:///folder?profile=test`` of a project."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

_KEYS = ("catalog", "database", "profile", "spark")


def arguments_of(url: URL) -> dict[str, Any]:
    """What ``SqlStreamDialect.connect`` takes: ``project``, ``profile``, ``spark``, ``catalog``, ``database`` and
    ``settings``, which are the keys with a dot."""
    if url.host or url.username or url.port:
        raise ArgumentError("a URL of sqlstream has no host: sqlstream:// or sqlstream:///path/to/project")
    given: dict[str, Any] = {"project": url.database} if url.database else {}
    settings: dict[str, str] = {}
    for key, value in url.query.items():
        if not isinstance(value, str):
            raise ArgumentError(f'"{key}" is given twice')
        if "." in key:
            settings[key] = value
        elif key in _KEYS:
            given[key] = value
        else:
            raise ArgumentError(f'"{key}" is none of {", ".join(_KEYS)}, and no setting, whose keys have a dot')
    return {**given, "settings": settings} if settings else given
