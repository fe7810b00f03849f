"""URLs: secret are who asks, values of the query that are not known to be harmless, and fragments.

A password that is not percent-encoded may hold ``@``, ``/``, ``?`` or ``#``. Such a text is no URL, or another one than
its author meant, and is shown without anything that may belong to the password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from sqlstream.secrets.pieces import TextPiece, aside, guarded

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
    return unquote(name).strip().casefold() in HARMLESS


def url_pieces(text: str) -> list[TextPiece]:
    """The pieces of a URL; a text that is none is secret as a whole."""
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
    """False where nobody can tell where the password of a URL ends, because it is not percent-encoded."""
    begin = _begin(text)
    try:
        return begin is None or _end_of_user(text[begin[0] :], begin[1]) is None
    except ValueError:  # brackets around no address
        return False


def _begin(text: str) -> tuple[int, str] | None:
    """Where the host or the user begins, and the scheme; a URL may begin with a placeholder in place of all that."""
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
    """Where a user with a password ends that holds characters which end a host; None where there is no such."""
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
    """Hosts with their ports. What is no port is the password of a user whose host was forgotten, without an end."""
    match = _NO_PORT.search(host)
    end = len(host) if match is None else match.start(1)
    yield from _with_parameters(host[:end] if match else host + path)
    if match is not None:
        yield TextPiece(host[end:] + path, secret=True)


def _with_parameters(path: str) -> Iterator[TextPiece]:
    """``;name=value`` may stand behind each part of a path, and behind the host in some URLs of JDBC."""
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
