"""Tokens with which clients of Kafka log in, given by a function of the user.

It is written as ``oauth_cb`` of confluent-kafka, so that those that there are can be named::

    def token(config: str) -> tuple[str, float]:
        return fetched, expires_at  # in seconds since 1970

``config`` is the value of ``properties.sasl.oauthbearer.config``. Behind the two may follow who logs in, and a dict of
extensions. A process calls the function when its first client is made, and again when four fifths of the time of the
token are over: all clients of the same options log in by the same one.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from sqlstream.errors import ConnectorError
from sqlstream.secrets import Secrets
from sqlstream.udfs.functions import load, user_code

LOG = logging.getLogger("sqlstream.kafka")
"""The log of all that reads and writes Kafka."""

NO_TOKEN = "SS559"

FUNCTION = "sasl.oauthbearer.token.function"
"""The property that names the function, which librdkafka does not know."""
FOLDER = f"{FUNCTION}.folder"
"""Where the driver finds its module. Other processes look there last: scripts may be anywhere."""
_CONFIG = "sasl.oauthbearer.config"
_OURS = (FUNCTION, FOLDER, _CONFIG)
_OPTION = f"properties.{FUNCTION}"

_RENEWED = 0.8
"""The part of its time after which a token is renewed, as librdkafka does."""
_MILLISECONDS = 1e11
"""A time that is later than this is one in milliseconds: in seconds it would be of the year 5138."""


class Token(NamedTuple):
    """What librdkafka is given. ``expires``: in seconds since 1970."""

    text: str
    expires: float
    principal: str = ""
    extensions: Mapping[str, str] = {}


def with_tokens(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the settings of a client. ``properties``: those of librdkafka, or with FUNCTION, which is called if there
    is no token yet. ConnectorError SS559 where it gives none: librdkafka would only say that it waited.
    """
    source = _source_of(properties)
    if source is None:
        return dict(properties)
    source.token()
    return {**{k: v for k, v in properties.items() if k not in _OURS}, "oauth_cb": source.given}


def located(target: str) -> dict[str, str]:
    """Returns the properties that name a function and the folder of its module, if that can be found."""
    try:
        spec = find_spec(target.partition(":")[0].partition(".")[0])
    except ValueError:  # of a module that is made by a program
        spec = None
    places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    folder = {FOLDER: str(Path(places[0]).resolve().parent)} if places and Path(places[0]).exists() else {}
    return {FUNCTION: target, **folder}


def require_token(properties: Mapping[str, str]) -> None:
    """Raises ConnectorError SS559 where the token has expired, and the function gives no other one."""
    source = _source_of(properties)
    if source is not None:
        source.token()


class TokenSource:
    """A function of the user, and the token that it has given last."""

    def __init__(self, target: str, config: str, folder: str | None = None) -> None:
        self._target, self._config, self._folder = target, config, folder
        self._lock = Lock()  # librdkafka asks in threads of its own, for each client in another
        self._token: Token | None = None
        self._renewal = -math.inf

    def token(self) -> Token:
        """The token, renewed if it is time. ConnectorError SS559 where there is none that is valid."""
        with self._lock:
            now = time.time()
            if self._token is None or now >= self._renewal:
                try:
                    self._token = self._asked()
                except ConnectorError as error:
                    if self._token is None or now >= self._token.expires:
                        raise
                    LOG.warning(
                        "the token is not renewed yet, and valid for %d s: %s", self._token.expires - now, error
                    )
                else:
                    self._renewal = now + _RENEWED * (self._token.expires - now)
            return self._token

    def given(self, _: object = None) -> tuple[str, float, str, dict[str, str]]:
        """The token as librdkafka's binding takes it, which drops the errors that are raised here."""
        try:
            text, expires, principal, extensions = self.token()
        except ConnectorError as error:
            LOG.warning("no token: %s", error)
            raise
        return text, expires, principal, dict(extensions)

    def _asked(self) -> Token:
        message = f'function "{self._target}" gives no token for Kafka'
        if self._folder is not None and self._folder not in sys.path:
            sys.path.append(self._folder)
        try:
            with user_code(NO_TOKEN, message, f"It is the option '{_OPTION}' of the table."):
                function: Any = load(self._target)
                answer = function(self._config)
        except ConnectorError as error:
            last = () if self._token is None else (self._token.text,)
            raise error.with_texts(Secrets.of([self._config, *last]).hidden) from None
        wrong = _wrong(answer)
        if wrong is not None:
            hint = "It returns (token, time), the time at which the token expires in seconds since 1970."
            raise ConnectorError(NO_TOKEN, message, detail=f"What it returns {wrong}.", hint=hint)
        return Token(*answer)


def _wrong(answer: Any) -> str | None:
    """What is wrong with an answer; it is not shown, as it may hold the token."""
    if not isinstance(answer, tuple | list) or not 2 <= len(answer) <= 4:
        return f"is of the type {type(answer).__name__}" if not isinstance(answer, tuple | list) else "has other parts"
    token, expires, *more = answer
    if not isinstance(token, str) or not token:
        return "does not begin with a token"
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not math.isfinite(expires):
        return "has no number as its time"
    if expires > _MILLISECONDS:
        return "has a time in milliseconds"
    if expires <= time.time():
        return "is a token that has expired"
    kinds: tuple[Callable[[Any], bool], ...] = (lambda value: isinstance(value, str), _is_of_texts)
    return None if all(kind(value) for kind, value in zip(kinds, more, strict=False)) else "has other parts"


def _is_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)


_sources: dict[tuple[str, str, str | None], TokenSource] = {}


def _source_of(properties: Mapping[str, str]) -> TokenSource | None:
    target = properties.get(FUNCTION)
    if target is None:
        return None
    key = (target, properties.get(_CONFIG, ""), properties.get(FOLDER))
    return _sources.setdefault(key, TokenSource(*key))
