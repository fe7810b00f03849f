"""Text that is being typed, cut into words, literals and comments: one that is not closed goes to the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE = re.compile(
    r"""--[^\n]*(?:\n|\Z)           # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)              # a comment in brackets
    | [rR](?:'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))  # a raw string, in which a backslash is one
    | '(?:[^'\\]|\\.|'')*(?:'|\Z)   # a string
    | "(?:[^"\\]|\\.|"")*(?:"|\Z)
    | `[^`]*(?:`|\Z)                # a quoted name
    | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class Piece:
    """``text`` begins at ``start`` of the whole."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_blank(self) -> bool:
        """White space or a comment."""
        return self.text.isspace() or self.text.startswith(("--", "/*"))

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum() or self.text[0] == "_"


def pieces(text: str, start: int = 0) -> Iterator[Piece]:
    """The pieces from ``start`` on, which together are the text."""
    return (Piece(match[0], match.start()) for match in _PIECE.finditer(text, start))
