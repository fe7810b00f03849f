"""Texts cut into public and secret pieces: URLs and bodies of requests.

In a URL the user, values of the query that are not known to be harmless, and the fragment are secret. A password that
is not percent-encoded may contain ``@``, ``/``, ``?`` or ``#``; then everything that may belong to it is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# --- Texts cut into public and secret pieces -------------------------------------------------------------------


MASK = "******"
REFERENCE = re.compile(r"\$\{(\w+)\}")
"""To a variable of the environment; its name is in the first group."""

PLACEHOLDER = re.compile(r"\$\{\w+\}|\{[^\s{}\"$][^{}\"]*\}")
"""A reference to a variable, or a place for the value of a column: neither tells a secret."""

_SCHEMES = frozenset({"", "basic", "bearer", "digest", "negotiate", "token", "apikey"})
"""Words of the header Authorization that stand before the secret."""


class TextPiece(NamedTuple):
    """A part of a text. ``secret`` says whether it must be hidden in messages."""

    text: str
    secret: bool = False


def is_open(text: str) -> bool:
    """True where a text consists only of placeholders and names of authentication schemes, such as ``Bearer ${TOKEN}``
    or ``{a},{b}``.
    """
    return PLACEHOLDER.sub("", text).strip(" ,;:\t\r\n").casefold() in _SCHEMES


def guarded(text: str) -> list[TextPiece]:
    """Returns the whole text as one piece. It is public if it consists only of placeholders such as ``${TOKEN}``,
    otherwise secret.
    """
    return [TextPiece(text, secret=not is_open(text))]


def shown(pieces: Iterable[TextPiece]) -> str:
    """Joins the pieces of a text for display, with ``******`` in place of each secret one."""
    return "".join(MASK if piece.secret else piece.text for piece in pieces)


# --- placeholders aside ---------------------------------------------------------------------------------------

_FIRST = 0xE000
"""Characters of private use stand for placeholders while a text is parsed, so that no rule of its syntax meets them."""
_MOST = 6_400


class Aside(NamedTuple):
    """A text in which each placeholder, such as ``${NAME}``, is replaced by one character of private use, so that it
    can be parsed like any URL or JSON text. ``placeholders``: those that were replaced, in their order.
    """

    text: str
    placeholders: tuple[str, ...]

    def restored(self, text: str) -> str:
        """Returns a part of the replaced text with its original placeholders."""
        return "".join(self._restored(character) for character in text)

    def _restored(self, character: str) -> str:
        index = ord(character) - _FIRST
        return self.placeholders[index] if 0 <= index < len(self.placeholders) else character

    def all_restored(self, pieces: Iterable[TextPiece]) -> list[TextPiece]:
        """Returns pieces of the replaced text with their original placeholders. A piece that consists only of
        placeholders is not secret.
        """
        texts = [(self.restored(piece.text), piece.secret) for piece in pieces if piece.text]
        return [TextPiece(text, secret and not is_open(text)) for text, secret in texts]


def aside(text: str) -> Aside | None:
    """Replaces each placeholder of a text by one character of private use. None where the text itself contains such
    characters, or has too many placeholders.
    """
    placeholders = tuple(PLACEHOLDER.findall(text))
    if len(placeholders) > _MOST or any(_FIRST <= ord(character) < _FIRST + _MOST for character in text):
        return None
    numbers = iter(range(_FIRST, _FIRST + _MOST))
    return Aside(PLACEHOLDER.sub(lambda _: chr(next(numbers)), text), placeholders)


_BEGIN = re.compile(r"(?:jdbc:)?([A-Za-z][\w+.-]*)://")
_WITH_PORT = re.compile(r"[^:@]+(:(\d{1,5}|[\ue000-\uf8ff]))?")
_NO_PORT = re.compile(r"(?<=[^:\[]):(?!(?:\d{0,5}|[\ue000-\uf8ff])(?:[,;]|\Z))([^,;\[\]]*)(?![^\[]*\])")
_HAS_QUERY = re.compile(r"\?[\w.-]+=")
_OPEN_BEGIN = re.compile(r"[\ue000-\uf8ff]")
_PARAMETER = re.compile(r"(;[\w.-]+=)([^;/?#]*)")
_FIRST_OF_QUERY = re.compile(r"[\w.%~-]+=")

_NAMED_USERS = frozenset({"postgres", "postgresql", "redis", "rediss", "mysql", "mariadb", "amqp", "amqps"})
"""Their users have names; in URLs of other schemes the user may as well be a token."""
_CONTAINERS = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""What looks like a user there is a container of Azure's storage."""
_STORES = frozenset({*_CONTAINERS, "file", "gs", "hdfs", "s3", "s3a", "s3n", "viewfs", "dbfs", "oss", "abs"})
"""Of file systems, in whose patterns ``?`` is any character."""

_HARMLESS = """
    api-version apiversion application_name applicationname asc callback charset client_encoding compress
    connect_timeout count currency currentschema date days desc dir direction encoding ext fields filter format fmt from
    gssencmode host hostaddr include interval keepalives keepalives_idle lang language limit locale max min mode
    offset order orderby output page page_size pagesize per_page pretty protocol region size sort sortby ssl sslmode
    start end status target_session_attrs timeout timezone to type tz units user username v verbose version view
"""
HARMLESS = frozenset(_HARMLESS.split())
"""Parameters of queries, and members of bodies, whose values are shown."""


def is_harmless(name: str) -> bool:
    """Whether a URL parameter of this name is known to contain no secret."""
    return unquote(name).strip().casefold() in HARMLESS


def url_pieces(text: str) -> list[TextPiece]:
    """Splits a URL into public and secret pieces. Any other text is one secret piece."""
    set_aside = aside(text)
    if set_aside is None or any(character in text for character in "\t\r\n"):  # the parser drops them
        return guarded(text)
    try:
        pieces = list(_pieces(set_aside.text))
    except ValueError:  # brackets around no address, or characters that look like others
        return guarded(text)
    assert "".join(piece.text for piece in pieces) == set_aside.text, "no character is lost"
    return set_aside.all_restored(pieces)


def is_clear(text: str) -> bool:
    """False where the end of the password in a URL is ambiguous, because it is not percent-encoded."""
    begin = _begin(text)
    try:
        return begin is None or _end_of_user(text[begin[0] :], begin[1]) is None
    except ValueError:  # brackets around no address
        return False


def _begin(text: str) -> tuple[int, str] | None:
    """The scheme, and the position at which the user or the host begins; a placeholder may stand for all of that."""
    match = _BEGIN.match(text)
    if match is not None:
        return match.end(), match[1].casefold()
    return (0, "") if _OPEN_BEGIN.match(text) else None


def _pieces(text: str) -> Iterator[TextPiece]:
    begin = _begin(text)
    if begin is None:
        yield TextPiece(text, secret=True)
        return
    start, scheme = begin
    yield TextPiece(text[:start])
    rest = text[start:]
    end = _end_of_user(rest, scheme)
    if end is not None:
        if _HAS_QUERY.search(rest[:end]):  # nor can anybody tell then where it begins
            yield TextPiece(rest, secret=True)
            return
        yield TextPiece(rest[:end], secret=True)
        yield TextPiece("@")
        rest = rest[end + 1 :]
    netloc, path, query, fragment = _split(rest, scheme)
    user, at, host = netloc.rpartition("@")
    if at:
        yield from _user(user, scheme)
        yield TextPiece(at)
    yield from _host(host, path)
    yield from _query(query)
    yield from _fragment(fragment)


def _split(rest: str, scheme: str) -> tuple[str, str, str, str]:
    """Host with user, path, query with its ``?``, and fragment with its ``#``; together they are the text."""
    parts = urlsplit(f"//{rest}")
    tail = rest[len(parts.netloc) + len(parts.path) :]
    if not rest.startswith(parts.netloc + parts.path):
        raise ValueError(rest)
    if scheme in _STORES and not _FIRST_OF_QUERY.match(tail[1:]):
        return parts.netloc, parts.path + tail, "", ""
    query, hash_, fragment = tail.partition("#")
    return parts.netloc, parts.path, query, hash_ + fragment


def _end_of_user(rest: str, scheme: str) -> int | None:
    """The end of a user with a password that contains characters which normally end a host; None where there is
    none."""
    parts = urlsplit(f"//{rest}")
    netloc, tail = parts.netloc, rest[len(parts.netloc) :]
    searched = parts.path or tail
    if "@" not in searched or (scheme in ("http", "https", "") and _WITH_PORT.fullmatch(netloc)):
        return None  # as in https://host:80/users/@me
    return len(netloc) + searched.rindex("@")


def _user(text: str, scheme: str) -> Iterator[TextPiece]:
    user, colon, password = text.partition(":")
    named = bool(password) if scheme in _NAMED_USERS else scheme in _CONTAINERS and not colon
    yield TextPiece(user, secret=not named)
    yield TextPiece(colon)
    yield TextPiece(password, secret=True)


def _host(host: str, path: str) -> Iterator[TextPiece]:
    """Hosts with their ports. A port that is no number is the password of a user, whose end is unknown."""
    match = _NO_PORT.search(host)
    end = len(host) if match is None else match.start(1)
    yield from _with_parameters(host[:end] if match else host + path)
    if match is not None:
        yield TextPiece(host[end:] + path, secret=True)


def _with_parameters(path: str) -> Iterator[TextPiece]:
    """``;name=value`` may follow each part of a path, and the host in some URLs of JDBC."""
    end = 0
    for match in _PARAMETER.finditer(path):
        yield TextPiece(path[end : match.end(1)])
        yield TextPiece(match[2], secret=not is_harmless(match[1][1:-1]))
        end = match.end()
    yield TextPiece(path[end:])


def _query(text: str) -> Iterator[TextPiece]:
    if not text:
        return
    yield TextPiece(text[0])
    for number, item in enumerate(re.split(r"([&;])", text[1:])):
        if number % 2:
            yield TextPiece(item)
            continue
        name, equals, value = item.partition("=")
        yield TextPiece(name, secret=not equals and not is_harmless(name))
        yield TextPiece(equals)
        yield TextPiece(value, secret=bool(value) and not is_harmless(name))


def _fragment(text: str) -> Iterator[TextPiece]:
    if text:
        yield TextPiece(text[0])
        yield TextPiece(text[1:], secret=True)


# --- Bodies of requests: values are secret unless they are known to be harmless --------------------------------


_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"(?P<name>\s*:)?|[{}\[\],:\s]+|[^{}\[\],:\s\"]+")


def body_pieces(text: str) -> list[TextPiece]:
    """Splits the JSON body of a request into public and secret pieces. Any other text is one secret piece."""
    set_aside = aside(text)
    if set_aside is None or not _is_json(set_aside.text):
        return guarded(text)
    return set_aside.all_restored(_bodies_pieces(set_aside.text))


def _is_json(text: str) -> bool:
    try:
        json.loads(re.sub(r"(\"(?:[^\"\\]|\\.)*\")|[\ue000-\uf8ff]", lambda m: m[1] or "0", text))
    except (ValueError, RecursionError):
        return False
    return True


def _bodies_pieces(text: str) -> Iterator[TextPiece]:
    member = ""
    for token in _TOKEN.finditer(text):
        if token["name"] is not None:
            member = json.loads(token[0][: token.start("name") - token.start()])
        if token["name"] is not None or token[0].strip("{}[],: \t\r\n") in ("", "true", "false", "null"):
            yield TextPiece(token[0])
        elif token[0].startswith('"'):
            yield TextPiece('"')
            yield TextPiece(token[0][1:-1], secret=len(token[0]) > 2 and not is_harmless(member))
            yield TextPiece('"')
        else:
            yield TextPiece(token[0], secret=not is_harmless(member))
