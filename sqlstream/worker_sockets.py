"""The sockets between Spark and the Python processes of its tasks, where all of them run on this machine."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache

_LONGEST_FOLDER = 60
"""The name of a socket has at most 107 bytes, of which Spark takes 43."""


def socket_settings(master: str) -> Mapping[str, str]:
    """Spark's settings for sockets in a folder of this process, none where Spark must use TCP.

    Over TCP each message that Spark writes in two pieces waits 40 ms for an acknowledgement, several times per task.
    """
    if not master.startswith("local") or sys.platform != "linux" or len(tempfile.gettempdir()) > _LONGEST_FOLDER - 20:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": _folder()}


@cache
def _folder() -> str:
    """A folder that vanishes with this process: Spark leaves some of its sockets there."""
    folder = tempfile.mkdtemp(prefix="sqlstream-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
