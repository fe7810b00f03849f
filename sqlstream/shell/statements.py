"""Where a statement ends while it is being typed: at ``;`` outside of strings, names and comments."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""--[^\n]*(?:\n|\Z)           # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)              # a comment in brackets
    | '(?:[^'\\]|\\.|'')*(?:'|\Z)   # a string
    | "(?:[^"\\]|\\.|"")*(?:"|\Z)
    | `[^`]*(?:`|\Z)                # a quoted name
    | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)


def split(text: str) -> tuple[list[str], str]:
    """The statements that ``text`` completes, each with its ``;``, and the rest, which waits for more.

    ``EXECUTE STATEMENT SET BEGIN …; …; END;`` is one statement.
    """
    found: list[str] = []
    words: list[str] = []
    start = 0
    for piece in _PIECE.finditer(text):
        token = piece[0]
        if token == ";" and (words[:3] != ["EXECUTE", "STATEMENT", "SET"] or words[-1] == "END"):
            found.append(text[start : piece.end()].strip())
            start, words = piece.end(), []
        elif token[0].isalnum() or token[0] == "_":
            words.append(token.upper())
    return found, text[start:]


def is_blank(text: str) -> bool:
    """True where there is nothing but white space and comments."""
    return all(piece[0].isspace() or piece[0].startswith(("--", "/*")) for piece in _PIECE.finditer(text))
