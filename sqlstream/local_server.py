"""Servers of HTTP that run in a thread beside what a process does."""

from __future__ import annotations

import ipaddress
from http.server import ThreadingHTTPServer
from threading import Thread


class LocalServer:
    """Serves what ``server`` listens for until it is closed. ``host``: its name in the address. ``name``: that of the
    thread.
    """

    def __init__(self, server: ThreadingHTTPServer, host: str, name: str) -> None:
        self._server, self._host = server, host
        # At its end the thread notices within this time; half a second is the default.
        self._thread = Thread(target=server.serve_forever, args=(0.1,), name=name, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def is_loopback(host: str) -> bool:
    """True for names and addresses of this machine that no other can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
