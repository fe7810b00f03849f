"""The sockets between Spark and the Python processes of its tasks, where all of them run on this machine."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache

from sqlstream.user_folders import temporary_folder

_LONGEST_TEMPORARY_FOLDER = 40
"""The name of a socket has at most 107 bytes, of which our folder there takes 19 and Spark 43."""


def socket_settings(master: str) -> Mapping[str, str]:
    """Spark's settings for sockets in a folder of this process, none where Spark must use TCP.

    Over TCP each message that Spark writes in two pieces waits 40 ms for an acknowledgement, several times per task.
    """
    too_long = len(tempfile.gettempdir()) > _LONGEST_TEMPORARY_FOLDER
    if not master.startswith("local") or sys.platform != "linux" or too_long:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": _folder()}


@cache
def _folder() -> str:
    """A folder that vanishes with this process: Spark leaves some of its sockets there."""
    folder = temporary_folder("sqlstream-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)
