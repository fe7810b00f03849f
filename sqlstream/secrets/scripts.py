"""SQL text as messages may show it.

A text with a mistake is no SQL: the mistake may stand just where a password does. What follows the name of a secret is
hidden however that is written. So are passwords in URLs, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from sqlstream.secrets.known import NO_SECRETS, SHORTEST, Secrets
from sqlstream.secrets.options import has_secret_name, may_be_secret, pieces_of, text_pieces
from sqlstream.secrets.pieces import TextPiece, is_open

_BETWEEN = "'\"` \t\r\n"
_STRING = r"(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
_OPTION = re.compile(rf"({_STRING})(\s*=\s*)({_STRING})", re.DOTALL)
_HINTS = re.compile(r"/\*\+[\s,]*(?:(?:LOOKUP|STATE_TTL)\s*\([^()]*\)[\s,]*)+\*/", re.IGNORECASE)
_LINE_STRING = r"(?:'(?:[^'\\\n]|\\.|'')*'|\"(?:[^\"\\\n]|\\.|\"\")*\")"
"""In one line: an apostrophe in a comment ends with its line."""
_LITERAL = re.compile(_LINE_STRING)

_BLANK = r"(?:\s|/\*(?!\+).*?\*/)*"
_NAME = re.compile(
    rf"(?P<set>\bSET\b{_BLANK})?(?P<name>{_LINE_STRING}|`[^`\n]*`|[A-Za-z_][\w.-]*)"
    rf"(?=(?P<sign>{_BLANK}(?:={{1,2}}>?|:=?|\bTO\b){_BLANK}|{_BLANK},?{_BLANK}))",
    re.DOTALL | re.IGNORECASE,
)
"""What may be the name of a secret, with what stands between it and the secret."""
_LIST = re.compile(r"\b(?:WITH|OPTIONS)\s*\([^;]*", re.IGNORECASE)
"""Where options are listed, and what follows them."""
_QUOTED = r"'(?:[^'\\\n]|\\.|'')*'|\"(?:[^\"\\\n]|\\.|\"\")*\"|`[^`\n]*`|[“”‘’][^“”‘’\n]*[“”‘’]|\$\$.*?\$\$"
_WORDS = re.compile(rf"(?:\w?(?:{_QUOTED})|\([^()\n]*\)|['\"`“‘][^\n]*|[^,;()\n'\"`])*", re.DOTALL)
"""All up to the next comma; behind a quote that is never closed, the rest of the line."""
_QUOTED_VALUE = re.compile(rf"\w?(?:{_QUOTED}|['\"][^\n]*)", re.DOTALL)
_AS_IT_SHOULD_BE = re.compile(rf"{_STRING}(?:\s|--[^\n]*|/\*.*?\*/)*(?:[,);]|\Z)", re.DOTALL)
_WORD = re.compile(r"\w{3,}")


class _SecretSpan(NamedTuple):
    """Where a secret stands. It is ``whole`` in a string as the language wants it; else a part of it may be its end."""

    start: int
    end: int
    whole: bool = True


@lru_cache(maxsize=4)  # each of many mistakes shows a line of the same text
def shown_script(text: str) -> str:
    """The text with stars in place of secrets; each character keeps its place."""
    shown = list(text)
    for start, end, _ in _places(text):
        shown[start:end] = ["\n" if character == "\n" else "*" for character in text[start:end]]
    return "".join(shown)


@lru_cache(16)
def secrets_of_script(text: str) -> Secrets:
    """What ``shown_script`` hides, for messages; these may name a single word where a mistake is."""
    secrets = [(text[hidden.start : hidden.end], hidden.whole) for hidden in _places(text)]
    words = [word for secret, whole in secrets if not whole for word in _WORD.findall(secret)]
    return Secrets.of([*(secret for secret, _ in secrets), *words]) if secrets else NO_SECRETS


def option_at(text: str, offset: int) -> str | None:
    """The key of the option in whose value a place of a script is; None where it is in none."""
    keys = (o[1][1:-1] for o in _OPTION.finditer(text) if o.start(3) <= offset < o.end(3))
    return next(keys, None)


@lru_cache(16)
def _places(text: str) -> tuple[_SecretSpan, ...]:
    """Of the options, of what stands behind the names of secrets, and of all other strings.

    What hints such as LOOKUP and STATE_TTL list are no options, but names of tables and how long or how they are used.
    """
    text = _HINTS.sub(lambda hint: " " * len(hint[0]), text)
    options = list(_OPTION.finditer(text))
    values = {option.start(3) for option in options}
    match = [hidden for o in options for hidden in _secret(pieces_of(o[1][1:-1], o[3][1:-1]), o.start(3) + 1)]
    lists = [(match.start(), match.end()) for match in _LIST.finditer(text)]
    for name in _NAME.finditer(text):
        listed = name["set"] is not None or any(start < name.start() < end for start, end in lists)
        match += _behind(name, text, listed)
    others = (string for string in _LITERAL.finditer(text) if string.start() not in values)
    return (*match, *(hidden for o in others for hidden in _secret(text_pieces(o[0][1:-1]), o.start() + 1)))


def _secret(pieces: Iterable[TextPiece], start: int) -> Iterator[_SecretSpan]:
    for piece in pieces:
        end = start + len(piece.text)
        if piece.secret and len(piece.text) >= SHORTEST:
            yield _SecretSpan(start, end)
        start = end


def _behind(name: re.Match[str], text: str, listed: bool) -> Iterator[_SecretSpan]:
    """What stands behind a name, where that says that it is a secret, and where it is no option as it should be.

    ``listed``: among options, or in SET, where an unknown name is that of a secret, too.
    """
    expected = _expected(name, listed)
    value = None if expected is None else expected.match(text, name.end("sign"))
    if value is None or is_open(value[0].strip(_BETWEEN)):
        return
    option = name["name"][0] in "'\"" and name["sign"].strip() == "="
    if not option or not _AS_IT_SHOULD_BE.match(text, value.start()):
        yield _SecretSpan(value.start(), value.start() + len(value[0].rstrip()), whole=False)


def _expected(name: re.Match[str], listed: bool) -> re.Pattern[str] | None:
    """What may be a secret behind a name; None where that is harmless."""
    key, sign = name["name"].strip(_BETWEEN), name["sign"].strip()
    quoted = name["name"][0] in _BETWEEN
    if sign in ("", ","):
        return _QUOTED_VALUE if has_secret_name(key) and (quoted or not sign) else None
    if not has_secret_name(key) and not (quoted and listed and may_be_secret(key)):
        return None
    return _WORDS if quoted or listed else _QUOTED_VALUE
