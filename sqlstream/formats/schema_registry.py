"""A client of schema registries: Confluent's, and others with its interface, such as Apicurio's and Karapace.

It asks for few things, and only once each: a schema never changes under its id. The client of ``confluent-kafka`` would
bring 27 MB of packages (its ``cryptography`` alone 16) and 0.2 s of imports into each worker for that; the standard
library has all that is needed. A registry that does not answer is asked again for a while, because tasks would
otherwise fail at each restart of it.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from sqlstream.errors import ConnectorError, repeating

AWAY = "SS598"
REFUSED = repeating("SS599")

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
"""The types of schemas."""

_TYPE = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = range(40_401, 40_404)
"""The error codes of subjects, versions and schemas that a registry does not have."""
_NOT_FOUND, _CONFLICT, _UNPROCESSABLE = 404, 409, 422
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which a request is sent again."""
_REFUSING = frozenset({401, 403})
_SECONDS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_UNKNOWN_SECONDS = 30
"""How long a registry is not asked again for a schema that it does not know, within one micro-batch."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of a registry. ``references``: the texts of the schemas that it names, those first that others name;
    ``imports``: their names, by which a ``.proto`` imports them.
    """

    id: int
    text: str
    kind: str = AVRO
    references: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registry:
    """Where a registry is, and who asks it. ``urls``: of one or several servers, each of which is tried. ``user``:
    name and password as ``name:password``. ``authorities``, ``certificate``: files of PEM; ``key_password`` is that of
    the private key in the latter. ``patience``: the seconds for which a registry that does not answer is asked again.
    """

    urls: tuple[str, ...] = field(repr=False)
    user: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    authorities: str | None = None
    certificate: str | None = None
    key_password: str | None = field(default=None, repr=False)
    patience: float = 60.0

    @property
    def shown(self) -> str:
        """The URLs without users and passwords."""
        return ",".join(urlunsplit(urlsplit(_without_user(url))) for url in self.urls)

    def schema(self, number: int) -> RegisteredSchema | None:
        """Returns the schema with the id; None where the registry does not know it.

        ConnectorError SS598 where the registry does not answer, SS599 where it refuses to.
        """
        with _lock:
            known = _known.get((self, number))
            asked = _unknown.get(self, {}).get(number, -math.inf)
        if known is not None or time.monotonic() - asked < _UNKNOWN_SECONDS:
            return known
        answer = self._asked(f"/schemas/ids/{number}")
        found = None if answer is None else self._registered(number, answer)
        with _lock:
            if found is None:
                _unknown.setdefault(self, {})[number] = time.monotonic()
            else:
                _known[self, number] = found
        return found

    def ask_again(self) -> None:
        """Forgets which ids the registry did not know. A schema may be registered, or reach the server that is asked,
        a moment after messages of it: so each micro-batch asks for it once.
        """
        with _lock:
            _unknown.pop(self, None)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Returns the newest schema of a subject; None without one. ConnectorError as ``schema``."""
        answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else self._registered(int(answer["id"]), answer)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Registers a schema under a subject, unless it is there, and returns its id. ConnectorError as ``schema``, and
        SS599 where the schema is not compatible with those of the subject.
        """
        body = {"schema": schema.text} | ({} if schema.kind == AVRO else {"schemaType": schema.kind})
        answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions", body)
        if answer is None:
            raise self._refused(f'it does not take schemas of the subject "{subject}"')
        return int(answer["id"])

    def registered(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Returns the id of a schema that a subject has; None where it has none. ConnectorError as ``schema``."""
        body = {"schema": schema.text} | ({} if schema.kind == AVRO else {"schemaType": schema.kind})
        answer = self._asked(f"/subjects/{quote(subject, safe='')}", body)
        return None if answer is None else int(answer["id"])

    # --- answers --------------------------------------------------------------------------------------------------

    def _registered(self, number: int, answer: Mapping[str, Any]) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._add_references(answer, references)
        kind = str(answer.get("schemaType") or AVRO)
        return RegisteredSchema(number, str(answer["schema"]), kind, tuple(references.values()), tuple(references))

    def _add_references(self, answer: Mapping[str, Any], found: dict[str, str]) -> None:
        """Adds the schemas that one refers to, by the names that it has for them, after those that they refer to."""
        for reference in answer.get("references") or ():
            if reference["name"] in found:
                continue
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            other = self._asked(path)
            if other is None:
                raise self._refused(f'it lacks the schema "{reference["name"]}", to which another one refers')
            self._add_references(other, found)
            found[reference["name"]] = str(other["schema"])

    def _asked(self, path: str, body: object = None) -> Mapping[str, Any] | None:
        """The answer to a request; None where there is no such schema or subject."""
        started, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            reasons = []
            for url in self.urls:
                try:
                    return self._answer(url, path, body)
                except _Away as error:
                    reasons.append(str(error))
            if time.monotonic() - started + pause > self.patience:
                message = f'schema registry "{self.shown}" does not answer: {reasons[0]}'
                raise ConnectorError(
                    AWAY, message, hint="Look whether it runs there, and at the options of the format."
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _answer(self, url: str, path: str, body: object) -> Mapping[str, Any] | None:
        request = Request(
            _without_user(url).rstrip("/") + path,
            None if body is None else json.dumps(body).encode(),
            {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE},
        )
        authorization = self._authorization(url)
        if authorization is not None:  # a server that the request is redirected to does not get it
            request.add_unredirected_header("Authorization", authorization)
        try:
            with _opener(self.authorities, self.certificate, self.key_password).open(request, timeout=_SECONDS) as read:
                content = read.read()
        except HTTPError as error:
            self._of_error(error)
            return None
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                self._distrust(error.reason)
            raise _Away(str(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise _Away(str(error) or type(error).__name__) from None
        try:
            answer = json.loads(content)
        except ValueError:
            raise self._refused("its answer is no JSON") from None
        if not isinstance(answer, dict):
            raise self._refused("its answer is no JSON object")
        return answer

    def _authorization(self, url: str) -> str | None:
        if self.token is not None:
            return f"Bearer {self.token}"
        parts = urlsplit(url)
        in_url = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if parts.username else None
        user = self.user or in_url
        return None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"

    def _of_error(self, error: HTTPError) -> None:
        """None for what a registry does not have. Raises what another answer means."""
        try:
            content = error.read()
            said = json.loads(content)
            code, message = int(said.get("error_code", 0)), str(said.get("message", ""))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            code, message = 0, ""
        if error.code in _PASSING:
            raise _Away(f"{error.code} {message or error.reason}") from None
        if error.code == _NOT_FOUND and code in _UNKNOWN:
            return
        if error.code in _REFUSING:
            hint = "Look at the options basic-auth.user-info and bearer-auth.token of the format."
            raise self._refused(f"{error.code} {message or error.reason}", hint) from None
        if error.code in (_CONFLICT, _UNPROCESSABLE):
            hint = "Change the columns or the option schema, or take another subject."
            raise self._refused(message or str(error.reason), hint) from None
        raise self._refused(f"{error.code} {message or error.reason}") from None

    def _refused(self, reason: str, hint: str = "Correct the option url of the format.") -> ConnectorError:
        return ConnectorError(REFUSED, f'schema registry "{self.shown}" refuses a request: {reason}', hint=hint)

    def _distrust(self, error: ssl.SSLCertVerificationError) -> NoReturn:
        hint = "Name the file of PEM with its authority in the option ssl.truststore.location of the format."
        raise self._refused(f"its certificate is not trusted: {error.verify_message}", hint)


_lock = Lock()
_known: dict[tuple[Registry, int], RegisteredSchema] = {}
"""What registries have said of their ids: each process asks once."""
_unknown: dict[Registry, dict[int, float]] = {}
"""The ids that registries did not know, and when they said so."""


class _Away(Exception):
    """A server does not answer, or not now."""


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@cache
def _opener(authorities: str | None, certificate: str | None, key_password: str | None) -> OpenerDirector:
    """ConnectorError SS599 for files that are none of PEM."""
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, password=_password(key_password))
    except (OSError, ssl.SSLError) as error:
        which = certificate if authorities is None else authorities
        message = f'certificates "{which}" of the schema registry cannot be read: {error}'
        raise ConnectorError(REFUSED, message, hint="They are files of PEM.") from None
    return build_opener(HTTPSHandler(context=context))


def _password(given: str | None) -> Callable[[], str]:
    """OpenSSL would ask for a password at the terminal without one."""
    return lambda: given or ""
