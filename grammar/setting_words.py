"""SET and RESET without quotes: ``SET execution.runtime-mode = batch`` sets what it does with them."""

from __future__ import annotations

import re

from sqlglot.tokens import Token, TokenType

_STATEMENTS = frozenset({"SET", "RESET"})
_KEY = re.compile(r"[\w.#-]+")


def quoted_settings(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens of a statement, in which a key or value of SET or RESET that is written without quotes is a text."""
    if len(tokens) < 2 or tokens[0].text.upper() not in _STATEMENTS:
        return tokens
    signs = [index for index, token in enumerate(tokens) if token.token_type == TokenType.EQ]
    equals = signs[0] if signs else len(tokens)
    key, value = tokens[1:equals], tokens[equals + 1 :]
    if not _is_key(text, key):
        return tokens
    return [tokens[0], *_as_text(text, key), *tokens[equals : equals + 1], *_as_text(text, value)]


def _is_key(text: str, tokens: list[Token]) -> bool:
    quoted = len(tokens) == 1 and tokens[0].token_type == TokenType.STRING
    return quoted or (bool(tokens) and _KEY.fullmatch(_written(text, tokens)) is not None)


def _as_text(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens as one text, but where one of them is a text already."""
    if not tokens or any(token.token_type in (TokenType.STRING, TokenType.EQ) for token in tokens):
        return tokens
    first, last, written = tokens[0], tokens[-1], _written(text, tokens)
    if "/*" in written or "--" in written:  # a comment would become a part of it
        return tokens
    whole = Token(TokenType.STRING, written, first.line, first.col, first.start, last.end)
    whole.comments.extend(comment for token in tokens for comment in token.comments)
    return [whole]


def _written(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]
