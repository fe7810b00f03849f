"""What the servers of tests begin with: ports of this machine that nobody has, and a directory that they may enter."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports that differ, because all of them are taken before one is given back."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def free_port() -> int:
    (port,) = free_ports(1)
    return port


def is_listening(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


@contextmanager
def open_directory(prefix: str) -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's, until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
