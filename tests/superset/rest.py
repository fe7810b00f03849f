"""Superset's REST API, as its own pages use it: with the cookie of a session."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode

_TIMEOUT_S = 300


class RestError(Exception):
    """What Superset has answered in place of a result."""


class Rest:
    """Logged in as long as it is used."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self._headers: dict[str, str] = {}
        login = {"username": user, "password": password, "provider": "db", "refresh": False}
        token = self.post("/api/v1/security/login", login)["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}
        form_token = self.get("/api/v1/security/csrf_token/")["result"]
        form = {"username": user, "password": password, "csrf_token": form_token}
        self._headers = {"Referer": url}
        self._open("POST", "/login/", urlencode(form).encode(), "application/x-www-form-urlencoded")
        self._headers["X-CSRFToken"] = self.get("/api/v1/security/csrf_token/")["result"]

    def cookies(self) -> dict[str, str]:
        """For a browser that is to be logged in, too."""
        return {cookie.name: cookie.value or "" for cookie in self._cookies}

    def get(self, path: str) -> Any:
        return json.loads(self._open("GET", path))

    def post(self, path: str, body: object) -> Any:
        return json.loads(self._open("POST", path, json.dumps(body).encode()))

    def put(self, path: str, body: object) -> Any:
        return json.loads(self._open("PUT", path, json.dumps(body).encode()))

    def _open(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
        headers = self._headers if body is None else {**self._headers, "Content-Type": kind}
        request = urllib.request.Request(self._url + path, body, headers, method=method)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                text: bytes = answer.read()
                return text
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")
            raise RestError(f"{method} {path}: {error.code} {told[:1500]}") from None
