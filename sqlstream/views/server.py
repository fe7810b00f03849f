"""The address of the PostgreSQL server that views are kept in by default, for their tables to name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sqlstream.catalogs.declaring import VIEWS_URL
from sqlstream.planner.catalog import Table
from sqlstream.settings import Settings
from sqlstream.views.folders import URL, views_folder

_REFERENCE = f"${{{VIEWS_URL}}}"
_told: set[str] = set()
"""The addresses that we have put into the environment ourselves."""


def reach(tables: Iterable[Table], settings: Settings) -> None:
    """The server runs and its address is known, where one of the tables is kept there."""
    if any(table.option("url") == _REFERENCE for table in tables):
        tell_address(settings)


def tell_address(settings: Settings) -> str:
    """The address, which the environment variable SQLSTREAM_VIEWS_URL has from now on: that of the setting, or that
    which the variable had when the process began, or else that of the embedded server, which is started."""
    from sqlstream.views.embedded import embedded

    given: str | None = settings[URL]
    present = os.environ.get(VIEWS_URL)
    if given is not None:
        url = given
    elif present is not None and present not in _told:
        return present
    else:
        url = embedded(views_folder(settings) / "postgres").url
    _told.add(url)
    os.environ[VIEWS_URL] = url
    return url
