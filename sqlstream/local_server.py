"""Servers of HTTP that run in a thread beside what a process does, and the token that opens their pages."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from email.message import Message
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


@dataclass(frozen=True)
class Access:
    """Where a server of pages listens, and the token that opens it: as the bearer token of a request, or once in an
    address, in place of which a browser gets a cookie. ``port`` 0: any free one.
    """

    port: int
    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def is_token(self, text: str) -> bool:
        """Whether a text is the token."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def proof(self, purpose: str) -> str:
        """A text that only who knows the token can make, and from which nobody learns it."""
        return hmac.new(self.token.encode(), purpose.encode(), "sha256").hexdigest()

    def is_proof(self, text: str, purpose: str) -> bool:
        """Whether a text is the proof for this purpose."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.proof(purpose).encode())

    def has_bearer(self, headers: Message) -> bool:
        """Whether a request has the token."""
        kind, _, token = headers.get("Authorization", "").partition(" ")
        return kind == "Bearer" and self.is_token(token)

    def has_session(self, headers: Message, port: int) -> bool:
        """Whether a request has the cookie. Those of other servers of this host come along, and may be anything:
        ``http.cookies`` reads none then.
        """
        pairs = [pair.strip().partition("=") for pair in headers.get("Cookie", "").split(";")]
        return any(name == _cookie(port) and self.is_proof(value, "session") for name, _, value in pairs)

    def new_cookie(self, port: int) -> str:
        """The cookie, as the header that sets it has it."""
        return f"{_cookie(port)}={self.proof('session')}; HttpOnly; SameSite=Strict; Path=/"


def _cookie(port: int) -> str:
    """Cookies are the same for all ports of a host."""
    return f"sqlstream-{port}"


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
