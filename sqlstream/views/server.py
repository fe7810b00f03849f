"""Where materialized views are stored by default: their folders, and the address of the embedded PostgreSQL server.

Every session imports this module, so the server itself is loaded where it is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sqlstream.catalogs.declaring import VIEWS_URL
from sqlstream.errors import ExecutionError
from sqlstream.paths import made, state_folder
from sqlstream.planner.catalog import Table
from sqlstream.settings import Settings

NO_FOLDER = "SS484"

DIRECTORY = "sqlstream.views.dir"
URL = "sqlstream.views.url"
_CHECKPOINTS = "execution.checkpointing.dir"

_REFERENCE = f"${{{VIEWS_URL}}}"
_told: set[str] = set()
"""The addresses that we have put into the environment ourselves."""


def views_folder(settings: Settings) -> Path:
    """Returns the folder for the data of materialized views: that of the setting, or the default in the user's state
    folder. Raises ExecutionError SS484 where it cannot be written.
    """
    given = settings[DIRECTORY]
    state = state_folder()
    folder = Path(given).expanduser().absolute() if given is not None else None
    if folder is None and state is not None:
        folder = state / "views"
    usable = made(folder)
    if usable is None:
        message = "there is no folder that can be written for materialized views"
        raise ExecutionError(NO_FOLDER, message, hint=f"SET '{DIRECTORY}' to a directory that can be written.")
    return usable


def checkpoints_of_views(settings: Settings) -> str:
    """Returns the directory with the checkpoints of materialized views. Each is in a folder with the view's name."""
    given: str | None = settings[_CHECKPOINTS]
    return given.rstrip("/") if given is not None else str(views_folder(settings) / "jobs")


def reach(tables: Iterable[Table], settings: Settings) -> None:
    """Called before jobs or queries use tables of materialized views. If one of ``tables`` is stored in the database of
    materialized views, sets the environment variable with its address, and starts the embedded server if necessary.
    """
    if any(table.option("url") == _REFERENCE for table in tables):
        tell_address(settings)


def tell_address(settings: Settings) -> str:
    """Sets the environment variable SQLSTREAM_VIEWS_URL to the address of the database of materialized views, and
    returns it.

    It is the address of the setting; else the value that the variable had at the start of the process; else the address
    of the embedded server, which is then started.
    """
    from sqlstream.views.embedded import embedded  # pgserver is optional

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
