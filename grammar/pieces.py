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

_QUOTES = ("'", '"', "`")


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
    def is_open(self) -> bool:
        """A comment, a string or a quoted name that is not closed."""
        if self.text.startswith("--"):
            return not self.text.endswith("\n")
        if self.text.startswith("/*"):
            return len(self.text) < 4 or not self.text.endswith("*/")
        literal = self.text[1:] if self.text[1:2] in _QUOTES and self.text[0] in "rR" else self.text
        return literal[:1] in _QUOTES and (len(literal) == 1 or literal[-1] != literal[0])

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum() or self.text[0] == "_"


def pieces(text: str, start: int = 0) -> Iterator[Piece]:
    """The pieces from ``start`` on, which together are the text."""
    return (Piece(match[0], match.start()) for match in _PIECE.finditer(text, start))
