"""Secrets that are known, to be hidden in texts of others."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

from sqlstream.secrets.pieces import MASK

_LONG = 8
"""Secrets of so many characters are hidden within words, too; a shorter one may be a part of any word."""
SHORTEST = 3
"""Fewer characters tell nothing."""
_EVERYWHERE = frozenset(
    {"true", "false", "null", "none", "yes", "json", "http", "https", "jdbc", "postgres", "postgresql", "redis"}
)
"""What texts are full of tells nothing."""

_BEFORE = r"(?:(?<!\w)|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrtbf]))"
_AFTER = r"(?!\w)"
_INNER = re.compile(r"\"([^\"]+)\"|'([^']+)'|=\s*([^\s;,&\"']+)|\b(?:Bearer|Basic)\s+(\S+)")
_ENDS = re.compile(r"[@/?#:,;]+")
"""Who takes a password for a URL, or a URL apart, may show what stands between them."""


@dataclass(frozen=True)
class Secrets:
    """Texts that must not be shown. ``repr`` shows none of them."""

    known: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, secrets: Iterable[str]) -> Secrets:
        """Secrets with those that they hold: of ``Bearer …`` the token, of ``user:password`` the password."""
        telling = dict.fromkeys(text for secret in secrets for text in _parts(secret) if _is_telling(text))
        return cls(tuple(telling))

    def __add__(self, other: Secrets) -> Secrets:
        return Secrets(tuple(dict.fromkeys((*self.known, *other.known))))

    def hidden(self, text: str) -> str:
        """The text with ``******`` in place of secrets, however it spells them."""
        return _pattern(self.known).sub(MASK, text) if self.known else text

    def show_in(self, text: str) -> bool:
        return bool(self.known) and _pattern(self.known).search(text) is not None


NO_SECRETS = Secrets()


def _parts(secret: str) -> Iterator[str]:
    yield secret
    for match in _INNER.finditer(secret):
        yield from filter(None, match.groups())
    yield from (secret.partition(":")[2], *_ENDS.split(secret))
    if len(lines := secret.splitlines()) > 1:  # messages may show one of them, or all in one line
        yield from (" ".join(secret.split()), *(line.strip() for line in lines))


def _is_telling(secret: str) -> bool:
    text = secret.strip()
    return len(text) >= SHORTEST and text.casefold() not in _EVERYWHERE and not (text.isdecimal() and len(text) < 4)


@lru_cache(64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    """Longer secrets first: one may be a part of another."""
    spelled = sorted({form for secret in secrets for form in _spellings(secret)}, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_expression, spelled)))


def _expression(form: str) -> str:
    text = f"(?i:{re.escape(form)})" if "%" in form else re.escape(form)  # %2f is %2F
    return text if len(form) >= _LONG else f"{_BEFORE}{text}{_AFTER}"


def _spellings(secret: str) -> Iterator[str]:
    """As URLs, JSON, SQL, HTML, Python and basic authentication write it."""
    for text in {secret, unquote(secret, errors="surrogateescape"), _unescaped(secret)}:
        yield text
        yield quote(text, safe="", errors="surrogatepass")
        yield quote(text, errors="surrogatepass")
        yield quote_plus(text, errors="surrogatepass")
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield text.replace("'", "''")
        yield repr(text)[1:-1]
        yield html.escape(text)
        yield base64.b64encode(text.encode(errors="surrogatepass")).decode("ascii")


def _unescaped(secret: str) -> str:
    """Of a text that stands in JSON."""
    try:
        decoded = json.loads(f'"{secret}"')
    except ValueError:
        return secret
    return decoded if isinstance(decoded, str) else secret
