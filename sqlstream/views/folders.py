"""Where materialized views keep what outlives a session: checkpoints, and the embedded database."""

from __future__ import annotations

from pathlib import Path

from sqlstream.errors import ExecutionError
from sqlstream.settings import Settings
from sqlstream.user_folders import made, state_folder

NO_FOLDER = "SS484"

DIRECTORY = "sqlstream.views.dir"
URL = "sqlstream.views.url"
_CHECKPOINTS = "execution.checkpointing.dir"


def views_folder(settings: Settings) -> Path:
    """The folder of the setting, or one of the user's. ExecutionError SS484 where neither can be written."""
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
    """Where the jobs of views keep their checkpoints, each in a folder of its name."""
    given: str | None = settings[_CHECKPOINTS]
    return given.rstrip("/") if given is not None else str(views_folder(settings) / "jobs")
