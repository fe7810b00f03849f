"""Texts cut into pieces that are shown and pieces that are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MASK = "******"
REFERENCE = re.compile(r"\$\{(\w+)\}")
"""To a variable of the environment; its name is in the first group."""

PLACEHOLDER = re.compile(r"\$\{\w+\}|\{[^\s{}\"$][^{}\"]*\}")
"""A reference to a variable, or a place for the value of a column: neither tells a secret."""

_SCHEMES = frozenset({"", "basic", "bearer", "digest", "negotiate", "token", "apikey"})
"""Words of the header Authorization that stand before the secret."""


class TextPiece(NamedTuple):
    text: str
    secret: bool = False


def is_open(text: str) -> bool:
    """True where a text is made of placeholders alone, such as ``Bearer ${TOKEN}`` or ``{a},{b}``."""
    return PLACEHOLDER.sub("", text).strip(" ,;:\t\r\n").casefold() in _SCHEMES


def guarded(text: str) -> list[TextPiece]:
    """A text that is a secret, unless it is made of placeholders alone."""
    return [TextPiece(text, secret=not is_open(text))]


def shown(pieces: Iterable[TextPiece]) -> str:
    return "".join(MASK if piece.secret else piece.text for piece in pieces)


# --- placeholders aside ---------------------------------------------------------------------------------------

_FIRST = 0xE000
"""Characters of private use stand for placeholders while a text is parsed, so that no rule of its syntax meets them."""
_MOST = 6_400


class Aside(NamedTuple):
    """A text with its placeholders replaced by a character each."""

    text: str
    placeholders: tuple[str, ...]

    def restored(self, text: str) -> str:
        return "".join(self._restored(character) for character in text)

    def _restored(self, character: str) -> str:
        index = ord(character) - _FIRST
        return self.placeholders[index] if 0 <= index < len(self.placeholders) else character

    def all_restored(self, pieces: Iterable[TextPiece]) -> list[TextPiece]:
        """The pieces with their placeholders; those that are made of them alone are no secrets."""
        texts = [(self.restored(piece.text), piece.secret) for piece in pieces if piece.text]
        return [TextPiece(text, secret and not is_open(text)) for text, secret in texts]


def aside(text: str) -> Aside | None:
    """None where the text holds such characters itself, or too many placeholders."""
    placeholders = tuple(PLACEHOLDER.findall(text))
    if len(placeholders) > _MOST or any(_FIRST <= ord(character) < _FIRST + _MOST for character in text):
        return None
    numbers = iter(range(_FIRST, _FIRST + _MOST))
    return Aside(PLACEHOLDER.sub(lambda _: chr(next(numbers)), text), placeholders)
